//! `cargo xtask fuzz elf-tools`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bootmark_fuzz::elf_tools::run(data);
});
