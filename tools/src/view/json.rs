//! Events as JSON, one object a line. The keys are documented in docs/trace.md.

use std::io::{self, Write};

use bootbuf::abi::STREAM_CPU;
use markers::decode::{FieldInfo, Value};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::span_begin;
use crate::trace::clock::Clock;
use crate::trace::layout;
use crate::trace::marker::kind_name;
use crate::trace::reader::Event;

#[derive(Serialize)]
struct Line<'a> {
    ts_ns: i64,
    stream: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<String>,
    event: &'a str,
    kind: &'static str,
    level: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur_ns: Option<u64>,
    fields: Fields<'a>,
}

/// The fields of an event, as an object in the order of the descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    event: &'a Event<'a>,
    clock: &'a Clock,
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (field, value) in self.event.marker.decode(self.event.payload).flatten() {
            map.serialize_key(field.name)?;
            map.serialize_value(&json_value(&field, value, self.clock))?;
        }
        map.end()
    }
}

/// A value: numbers as numbers (NaN and infinity as null), enumeration values by their label, strings
/// with invalid UTF-8 replaced, octets as hexadecimal digits, clock readings in nanoseconds since
/// boot (null when there was none).
pub fn json_value(field: &FieldInfo<'_>, value: Value<'_>, clock: &Clock) -> serde_json::Value {
    if let Some(label) = field.label(value) {
        return label.into();
    }
    match value {
        Value::Unsigned(number) => number.into(),
        Value::Signed(number) => number.into(),
        Value::F32(number) => number.into(),
        Value::F64(number) => number.into(),
        Value::Bool(truth) => truth.into(),
        Value::Str(text) => String::from_utf8_lossy(text).into(),
        Value::Bytes(octets) => octets
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect::<String>()
            .into(),
        Value::Clock(0) => serde_json::Value::Null,
        Value::Clock(reading) => clock.ns(reading).into(),
    }
}

/// Writes an event as a line.
///
/// # Errors
/// When the output refuses.
pub fn write(out: &mut impl Write, event: &Event<'_>, clock: &Clock) -> io::Result<()> {
    let header = event.header;
    let cpu = header.stream_id == STREAM_CPU;
    let line = Line {
        ts_ns: event.ns,
        stream: header.stream_instance,
        pid: (!cpu).then_some(header.pid),
        tid: (!cpu).then_some(header.tid),
        cpu: cpu.then_some(header.cpu),
        comm: (!cpu).then(|| layout::comm(&header.comm)),
        event: &event.marker.full_name,
        kind: kind_name(event.marker.kind()),
        level: event.marker.level(),
        dur_ns: span_begin(event).map(|begin| clock.span_ns(begin, event.timestamp)),
        fields: Fields { event, clock },
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}
