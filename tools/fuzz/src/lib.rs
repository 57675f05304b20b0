//! What the fuzz targets do with their octets. Each target is a function here, so that the programs with
//! libFuzzer (`fuzz_targets/`) and the tests over the corpus (`tests/corpus.rs`) run the same.
//!
//! A target panics when something is wrong. It returns how much of its input made sense, by which the
//! tests see that a corpus still reaches what it is there for.

mod dump;
pub mod elf_tools;
pub mod packets;
pub mod pool;
pub mod reading;
pub mod rules;
pub mod trace;

/// What runs an input.
pub type Target = fn(&[u8]) -> u64;

/// All targets by name.
pub const TARGETS: [(&str, Target); 5] = [
    ("packets", packets::run),
    ("trace", trace::run),
    ("pool", pool::run),
    ("elf-tools", elf_tools::run),
    ("rules", rules::run),
];
