//! Descriptors and payloads as they come from files, from the kernel and out of chunks: nobody vouches
//! for them, and what is wrong with them is an error value.

use core::fmt;

use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{self, Descriptor, Field};
use crate::descriptor::{are_name_octets, is_field_name, is_integer, is_label, is_type};

/// The fields of a span's end, as expressions know them.
pub use crate::filter::END as SPAN_END;

/// A descriptor that has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    abi_minor: u8,
    kind: Kind,
    level: u8,
    line: u32,
    nfields: u8,
    provider: [u8; abi::PROVIDER_LEN],
    name: [u8; abi::NAME_LEN],
    fields: [Field; abi::MAX_FIELDS],
    strings: [u8; abi::STRINGS_LEN],
}

/// What a marker marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A point in time.
    Instant,
    /// A span begins.
    SpanBegin,
    /// A span ends.
    SpanEnd,
    /// A value over time.
    Counter,
}

impl Kind {
    /// The kind that a descriptor's `kind` stands for; none for a number unknown here.
    pub(crate) fn from_abi(kind: u8) -> Option<Self> {
        match kind {
            abi::KIND_INSTANT => Some(Self::Instant),
            abi::KIND_SPAN_BEGIN => Some(Self::SpanBegin),
            abi::KIND_SPAN_END => Some(Self::SpanEnd),
            abi::KIND_COUNTER => Some(Self::Counter),
            _ => None,
        }
    }
}

/// Why octets are no descriptor that this version can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// Fewer octets than a descriptor has.
    #[error("descriptor has {0} octets, needs {need}", need = abi::DESC_SIZE)]
    Truncated(usize),
    /// Another major version: its bytes may mean anything.
    #[error("descriptor has ABI {0}.{1}, this program reads {major}.x", major = abi::ABI_MAJOR)]
    UnsupportedAbi(u8, u8),
    /// `size` is smaller than this version's descriptor.
    #[error("descriptor says it has {0} octets, needs at least {need}", need = abi::DESC_SIZE)]
    Size(u16),
    /// Unknown `kind`.
    #[error("descriptor has unknown kind {0}")]
    Kind(u8),
    /// `level` above the highest.
    #[error("descriptor has level {0}, the highest is {max}", max = abi::LEVEL_MAX)]
    Level(u8),
    /// More fields than there is room for.
    #[error("descriptor has {0} fields, the limit is {max}", max = abi::MAX_FIELDS)]
    FieldCount(u8),
    /// Unknown flags.
    #[error("descriptor has unknown flags {0:#x}")]
    Flags(u8),
    /// The state word of a descriptor at rest is zero.
    #[error("descriptor's state word is {0:#x} in the file, must be zero")]
    State(u32),
    /// The provider is empty, not terminated, not zero behind its end, or holds other octets than it may.
    #[error("descriptor's provider is not a NUL-padded name of letters, digits, `_`, `-`, `.`")]
    Provider,
    /// As [`Provider`](Self::Provider).
    #[error("descriptor's name is not a NUL-padded name of letters, digits, `_`, `-`, `.`")]
    Name,
    /// A field behind the last one is not zero.
    #[error("descriptor has an unused field that is not zero")]
    UnusedField,
    /// Something is wrong with the field of this number.
    #[error("field {0} of descriptor: {1}")]
    Field(u8, FieldError),
}

/// What is wrong with a field of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// Unknown type.
    #[error("unknown type {0}")]
    Type(u8),
    /// Unknown hint.
    #[error("unknown hint {0}")]
    Hint(u8),
    /// A hint for integers on another type.
    #[error("hint {0} on a field that is no integer")]
    HintType(u8),
    /// The name lies outside the descriptor's strings.
    #[error("name lies outside the descriptor's strings")]
    Bounds,
    /// The name is empty or has other octets than it may.
    #[error("name is not made of letters, digits and `_`")]
    Name,
    /// Labels are missing, empty, not UTF-8 or hold control characters.
    #[error("enumeration labels are missing, empty or not text")]
    Labels,
    /// An earlier field has this name.
    #[error("another field has the same name")]
    Duplicate,
}

