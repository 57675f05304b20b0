//! `libbootmark.a`: the `markers` crate's part for C programs, `bootmark_write()` and call-backs, and the
//! writer, as a library for C compilers. The header is `markers/include/bootmark.h`;
//! `markers/tests/link_c.rs` builds programs against both.
//!
//! A release build (`cargo build --profile capi -p bootmark-capi`) leaves `std` out of the library: a C
//! program must not get Rust's start-up code. Builds that unwind, for tests and tools, have it, as the
//! compiler demands.
#![no_std]

#[cfg(panic = "unwind")]
extern crate std;

#[cfg(panic = "abort")]
mod freestanding;

pub use markers::c::*;
