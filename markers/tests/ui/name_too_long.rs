//! A name has 39 octets at most.

fn main() {
    markers::marker!("ui", "a_name_that_has_40_octets_is_one_too_long");
}
