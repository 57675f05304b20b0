//! `cargo xtask fuzz rules`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bootmark_fuzz::rules::run(data);
});
