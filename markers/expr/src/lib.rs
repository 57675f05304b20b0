//! Expressions over a marker's fields: what a rule's filter says, and `bootmark view --where`.
//!
//! ```
//! use expr::{Context, Field, FieldType, Program, Shape, SlotText, Values};
//!
//! let text = SlotText::parse("/ret != 0 || dur > 5ms/").unwrap();
//! let end = [Field::new("begin", FieldType::Clock), Field::new("ret", FieldType::I32)];
//! let shape = Shape { end: &end, dur: true, ..Shape::default() };
//! let program = Program::compile(text, &shape).unwrap();
//!
//! let mut record = [0; 12];
//! record[8..].copy_from_slice(&(-2_i32).to_le_bytes());
//! assert!(program.eval_filter(&Values { end: &record, ..Values::default() }));
//! ```
//!
//! A text is compiled once, against the fields of a marker, into at most [`MAX_OPS`] operations for a
//! machine with a stack. Compiling and evaluating allocate nothing, end after a bounded time, and
//! neither panic nor read outside what they are given, whatever the text and the octets are; so
//! both may run in a signal handler. Grammar and meaning are in docs/filters.md.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod compile;
pub mod errno;
mod error;
mod eval;
mod glob;
mod lex;
mod operators;
mod program;
mod shape;
mod slot;

pub use error::{Error, Found, Ty, What};
pub use eval::{Context, KeyValue, Number, Values};
pub use glob::matches as glob_matches;
pub use program::{Action, ActionKind, Key, Program};
pub use shape::{Field, FieldType, MAX_FIELDS, Shape};
pub use slot::SlotText;

/// Longest text, in octets.
pub const MAX_TEXT: usize = 512;
/// Most operations of a program, filter and actions together.
pub const MAX_OPS: usize = 64;
/// Deepest nesting of parentheses and signs.
pub const MAX_NESTING: usize = 16;
/// Most values that wait for their operator.
pub const MAX_STACK: usize = 16;
/// Most actions of a text.
pub const MAX_ACTIONS: usize = 4;
/// Most names behind `by`.
pub const MAX_KEYS: usize = 4;
/// Most comparisons of an enumeration with a label in one text.
pub const MAX_LABEL_SETS: usize = 4;
