//! What the compiler asks of a library without `std`.

markers::without_std! {
    /// Nothing here panics; the dependencies could, in code that is never called from here.
    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        // SAFETY: traps, which ends the program.
        unsafe { core::arch::asm!("ud2", options(noreturn, nomem, nostack)) }
    }

    // The precompiled `core` names it in its unwind tables. Weak, in case the program has another Rust
    // library, and never called, as nothing unwinds through here.
    core::arch::global_asm!(
        ".weak rust_eh_personality",
        ".hidden rust_eh_personality",
        ".type rust_eh_personality, @function",
        "rust_eh_personality:",
        "ud2",
    );
}