impl Marker {
    /// Reads a descriptor. What follows its first [`abi::DESC_SIZE`] octets, in a file of a newer
    /// minor version, is skipped.
    ///
    /// # Errors
    ///
    /// See [`DescriptorError`].
    pub fn parse(octets: &[u8]) -> Result<Self, DescriptorError> {
        let Ok((mut desc, _)) = Descriptor::read_from_prefix(octets) else {
            return Err(DescriptorError::Truncated(octets.len()));
        };
        if desc.abi_major != abi::ABI_MAJOR {
            return Err(DescriptorError::UnsupportedAbi(
                desc.abi_major,
                desc.abi_minor,
            ));
        }
        if usize::from(desc.size) < abi::DESC_SIZE {
            return Err(DescriptorError::Size(desc.size));
        }
        let kind = Kind::from_abi(desc.kind).ok_or(DescriptorError::Kind(desc.kind))?;
        if desc.level > abi::LEVEL_MAX {
            return Err(DescriptorError::Level(desc.level));
        }
        if usize::from(desc.nfields) > abi::MAX_FIELDS {
            return Err(DescriptorError::FieldCount(desc.nfields));
        }
        if desc.flags != 0 {
            return Err(DescriptorError::Flags(desc.flags));
        }
        if *desc.state.get_mut() != 0 {
            return Err(DescriptorError::State(*desc.state.get_mut()));
        }
        if !is_padded_name(&desc.provider) {
            return Err(DescriptorError::Provider);
        }
        if !is_padded_name(&desc.name) {
            return Err(DescriptorError::Name);
        }
        let marker = Self {
            abi_minor: desc.abi_minor,
            kind,
            level: desc.level,
            line: desc.line,
            nfields: desc.nfields,
            provider: desc.provider,
            name: desc.name,
            fields: desc.fields,
            strings: desc.strings,
        };
        for index in 0..marker.nfields {
            marker
                .check_field(index)
                .map_err(|error| DescriptorError::Field(index, error))?;
        }
        let unused = &marker.fields[usize::from(marker.nfields)..];
        if unused
            .iter()
            .any(|field| field.as_bytes() != [0; size_of::<Field>()])
        {
            return Err(DescriptorError::UnusedField);
        }
        Ok(marker)
    }

    fn check_field(&self, index: u8) -> Result<(), FieldError> {
        let field = self.fields[usize::from(index)];
        if !is_type(field.ty) {
            return Err(FieldError::Type(field.ty));
        }
        // A hint of a newer minor version is for display only, and the field can be read without.
        let newer = self.abi_minor > abi::ABI_MINOR;
        if field.hint > abi::HINT_SIZE && !newer {
            return Err(FieldError::Hint(field.hint));
        }
        if field.hint != abi::HINT_NONE && field.hint <= abi::HINT_SIZE && !is_integer(field.ty) {
            return Err(FieldError::HintType(field.hint));
        }
        let octets = self.strings_of(field).ok_or(FieldError::Bounds)?;
        let mut parts = octets.split(|&octet| octet == 0);
        let name = parts.next().unwrap_or_default();
        if !is_field_name(name) {
            return Err(FieldError::Name);
        }
        if field.hint == abi::HINT_ENUM {
            let mut labels = 0;
            for label in parts {
                if !is_label(label) || str::from_utf8(label).is_err() {
                    return Err(FieldError::Labels);
                }
                labels += 1;
            }
            if labels == 0 {
                return Err(FieldError::Labels);
            }
        } else if parts.next().is_some() {
            return Err(FieldError::Name);
        }
        if self
            .fields()
            .take(usize::from(index))
            .any(|earlier| earlier.name.as_bytes() == name)
        {
            return Err(FieldError::Duplicate);
        }
        Ok(())
    }

    fn strings_of(&self, field: Field) -> Option<&[u8]> {
        strings_of(&self.strings, field)
    }

    /// The provider.
    pub fn provider(&self) -> &str {
        text_before_nul(&self.provider)
    }

    /// The name.
    pub fn name(&self) -> &str {
        text_before_nul(&self.name)
    }

    /// What it marks.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its level, as in syslog(2): 0 emergency to 7 debug.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Its line in the source.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Minor version of the ABI that the descriptor was made for.
    pub fn abi_minor(&self) -> u8 {
        self.abi_minor
    }

