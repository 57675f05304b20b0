//! Types are those of the ABI.

fn main() {
    markers::marker!("ui", "type", size: usize = 1);
}
