//! The CTF 1.8 metadata of a trace, made from its descriptors.
//!
//! The packets are not translated: everything here describes bytes as the kernel and the programs
//! wrote them. The mapping is documented in docs/trace.md; the language is that of the Common Trace
//! Format 1.8.3, section 7.

use std::collections::HashSet;
use std::fmt::Write as _;

use bootbuf::abi::{AGGREGATE_CELL, STREAM_AGGREGATE, STREAM_CPU, STREAM_THREAD};
use markers::abi::{self, FIRST_USER_ID};
use markers::decode::{FieldInfo, Kind};

use super::clock::CtfZero;
use super::marker::Marker;
use super::meta::Meta;

/// What the metadata says about the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Machine {
    /// Host name at the extraction.
    pub hostname: String,
    /// Kernel release.
    pub release: String,
    /// Processor architecture.
    pub arch: String,
}

const HEAD: &str = r#"typealias integer { size = 8; align = 8; signed = false; } := u8;
typealias integer { size = 16; align = 8; signed = false; } := u16;
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
typealias integer { size = 8; align = 8; signed = false; base = 16; } := x8;
typealias integer { size = 16; align = 8; signed = false; base = 16; } := x16;
typealias integer { size = 32; align = 8; signed = false; base = 16; } := x32;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := x64;
typealias integer { size = 8; align = 8; signed = true; } := i8;
typealias integer { size = 16; align = 8; signed = true; } := i16;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; signed = true; } := i64;
typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := utf8;
typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := f32;
typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := f64;
"#;

const SEALS: &str =
    r#"enum : u8 { "open" = 0, "full" = 1, "exec" = 2, "exit" = 3, "recovered" = 4 }"#;

/// The stream class that declares an event: ids below [`FIRST_USER_ID`] are the kernel's.
pub fn stream_class(event_id: u32) -> u32 {
    if event_id < FIRST_USER_ID {
        STREAM_CPU
    } else {
        STREAM_THREAD
    }
}

/// The metadata file's text, for a trace that begins with the clock's reading `earliest`.
pub fn metadata(meta: &Meta, machine: &Machine, earliest: u64) -> String {
    let mut out = String::from("/* CTF 1.8 */\n\n");
    let uuid = uuid(&meta.boot_id.unwrap_or_default());
    let clock = &meta.clock;
    let zero = clock.ctf_zero(earliest);
    let (offset_s, offset) = clock.ctf_offset(zero);
    let description = match zero {
        CtfZero::Epoch => "Time of day (CLOCK_REALTIME)",
        CtfZero::Boot => "Time since boot (CLOCK_BOOTTIME)",
        CtfZero::Reading => "Time since the zero of the processor's counter",
    };
    // Where that clock stands when `bootmark view` shows zero.
    let boot_ns = match zero {
        CtfZero::Epoch => clock.boot_realtime_ns().unwrap_or_default(),
        CtfZero::Boot => 0,
        CtfZero::Reading => clock.ns(0).saturating_neg(),
    };
    out.push_str(HEAD);
    let _ = write!(
        out,
        "
trace {{
	major = 1;
	minor = 8;
	uuid = \"{uuid}\";
	byte_order = le;
	packet.header := struct {{
		u32 magic;
		u32 stream_id;
		u8 uuid[16];
		u64 stream_instance_id;
	}};
}};

env {{
	tracer_name = \"bootmark\";
	tracer_major = {major};
	tracer_minor = {minor};
	hostname = {hostname};
	sysname = \"Linux\";
	release = {release};
	machine = {arch};
	boot_id = \"{uuid}\";
	boot_ns = {boot_ns};
}};

clock {{
	name = \"bootmark\";
	description = \"{description}\";
	freq = {freq};
	offset_s = {offset_s};
	offset = {offset};
	absolute = {absolute};
}};

typealias integer {{
	size = 64; align = 64; signed = false;
	map = clock.bootmark.value;
}} := time;
",
        major = env!("CARGO_PKG_VERSION_MAJOR"),
        minor = env!("CARGO_PKG_VERSION_MINOR"),
        hostname = quoted(&machine.hostname),
        release = quoted(&machine.release),
        arch = quoted(&machine.arch),
        freq = clock.freq_hz,
        absolute = if zero == CtfZero::Epoch {
            "TRUE"
        } else {
            "FALSE"
        },
    );
    for (class, cpu) in [
        (STREAM_THREAD, "unused"),
        (STREAM_CPU, "cpu_id"),
        (STREAM_AGGREGATE, "unused"),
    ] {
        let _ = write!(
            out,
            "
stream {{
	id = {class};
	packet.context := struct {{
		time timestamp_begin;
		time timestamp_end;
		u64 content_size;
		u64 packet_size;
		u64 packet_seq_num;
		u64 events_discarded;
		u32 pid;
		u32 tid;
		u32 {cpu};
		u32 uid;
		utf8 comm[16];
		u32 exit_code;
		{SEALS} seal;
		u8 trace_clock;
		x16 flags;
		u64 seal_seq;
	}};
	event.header := struct {{
		u32 id;
		time timestamp;
	}};
}};
"
        );
    }
    let mut markers: Vec<&Marker> = meta.markers.values().collect();
    markers.sort_by_key(|marker| marker.id);
    for marker in &markers {
        event(&mut out, marker);
    }
    aggregate(&mut out, meta, &markers);
    out
}

