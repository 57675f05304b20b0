//! Builds descriptors at compile time. What does not fit stops the compilation with a message that
//! names the limit.

use core::sync::atomic::AtomicU32;

use crate::abi::{self, Descriptor, Field};

/// One field as the macros describe it.
#[derive(Clone, Copy, Debug)]
pub struct FieldSpec<'a> {
    /// Name: letters, digits and `_`, not starting with a digit.
    pub name: &'a str,
    /// [`abi::TYPE_U8`] and the like.
    pub ty: u8,
    /// [`abi::HINT_NONE`] and the like.
    pub hint: u8,
    /// Labels of the values 0, 1, 2 ..., with [`abi::HINT_ENUM`] only.
    pub labels: &'a [&'a str],
}

/// One marker as the macros describe it.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// Provider: letters, digits, `_`, `-`, `.`.
    pub provider: &'a str,
    /// Name: as the provider.
    pub name: &'a str,
    /// [`abi::KIND_INSTANT`] and the like.
    pub kind: u8,
    /// 0 to [`abi::LEVEL_MAX`].
    pub level: u8,
    /// Source line.
    pub line: u32,
    /// In payload order.
    pub fields: &'a [FieldSpec<'a>],
}

/// Fields of the end of every span; [`crate::Span`] writes them.
pub const SPAN_END_FIELDS: [FieldSpec<'static>; 2] = [
    FieldSpec {
        name: "begin",
        ty: abi::TYPE_CLOCK,
        hint: abi::HINT_NONE,
        labels: &[],
    },
    FieldSpec {
        name: "ret",
        ty: abi::TYPE_I32,
        hint: abi::HINT_ERRNO,
        labels: &[],
    },
];

/// The descriptor of a marker.
///
/// # Panics
///
/// When something does not fit: at compile time, because markers are statics.
#[must_use]
pub const fn descriptor(spec: &Spec<'_>) -> Descriptor {
    check_names(spec);
    assert!(
        spec.fields.len() <= abi::MAX_FIELDS,
        "marker has more than 8 fields (MAX_FIELDS); split it in two or drop fields"
    );
    assert!(
        spec.kind >= abi::KIND_INSTANT && spec.kind <= abi::KIND_COUNTER,
        "unknown kind of marker"
    );
    assert!(
        spec.level <= abi::LEVEL_MAX,
        "marker level is above 7 (debug), the highest"
    );
    if spec.kind == abi::KIND_COUNTER {
        check_counter(spec.fields);
    }

    let mut strings = [0; abi::STRINGS_LEN];
    let mut fields = [Field {
        ty: 0,
        hint: 0,
        name_off: 0,
        name_len: 0,
    }; abi::MAX_FIELDS];
    let mut used = 0;
    let mut i = 0;
    while i < spec.fields.len() {
        let field = &spec.fields[i];
        check_field(field);
        let mut j = 0;
        while j < i {
            assert!(
                !equal(
                    field_name(field).as_bytes(),
                    field_name(&spec.fields[j]).as_bytes()
                ),
                "marker has two fields of the same name"
            );
            j += 1;
        }
        let start = used;
        used = append(&mut strings, used, field_name(field).as_bytes());
        let mut label = 0;
        while label < field.labels.len() {
            // The separator is zero already.
            used = append(&mut strings, used + 1, field.labels[label].as_bytes());
            label += 1;
        }
        fields[i] = Field {
            ty: field.ty,
            hint: field.hint,
            name_off: start as u8,
            name_len: (used - start) as u8,
        };
        i += 1;
    }

    Descriptor {
        size: abi::DESC_SIZE as u16,
        abi_major: abi::ABI_MAJOR,
        abi_minor: abi::ABI_MINOR,
        kind: spec.kind,
        level: spec.level,
        nfields: spec.fields.len() as u8,
        flags: 0,
        state: AtomicU32::new(0),
        line: spec.line,
        provider: padded(spec.provider.as_bytes()),
        name: padded(spec.name.as_bytes()),
        fields,
        strings,
    }
}

