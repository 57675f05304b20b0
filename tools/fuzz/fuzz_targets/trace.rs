//! `cargo xtask fuzz trace`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bootmark_fuzz::trace::run(data);
});
