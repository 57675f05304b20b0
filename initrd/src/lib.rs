//! What Bootmark's two inits are made of: `bootmark-init`, PID 1 of the initramfs, and
//! `bootmark-stage2`, `/sbin/init` of the demo image. See docs/boot.md.
//!
//! Everything that decides (command line, `root=`, superblocks, services) is plain code that takes
//! values and is tested on the build machine; what only PID 1 can do stands in modules of its own.

pub mod blockdev;
pub mod cmdline;
pub mod console;
pub mod emergency;
pub mod failure;
pub mod leaks;
pub mod mounts;
pub mod newinit;
pub mod options;
pub mod panic_after;
pub mod partition;
pub mod power;
pub mod rootdev;
pub mod rootfs;
pub mod service;
pub mod signals;
pub mod superblock;
pub mod switch;
pub mod trace;
