//! `cargo xtask fuzz pool`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bootmark_fuzz::pool::run(data);
});
