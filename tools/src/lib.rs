//! The `bootmark` program as a library: the trace directory (written and read), the reports made
//! from it, and the commands. See docs/trace.md.

pub mod aggregate;
pub mod cli;
mod commands;
pub mod control;
pub mod expressions;
pub mod extract;
pub mod rule;
pub mod styles;
pub mod summary;
pub mod trace;
pub mod units;
pub mod view;