    /// Its fields, in the order of the payload.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = FieldInfo<'_>> {
        fields_of(&self.fields[..usize::from(self.nfields)], &self.strings)
    }

    /// The fields of a record with their values. The last item is an error if the payload is not one
    /// of this marker.
    pub fn decode<'a>(&'a self, payload: &'a [u8]) -> impl Iterator<Item = FieldResult<'a>> {
        Values::new(self.fields(), payload)
    }

    /// Whether a payload is one of this marker.
    ///
    /// # Errors
    ///
    /// See [`PayloadError`].
    pub fn check(&self, payload: &[u8]) -> Result<(), PayloadError> {
        self.decode(payload).try_for_each(|item| item.map(|_| ()))
    }
}

/// `provider:name`, as rules have it.
impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider(), self.name())
    }
}

/// The values of some fields that are encoded one behind the other, as in a record. The last item is an
/// error if the octets are something else.
pub fn decode_fields<'a>(
    fields: impl Iterator<Item = FieldInfo<'a>>,
    octets: &'a [u8],
) -> impl Iterator<Item = FieldResult<'a>> {
    Values::new(fields, octets)
}

/// One field of a checked descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo<'a> {
    /// [`abi::TYPE_U8`] and the like.
    pub ty: u8,
    /// [`abi::HINT_NONE`] and the like; of a newer minor version, possibly a number unknown here.
    pub hint: u8,
    /// Its name.
    pub name: &'a str,
    labels: &'a str,
}

impl<'a> FieldInfo<'a> {
    /// A field that is in no descriptor, and has neither hint nor labels.
    pub const fn new(name: &'a str, ty: u8) -> Self {
        Self {
            ty,
            hint: abi::HINT_NONE,
            name,
            labels: "",
        }
    }

    /// The labels of the values 0, 1, 2 ...; none without [`abi::HINT_ENUM`].
    pub fn labels(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.labels.split('\0').filter(|label| !label.is_empty())
    }

    /// The field as expressions know it. Its type is one that they have, as it was checked.
    pub fn in_expressions(&self) -> expr::Field<'a> {
        expr::Field {
            name: self.name,
            ty: crate::filter::field_type(self.ty).unwrap_or(expr::FieldType::Bytes),
            labels: self.labels,
        }
    }

    /// The label of a value.
    pub fn label(&self, value: Value<'_>) -> Option<&'a str> {
        let index = match value {
            Value::Unsigned(value) => usize::try_from(value).ok()?,
            Value::Signed(value) => usize::try_from(value).ok()?,
            _ => return None,
        };
        self.labels().nth(index)
    }
}

/// A field's value in a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// `u8` to `u64`.
    Unsigned(u64),
    /// `i8` to `i64`.
    Signed(i64),
    /// `f32`.
    F32(f32),
    /// `f64`.
    F64(f64),
    /// `bool`.
    Bool(bool),
    /// `str`. Meant to be UTF-8, but that is the program's word: paths and the like may be anything.
    Str(&'a [u8]),
    /// `bytes`.
    Bytes(&'a [u8]),
    /// `clock`: a raw reading of the trace clock.
    Clock(u64),
}

/// A field with its value.
pub type FieldResult<'a> = Result<(FieldInfo<'a>, Value<'a>), PayloadError>;

/// Why octets are no payload of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// It ends inside a field.
    #[error("payload ends inside a field")]
    Truncated,
    /// Octets are left behind the last field.
    #[error("payload has {0} octets behind its last field")]
    Trailing(usize),
    /// A string or byte field is longer than any record carries.
    #[error("payload has a field of {0} octets, the limit is {max}", max = abi::MAX_BYTES)]
    TooLong(u16),
    /// A bool that is neither 0 nor 1.
    #[error("payload has a bool of value {0}")]
    Bool(u8),
}

struct Values<'a, F> {
    fields: F,
    rest: &'a [u8],
    failed: bool,
}

