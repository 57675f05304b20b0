//! Labels are not empty.

fn main() {
    markers::marker!("ui", "label", state: u8 [enum "off", ""] = 1);
}
