//! A marker has 8 fields at most.

fn main() {
    markers::marker!("ui", "nine", a: u8 = 1, b: u8 = 2, c: u8 = 3, d: u8 = 4, e: u8 = 5, f: u8 = 6, g: u8 = 7, h: u8 = 8, i: u8 = 9);
}
