//! What happens when the hot path finds no room: step over what a signal handler wrote, read the
//! other clock, or ask the kernel for the next chunk.
//!
//! All of it may be interrupted by a handler that goes the same way, and ends up right: whichever of
//! the two asks second is told the thread's open chunk, and a `base` that is put back to an older chunk
//! leads here again, because that chunk is sealed.

use core::arch::x86_64::_rdtsc;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use rustix::io::Errno;

use super::thread::{NO_CHUNK, Stream, Writer};
use super::{Claimed, exchange_word, fits_a_record, limit, padded, position, word};
use crate::abi::{
    CELL_HINTS, CLOCK_BOOTTIME, ChunkCtl, HEADER_SIZE, LOST_TAKEN, MAX_CHUNK, RECORD_HEADER,
    ReserveArgs, WORD_COMMITTED, WORD_LEN_SHIFT,
};
use crate::sys;

/// Tries before an event is given up because handlers keep filling the chunks under it.
const TRIES: usize = 8;
/// Events that are lost in a full chunk before the kernel is asked again; doubles each time ...
const FIRST_INTERVAL: u16 = 64;
/// ... up to this.
const LAST_INTERVAL: u16 = 4096;

/// Claims a record with everything the hot path leaves out.
#[cold]
#[inline(never)]
pub(super) fn claim(id: u32, len: usize) -> Option<Claimed> {
    claim_in(Stream::Records, id, len)
}

/// Claims in either of the thread's streams.
pub(super) fn claim_in(stream: Stream, id: u32, len: usize) -> Option<Claimed> {
    if !fits_a_record(len) {
        // No record can have that length.
        lose(stream);
        return None;
    }
    let thread = stream.writer();
    for _ in 0..TRIES {
        let chunk = Chunk::of(thread);
        let base = chunk.base();
        if let Some(claimed) = chunk.claim(id, len) {
            return Some(claimed);
        }
        let open = chunk.room() != 0;
        let skip = thread.skip.load(Ordering::Relaxed);
        if skip != 0 && (open || thread.refused.load(Ordering::Relaxed) != 0) {
            thread.skip.store(skip - 1, Ordering::Relaxed);
            if open {
                lose(stream);
            }
            return None;
        }
        match reserve(stream, base, len, 0) {
            Ok(next) => {
                thread.base.store(next, Ordering::Relaxed);
                thread.skip.store(0, Ordering::Relaxed);
                thread.interval.store(0, Ordering::Relaxed);
                thread.refused.store(0, Ordering::Relaxed);
            }
            Err(Errno::NOSPC | Errno::NOMEM) if open => {
                back_off(thread, 0);
                lose(stream);
                return None;
            }
            Err(Errno::NOSPC | Errno::NOMEM) => {
                // No chunk to count in, and no later call can be relied on (the thread may end, or
                // fork), so the kernel is told at once.
                if let Ok(next) = reserve(stream, base, len, 1) {
                    thread.base.store(next, Ordering::Relaxed);
                }
                return None;
            }
            Err(_) => {
                // No patch, no pool, no permission: nobody to tell.
                back_off(thread, 1);
                Chunk::of(thread).count_lost();
                return None;
            }
        }
    }
    lose(stream);
    None
}

/// A reading of a chunk's clock.
pub(super) fn now(clock: u32) -> Option<u64> {
    if clock == CLOCK_BOOTTIME {
        sys::boottime_ns()
    } else {
        // SAFETY: the kernel says that the TSC is the trace clock, so it may be read.
        Some(unsafe { _rdtsc() })
    }
}

/// Counts an event that is given up: in the chunk, or by the kernel when there is none, perhaps since a
/// handler has seen it sealed a moment ago.
fn lose(stream: Stream) {
    let thread = stream.writer();
    let chunk = Chunk::of(thread);
    if !chunk.count_lost()
        && let Ok(next) = reserve(stream, chunk.base(), RECORD_HEADER, 1)
    {
        thread.base.store(next, Ordering::Relaxed);
    }
}

/// Asks the kernel for a chunk; `base` is the one used last.
pub(super) fn reserve(
    stream: Stream,
    base: *mut ChunkCtl,
    len: usize,
    lost: u32,
) -> Result<*mut ChunkCtl, Errno> {
    let chunk = if core::ptr::eq(base, &NO_CHUNK) {
        0
    } else {
        base as u64
    };
    let want = len as u32;
    let mut args = ReserveArgs {
        flags: stream.flags(),
        chunk,
        want,
        lost,
        ..ReserveArgs::default()
    };
    sys::reserve(&mut args)?;
    Ok(core::ptr::with_exposed_provenance_mut(args.base as usize))
}

