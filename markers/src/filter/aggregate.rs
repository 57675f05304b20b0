//! Aggregations: an event that passed the filter, as a change of a cell.

use bootbuf::Change;
use bootbuf::abi::CELL_KEY_MAX;
use expr::{ActionKind, KeyValue, Number, Program, Values};
use heapless::Vec;

/// Octets of a string's length in a key.
const LEN: usize = size_of::<u16>();

/// Changes the cell of an event. `false` when the program keeps none, or the payload is not one of the
/// marker.
pub fn aggregate(program: &Program<'_>, id: u32, slot: u32, values: &Values<'_>) -> bool {
    if !program.aggregates() {
        return false;
    }
    let Some((changes, key)) = changes(program, values).zip(key(program, values)) else {
        return false;
    };
    // A slot has 10 bits. A loss is counted by what finds it.
    bootbuf::aggregate(id, slot as u16, &key, &changes);
    true
}

fn changes(
    program: &Program<'_>,
    values: &Values<'_>,
) -> Option<Vec<Change, { expr::MAX_ACTIONS }>> {
    let mut changes = Vec::new();
    for (index, action) in program.actions().iter().enumerate() {
        if matches!(action.kind, ActionKind::Count | ActionKind::Record) {
            continue;
        }
        let value = program.eval_action(index, values)?;
        let whole = whole(value);
        let change = match (action.kind, value) {
            (ActionKind::Sum | ActionKind::Avg, Number::Float(value)) => Change::SumF64(value),
            (ActionKind::Min, Number::Float(value)) => Change::MinF64(value),
            (ActionKind::Max, Number::Float(value)) => Change::MaxF64(value),
            (ActionKind::Min, Number::Int(_)) => Change::Min(whole),
            (ActionKind::Max, Number::Int(_)) => Change::Max(whole),
            (ActionKind::Hist, _) => Change::Hist(whole),
            (_, Number::Int(_)) => Change::Sum(whole),
            // Left out above.
            (ActionKind::Count | ActionKind::Record, Number::Float(_)) => continue,
        };
        changes.push(change).ok()?;
    }
    Some(changes)
}

/// The value of a cell, which has 64 bits.
fn whole(value: Number) -> i64 {
    match value {
        Number::Int(value) => value.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
        // Saturates; what is not a number counts as 0.
        Number::Float(value) => value as i64,
    }
}

/// The values behind `by`, as a record would have them; strings are cut so that all fit.
fn key(program: &Program<'_>, values: &Values<'_>) -> Option<Vec<u8, CELL_KEY_MAX>> {
    let mut key = Vec::<u8, CELL_KEY_MAX>::new();
    for (index, _) in program.keys().iter().enumerate() {
        match program.eval_key(index, values)? {
            KeyValue::Fixed(octets, size) => key.extend_from_slice(octets.get(..size)?).ok()?,
            KeyValue::Str(text) => {
                // Numbers take 8 octets at most, and so does each of what follows at least.
                let behind = 8 * (program.keys().len() - 1 - index);
                let room = CELL_KEY_MAX.checked_sub(key.len() + LEN + behind)?;
                let text = cut(text, room);
                key.extend_from_slice(&(text.len() as u16).to_le_bytes())
                    .ok()?;
                key.extend_from_slice(text).ok()?;
            }
        }
    }
    Some(key)
}

/// At most `room` octets, cut in front of a character.
fn cut(text: &[u8], room: usize) -> &[u8] {
    if text.len() <= room {
        return text;
    }
    let mut end = room;
    while end > 0 && end + 4 > room && text.get(end).is_some_and(|octet| octet & 0xc0 == 0x80) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expr::{Context, Field, FieldType, Shape, SlotText};

    const FIELDS: [Field<'static>; 3] = [
        Field::new("name", FieldType::Str),
        Field::new("n", FieldType::U64),
        Field::new("x", FieldType::F32),
    ];

    fn program(text: &'static str) -> Program<'static> {
        let shape = Shape {
            fields: &FIELDS,
            ..Shape::default()
        };
        Program::compile(SlotText::parse(text).unwrap(), &shape).unwrap()
    }

    fn payload(name: &str, n: u64, x: f32) -> std::vec::Vec<u8> {
        let mut octets = (name.len() as u16).to_le_bytes().to_vec();
        octets.extend(name.bytes());
        octets.extend(n.to_le_bytes());
        octets.extend(x.to_le_bytes());
        octets
    }

    #[test]
    fn values_become_changes() {
        let program = program("{count(), sum(n), avg(x), hist(x * 2)}");
        let payload = payload("", u64::MAX, 1.5);
        let values = Values {
            payload: &payload,
            ..Values::default()
        };
        assert_eq!(
            changes(&program, &values).unwrap(),
            [Change::Sum(i64::MAX), Change::SumF64(1.5), Change::Hist(3)]
        );
    }

    #[test]
    fn keys_fit_however_long_their_strings() {
        let program = program("{count() by name, n, comm, pid}");
        for len in 0..200 {
            let text = "\u{20ac}".repeat(len);
            let payload = payload(&text, 7, 0.0);
            let context = Context {
                pid: 9,
                comm: b"shell",
                ..Context::default()
            };
            let values = Values {
                payload: &payload,
                context,
                ..Values::default()
            };
            let key = key(&program, &values).unwrap();
            let cut = usize::from(u16::from_le_bytes([key[0], key[1]]));
            assert_eq!(cut % 3, 0);
            assert!(cut == text.len() || cut > 90);
            let mut rest = 7_u64.to_le_bytes().to_vec();
            rest.extend(b"\x05\0shell\x09\0\0\0");
            assert_eq!(key[2 + cut..], rest, "{len}");
        }
    }
}
