//! Hints are for integers.

fn main() {
    markers::marker!("ui", "hint", path: str [hex] = "/");
}
