//! A name has no blank.

fn main() {
    markers::marker!("ui", "two words");
}
