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
#[inline(never)]
pub(crate) fn rejected(iterations: u32, text: &str) {
    for i in 0..iterations {
        consume(u64::from(i));
        marker!("bench", "rejected", number: i32 = i as i32, text: str = text);
    }
}

/// A marker whose rule has a filter that every event passes.
#[inline(never)]
pub(crate) fn passed(iterations: u32, text: &str) {
    for i in 0..iterations {
        consume(u64::from(i));
        marker!("bench", "passed", number: i32 = i as i32, text: str = text);
    }
}

/// A marker whose rule has actions.
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

/// The texts of slots 1, 2 and 3, and the markers that have them.
#[cfg(feature = "stand-in")]
const SLOTS: [(&str, &str); 3] = [
    ("rejected\0", "/number<0/"),
    ("passed\0", "/number>=0/"),
    ("aggregated\0", "{count(),hist(number)}"),
];

/// Turns the markers that are measured on, as the kernel would.
#[cfg(feature = "stand-in")]
pub(crate) fn turn_on() {
    use core::sync::atomic::Ordering;
    use markers::abi::{FIRST_USER_ID, STATE_ENABLED, STATE_ID_SHIFT, STATE_SLOT_SHIFT};
    bootbuf::stand_in::answer_marker_ctl(slot_text);
    for descriptor in markers::__private::BOOTMARK {
        let slot = SLOTS
            .iter()
            .position(|(name, _)| descriptor.name.starts_with(name.as_bytes()))
            .map_or(0, |index| index as u32 + 1);
        if slot != 0 || descriptor.name.starts_with(b"event\0") {
            let on = (FIRST_USER_ID + slot) << STATE_ID_SHIFT | slot << STATE_SLOT_SHIFT;
            descriptor
                .state
                .store(on | STATE_ENABLED, Ordering::Relaxed);
        }
    }
}

/// Gives the texts of slots, as the kernel would, and nothing else.
///
/// # Safety
///
/// As for [`bootbuf::sys::marker_ctl`].
#[cfg(feature = "stand-in")]
unsafe fn slot_text(op: u32, args: &mut [u8]) -> Result<usize, rustix::io::Errno> {
    use rustix::io::Errno;
    use zerocopy::FromBytes;
    let args = markers::abi::CtlArgs::mut_from_bytes(args).map_err(|_| Errno::INVAL)?;
    if op != markers::abi::CTL_SLOT_TEXT {
        return Err(Errno::NOSYS);
    }
    let (_, text) = SLOTS
        .get((args.id as usize).wrapping_sub(1))
        .ok_or(Errno::NOENT)?;
    if args.buf_size < text.len() as u64 {
        return Err(Errno::MSGSIZE);
    }
    // SAFETY: the caller names room of this size, which was just found to be enough; the text is
    // static and lies elsewhere.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr(), args.buf as *mut u8, text.len());
    }
    args.result = text.len() as u64;
    Ok(0)
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
