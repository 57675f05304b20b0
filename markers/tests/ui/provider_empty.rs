//! A provider is not empty.

fn main() {
    markers::marker!("", "name");
}