impl<'a, F: Iterator<Item = FieldInfo<'a>>> Iterator for Values<'a, F> {
    type Item = FieldResult<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = match self.fields.next() {
            Some(field) => self.value(field.ty).map(|value| (field, value)),
            None if self.rest.is_empty() => return None,
            None => Err(PayloadError::Trailing(self.rest.len())),
        };
        self.failed = item.is_err();
        Some(item)
    }
}

/// The fields of an event with their values, straight from the program's own descriptor: the compiler
/// made it, so nothing is checked but that no read leaves it.
pub(crate) fn values<'a>(
    desc: &'a Descriptor,
    payload: &'a [u8],
) -> impl Iterator<Item = FieldResult<'a>> {
    let fields = desc.fields.get(..usize::from(desc.nfields));
    Values::new(
        fields_of(fields.unwrap_or_default(), &desc.strings),
        payload,
    )
}

fn fields_of<'a>(
    fields: &'a [Field],
    strings: &'a [u8],
) -> impl ExactSizeIterator<Item = FieldInfo<'a>> {
    fields.iter().map(|field| {
        let octets = strings_of(strings, *field).unwrap_or_default();
        let text = str::from_utf8(octets).unwrap_or_default();
        let (name, labels) = text.split_once('\0').unwrap_or((text, ""));
        FieldInfo {
            ty: field.ty,
            hint: field.hint,
            name,
            labels,
        }
    })
}

fn strings_of(strings: &[u8], field: Field) -> Option<&[u8]> {
    strings
        .get(usize::from(field.name_off)..)?
        .get(..usize::from(field.name_len))
}

impl<'a, F> Values<'a, F> {
    fn new(fields: F, payload: &'a [u8]) -> Self {
        Self {
            fields,
            rest: payload,
            failed: false,
        }
    }

    fn value(&mut self, ty: u8) -> Result<Value<'a>, PayloadError> {
        Ok(match ty {
            abi::TYPE_U8 => Value::Unsigned(u8::from_le_bytes(self.array()?).into()),
            abi::TYPE_U16 => Value::Unsigned(u16::from_le_bytes(self.array()?).into()),
            abi::TYPE_U32 => Value::Unsigned(u32::from_le_bytes(self.array()?).into()),
            abi::TYPE_U64 => Value::Unsigned(u64::from_le_bytes(self.array()?)),
            abi::TYPE_I8 => Value::Signed(i8::from_le_bytes(self.array()?).into()),
            abi::TYPE_I16 => Value::Signed(i16::from_le_bytes(self.array()?).into()),
            abi::TYPE_I32 => Value::Signed(i32::from_le_bytes(self.array()?).into()),
            abi::TYPE_I64 => Value::Signed(i64::from_le_bytes(self.array()?)),
            abi::TYPE_F32 => Value::F32(f32::from_le_bytes(self.array()?)),
            abi::TYPE_F64 => Value::F64(f64::from_le_bytes(self.array()?)),
            abi::TYPE_CLOCK => Value::Clock(u64::from_le_bytes(self.array()?)),
            abi::TYPE_BOOL => match self.array()? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [other] => return Err(PayloadError::Bool(other)),
            },
            abi::TYPE_STR => Value::Str(self.octets()?),
            // Marker::parse() lets no other type through.
            _ => Value::Bytes(self.octets()?),
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PayloadError> {
        let (array, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(PayloadError::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }

    fn octets(&mut self) -> Result<&'a [u8], PayloadError> {
        let len = u16::from_le_bytes(self.array()?);
        if usize::from(len) > abi::MAX_BYTES {
            return Err(PayloadError::TooLong(len));
        }
        let (octets, rest) = self
            .rest
            .split_at_checked(len.into())
            .ok_or(PayloadError::Truncated)?;
        self.rest = rest;
        Ok(octets)
    }
}

fn is_padded_name(octets: &[u8]) -> bool {
    match octets.iter().position(|&octet| octet == 0) {
        None | Some(0) => false,
        Some(end) => {
            are_name_octets(&octets[..end]) && octets[end..].iter().all(|&octet| octet == 0)
        }
    }
}

pub(crate) fn text_before_nul(octets: &[u8]) -> &str {
    let end = octets
        .iter()
        .position(|&octet| octet == 0)
        .unwrap_or(octets.len());
    str::from_utf8(&octets[..end]).unwrap_or_default()
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
