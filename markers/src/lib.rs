//! Static markers: places in a program that the kernel can turn on, in every process, from its command
//! line or while it runs, and that cost two instructions while they are off.
//!
//! ```
//! use markers::{marker, span};
//!
//! # fn mount(_: &str, _: u64) -> Result<(), std::io::Error> { Ok(()) }
//! fn mount_run() -> Result<(), std::io::Error> {
//!     let mut span = span!("init", "mount", target: str = "/run", flags: u64 [hex] = 6);
//!     span.result(mount("/run", 6))
//! }
//!
//! marker!("init", "start", args: u32 = std::env::args().count() as u32);
//! # mount_run().unwrap();
//! ```
//!
//! Each marker is a descriptor ([`abi::Descriptor`]) in the section `linkme_BOOTMARK` of the file that
//! holds it. The kernel reads the descriptors from the file when it is executed or mapped, and turns a
//! marker on by writing its state word. On a kernel without Bootmark nothing ever does: there is
//! nothing to initialise, and nothing to fail.
//!
//! The crate is `no_std`, allocates nothing and starts nothing. Features:
//!
//! - `std` (the default) takes the errno of `std::io::Error`;
//! - `c` adds what `bootmark.h` calls, for the parts in C of a Rust program;
//! - `dylib` makes markers work in crates that are linked as a Rust dylib (a cdylib needs nothing): the
//!   statics of a dylib may be those of another module, which two instructions cannot reach;
//! - `elf` reads markers from ELF files, for tools.
#![cfg_attr(not(any(feature = "std", test)), no_std)]

// The examples of the documentation name the crate as users do.
#[cfg(test)]
extern crate self as markers;

pub mod abi;
#[cfg(feature = "c")]
pub mod c;
pub mod decode;
mod descriptor;
#[cfg(feature = "elf")]
pub mod elf;
mod emit;
mod filter;
pub mod handler;
mod macros;
mod note;
mod span;
#[doc(hidden)]
pub mod value;

pub use span::{EIO, ErrorNumber, Span};

/// All descriptors of the module that this copy of the crate is linked into.
#[doc(hidden)]
#[linkme::distributed_slice]
pub static BOOTMARK: [abi::Descriptor];

/// What the macros expand to; not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use crate::BOOTMARK;
    pub use crate::descriptor::{FieldSpec, SPAN_END_FIELDS, Spec, descriptor};
    pub use crate::emit::{STATE_OFFSET, emit};
    pub use crate::value;
    pub use linkme;
}
