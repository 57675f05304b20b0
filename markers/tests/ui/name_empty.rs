//! A name is not empty.

fn main() {
    markers::span!("ui", "");
}