/// The one event of aggregate streams: a cell. What its values are, the slot's text says.
fn aggregate(out: &mut String, meta: &Meta, markers: &[&Marker]) {
    let names = markers
        .iter()
        .map(|marker| (u64::from(marker.id), event_name(marker)));
    let slots = meta
        .slots
        .iter()
        .map(|(slot, text)| (u64::from(*slot), text.clone()));
    let _ = write!(
        out,
        "
event {{
	name = \"aggregate\";
	id = {AGGREGATE_CELL};
	stream_id = {STREAM_AGGREGATE};
	fields := struct {{
		{event} _event;
		{slot} _slot;
		u16 _nvalues;
		u16 _key_length;
		u16 _reserved[3];
		u64 _values[_nvalues];
		x8 _key[_key_length];
	}};
}};
",
        event = named("u32", names),
        slot = named("u16", slots),
    );
}

/// An enumeration, or the plain type when there are no names.
fn named(plain: &str, names: impl Iterator<Item = (u64, String)>) -> String {
    let mappings = mappings(names);
    if mappings.is_empty() {
        plain.to_owned()
    } else {
        format!("enum : {plain} {{ {mappings} }}")
    }
}

/// A marker's name in the metadata: the two of a span are told apart by an ending.
pub fn event_name(marker: &Marker) -> String {
    let ending = match marker.kind() {
        Kind::SpanBegin => ".begin",
        Kind::SpanEnd => ".end",
        Kind::Instant | Kind::Counter => "",
    };
    format!("{}{ending}", marker.full_name)
}

fn event(out: &mut String, marker: &Marker) {
    // Readers know LTTng's levels: the same up to 6, but plain "debug" is 14 there.
    let level = if marker.level() == abi::LEVEL_MAX {
        14
    } else {
        marker.level()
    };
    let _ = write!(
        out,
        "
event {{
	name = {name};
	id = {id};
	stream_id = {class};
	loglevel = {level};
	fields := struct {{
",
        name = quoted(&event_name(marker)),
        id = marker.id,
        class = stream_class(marker.id),
    );
    let mut taken = HashSet::new();
    for field in marker.fields() {
        let name = identifier(field.name, &mut taken);
        let _ = match field.ty {
            abi::TYPE_STR | abi::TYPE_BYTES => {
                let length = identifier(&format!("_{}_length", field.name), &mut taken);
                let element = if field.ty == abi::TYPE_STR {
                    "utf8"
                } else {
                    "x8"
                };
                writeln!(out, "\t\tu16 {length};\n\t\t{element} {name}[{length}];")
            }
            _ => writeln!(out, "\t\t{} {name};", scalar(&field)),
        };
    }
    out.push_str("\t};\n};\n");
}

fn scalar(field: &FieldInfo<'_>) -> String {
    let hex = field.hint == abi::HINT_HEX;
    let (letter, bits, signed) = match field.ty {
        abi::TYPE_U8 => ('u', 8, false),
        abi::TYPE_U16 => ('u', 16, false),
        abi::TYPE_U32 => ('u', 32, false),
        abi::TYPE_U64 => ('u', 64, false),
        abi::TYPE_I8 => ('i', 8, true),
        abi::TYPE_I16 => ('i', 16, true),
        abi::TYPE_I32 => ('i', 32, true),
        abi::TYPE_I64 => ('i', 64, true),
        abi::TYPE_F32 => ('f', 32, false),
        abi::TYPE_F64 => ('f', 64, false),
        abi::TYPE_BOOL => return r#"enum : u8 { "false" = 0, "true" = 1 }"#.into(),
        // Clock readings are not mapped to the clock: a reader would take one for the event's time.
        _ => ('u', 64, false),
    };
    let base = match (hex, signed) {
        (true, false) => format!("x{bits}"),
        (true, true) => {
            format!("integer {{ size = {bits}; align = 8; signed = true; base = 16; }}")
        }
        _ => format!("{letter}{bits}"),
    };
    let labels = labels(field);
    if labels.is_empty() {
        base
    } else {
        format!("enum : {base} {{ {labels} }}")
    }
}

fn labels(field: &FieldInfo<'_>) -> String {
    mappings((0..).zip(field.labels().map(str::to_owned)))
}

/// The mappings of an enumeration. A label that comes twice gets its value behind it.
fn mappings(labels: impl Iterator<Item = (u64, String)>) -> String {
    let mut taken = HashSet::new();
    let mut mappings = Vec::new();
    for (value, label) in labels {
        let mut unique = quoted(&label);
        while !taken.insert(unique.clone()) {
            unique.insert_str(unique.len() - 1, &format!(" ({value})"));
        }
        mappings.push(format!("{unique} = {value}"));
    }
    mappings.join(", ")
}

/// An identifier of the language. Readers take one leading underscore off, so one is put there; it
/// also keeps names apart from the language's own words.
fn identifier(name: &str, taken: &mut HashSet<String>) -> String {
    let clean: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let mut unique = format!("_{clean}");
    let mut number = 1;
    while !taken.insert(unique.clone()) {
        number += 1;
        unique = format!("_{clean}_{number}");
    }
    unique
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => out.push('?'),
        }
    }
    out.push('"');
    out
}

/// The usual text of a UUID.
pub fn uuid(bytes: &[u8; 16]) -> String {
    let mut out = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
    out
}
