//! A span that is not bound would end at once.

fn main() {
    #![deny(unused_must_use)]
    markers::span!("ui", "span");
}
