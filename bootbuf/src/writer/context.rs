//! What a thread's chunk says of the thread, for filters: they must not enter the kernel to ask.

use core::sync::atomic::Ordering;

use super::exchange::{self, Chunk, reserve};
use super::thread::Stream;
use crate::abi::{ChunkCtl, RECORD_HEADER};

/// What filters may ask of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Process id, in the initial namespace as all of these.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// User id.
    pub uid: u32,
    /// The thread's name, NUL-padded.
    pub comm: [u8; 16],
    /// The trace clock ...
    clock: u32,
    /// ... and its ticks in a second.
    freq_hz: u64,
}

/// What the thread's chunks say. Without one, a chunk for records is asked for, or with `cells` one for
/// aggregations. `None` when there is none to be had; what writes next finds that out by itself.
#[cold]
#[inline(never)]
pub fn context(cells: bool) -> Option<Context> {
    let streams = [Stream::Records, Stream::Cells];
    let present = streams.iter().find_map(|stream| Context::of(*stream));
    if present.is_some() {
        return present;
    }
    let stream = if cells {
        Stream::Cells
    } else {
        Stream::Records
    };
    let writer = stream.writer();
    if writer.skip.load(Ordering::Relaxed) != 0 {
        return None;
    }
    let base = writer.base.load(Ordering::Relaxed);
    let next = reserve(stream, base, RECORD_HEADER, 0).ok()?;
    writer.base.store(next, Ordering::Relaxed);
    Context::of(stream)
}

impl Context {
    /// `None` in a chunk that is not to be written: there is none, it is sealed, or was wiped by fork.
    fn of(stream: Stream) -> Option<Self> {
        let chunk = Chunk::of(stream.writer());
        if chunk.room() == 0 {
            return None;
        }
        let ctl = chunk.start().cast::<ChunkCtl>();
        // SAFETY: a chunk begins with a ChunkCtl, and stays readable while the thread lives. The kernel
        // may change uid and name meanwhile: the reads are volatile and of whole words, each of
        // which is old or new.
        let context = unsafe {
            let comm = (&raw const (*ctl).comm).cast::<[u64; 2]>().read_volatile();
            Self {
                pid: (&raw const (*ctl).pid).read_volatile(),
                tid: (&raw const (*ctl).tid).read_volatile(),
                uid: (&raw const (*ctl).uid).read_volatile(),
                comm: zerocopy::transmute!(comm),
                clock: (&raw const (*ctl).clock).read_volatile(),
                freq_hz: (&raw const (*ctl).freq_hz).read_volatile(),
            }
        };
        // A handler that forks leaves zeros to the child.
        (chunk.room() != 0).then_some(context)
    }

    /// A reading of the trace clock; `None` when the kernel refuses.
    pub fn now(&self) -> Option<u64> {
        exchange::now(self.clock)
    }

    /// Nanoseconds between two readings of the clock.
    pub fn ns_between(&self, earlier: u64, later: u64) -> u64 {
        let ticks = u128::from(later.saturating_sub(earlier));
        let ns = ticks * 1_000_000_000 / u128::from(self.freq_hz.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}