/// Makes the next calls rarer.
fn back_off(thread: &Writer, refused: u16) {
    let interval = thread.interval.load(Ordering::Relaxed);
    let interval = interval
        .saturating_mul(2)
        .clamp(FIRST_INTERVAL, LAST_INTERVAL);
    thread.interval.store(interval, Ordering::Relaxed);
    thread.refused.store(refused, Ordering::Relaxed);
    thread
        .skip
        .store(u32::from(interval) - 1, Ordering::Relaxed);
}

/// A chunk as this thread sees it; the kernel may seal it at any system call.
pub(super) struct Chunk<'a> {
    start: *mut u8,
    pos: &'a AtomicU32,
    limit: &'a AtomicU32,
    size: &'a AtomicU32,
    clock: &'a AtomicU32,
    lost: &'a AtomicU64,
}

impl Chunk<'_> {
    /// # Safety
    ///
    /// `ctl` must point to a chunk or to [`NO_CHUNK`], which stay readable while the thread lives.
    unsafe fn new(ctl: *mut ChunkCtl) -> Self {
        // SAFETY: the caller's promise; the references are written to only where `room` is not 0,
        // which it never is in NO_CHUNK.
        unsafe {
            Self {
                start: ctl.cast(),
                pos: position(ctl),
                limit: limit(ctl),
                size: AtomicU32::from_ptr(&raw mut (*ctl).size),
                clock: AtomicU32::from_ptr(&raw mut (*ctl).clock),
                lost: AtomicU64::from_ptr(&raw mut (*ctl).lost),
            }
        }
    }

    /// The chunk that the stream wrote to last.
    pub fn of(writer: &Writer) -> Self {
        // SAFETY: `base` always points to a chunk or to NO_CHUNK.
        unsafe { Self::new(writer.base.load(Ordering::Relaxed)) }
    }

    fn base(&self) -> *mut ChunkCtl {
        self.start.cast()
    }

    /// The hint of this number; not to be written where [`room`](Self::room) is 0.
    pub fn hint(&self, number: usize) -> &AtomicU16 {
        // SAFETY: `start` points to a ChunkCtl, see `new`, and the number is made to fit.
        unsafe {
            let hints = (&raw mut (*self.base()).hints).cast::<u16>();
            AtomicU16::from_ptr(hints.add(number % CELL_HINTS))
        }
    }

    /// Where its octets are, as many as [`room`](Self::room) says.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Where the chunk ends; 0 when it is not to be written.
    pub fn room(&self) -> u32 {
        let limit = self.limit.load(Ordering::Relaxed);
        let room = if limit == 0 && self.uses_boottime() {
            self.size.load(Ordering::Relaxed)
        } else {
            limit
        };
        if room as usize <= MAX_CHUNK { room } else { 0 }
    }

    fn uses_boottime(&self) -> bool {
        self.clock.load(Ordering::Relaxed) == CLOCK_BOOTTIME
    }

    /// Claims behind whatever is there already. `None`: no room, sealed, or no clock.
    fn claim(&self, id: u32, len: usize) -> Option<Claimed> {
        let hint = self.pos.load(Ordering::Relaxed);
        let mut at = hint.max(HEADER_SIZE as u32) & !7;
        // Ends: each turn moves `at` on by 16 at least.
        loop {
            let room = self.room();
            // The position may be anything in a program that scribbles over its chunk.
            let Some(end) = at
                .checked_add(padded(len) as u32)
                .filter(|end| *end <= room)
            else {
                if room != 0 && at > hint {
                    // So that the next one need not walk here again.
                    self.pos.store(at, Ordering::Relaxed);
                }
                return None;
            };
            let timestamp = now(self.clock.load(Ordering::Relaxed))?;
            let word = word(id, len);
            // SAFETY: `end` is at most the size of the chunk, positions are multiples of 8.
            let record = unsafe { self.start.add(at as usize) };
            // SAFETY: as above.
            let seen = unsafe { exchange_word(record, 0, word) };
            if seen == 0 {
                self.pos.store(end, Ordering::Relaxed);
                // SAFETY: 8 octets behind the word, inside the claimed record.
                unsafe { record.add(8).cast::<u64>().write(timestamp) };
                return NonNull::new(record).map(|record| (record, timestamp));
            }
            let len = (seen & !WORD_COMMITTED) >> WORD_LEN_SHIFT;
            if len < RECORD_HEADER as u64 || len > u64::from(room - at) {
                // Not a record, so the end of the chunk: nothing behind it would be found. A
                // program that scribbles over its chunk loses what it scribbled over, no more.
                return None;
            }
            at += padded(len as usize) as u32;
        }
    }

    /// Adds one to the events that found no room; `false` in a chunk that is not open.
    fn count_lost(&self) -> bool {
        let add = |lost: u64| (lost != LOST_TAKEN).then(|| lost.wrapping_add(1));
        self.room() != 0
            && self
                .lost
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
                .is_ok()
    }
}
