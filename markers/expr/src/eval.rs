//! Running a program over the values of an event.

use core::cmp::Ordering;

use heapless::Vec;

use crate::operators::{Binary, Op};
use crate::program::Program;
use crate::shape::{FieldType, MAX_FIELDS, Part, Source};
use crate::{MAX_STACK, glob};

/// The values of an event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'a> {
    /// The payload of the record; of a span, that of its begin.
    pub payload: &'a [u8],
    /// The payload of a span's end.
    pub end: &'a [u8],
    /// What is not in payloads.
    pub context: Context<'a>,
}

/// Where and how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// User id.
    pub uid: u32,
    /// The thread's name, up to its end or to the first NUL.
    pub comm: &'a [u8],
    /// Nanoseconds from begin to end of a span.
    pub dur_ns: u64,
}

/// The value of an action's expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer; two 64-bit fields multiplied fit.
    Int(i128),
    /// A floating-point number.
    Float(f64),
}

/// The value of a name behind `by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValue<'a> {
    /// An integer or a bool, as the octets of its field's type.
    Fixed([u8; 8], usize),
    /// A string, without its length.
    Str(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Int(i128),
    Float(f64),
    Bool(bool),
    Str(&'a [u8]),
}

impl Program<'_> {
    /// Whether an event passes. An event whose payload is not one of the marker does.
    pub fn eval_filter(&self, values: &Values<'_>) -> bool {
        let Some(span) = self.filter else {
            return true;
        };
        !matches!(self.run(span, values), Some(Value::Bool(false)))
    }

    /// The value of the action of this number: `None` when it has none, or the payload is not one of
    /// the marker.
    pub fn eval_action(&self, action: usize, values: &Values<'_>) -> Option<Number> {
        match self.run(self.actions.get(action)?.value?, values)? {
            Value::Int(value) => Some(Number::Int(value)),
            Value::Float(value) => Some(Number::Float(value)),
            Value::Bool(_) | Value::Str(_) => None,
        }
    }

    /// The value of the name of this number behind `by`: `None` when there is none, or the payload is
    /// not one of the marker.
    pub fn eval_key<'a>(&self, key: usize, values: &Values<'a>) -> Option<KeyValue<'a>> {
        let key = self.keys.get(key)?;
        let (octets, size) = match key.source {
            Source::Comm => return Some(KeyValue::Str(until_nul(values.context.comm))),
            Source::Field(part, index) => {
                let field = self.locate(values).field(part, index)?;
                match key.ty.size() {
                    Some(size) => (fixed(field.get(..size)?)?, size),
                    None => return Some(KeyValue::Str(string(field)?)),
                }
            }
            Source::Pid => (u64::from(values.context.pid).to_le_bytes(), 4),
            Source::Tid => (u64::from(values.context.tid).to_le_bytes(), 4),
            Source::Uid => (u64::from(values.context.uid).to_le_bytes(), 4),
            Source::Dur => (values.context.dur_ns.to_le_bytes(), 8),
        };
        Some(KeyValue::Fixed(octets, size))
    }

    fn run<'a>(&'a self, (from, to): (u8, u8), values: &Values<'a>) -> Option<Value<'a>> {
        let places = self.locate(values);
        let ops = self.ops.get(..usize::from(to))?;
        let mut stack = Vec::<Value<'a>, MAX_STACK>::new();
        let mut at = usize::from(from);
        // Ends: jumps lead forward only.
        while let Some(op) = ops.get(at) {
            at += 1;
            let value = match *op {
                Op::Int(value) => Value::Int(value.into()),
                Op::Float(value) => Value::Float(value),
                Op::Bool(value) => Value::Bool(value),
                Op::Str { start, len } => {
                    let text = self.text.as_bytes().get(usize::from(start)..)?;
                    Value::Str(text.get(..usize::from(len))?)
                }
                Op::Load(source) => self.load(source, values, &places)?,
                Op::Negate => match stack.pop()? {
                    Value::Int(value) => Value::Int(value.saturating_neg()),
                    Value::Float(value) => Value::Float(-value),
                    Value::Bool(_) | Value::Str(_) => return None,
                },
                Op::Not => match stack.pop()? {
                    Value::Bool(value) => Value::Bool(!value),
                    _ => return None,
                },
                Op::InSet(set) => {
                    let Value::Int(value) = stack.pop()? else {
                        return None;
                    };
                    let set = self.sets.get(usize::from(set))?;
                    Value::Bool((0..128).contains(&value) && set >> value & 1 == 1)
                }
                Op::Binary(operator) => {
                    let right = stack.pop()?;
                    let left = stack.pop()?;
                    binary(operator, left, right)?
                }
                Op::JumpIf { value, to } => {
                    let Some(Value::Bool(top)) = stack.last() else {
                        return None;
                    };
                    if *top == value {
                        at = at.max(to.into());
                    } else {
                        stack.pop();
                    }
                    continue;
                }
            };
            stack.push(value).ok()?;
        }
        stack.pop()
    }

    fn load<'a>(
        &self,
        source: Source,
        values: &Values<'a>,
        places: &Places<'a>,
    ) -> Option<Value<'a>> {
        let context = &values.context;
        Some(match source {
            Source::Field(part, index) => {
                let ty = self.walks[part as usize].get(usize::from(index))?;
                decode(*ty, places.field(part, index)?)?
            }
            Source::Pid => Value::Int(context.pid.into()),
            Source::Tid => Value::Int(context.tid.into()),
            Source::Uid => Value::Int(context.uid.into()),
            Source::Comm => Value::Str(until_nul(context.comm)),
            Source::Dur => Value::Int(context.dur_ns.into()),
        })
    }

    /// Walks the payloads up to the last field that is used.
    fn locate<'a>(&self, values: &Values<'a>) -> Places<'a> {
        let payloads = [values.payload, values.end];
        let mut offsets = [[0; MAX_FIELDS]; 2];
        for ((walk, payload), offsets) in self.walks.iter().zip(payloads).zip(&mut offsets) {
            let mut at = 0;
            for (ty, offset) in walk.iter().zip(offsets) {
                *offset = at;
                let size = ty.size().unwrap_or_else(|| {
                    let len = payload.get(at..).and_then(<[u8]>::first_chunk);
                    2 + usize::from(u16::from_le_bytes(len.copied().unwrap_or_default()))
                });
                at = at.saturating_add(size);
            }
        }
        Places { payloads, offsets }
    }
}

