//! Names of fields are ASCII.

fn main() {
    markers::marker!("ui", "field", größe: u8 = 1);
}
