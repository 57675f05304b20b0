//! What is just within the limits, and code that forbids unsafe code and undocumented items.
#![forbid(unsafe_code)]
#![deny(missing_docs, warnings, clippy::all)]

use std::cell::Cell;

const PROVIDER: &str = "a_provider_of_23_octets";
/// Items of this name in the program do not clash with the macros' own.
const MARKER: u8 = 3;

/// A generic function has one marker, however many times it is instantiated.
fn generic<T: AsRef<str>>(text: T) -> usize {
    markers::marker!(PROVIDER, "generic", text: str = text.as_ref(), marker: u8 = MARKER);
    text.as_ref().len()
}

fn fallible(evaluated: &Cell<u32>) -> Result<(), i32> {
    let mut span =
        markers::span!("ui", "fallible", level = debug, n: u32 = { evaluated.set(1); 1 });
    span.result(Err::<(), _>(5))?;
    Ok(())
}

fn main() {
    let (a, b, c, d, e, f, g, h) = (1, 2, 3, 4, -1.0, 2.0, true, "h");
    markers::marker!(
        "ui", "all-types_and.name.of.39.octets_exactly", level = emergency,
        a: u8 [hex], b: i16 [errno], c: u64 [ns], d: i64 [size], e: f32, f: f64, g: bool, h: str,
    );
    let owned = String::from("owned");
    markers::marker!("ui", "more", r#type: bytes = &owned.clone().into_bytes(), at: clock = 5, s: str = &owned);
    markers::counter!("ui", "counter", state: u8 [enum "off", "on and on"] = 1);
    markers::marker!("ui", "strings_144",
        a_field_whose_name_takes_exactly_forty_8: u8 = 1, another_field_of_forty_octets_in_its_name: u8 = 2,
        and_a_third_one_whose_name_has_so_many_a: u8 = 3, the_rest_is_22_octets_: u8 = 4);
    let evaluated = Cell::new(0);
    assert_eq!(fallible(&evaluated), Err(5));
    assert_eq!(
        evaluated.get(),
        0,
        "a value was evaluated though the marker is off"
    );
    assert_eq!(generic("x") + generic(String::from("yy")), 3);
    match std::env::args().count() {
        0 => markers::marker!("ui", "arm"),
        _ => {}
    }
}
