//! Aggregations as JSON, one object a row. The keys are documented in docs/trace.md.

use std::io::{self, Write};

use expr::ActionKind;
use markers::decode::decode_fields;
use serde_json::{Map, Value, json};

use super::layout::Action;
use super::tables::{Row, Table, Tables, Total, bucket_range};
use crate::trace::clock::Clock;
use crate::trace::marker::kind_name;
use crate::view::json::json_value;

/// Writes all rows.
///
/// # Errors
/// When the output refuses.
pub fn write(out: &mut impl Write, tables: &Tables<'_>, clock: &Clock) -> io::Result<()> {
    for table in tables.iter() {
        for (key, row) in table.rows() {
            serde_json::to_writer(&mut *out, &object(table, key, row, clock))?;
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

fn object(table: &Table<'_>, key: &[u8], row: &Row, clock: &Clock) -> Value {
    let layout = &table.layout;
    let names: Map<String, Value> = decode_fields(layout.keys.iter().copied(), key)
        .flatten()
        .map(|(field, value)| (field.name.to_owned(), json_value(&field, value, clock)))
        .collect();
    let values: Map<String, Value> = layout
        .valued()
        .zip(&row.values)
        .map(|(action, total)| (action.text.to_owned(), value(action, total, row.count)))
        .collect();
    json!({
        "aggregation": layout.text,
        "slot": table.slot,
        "event": layout.marker.full_name,
        "kind": kind_name(layout.marker.kind()),
        "first_ns": row.first_ns,
        "key": names,
        "count": row.count,
        "values": values,
    })
}

fn value(action: &Action<'_>, total: &Total, count: u64) -> Value {
    match total {
        Total::Hist(buckets) => buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count != 0)
            .map(|(bucket, count)| {
                let (from, to) = bucket_range(bucket);
                let from = (bucket != 0).then_some(from);
                json!({ "from": from, "to": to, "count": count })
            })
            .collect(),
        total if action.kind == ActionKind::Avg => total.mean(count).into(),
        Total::Int(value) => integer(*value),
        Total::Float(value) => (*value).into(),
    }
}

/// Exact where JSON libraries read it exactly, else the nearest floating-point number.
fn integer(value: i128) -> Value {
    if let Ok(value) = i64::try_from(value) {
        return value.into();
    }
    match u64::try_from(value) {
        Ok(value) => value.into(),
        Err(_) => (value as f64).into(),
    }
}