/// Where the fields are.
struct Places<'a> {
    payloads: [&'a [u8]; 2],
    offsets: [[usize; MAX_FIELDS]; 2],
}

impl<'a> Places<'a> {
    /// The payload from a field on.
    fn field(&self, part: Part, index: u8) -> Option<&'a [u8]> {
        let offset = *self.offsets[part as usize].get(usize::from(index))?;
        self.payloads[part as usize].get(offset..)
    }
}

fn decode(ty: FieldType, field: &[u8]) -> Option<Value<'_>> {
    Some(match ty {
        FieldType::U8 => Value::Int(u8::from_le_bytes(*field.first_chunk()?).into()),
        FieldType::U16 => Value::Int(u16::from_le_bytes(*field.first_chunk()?).into()),
        FieldType::U32 => Value::Int(u32::from_le_bytes(*field.first_chunk()?).into()),
        FieldType::U64 => Value::Int(u64::from_le_bytes(*field.first_chunk()?).into()),
        FieldType::I8 => Value::Int(i8::from_le_bytes(*field.first_chunk()?).into()),
        FieldType::I16 => Value::Int(i16::from_le_bytes(*field.first_chunk()?).into()),
        FieldType::I32 => Value::Int(i32::from_le_bytes(*field.first_chunk()?).into()),
        FieldType::I64 => Value::Int(i64::from_le_bytes(*field.first_chunk()?).into()),
        FieldType::F32 => Value::Float(f32::from_le_bytes(*field.first_chunk()?).into()),
        FieldType::F64 => Value::Float(f64::from_le_bytes(*field.first_chunk()?)),
        FieldType::Bool => Value::Bool(*field.first()? != 0),
        FieldType::Str => Value::Str(string(field)?),
        FieldType::Bytes | FieldType::Clock => return None,
    })
}

fn string(field: &[u8]) -> Option<&[u8]> {
    let (len, rest) = field.split_first_chunk()?;
    rest.get(..usize::from(u16::from_le_bytes(*len)))
}

fn fixed(octets: &[u8]) -> Option<[u8; 8]> {
    let mut room = [0; 8];
    room.get_mut(..octets.len())?.copy_from_slice(octets);
    Some(room)
}

fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|&octet| octet == 0).next().unwrap_or_default()
}

fn binary<'a>(operator: Binary, left: Value<'a>, right: Value<'a>) -> Option<Value<'a>> {
    match (operator, left, right) {
        (Binary::Like | Binary::Unlike, Value::Str(text), Value::Str(pattern)) => {
            let like = glob::matches(pattern, text);
            Some(Value::Bool(like == (operator == Binary::Like)))
        }
        _ if operator.compares() => Some(Value::Bool(operator.holds(order(left, right)?))),
        (_, Value::Int(left), Value::Int(right)) => {
            operator.of_integers(left, right).map(Value::Int)
        }
        _ => {
            let (left, right) = floats(left, right)?;
            operator.of_floats(left, right).map(Value::Float)
        }
    }
}

/// `None` for values that do not compare; `Some(None)` for a NaN.
fn order(left: Value<'_>, right: Value<'_>) -> Option<Option<Ordering>> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(Some(left.cmp(&right))),
        (Value::Str(left), Value::Str(right)) => Some(Some(left.cmp(right))),
        (Value::Bool(left), Value::Bool(right)) => Some(Some(left.cmp(&right))),
        _ => floats(left, right).map(|(left, right)| left.partial_cmp(&right)),
    }
}

fn floats(left: Value<'_>, right: Value<'_>) -> Option<(f64, f64)> {
    let float = |value| match value {
        Value::Int(value) => Some(value as f64),
        Value::Float(value) => Some(value),
        Value::Bool(_) | Value::Str(_) => None,
    };
    Some((float(left)?, float(right)?))
}
