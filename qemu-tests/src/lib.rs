//! The host side of Bootmark: builds the patched kernel and the guest image,
//! boots them in QEMU and says how it went.
//!
//! | module | role |
//! | --- | --- |
//! | [`guest`] | one boot, described with a builder and run: what tests use |
//! | [`outcome`] | what came of it |
//! | [`kernel`] | the kernel, from Debian's source to a cached `bzImage` |
//! | [`programs`] | the programs that go into the guest |
//! | [`image`] | initramfs and ext4 root image, made without root and without loop mounts |
//! | [`qemu`] | the machine: command line, console, and the end of a run |
//! | [`results`] | what a guest left on its disk, and the directory it goes to |
//! | [`setup`] | the Debian packages all this needs |
//! | [`bench`] | what markers cost, beside LTTng-UST |
//! | [`fuzz`] | hostile input for what reads, on the host |
//! | [`lint`] | formatting, clippy, checkpatch, kernel-doc and sparse |
//! | [`ktap`] | what KUnit reports on the console |
//! | [`attack`] | attacks on the kernel part in the guest, and what must be true afterwards |
//! | [`paths`], [`digest`], [`lock`], [`process`], [`progress`] | small tools of the above |
//!
//! `cargo xtask` (`src/main.rs`) is a thin command line over these.

pub mod attack;
pub mod bench;
pub mod digest;
pub mod fuzz;
pub mod guest;
pub mod image;
pub mod kernel;
pub mod ktap;
pub mod lint;
pub mod lock;
pub mod outcome;
pub mod paths;
pub mod process;
pub mod programs;
pub mod progress;
pub mod qemu;
pub mod reading;
pub mod results;
pub mod setup;
