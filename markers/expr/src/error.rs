//! Why a text is no program for a marker.

use crate::{MAX_ACTIONS, MAX_KEYS, MAX_LABEL_SETS, MAX_NESTING, MAX_OPS, MAX_STACK, MAX_TEXT};

/// What is wrong with a text, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("position {pos}: {what}")]
pub struct Error<'t> {
    /// Octets in front of it in the text.
    pub pos: usize,
    /// What it is.
    pub what: What<'t>,
}

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum What<'t> {
    /// More than [`MAX_TEXT`] octets.
    #[error("longer than {MAX_TEXT} octets")]
    TooLong,
    /// An octet that begins nothing.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// One `=`.
    #[error("`=` compares nothing: write `==`")]
    OneEquals,
    /// A quote without its partner.
    #[error("string without an end: {0} is missing")]
    OpenString(char),
    /// A number above the largest `u64`.
    #[error("number is above 18446744073709551615")]
    Overflow,
    /// More digits than a `u64` has.
    #[error("too many digits; there may be 19")]
    Digits,
    /// Digits that are followed by other letters.
    #[error("`{0}` is no number; units are ns us ms s K M G, on decimal numbers")]
    Number(&'t str),
    /// Something else was to come.
    #[error("expected {0}, found {1}")]
    Expected(&'static str, Found<'t>),
    /// The name of nothing.
    #[error(
        "no field is called `{0}`, and it is none of pid, tid, uid, comm, dur and the errno names"
    )]
    Unknown(&'t str),
    /// `dur` where nothing takes time.
    #[error("`dur` is known at the end of a span only")]
    NoDuration,
    /// `pid` and the like of a kernel event.
    #[error("kernel events belong to a CPU: they have no `{0}`")]
    NoThread(&'t str),
    /// A byte sequence.
    #[error("field `{0}` is a sequence of bytes, which expressions cannot use")]
    Bytes(&'t str),
    /// A reading of the clock.
    #[error(
        "field `{0}` is a reading of the trace clock, which expressions cannot use (a span's duration is `dur`)"
    )]
    Clock(&'t str),
    /// An operator for other types.
    #[error("`{op}` takes {takes}, and this is {is}")]
    Type {
        /// The operator.
        op: &'static str,
        /// What it is for.
        takes: &'static str,
        /// What it was given.
        is: Ty,
    },
    /// A comparison of apples with pears.
    #[error("`{op}` compares {left} with {right}")]
    Compare {
        /// The operator.
        op: &'static str,
        /// Left of it.
        left: Ty,
        /// Right of it.
        right: Ty,
    },
    /// `a < b < c`.
    #[error("comparisons do not chain: write `a < b && b < c`")]
    Chain,
    /// `a + !b`.
    #[error("`!` stands before a whole comparison: put it in parentheses")]
    Not,
    /// The whole is no truth value.
    #[error("a condition is true or false, and this is {0}: compare it with something")]
    NoCondition(Ty),
    /// An enumeration has no such label.
    #[error("field `{0}` has no label '{1}'")]
    Label(&'t str, &'t str),
    /// The pattern is computed.
    #[error("behind `{0}` stands a pattern in quotes")]
    Pattern(&'static str),
    /// A class of a pattern does not end.
    #[error("`[` of the pattern '{0}' has no `]`")]
    Class(&'t str),
    /// Deeper than [`MAX_NESTING`].
    #[error("nested deeper than {MAX_NESTING}")]
    Nesting,
    /// More than [`MAX_OPS`].
    #[error("longer than {MAX_OPS} operations")]
    Operations,
    /// More than [`MAX_STACK`].
    #[error("more than {MAX_STACK} values wait for their operator")]
    Stack,
    /// More than [`MAX_LABEL_SETS`].
    #[error("more than {MAX_LABEL_SETS} comparisons with labels")]
    LabelSets,
    /// Not one of the actions.
    #[error(
        "no action is called `{0}`; there are count() sum(x) min(x) max(x) avg(x) hist(x) record()"
    )]
    Action(&'t str),
    /// More than [`MAX_ACTIONS`].
    #[error("more than {MAX_ACTIONS} actions")]
    Actions,
    /// More than [`MAX_KEYS`].
    #[error("more than {MAX_KEYS} names behind `by`")]
    Keys,
    /// A name behind `by` that cannot be there.
    #[error("`{0}` cannot stand behind `by`: take an integer, a bool or a string")]
    Key(&'t str),
    /// Nothing is filtered and nothing done.
    #[error("neither a filter `/.../` nor actions `{{...}}`")]
    Nothing,
}

/// What was found where something else was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Found<'t> {
    /// The end of the text.
    #[error("the end")]
    End,
    /// A piece of the text.
    #[error("`{0}`")]
    Text(&'t str),
}

/// Types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ty {
    /// An integer.
    #[error("an integer")]
    Int,
    /// A floating-point number.
    #[error("a floating-point number")]
    Float,
    /// True or false.
    #[error("a truth value")]
    Bool,
    /// Octets that are meant to be text.
    #[error("a string")]
    Str,
    /// Not known, because there are no fields to compile against.
    #[error("of unknown type")]
    Any,
}
