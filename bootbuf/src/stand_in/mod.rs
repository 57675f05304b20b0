//! Answers `bootbuf_reserve()` inside the process: for benchmarks and tests of the writer on a
//! kernel without the patch, and for nothing else.
//!
//! It keeps the promises that docs/records.md lists under "What the writer relies on": one open chunk
//! a thread, the seal, sizes that grow, memory that fork wipes, addresses that stay with their
//! thread, losses. It is not the kernel: no quotas, no processes, and a thread's end must be told with
//! [`seal_thread`].
//!
//! A call blocks signals with two system calls, for what a handler interrupts here is not a system
//! call as the real thing is. So an exchange costs about what a real one costs, or more.

mod pool;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::OnceLock;

use rustix::io::Errno;

use crate::abi::{
    CLOCK_TSC, MAX_RECORD, RECORD_HEADER, RESERVE_AGGREGATE, ReserveArgs, STREAM_AGGREGATE,
    STREAM_THREAD,
};
use pool::{Pool, Writer};

/// How the stand-in behaves.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Octets of the pool, rounded down to pages.
    pub pool: usize,
    /// When the pool is full, a thread gets its own oldest sealed chunk, zeroed, as a flight recorder
    /// would; otherwise `ENOSPC`.
    pub recycle: bool,
    /// [`CLOCK_TSC`] or [`CLOCK_BOOTTIME`](crate::abi::CLOCK_BOOTTIME).
    pub clock: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pool: 2 << 20,
            recycle: false,
            clock: CLOCK_TSC,
        }
    }
}

static CALLS: AtomicU64 = AtomicU64::new(0);
static REFUSAL: AtomicI32 = AtomicI32::new(0);

/// Starts anew with an empty pool. Open chunks are sealed first and what was not taken is dropped; the
/// old pool stays mapped, as threads may hold addresses in it.
pub fn install(config: Config) {
    let pool = Pool::new(config);
    with_pool(|slot| {
        if let Some(old) = slot {
            old.seal_all();
        }
        *slot = Some(pool);
    });
}

/// What the system call does, and returns.
pub fn reserve(args: &mut ReserveArgs) -> Result<(), Errno> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    match REFUSAL.load(Ordering::Relaxed) {
        0 => {}
        errno => return Err(Errno::from_raw_os_error(errno)),
    }
    let stream = match args.flags {
        0 => STREAM_THREAD,
        RESERVE_AGGREGATE => STREAM_AGGREGATE,
        _ => return Err(Errno::INVAL),
    };
    if !(RECORD_HEADER..=MAX_RECORD).contains(&(args.want as usize)) {
        return Err(Errno::INVAL);
    }
    let writer = Writer {
        thread: thread_key(),
        stream,
    };
    let result = with_pool(|slot| match slot {
        Some(pool) => pool.reserve(writer, args.chunk, args.lost),
        None => Err(Errno::NODEV),
    });
    args.base = result?;
    Ok(())
}

/// Seals the calling thread's chunks, as the kernel does when a thread ends; its addresses may go to
/// other threads from then on.
pub fn seal_thread() {
    with_pool(|slot| {
        if let Some(pool) = slot {
            pool.end_thread(thread_key());
        }
    });
}

/// Takes all sealed packets in the order of their seals, and frees their chunks: read and
/// acknowledge in one.
pub fn take_sealed() -> Vec<Vec<u8>> {
    with_pool(|slot| slot.as_mut().map(Pool::take_sealed).unwrap_or_default())
}

/// As [`take_sealed`], for who does not want to read: only zeroes the chunks. Returns how many
/// events have been lost in the packets freed so far.
pub fn free_sealed() -> u64 {
    with_pool(|slot| slot.as_mut().map_or(0, Pool::free_sealed))
}

/// Snapshots of the chunks that are open, as [`OPEN_PEEK`](crate::abi::OPEN_PEEK) gives them.
pub fn peek() -> Vec<Vec<u8>> {
    with_pool(|slot| slot.as_mut().map(|pool| pool.peek()).unwrap_or_default())
}

/// Calls answered since the program started.
pub fn calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

/// Sealed chunks that were used again unread.
pub fn recycled() -> u64 {
    with_pool(|slot| slot.as_ref().map_or(0, Pool::recycled))
}

/// What answers `marker_ctl()` instead of the kernel: the operation and the octets of its arguments,
/// as [`sys::marker_ctl`](crate::sys::marker_ctl) gets them, with its caller's promises.
pub type MarkerCtl = unsafe fn(u32, &mut [u8]) -> Result<usize, Errno>;

static MARKER_CTL: OnceLock<MarkerCtl> = OnceLock::new();

/// Answers `marker_ctl()` from now on, in the first call only. Without it the kernel is asked, as the
/// arguments' bytes are not this crate's.
pub fn answer_marker_ctl(answer: MarkerCtl) {
    MARKER_CTL.get_or_init(|| answer);
}

/// What answers instead of the kernel, if anything.
pub(crate) fn marker_ctl() -> Option<MarkerCtl> {
    MARKER_CTL.get().copied()
}

/// Makes every call fail with this error; `None` ends that.
pub fn refuse_with(errno: Option<Errno>) {
    REFUSAL.store(errno.map_or(0, Errno::raw_os_error), Ordering::Relaxed);
}

/// Tells threads apart that live at the same time: the address of the thread control block.
fn thread_key() -> usize {
    let key;
    // SAFETY: the x86-64 ABI has that address at fs:[0].
    unsafe {
        core::arch::asm!(
            "mov {key}, qword ptr fs:[0]",
            key = out(reg) key,
            options(nostack, readonly, preserves_flags, pure),
        );
    }
    key
}

struct Shared {
    held: AtomicBool,
    pool: UnsafeCell<Option<Pool>>,
}

// SAFETY: `pool` is touched under `held` only, see `with_pool`.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    held: AtomicBool::new(false),
    pool: UnsafeCell::new(None),
};

/// Runs `body` alone, with signals blocked so that no handler waits for the lock its own thread holds.
fn with_pool<T>(body: impl FnOnce(&mut Option<Pool>) -> T) -> T {
    let flags = stop_single_step();
    let old = block_signals();
    while SHARED.held.swap(true, Ordering::Acquire) {
        rustix::thread::sched_yield();
    }
    // SAFETY: `held` is ours, and this function is not entered again from `body` or from a handler.
    let result = body(unsafe { &mut *SHARED.pool.get() });
    SHARED.held.store(false, Ordering::Release);
    restore_signals(&old);
    restore_flags(flags);
    result
}

/// Clears the processor's trap flag, as the entry to the kernel does, and returns the flags before.
fn stop_single_step() -> u64 {
    let flags;
    // SAFETY: changes the trap flag only; the stack is used as the compiler expects.
    unsafe {
        core::arch::asm!(
            "pushfq",
            "mov {flags}, qword ptr [rsp]",
            "and qword ptr [rsp], ~0x100",
            "popfq",
            flags = out(reg) flags,
        );
    }
    flags
}

fn restore_flags(flags: u64) {
    // SAFETY: the flags came from `stop_single_step`.
    unsafe { core::arch::asm!("push {flags}", "popfq", flags = in(reg) flags) };
}

fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are initialised before they are read: one by sigfillset, the other, which is
    // plain data, by zeros.
    unsafe {
        let mut all = core::mem::zeroed();
        let mut old = core::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    }
}

fn restore_signals(old: &libc::sigset_t) {
    // SAFETY: the set came from `block_signals`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, core::ptr::null_mut()) };
}
