//! What a thread remembers between two events: for each of its two streams one pointer, and how often
//! to ask again.
//!
//! The pointers are thread-local without `std`. `#[thread_local]` is not stable, so the variable is
//! made by the assembler and reached with the initial-exec model: two loads, of which the linker
//! turns the first into a constant in a program. In a shared object it takes 32 octets of the room
//! that the loader keeps for such variables, `dlopen` included.

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32};

use crate::abi::{CELL_HINTS, CLOCK_NONE, ChunkCtl, RESERVE_AGGREGATE};

/// A chunk in which nothing fits, so that the hot path needs no check for null. It is never
/// written: everything that writes looks at `limit` and `size` first.
pub(super) static NO_CHUNK: ChunkCtl = ChunkCtl {
    pos: 0,
    limit: 0,
    size: 0,
    clock: CLOCK_NONE,
    lost: 0,
    pid: 0,
    tid: 0,
    uid: 0,
    reserved0: 0,
    comm: [0; 16],
    freq_hz: 0,
    hints: [0; CELL_HINTS],
};

/// A stream of a thread, each with its own chunks.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    /// Records of events.
    Records,
    /// Cells of aggregations.
    Cells,
}

impl Stream {
    /// What `bootbuf_reserve()` is to be asked with.
    pub fn flags(self) -> u64 {
        match self {
            Self::Records => 0,
            Self::Cells => RESERVE_AGGREGATE,
        }
    }

    /// The calling thread's variables for the stream. The reference must not outlive the call that
    /// asked for it.
    #[inline(always)]
    pub fn writer<'a>(self) -> &'a Writer {
        let thread = thread();
        match self {
            Self::Records => &thread.records,
            Self::Cells => &thread.cells,
        }
    }
}

/// The thread's own variables. [`base`] relies on what comes first.
#[repr(C)]
struct Thread {
    records: Writer,
    cells: Writer,
}

/// Its variables for one stream. Signal handlers of the thread change them too, so each is an
/// atomic; no other thread does.
#[repr(C)]
pub(super) struct Writer {
    /// The chunk this thread wrote to last, or [`NO_CHUNK`]. May be out of date: the chunk says so
    /// itself.
    pub base: AtomicPtr<ChunkCtl>,
    /// Events to lose before asking the kernel again.
    pub skip: AtomicU32,
    /// What `skip` was set to last.
    pub interval: AtomicU16,
    /// Not 0 when the last answer was neither a chunk nor `ENOSPC`.
    pub refused: AtomicU16,
}

// The name holds crate and version, so that two versions in one program do not clash.
macro_rules! symbol {
    () => {
        concat!(
            "__",
            env!("CARGO_CRATE_NAME"),
            "_",
            env!("CARGO_PKG_VERSION"),
            "_thread"
        )
    };
}

global_asm!(
    ".pushsection .tdata.bootbuf, \"awT\", @progbits",
    ".p2align 3",
    concat!(".globl ", symbol!()),
    concat!(".hidden ", symbol!()),
    concat!(".type ", symbol!(), ", @tls_object"),
    concat!(symbol!(), ":"),
    ".quad {no_chunk}",
    ".quad 0",
    ".quad {no_chunk}",
    ".quad 0",
    concat!(".size ", symbol!(), ", 32"),
    ".popsection",
    no_chunk = sym NO_CHUNK,
);

static_assertions::const_assert_eq!(size_of::<Thread>(), 32);

/// [`Writer::base`] of the calling thread's records.
#[inline(always)]
pub(super) fn base() -> *const ChunkCtl {
    let base: *const ChunkCtl;
    // SAFETY: the symbol is a thread-local pointer, set by the linker and by the slow path alone. Not
    // `pure`: a signal handler may change it between two calls.
    unsafe {
        asm!(
            concat!("mov {base}, qword ptr [rip + ", symbol!(), "@GOTTPOFF]"),
            "mov {base}, qword ptr fs:[{base}]",
            base = out(reg) base,
            options(nostack, readonly, preserves_flags),
        );
    }
    base
}

#[inline(always)]
fn thread<'a>() -> &'a Thread {
    let thread: *const Thread;
    // SAFETY: fs:[0] holds the address of the thread control block, from which the x86-64 ABI counts
    // thread-local offsets.
    unsafe {
        asm!(
            "mov {thread}, qword ptr fs:[0]",
            concat!("add {thread}, qword ptr [rip + ", symbol!(), "@GOTTPOFF]"),
            thread = out(reg) thread,
            options(nostack, readonly),
        );
    }
    // SAFETY: the variable lives as long as the thread, and holds only atomics.
    unsafe { &*thread }
}
