//! `cargo xtask fuzz packets`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bootmark_fuzz::packets::run(data);
});
