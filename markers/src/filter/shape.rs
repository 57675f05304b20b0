//! A descriptor as the compiler of expressions wants it.

use expr::{Field, FieldType, Shape};
use heapless::Vec;

use crate::abi::{self, Descriptor};

/// The fields of a descriptor. Those of a program's own descriptors are as the macros made them; of
/// one that somebody wrote by hand and wrongly, `None`.
pub fn fields(marker: &'static Descriptor) -> Option<Vec<Field<'static>, { abi::MAX_FIELDS }>> {
    let mut fields = Vec::new();
    for field in marker.fields.get(..usize::from(marker.nfields))? {
        let from = usize::from(field.name_off);
        let octets = marker.strings.get(from..)?;
        let text = str::from_utf8(octets.get(..usize::from(field.name_len))?).ok()?;
        let (name, labels) = text.split_once('\0').unwrap_or((text, ""));
        let ty = field_type(field.ty)?;
        fields.push(Field { name, ty, labels }).ok()?;
    }
    Some(fields)
}

/// The fields of every span's end.
pub const END: [Field<'static>; 2] = [
    Field::new("begin", FieldType::Clock),
    Field::new("ret", FieldType::I32),
];

/// What a filter of a marker may speak of: of a span, begin and end together.
pub fn shape<'a>(marker: &Descriptor, fields: &'a [Field<'a>]) -> Shape<'a> {
    let span = marker.kind == abi::KIND_SPAN_BEGIN;
    Shape {
        fields,
        end: if span { &END } else { &[] },
        dur: span,
        thread: true,
    }
}

/// The type of a field in expressions; `None` for a number that is no type.
pub fn field_type(ty: u8) -> Option<FieldType> {
    Some(match ty {
        abi::TYPE_U8 => FieldType::U8,
        abi::TYPE_U16 => FieldType::U16,
        abi::TYPE_U32 => FieldType::U32,
        abi::TYPE_U64 => FieldType::U64,
        abi::TYPE_I8 => FieldType::I8,
        abi::TYPE_I16 => FieldType::I16,
        abi::TYPE_I32 => FieldType::I32,
        abi::TYPE_I64 => FieldType::I64,
        abi::TYPE_F32 => FieldType::F32,
        abi::TYPE_F64 => FieldType::F64,
        abi::TYPE_BOOL => FieldType::Bool,
        abi::TYPE_STR => FieldType::Str,
        abi::TYPE_BYTES => FieldType::Bytes,
        abi::TYPE_CLOCK => FieldType::Clock,
        _ => return None,
    })
}
