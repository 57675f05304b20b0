//! Fields have names of their own.

fn main() {
    markers::marker!("ui", "twice", x: u8 = 1, y: u8 = 2, x: u16 = 3);
}
