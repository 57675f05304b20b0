//! Static markers: descriptors in a dedicated ELF section that the kernel turns on and off.
#![cfg_attr(not(test), no_std)]

pub mod abi;