const fn check_names(spec: &Spec<'_>) {
    assert!(!spec.provider.is_empty(), "marker provider is empty");
    assert!(
        spec.provider.len() < abi::PROVIDER_LEN,
        "marker provider is longer than 23 octets (PROVIDER_LEN - 1)"
    );
    assert!(
        are_name_octets(spec.provider.as_bytes()),
        "marker provider may hold ASCII letters, digits, `_`, `-` and `.` only"
    );
    assert!(
        !equal(spec.provider.as_bytes(), b"kernel"),
        "marker provider `kernel` is the kernel's own"
    );
    assert!(!spec.name.is_empty(), "marker name is empty");
    assert!(
        spec.name.len() < abi::NAME_LEN,
        "marker name is longer than 39 octets (NAME_LEN - 1)"
    );
    assert!(
        are_name_octets(spec.name.as_bytes()),
        "marker name may hold ASCII letters, digits, `_`, `-` and `.` only"
    );
}

const fn check_field(field: &FieldSpec<'_>) {
    assert!(!field.name.is_empty(), "field name is empty");
    assert!(
        is_field_name(field_name(field).as_bytes()),
        "field name may hold ASCII letters, digits and `_` only, and starts with no digit"
    );
    assert!(is_type(field.ty), "unknown type of field");
    assert!(field.hint <= abi::HINT_SIZE, "unknown hint of field");
    assert!(
        field.hint == abi::HINT_NONE || is_integer(field.ty),
        "display hints are for integer fields only"
    );
    assert!(
        (field.hint == abi::HINT_ENUM) != field.labels.is_empty(),
        "the enum hint needs labels, and labels need the enum hint"
    );
    let mut i = 0;
    while i < field.labels.len() {
        assert!(
            is_label(field.labels[i].as_bytes()),
            "enum label is empty or holds a control character"
        );
        i += 1;
    }
}

const fn check_counter(fields: &[FieldSpec<'_>]) {
    let mut i = 0;
    while i < fields.len() {
        if is_number(fields[i].ty) {
            return;
        }
        i += 1;
    }
    panic!("a counter needs a field with a number");
}

/// The name without the `r#` of a raw identifier, which `stringify!` keeps.
const fn field_name<'a>(field: &FieldSpec<'a>) -> &'a str {
    let octets = field.name.as_bytes();
    if octets.len() > 2 && octets[0] == b'r' && octets[1] == b'#' {
        field.name.split_at(2).1
    } else {
        field.name
    }
}

const fn append(strings: &mut [u8; abi::STRINGS_LEN], mut used: usize, octets: &[u8]) -> usize {
    let mut i = 0;
    while i < octets.len() {
        assert!(
            used < abi::STRINGS_LEN,
            "field names and enum labels of a marker take more than 144 octets together (STRINGS_LEN)"
        );
        strings[used] = octets[i];
        used += 1;
        i += 1;
    }
    used
}

const fn padded<const N: usize>(octets: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    let mut i = 0;
    while i < octets.len() {
        out[i] = octets[i];
        i += 1;
    }
    out
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether these are the octets that providers and names of markers may hold.
#[must_use]
pub const fn are_name_octets(octets: &[u8]) -> bool {
    let mut i = 0;
    while i < octets.len() {
        if !(octets[i].is_ascii_alphanumeric() || matches!(octets[i], b'_' | b'-' | b'.')) {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether this can be the name of a field.
#[must_use]
pub const fn is_field_name(octets: &[u8]) -> bool {
    if octets.is_empty() || octets[0].is_ascii_digit() {
        return false;
    }
    let mut i = 0;
    while i < octets.len() {
        if !(octets[i].is_ascii_alphanumeric() || octets[i] == b'_') {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether this can be the label of an enumeration's value: neither empty nor with controls.
#[must_use]
pub const fn is_label(octets: &[u8]) -> bool {
    let mut i = 0;
    while i < octets.len() {
        if octets[i].is_ascii_control() {
            return false;
        }
        i += 1;
    }
    !octets.is_empty()
}

/// Whether this is a known type of field.
#[must_use]
pub const fn is_type(ty: u8) -> bool {
    ty >= abi::TYPE_U8 && ty <= abi::TYPE_CLOCK
}

/// Whether a field of this type takes display hints.
#[must_use]
pub const fn is_integer(ty: u8) -> bool {
    ty >= abi::TYPE_U8 && ty <= abi::TYPE_I64
}

const fn is_number(ty: u8) -> bool {
    ty >= abi::TYPE_U8 && ty <= abi::TYPE_F64
}
