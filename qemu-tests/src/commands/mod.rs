//! The commands of `cargo xtask`.

pub(crate) mod bench;
pub(crate) mod boot;
pub(crate) mod fuzz;
pub(crate) mod image;
pub(crate) mod kernel;
pub(crate) mod kernel_series;
pub(crate) mod lint;
pub(crate) mod panics;
pub(crate) mod test;
