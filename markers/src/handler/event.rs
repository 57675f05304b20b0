//! What a call-back is told.

use core::time::Duration;

use crate::abi::{self, Descriptor};
use crate::decode::{self, FieldInfo, Kind, Value, text_before_nul};

/// `struct bootmark_event`: what goes from the copy of the library that has the marker to the one that
/// has the function.
#[derive(Debug)]
#[repr(C)]
pub struct RawEvent {
    /// Octets of this structure; a later minor version adds at the end.
    pub(crate) size: u32,
    /// [`abi::Clock::clock`].
    pub(crate) clock: u32,
    /// The marker.
    pub(crate) desc: *const Descriptor,
    /// Reading of the trace clock, that of the record if there is one.
    pub(crate) timestamp: u64,
    /// The same at the span's begin, 0 when not known or no end of a span.
    pub(crate) begin: u64,
    /// Ticks of the trace clock in a second, 0 when not known.
    pub(crate) freq_hz: u64,
    /// The values as a record has them.
    pub(crate) payload: *const u8,
    /// Octets there.
    pub(crate) payload_len: usize,
}

/// One event at a marker, for the time of the call.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    desc: &'a Descriptor,
    kind: Kind,
    payload: &'a [u8],
    timestamp: u64,
    begin: u64,
    freq_hz: u64,
}

impl<'a> Event<'a> {
    /// None when it is of a kind that only a later version knows.
    ///
    /// # Safety
    ///
    /// The pointers in `raw` are valid for `'a`, for as many octets as it says.
    pub(crate) unsafe fn new(raw: &'a RawEvent) -> Option<Self> {
        // SAFETY: the caller's promise.
        let (desc, payload) = unsafe {
            (
                &*raw.desc,
                core::slice::from_raw_parts(raw.payload, raw.payload_len),
            )
        };
        Some(Self {
            desc,
            kind: Kind::from_abi(desc.kind)?,
            payload,
            timestamp: raw.timestamp,
            begin: raw.begin,
            freq_hz: raw.freq_hz,
        })
    }

    /// The marker's provider.
    pub fn provider(&self) -> &'a str {
        text_before_nul(&self.desc.provider)
    }

    /// The marker's name.
    pub fn name(&self) -> &'a str {
        text_before_nul(&self.desc.name)
    }

    /// What it marks.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The marker's level, as in syslog(2): 0 emergency to 7 debug.
    pub fn level(&self) -> u8 {
        self.desc.level
    }

    /// The marker's line in the source.
    pub fn line(&self) -> u32 {
        self.desc.line
    }

    /// A raw reading of the trace clock: that of the record if the event is recorded.
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// At the end of a span: the same reading of its begin. None when the marker was off then.
    pub fn begin(&self) -> Option<u64> {
        (self.begin != 0).then_some(self.begin)
    }

    /// At the end of a span: how long it took. None when that is not known.
    pub fn duration(&self) -> Option<Duration> {
        let ticks = self.timestamp.checked_sub(self.begin()?)?;
        if self.freq_hz == 0 {
            return None;
        }
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(self.freq_hz);
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }

    /// The fields with their values, in the marker's order.
    pub fn fields(&self) -> impl Iterator<Item = (FieldInfo<'a>, Value<'a>)> + use<'a> {
        decode::values(self.desc, self.payload).filter_map(Result::ok)
    }

    /// The value of a field.
    pub fn value(&self, field: &str) -> Option<Value<'a>> {
        self.fields()
            .find(|(info, _)| info.name == field)
            .map(|(_, value)| value)
    }

    /// The value of a field of an unsigned type, or of a bool or clock, or one that is not negative.
    pub fn unsigned(&self, field: &str) -> Option<u64> {
        match self.value(field)? {
            Value::Unsigned(value) | Value::Clock(value) => Some(value),
            Value::Signed(value) => u64::try_from(value).ok(),
            Value::Bool(value) => Some(value.into()),
            _ => None,
        }
    }

    /// The value of a field of a signed type, or of another whose value fits.
    pub fn signed(&self, field: &str) -> Option<i64> {
        match self.value(field)? {
            Value::Signed(value) => Some(value),
            Value::Unsigned(value) | Value::Clock(value) => i64::try_from(value).ok(),
            Value::Bool(value) => Some(value.into()),
            _ => None,
        }
    }

    /// The value of a field of type `f32` or `f64`.
    pub fn float(&self, field: &str) -> Option<f64> {
        match self.value(field)? {
            Value::F32(value) => Some(value.into()),
            Value::F64(value) => Some(value),
            _ => None,
        }
    }

    /// The value of a field of type `str`, when it is UTF-8.
    pub fn str(&self, field: &str) -> Option<&'a str> {
        match self.value(field)? {
            Value::Str(octets) => str::from_utf8(octets).ok(),
            _ => None,
        }
    }

    /// The octets of a field of type `str` or `bytes`.
    pub fn octets(&self, field: &str) -> Option<&'a [u8]> {
        match self.value(field)? {
            Value::Str(octets) | Value::Bytes(octets) => Some(octets),
            _ => None,
        }
    }
}

/// The time-stamp of the begin in the payload of a span's end.
pub(super) fn begin_of(desc: &Descriptor, payload: &[u8]) -> u64 {
    if desc.kind != abi::KIND_SPAN_END {
        return 0;
    }
    match decode::values(desc, payload).next() {
        Some(Ok((_, Value::Clock(begin)))) => begin,
        _ => 0,
    }
}
