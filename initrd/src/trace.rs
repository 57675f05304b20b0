//! The markers of the two inits, in one place so that names and fields stay the same everywhere.
pub use markers::{marker, span};
