//! Running code with the trap flag of the processor set: a handler's turn after the instruction that
//! is asked for.

use core::arch::asm;
use std::sync::atomic::{AtomicUsize, Ordering};

const TRAP_FLAG: i64 = 0x100;
/// A turn that does not come.
pub const NEVER: usize = usize::MAX;

static STEP: AtomicUsize = AtomicUsize::new(0);
static TURN: AtomicUsize = AtomicUsize::new(0);
/// A `fn()`, 0 for none.
static AT_TURN: AtomicUsize = AtomicUsize::new(0);
/// A `fn(usize)`, 0 for none.
static EACH: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_trap(
    _signal: libc::c_int,
    _info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
) {
    let step = STEP.fetch_add(1, Ordering::Relaxed) + 1;
    let each = EACH.load(Ordering::Relaxed);
    if each != 0 {
        // SAFETY: `step_through` stored such a function.
        let each: fn(usize) = unsafe { core::mem::transmute(each) };
        each(step);
    }
    if step == TURN.load(Ordering::Relaxed) {
        // SAFETY: as above.
        let at_turn: fn() = unsafe { core::mem::transmute(AT_TURN.load(Ordering::Relaxed)) };
        at_turn();
        if each == 0 {
            // SAFETY: the kernel passed the context, and takes the flags from it.
            unsafe { (*context).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG };
        }
    }
}

/// To be called once before [`step_through`].
pub fn catch_traps() {
    // SAFETY: the structure is plain data, filled in before the call reads it.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(
            libc::sigaction(libc::SIGTRAP, &action, core::ptr::null_mut()),
            0
        );
    }
}

/// Runs `body` with the trap flag set: a handler calls `at_turn` after instruction number `turn`, and
/// `each` after all of them. Returns how many there were, with neither `each` nor a turn to come only
/// up to the turn.
pub fn step_through(
    turn: usize,
    at_turn: fn(),
    each: Option<fn(usize)>,
    body: impl FnOnce(),
) -> usize {
    STEP.store(0, Ordering::Relaxed);
    TURN.store(turn, Ordering::Relaxed);
    AT_TURN.store(at_turn as usize, Ordering::Relaxed);
    EACH.store(each.map_or(0, |each| each as usize), Ordering::Relaxed);
    // SAFETY: sets the trap flag, for which there is a handler.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    body();
    // SAFETY: clears it.
    unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    STEP.load(Ordering::Relaxed)
}
