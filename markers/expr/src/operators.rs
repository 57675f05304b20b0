//! Operations of programs.

use core::cmp::Ordering;

use crate::shape::Source;

/// One operation of the machine with a stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Int(u64),
    Float(f64),
    Bool(bool),
    /// A piece of the text.
    Str {
        start: u16,
        len: u16,
    },
    Load(Source),
    Negate,
    Not,
    /// Whether the integer on the stack is in the set of this number.
    InSet(u8),
    Binary(Binary),
    /// When the top of the stack is `value` jumps and leaves it there, else takes it off.
    JumpIf {
        value: bool,
        to: u8,
    },
}

/// Operators between two values, other than `&&` and `||`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Like,
    Unlike,
    Add,
    Sub,
    Or,
    Mul,
    And,
    Shl,
    Shr,
}

impl Binary {
    /// The operator, and how tightly it binds.
    pub(crate) fn of(mark: &str) -> Option<(Self, Binding)> {
        use Binding::{Comparison, Product, Sum};
        Some(match mark {
            "==" => (Self::Eq, Comparison),
            "!=" => (Self::Ne, Comparison),
            "<" => (Self::Lt, Comparison),
            "<=" => (Self::Le, Comparison),
            ">" => (Self::Gt, Comparison),
            ">=" => (Self::Ge, Comparison),
            "~" => (Self::Like, Comparison),
            "!~" => (Self::Unlike, Comparison),
            "+" => (Self::Add, Sum),
            "-" => (Self::Sub, Sum),
            "|" => (Self::Or, Sum),
            "*" => (Self::Mul, Product),
            "&" => (Self::And, Product),
            "<<" => (Self::Shl, Product),
            ">>" => (Self::Shr, Product),
            _ => return None,
        })
    }

    /// As it is written.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::Like => "~",
            Self::Unlike => "!~",
            Self::Add => "+",
            Self::Sub => "-",
            Self::Or => "|",
            Self::Mul => "*",
            Self::And => "&",
            Self::Shl => "<<",
            Self::Shr => ">>",
        }
    }

    /// Whether it compares values by their order.
    pub(crate) fn compares(self) -> bool {
        matches!(
            self,
            Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge
        )
    }

    /// Whether a comparison holds for an order; that of a NaN to anything is `None`.
    pub(crate) fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Eq => order == Some(Ordering::Equal),
            Self::Ne => order != Some(Ordering::Equal),
            Self::Lt => order == Some(Ordering::Less),
            Self::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Gt => order == Some(Ordering::Greater),
            Self::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            _ => false,
        }
    }

    /// The result for integers of an operator that computes.
    pub(crate) fn of_integers(self, left: i128, right: i128) -> Option<i128> {
        // What is shifted out to the right leaves the sign.
        let count = u32::try_from(right.clamp(0, 127)).unwrap_or(127);
        Some(match self {
            Self::Add => left.saturating_add(right),
            Self::Sub => left.saturating_sub(right),
            Self::Mul => left.saturating_mul(right),
            Self::Or => left | right,
            Self::And => left & right,
            Self::Shr => left >> count,
            Self::Shl if left == 0 => 0,
            Self::Shl if count == 127 => match left < 0 {
                true => i128::MIN,
                false => i128::MAX,
            },
            Self::Shl => left.saturating_mul(1 << count),
            _ => return None,
        })
    }

    /// The result for floating-point numbers.
    pub(crate) fn of_floats(self, left: f64, right: f64) -> Option<f64> {
        Some(match self {
            Self::Add => left + right,
            Self::Sub => left - right,
            Self::Mul => left * right,
            _ => return None,
        })
    }
}

/// How tightly an operator binds, the loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Binding {
    Either,
    Both,
    Comparison,
    Sum,
    Product,
}

impl Binding {
    /// What the right operand of an operator that binds like this is made of.
    pub(crate) fn tighter(self) -> Option<Self> {
        match self {
            Self::Either => Some(Self::Both),
            Self::Both => Some(Self::Comparison),
            Self::Comparison => Some(Self::Sum),
            Self::Sum => Some(Self::Product),
            Self::Product => None,
        }
    }
}
