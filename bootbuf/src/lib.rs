//! Boot-time trace buffers: what threads write, what the kernel keeps, and how both are read.
//!
//! | module | who uses it |
//! | --- | --- |
//! | [`abi`] | everybody: the bytes |
//! | [`writer`] | traced programs, through the `markers` crate |
//! | [`reader`] | tools: packets, records and the meta stream, from bytes that nobody vouches for |
//! | [`sys`] | both: the three system calls |
//!
//! `no_std`; the writer allocates nothing. Linux on x86-64 only.
#![cfg_attr(not(any(test, feature = "stand-in")), no_std)]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("bootbuf is for x86_64-unknown-linux-gnu");

pub mod abi;
pub mod reader;
#[cfg(feature = "stand-in")]
pub mod stand_in;
pub mod sys;
pub mod writer;

pub use writer::cell::{Change, aggregate};
pub use writer::context::{Context, context};
pub use writer::{Claim, claim, claim_fast, claim_slow};
