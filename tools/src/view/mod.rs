//! `bootmark view`: the events, one a line.

pub mod condition;
pub mod filter;
pub mod json;
pub mod text;

use markers::abi::TYPE_CLOCK;
use markers::decode::{FieldInfo, Kind, Value};

use crate::trace::reader::Event;

/// Name of the field that says where a span began.
const BEGIN: &str = "begin";

/// The reading of the clock at which a span began, from the record of its end: `None` in other
/// records, and when the begin was not recorded.
pub fn span_begin(event: &Event<'_>) -> Option<u64> {
    if event.marker.kind() != Kind::SpanEnd {
        return None;
    }
    event
        .marker
        .decode(event.payload)
        .find_map(|value| match value {
            Ok((field, Value::Clock(begin))) if field.name == BEGIN && begin != 0 => Some(begin),
            _ => None,
        })
}

/// Whether a field only says where a span began, which the duration says better.
pub fn is_begin_field(event: &Event<'_>, field: &FieldInfo<'_>) -> bool {
    event.marker.kind() == Kind::SpanEnd && field.name == BEGIN && field.ty == TYPE_CLOCK
}
