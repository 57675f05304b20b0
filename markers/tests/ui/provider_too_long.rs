//! A provider has 23 octets at most.

fn main() {
    markers::marker!("a_provider_of_24_octets_", "name");
}
