//! What a text may speak of: the fields of a marker.

/// Fields of a marker at most.
pub const MAX_FIELDS: usize = 8;

/// How a field is encoded in a payload. All numbers are little endian; fields follow each other
/// without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FieldType {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    /// One octet, 0 or 1.
    Bool,
    /// `u16` length, then text.
    Str,
    /// `u16` length, then octets. No expression can use it.
    Bytes,
    /// `u64`, a raw reading of the trace clock. No expression can use it.
    Clock,
}

impl FieldType {
    /// Octets in a payload; `None` when the payload says how many.
    pub(crate) fn size(self) -> Option<usize> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 | Self::Clock => Some(8),
            Self::Str | Self::Bytes => None,
        }
    }
}

/// A field of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a str,
    /// How it is encoded.
    pub ty: FieldType,
    /// The labels of its values 0, 1, 2 ..., with a NUL between them; empty when it has none.
    pub labels: &'a str,
}

impl<'a> Field<'a> {
    /// A field without labels.
    pub const fn new(name: &'a str, ty: FieldType) -> Self {
        Self {
            name,
            ty,
            labels: "",
        }
    }

    /// Its labels.
    pub fn labels(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.labels.split('\0').filter(|label| !label.is_empty())
    }
}

/// What there is to compile against.
///
/// A name stands for a field of `fields`, else of `end`, else for `pid`, `tid`, `uid`, `comm` or
/// `dur`, else for an errno.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// The fields of [`Values::payload`](crate::Values::payload): of a record, or of a span's begin.
    pub fields: &'a [Field<'a>],
    /// Those of [`Values::end`](crate::Values::end): of a span's end, when both are at hand.
    pub end: &'a [Field<'a>],
    /// There is a duration.
    pub dur: bool,
    /// There are a process and a thread.
    pub thread: bool,
}

impl Default for Shape<'_> {
    /// No fields and no duration, in a thread.
    fn default() -> Self {
        Self {
            fields: &[],
            end: &[],
            dur: false,
            thread: true,
        }
    }
}

/// Which payload a field is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Payload,
    End,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Field(Part, u8),
    Pid,
    Tid,
    Uid,
    Comm,
    Dur,
}

impl Source {
    /// The context's names.
    pub(crate) fn context(name: &str) -> Option<Self> {
        Some(match name {
            "pid" => Self::Pid,
            "tid" => Self::Tid,
            "uid" => Self::Uid,
            "comm" => Self::Comm,
            "dur" => Self::Dur,
            _ => return None,
        })
    }
}

impl<'a> Shape<'a> {
    /// The field of this name, and where it is.
    pub(crate) fn find(&self, name: &str) -> Option<(Part, u8, &'a Field<'a>)> {
        let in_part = |part, fields: &'a [Field<'a>]| {
            (0..)
                .zip(fields.iter().take(MAX_FIELDS))
                .find(|(_, field)| field.name == name)
                .map(|(index, field)| (part, index, field))
        };
        in_part(Part::Payload, self.fields).or_else(|| in_part(Part::End, self.end))
    }

    pub(crate) fn part(&self, part: Part) -> &'a [Field<'a>] {
        match part {
            Part::Payload => self.fields,
            Part::End => self.end,
        }
    }
}
