//! The loops that are measured. Each counts in a register that the compiler must not reason about; what
//! is done inside is the only difference.

use core::arch::asm;
use core::arch::x86_64::_rdtsc;

use markers::marker;

/// Makes the compiler believe that `value` is used, at no cost.
#[inline(always)]
fn consume(value: u64) {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", in(reg) value, options(nomem, nostack, preserves_flags)) };
}

/// Nothing.
#[inline(never)]
pub(crate) fn empty_loop(iterations: u32) {
    for i in 0..iterations {
        consume(u64::from(i));
    }
}

/// The clock that a record's time-stamp is read from.
#[inline(never)]
pub(crate) fn clock(iterations: u32) {
    for i in 0..iterations {
        consume(u64::from(i));
        // SAFETY: Linux allows RDTSC to every process that has not asked for the opposite.
        consume(unsafe { _rdtsc() });
    }
}

/// A marker that is off.
#[inline(never)]
pub(crate) fn disabled(iterations: u32, text: &str) {
    for i in 0..iterations {
        consume(u64::from(i));
        marker!("bench", "off", number: i32 = i as i32, text: str = text);
    }
}

/// A marker that is on.
#[inline(never)]
pub(crate) fn enabled(iterations: u32, text: &str) {
    for i in 0..iterations {
        consume(u64::from(i));
        marker!("bench", "event", number: i32 = i as i32, text: str = text);
    }
}

/// A marker whose rule has a filter that rejects every event.
#[cfg(not(feature = "stand-in"))]
#[inline(never)]
pub(crate) fn rejected(iterations: u32, text: &str) {
    for i in 0..iterations {
        consume(u64::from(i));
        marker!("bench", "rejected", number: i32 = i as i32, text: str = text);
    }
}

/// A marker whose rule has a filter that every event passes.
#[cfg(not(feature = "stand-in"))]
#[inline(never)]
pub(crate) fn passed(iterations: u32, text: &str) {
    for i in 0..iterations {
        consume(u64::from(i));
        marker!("bench", "passed", number: i32 = i as i32, text: str = text);
    }
}

/// A marker whose rule has actions.
#[cfg(not(feature = "stand-in"))]
#[inline(never)]
pub(crate) fn aggregated(iterations: u32, text: &str) {
    for i in 0..iterations {
        consume(u64::from(i));
        marker!("bench", "aggregated", number: i32 = i as i32, text: str = text);
    }
}

/// A marker between two instructions that do nothing and that the compiler never makes by itself, for
/// what lies between them to be looked at.
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn bootmark_bench_marker(number: i32) {
    fence_post();
    marker!("bench", "code", number: i32 = number);
    fence_post();
}

#[inline(always)]
fn fence_post() {
    // SAFETY: the instruction does nothing.
    unsafe { asm!("endbr64", options(nostack, preserves_flags)) };
}

/// Keeps [`bootmark_bench_marker`] in the program.
#[used]
static KEEP: extern "C" fn(i32) = bootmark_bench_marker;

/// Turns `bench:event` on, as the kernel would.
#[cfg(feature = "stand-in")]
pub(crate) fn turn_on() {
    use core::sync::atomic::Ordering;
    let id = markers::abi::FIRST_USER_ID << markers::abi::STATE_ID_SHIFT;
    for descriptor in markers::__private::BOOTMARK {
        if descriptor.name.starts_with(b"event\0") {
            let on = id | markers::abi::STATE_ENABLED;
            descriptor.state.store(on, Ordering::Relaxed);
        }
    }
}

/// Whether `bench:event` and `bench:off` are on.
#[cfg(not(feature = "stand-in"))]
pub(crate) fn states() -> (bool, bool) {
    use core::sync::atomic::Ordering;
    let mut on = (false, false);
    for descriptor in markers::__private::BOOTMARK {
        let state = descriptor.state.load(Ordering::Relaxed) != 0;
        on.0 |= state && descriptor.name.starts_with(b"event\0");
        on.1 |= state && descriptor.name.starts_with(b"off\0");
    }
    on
}

/// A marker that a rule turns on in many processes.
#[cfg(not(feature = "stand-in"))]
#[inline(never)]
pub(crate) fn fleet(number: i32) {
    marker!("bench", "fleet", number: i32 = number);
}

/// Where its state word is.
#[cfg(not(feature = "stand-in"))]
pub(crate) fn fleet_state() -> u64 {
    markers::__private::BOOTMARK
        .iter()
        .find(|descriptor| descriptor.name.starts_with(b"fleet\0"))
        .map_or(0, |descriptor| (&raw const descriptor.state) as u64)
}
