//! Events as lines for people.

use std::fmt::{self, Display, Formatter, Write as _};
use std::io::{self, Write};

use anstyle::Style;

use bootbuf::abi::STREAM_CPU;
use markers::abi::{HINT_ERRNO, HINT_HEX, HINT_NSECS, HINT_SIZE};
use markers::decode::{FieldInfo, Kind, Value};

use super::{is_begin_field, span_begin};
use crate::styles::Styles;
use crate::trace::clock::Clock;
use crate::trace::layout;
use crate::trace::reader::Event;
use crate::units::{Duration, Octets, Seconds};

/// Writes an event as a line.
///
/// # Errors
/// When the output refuses.
pub fn write(
    out: &mut impl Write,
    event: &Event<'_>,
    clock: &Clock,
    styles: &Styles,
) -> io::Result<()> {
    let header = event.header;
    let Styles {
        time,
        who,
        name,
        bad,
    } = styles;
    write!(out, "{time}[{:>13}]{time:#} ", Seconds(event.ns))?;
    if header.stream_id == STREAM_CPU {
        let cpu = format!("[cpu {}]", header.cpu);
        write!(out, "{who}{:>6} {cpu:<15}{who:#}", "-")?;
    } else {
        let comm = Printable(layout::comm(&header.comm).as_bytes()).to_string();
        write!(out, "{who}{:>6} {comm:<15}{who:#}", header.tid)?;
    }
    write!(out, " {name}{}{name:#}", event.marker.full_name)?;
    let end = event.marker.kind() == Kind::SpanEnd;
    match event.marker.kind() {
        Kind::SpanBegin => out.write_all(b" begin")?,
        Kind::SpanEnd => out.write_all(b" end")?,
        Kind::Instant | Kind::Counter => {}
    }
    let mut between = " {";
    if let Some(begin) = span_begin(event) {
        write!(
            out,
            "{between}{}",
            Duration(clock.span_ns(begin, event.timestamp))
        )?;
        between = ", ";
    }
    for (field, value) in event.marker.decode(event.payload).flatten() {
        if is_silent(event, end, &field, value) {
            continue;
        }
        let failed = field.hint == HINT_ERRNO && value != Value::Signed(0);
        let style = if failed { *bad } else { Style::new() };
        let shown = ShownValue {
            field: &field,
            value,
            clock,
        };
        write!(out, "{between}{style}{}={shown}{style:#}", field.name)?;
        between = ", ";
    }
    out.write_all(if between == ", " { b"}\n" } else { b"\n" })
}

/// The fields without colours and braces.
pub fn plain_fields(event: &Event<'_>, clock: &Clock) -> String {
    let end = event.marker.kind() == Kind::SpanEnd;
    let mut text = String::new();
    for (field, value) in event.marker.decode(event.payload).flatten() {
        if is_silent(event, end, &field, value) {
            continue;
        }
        let between = if text.is_empty() { "" } else { ", " };
        let shown = ShownValue {
            field: &field,
            value,
            clock,
        };
        // Writing to a string does not fail.
        let _ = write!(text, "{between}{}={shown}", field.name);
    }
    text
}

/// Whether a field is not worth a word: where a span began shows as its duration, and that it did
/// not fail goes without saying.
fn is_silent(event: &Event<'_>, end: bool, field: &FieldInfo<'_>, value: Value<'_>) -> bool {
    end && (is_begin_field(event, field) || field.name == "ret" && value == Value::Signed(0))
}

/// A value as its hint says.
#[derive(Clone, Copy, Debug)]
pub struct ShownValue<'a> {
    /// Its field.
    pub field: &'a FieldInfo<'a>,
    /// The value.
    pub value: Value<'a>,
    /// To show clock readings.
    pub clock: &'a Clock,
}

impl Display for ShownValue<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.value {
            Value::Unsigned(number) => self.integer(f, number.into()),
            Value::Signed(number) => self.integer(f, number.into()),
            Value::F32(number) => write!(f, "{number}"),
            Value::F64(number) => write!(f, "{number}"),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::Str(text) => write!(f, "\"{}\"", Printable(text)),
            Value::Bytes(octets) => {
                f.write_char('[')?;
                for (index, octet) in octets.iter().enumerate() {
                    let blank = if index == 0 { "" } else { " " };
                    write!(f, "{blank}{octet:02x}")?;
                }
                f.write_char(']')
            }
            Value::Clock(0) => f.write_char('-'),
            Value::Clock(reading) => write!(f, "{}", Seconds(self.clock.ns(reading))),
        }
    }
}

impl ShownValue<'_> {
    fn integer(&self, f: &mut Formatter<'_>, number: i128) -> fmt::Result {
        if let Some(label) = self.field.label(self.value) {
            return write!(f, "{}", Printable(label.as_bytes()));
        }
        let unsigned = u64::try_from(number).ok();
        match (self.field.hint, unsigned) {
            (HINT_HEX, Some(number)) => write!(f, "{number:#x}"),
            (HINT_HEX, None) => write!(f, "-{:#x}", -number),
            (HINT_ERRNO, None) => match u32::try_from(-number).ok().and_then(expr::errno::name) {
                Some(name) => write!(f, "-{name}"),
                None => write!(f, "{number}"),
            },
            (HINT_NSECS, Some(number)) => write!(f, "{}", Duration(number)),
            (HINT_SIZE, Some(number)) => write!(f, "{}", Octets(number)),
            _ => write!(f, "{number}"),
        }
    }
}

/// Text from a trace, with whatever a terminal would act on made visible.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a [u8]);

impl Display for Printable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in String::from_utf8_lossy(self.0).chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) => {
                    write!(f, "{}", c.escape_default())?
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
