//! Boot-time trace buffers: what threads write, what the kernel keeps, and how both are read.
//!
//! `no_std`; the writer allocates nothing.
#![cfg_attr(not(test), no_std)]

pub mod abi;
