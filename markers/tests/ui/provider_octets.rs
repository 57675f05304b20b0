//! A provider has no colon: that separates it from the name in rules.

fn main() {
    markers::marker!("pro:vider", "name");
}
