//! Values have the type of their field.

fn main() {
    markers::marker!("ui", "value", count: u32 = "three");
}
