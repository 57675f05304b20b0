//! Events as lines for people.

use std::fmt::{self, Display, Formatter, Write as _};
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use bootbuf::abi::STREAM_CPU;
use markers::abi::{HINT_ERRNO, HINT_HEX, HINT_NSECS, HINT_SIZE};
use markers::decode::{FieldInfo, Kind, Value};

use super::{is_begin_field, span_begin};
use crate::trace::clock::Clock;
use crate::trace::layout;
use crate::trace::reader::Event;
use crate::units::{Duration, Octets, Seconds, errno_name};

const TIME: Style = AnsiColor::Green.on_default();
const WHO: Style = AnsiColor::Yellow.on_default();
const NAME: Style = Style::new().bold();
const FAILED: Style = AnsiColor::Red.on_default();

/// Writes an event as a line; the escape sequences in it are for `anstream` to take out.
///
/// # Errors
/// When the output refuses.
pub fn write(out: &mut impl Write, event: &Event<'_>, clock: &Clock) -> io::Result<()> {
    let header = event.header;
    write!(out, "{TIME}[{:>13}]{TIME:#} ", Seconds(event.ns))?;
    if header.stream_id == STREAM_CPU {
        write!(
            out,
            "{WHO}{:>6} {:<15}{WHO:#}",
            "-",
            format!("[cpu {}]", header.cpu)
        )?;
    } else {
        let comm = Printable(layout::comm(&header.comm).as_bytes()).to_string();
        write!(out, "{WHO}{:>6} {comm:<15}{WHO:#}", header.tid)?;
    }
    let kind = match event.marker.kind() {
        Kind::SpanBegin => " begin",
        Kind::SpanEnd => " end",
        Kind::Instant | Kind::Counter => "",
    };
    let fields = fields(event, clock);
    writeln!(
        out,
        " {NAME}{}{NAME:#}{kind}{fields}",
        event.marker.full_name
    )
}

/// The fields in braces with a blank before them, or nothing.
fn fields(event: &Event<'_>, clock: &Clock) -> String {
    let mut parts = Vec::new();
    if let Some(begin) = span_begin(event) {
        parts.push(Duration(clock.span_ns(begin, event.timestamp)).to_string());
    }
    for_each_field(event, |field, value| {
        let failed = field.hint == HINT_ERRNO && value != Value::Signed(0);
        let style = if failed { FAILED } else { Style::new() };
        let shown = ShownValue {
            field,
            value,
            clock,
        };
        parts.push(format!("{style}{}={shown}{style:#}", field.name));
    });
    if parts.is_empty() {
        String::new()
    } else {
        format!(" {{{}}}", parts.join(", "))
    }
}

/// The fields without colours and braces.
pub fn plain_fields(event: &Event<'_>, clock: &Clock) -> String {
    let mut parts = Vec::new();
    for_each_field(event, |field, value| {
        let shown = ShownValue {
            field,
            value,
            clock,
        };
        parts.push(format!("{}={shown}", field.name));
    });
    parts.join(", ")
}

/// The fields that are worth a word: where a span began shows as its duration, and that it did not
/// fail goes without saying.
fn for_each_field(event: &Event<'_>, mut show: impl FnMut(&FieldInfo<'_>, Value<'_>)) {
    let end = event.marker.kind() == Kind::SpanEnd;
    for (field, value) in event.marker.decode(event.payload).flatten() {
        let good = end && field.name == "ret" && value == Value::Signed(0);
        if !good && !is_begin_field(event, &field) {
            show(&field, value);
        }
    }
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
            (HINT_ERRNO, None) => match u32::try_from(-number).ok().and_then(errno_name) {
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
