//! The stand-in's memory, its chunks and their owners.
//!
//! Nothing here allocates while a chunk is handed out: the caller may be a signal handler that
//! interrupted the allocator.

use core::arch::x86_64::_rdtsc;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use zerocopy::{FromZeros, IntoBytes};

use super::Config;
use crate::abi::{
    CELL_HINTS, CLOCK_TSC, CTF_MAGIC, ChunkCtl, HEADER_SIZE, LOST_TAKEN, MIN_CHUNK, PacketHeader,
    RECORD_ALIGN, RECORD_HEADER, SEAL_EXIT, SEAL_FULL, SEAL_OPEN, WORD_COMMITTED, WORD_END,
    WORD_LEN_SHIFT,
};

/// Octets of a thread's first chunk, its second, and all others.
const SIZES: [usize; 3] = [4096, 16384, 65536];
/// Threads at most, at a time.
const MAX_THREADS: usize = 1024;
/// What the first page holds as long as fork has not wiped it.
const ALIVE: u64 = 0x616c_6976_6521;

/// One of the streams of a thread. What one was handed never goes to the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Writer {
    /// Key of the thread, 0 when that has ended.
    pub thread: usize,
    /// [`STREAM_THREAD`](crate::abi::STREAM_THREAD) or
    /// [`STREAM_AGGREGATE`](crate::abi::STREAM_AGGREGATE).
    pub stream: u32,
}

#[derive(Clone, Copy)]
struct Chunk {
    offset: usize,
    size: usize,
    /// Whom its address was given to.
    owner: Writer,
    ts_begin: u64,
}

struct Sealed {
    header: PacketHeader,
    chunk: Chunk,
}

struct Thread {
    writer: Writer,
    instance: u64,
    open: Option<Chunk>,
    handed_out: usize,
    seq: u64,
    discarded: u64,
}

pub(super) struct Pool {
    config: Config,
    memory: *mut u8,
    used: usize,
    free: Vec<Chunk>,
    threads: Vec<Thread>,
    sealed: VecDeque<Sealed>,
    streams: u64,
    seal_seq: u64,
    recycled: u64,
}

// SAFETY: the pointer is to memory that the pool alone manages, and that never goes away.
unsafe impl Send for Pool {}

impl Pool {
    pub(super) fn new(config: Config) -> Self {
        let pages = config.pool / MIN_CHUNK;
        let len = (pages + 1) * MIN_CHUNK;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping where the kernel likes it.
        let memory = unsafe {
            let memory = mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)
                .expect("memory for the stand-in's pool");
            madvise(memory, len, Advice::LinuxWipeOnFork).expect("fork wipes the pool");
            memory.cast::<u8>()
        };
        let mut pool = Self {
            config,
            memory,
            used: MIN_CHUNK,
            free: Vec::with_capacity(pages),
            threads: Vec::with_capacity(MAX_THREADS),
            sealed: VecDeque::with_capacity(pages),
            streams: 0,
            seal_seq: 0,
            recycled: 0,
        };
        pool.alive().store(ALIVE, Ordering::Relaxed);
        pool
    }

    fn alive(&mut self) -> &AtomicU64 {
        // SAFETY: the first page is never handed out.
        unsafe { AtomicU64::from_ptr(self.memory.cast()) }
    }

    pub(super) fn recycled(&self) -> u64 {
        self.recycled
    }

    pub(super) fn reserve(&mut self, writer: Writer, chunk: u64, lost: u32) -> Result<u64, Errno> {
        if self.alive().load(Ordering::Relaxed) != ALIVE {
            self.forget_parent();
        }
        let index = self.thread(writer)?;
        self.threads[index].discarded += u64::from(lost);
        if let Some(open) = self.threads[index].open {
            let base = self.address(&open);
            if base != chunk {
                return Ok(base);
            }
        }
        let next = self.take_chunk(index).ok_or(Errno::NOSPC)?;
        self.seal(index, SEAL_FULL);
        self.open(index, next);
        Ok(self.address(&next))
    }

    pub(super) fn end_thread(&mut self, key: usize) {
        for index in 0..self.threads.len() {
            if self.threads[index].writer.thread == key {
                self.seal(index, SEAL_EXIT);
                self.threads[index].writer.thread = 0;
            }
        }
        let chunks = self.sealed.iter_mut().map(|sealed| &mut sealed.chunk);
        for chunk in self
            .free
            .iter_mut()
            .chain(chunks)
            .filter(|chunk| chunk.owner.thread == key)
        {
            chunk.owner.thread = 0;
        }
    }

    pub(super) fn seal_all(&mut self) {
        for index in 0..self.threads.len() {
            self.seal(index, SEAL_EXIT);
        }
    }

    pub(super) fn take_sealed(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while let Some(Sealed { header, chunk }) = self.sealed.pop_front() {
            packets.push(self.packet(&header, &chunk));
            self.wipe(&chunk);
            self.free.push(chunk);
        }
        packets
    }

    pub(super) fn free_sealed(&mut self) -> u64 {
        while let Some(Sealed { chunk, .. }) = self.sealed.pop_front() {
            self.wipe(&chunk);
            self.free.push(chunk);
        }
        self.threads.iter().map(|thread| thread.discarded).sum()
    }

    pub(super) fn peek(&self) -> Vec<Vec<u8>> {
        let open = self
            .threads
            .iter()
            .filter_map(|thread| Some((thread, thread.open?)));
        open.map(|(thread, chunk)| {
            let end = self.chain_end(&chunk, HEADER_SIZE);
            self.packet(&self.header(thread, &chunk, end, SEAL_OPEN), &chunk)
        })
        .collect()
    }

    fn thread(&mut self, writer: Writer) -> Result<usize, Errno> {
        let mut threads = self.threads.iter();
        if let Some(index) = threads.position(|thread| thread.writer == writer) {
            return Ok(index);
        }
        let mut threads = self.threads.iter();
        let index = match threads.position(|thread| thread.writer.thread == 0) {
            Some(ended) => ended,
            None if self.threads.len() < MAX_THREADS => self.threads.len(),
            None => return Err(Errno::NOMEM),
        };
        self.streams += 1;
        let instance = self.streams;
        let new = Thread {
            writer,
            instance,
            open: None,
            handed_out: 0,
            seq: 0,
            discarded: 0,
        };
        if index == self.threads.len() {
            self.threads.push(new);
        } else {
            self.threads[index] = new;
        }
        Ok(index)
    }

    /// A chunk for the thread: its own freed ones first, then fresh memory, each as large as its turn
    /// allows, and in the end what it wrote longest ago.
    fn take_chunk(&mut self, index: usize) -> Option<Chunk> {
        let Thread {
            writer, handed_out, ..
        } = self.threads[index];
        let ended = Writer {
            thread: 0,
            ..writer
        };
        for &size in SIZES[..=handed_out.min(SIZES.len() - 1)].iter().rev() {
            let fits = |chunk: &Chunk| chunk.size == size && [ended, writer].contains(&chunk.owner);
            if let Some(found) = self.free.iter().position(fits) {
                return Some(self.free.swap_remove(found));
            }
            if self.used + size <= (self.config.pool / MIN_CHUNK + 1) * MIN_CHUNK {
                let chunk = Chunk {
                    offset: self.used,
                    size,
                    owner: writer,
                    ts_begin: 0,
                };
                self.used += size;
                return Some(chunk);
            }
        }
        if !self.config.recycle {
            return None;
        }
        let oldest = self
            .sealed
            .iter()
            .position(|sealed| sealed.chunk.owner == writer)?;
        let Sealed { chunk, .. } = self.sealed.remove(oldest)?;
        self.wipe(&chunk);
        self.recycled += 1;
        Some(chunk)
    }

    fn open(&mut self, index: usize, mut chunk: Chunk) {
        let thread = &mut self.threads[index];
        chunk.owner = thread.writer;
        chunk.ts_begin = now(self.config.clock);
        thread.handed_out += 1;
        thread.open = Some(chunk);
        let size = chunk.size as u32;
        let limit = if self.config.clock == CLOCK_TSC {
            size
        } else {
            0
        };
        let ctl = ChunkCtl {
            pos: HEADER_SIZE as u32,
            limit,
            size,
            clock: self.config.clock,
            lost: 0,
            pid: std::process::id(),
            tid: rustix::thread::gettid().as_raw_pid() as u32,
            uid: rustix::process::getuid().as_raw(),
            reserved0: 0,
            comm: *b"stand-in\0\0\0\0\0\0\0\0",
            freq_hz: 1_000_000_000,
            hints: [0; CELL_HINTS],
        };
        // SAFETY: the chunk lies in the pool, and its thread is here, not writing.
        unsafe { self.ctl(&chunk).write(ctl) };
    }

    fn seal(&mut self, index: usize, seal: u8) {
        let Some(chunk) = self.threads[index].open.take() else {
            return;
        };
        let ctl = self.ctl(&chunk);
        // SAFETY: the chunk lies in the pool. Its thread is here or has ended, so nobody writes.
        let before = unsafe { ctl.read() };
        let end = self.chain_end(&chunk, before.pos as usize);
        let after = ChunkCtl {
            limit: 0,
            size: 0,
            lost: LOST_TAKEN,
            ..before
        };
        // SAFETY: as above.
        unsafe { ctl.write(after) };
        if end < chunk.size {
            // SAFETY: as above, inside the chunk and aligned.
            unsafe { ctl.cast::<u8>().add(end).cast::<u64>().write(WORD_END) };
        }
        self.threads[index].discarded += before.lost;
        self.seal_seq += 1;
        let mut header = self.header(&self.threads[index], &chunk, end, seal);
        header.seal_seq = self.seal_seq;
        self.threads[index].seq += 1;
        self.sealed.push_back(Sealed { header, chunk });
    }

    /// Where the chain of records that goes on at `pos` ends; 8 octets aligned.
    fn chain_end(&self, chunk: &Chunk, pos: usize) -> usize {
        let mut at = pos.clamp(HEADER_SIZE, chunk.size) & !(RECORD_ALIGN - 1);
        while at + RECORD_HEADER <= chunk.size {
            // SAFETY: inside the chunk and aligned.
            let word = unsafe { AtomicU64::from_ptr(self.memory.add(chunk.offset + at).cast()) };
            let len = (word.load(Ordering::Acquire) & !WORD_COMMITTED) >> WORD_LEN_SHIFT;
            let next = at + (len as usize).next_multiple_of(RECORD_ALIGN);
            if len < RECORD_HEADER as u64 || next > chunk.size {
                break;
            }
            at = next;
        }
        at
    }

    fn header(&self, thread: &Thread, chunk: &Chunk, end: usize, seal: u8) -> PacketHeader {
        let mut header = PacketHeader::new_zeroed();
        header.magic = CTF_MAGIC;
        header.stream_id = thread.writer.stream;
        header.uuid = *b"bootmarkstand-in";
        header.stream_instance = thread.instance;
        header.ts_begin = chunk.ts_begin;
        header.ts_end = now(self.config.clock);
        header.content_bits = end as u64 * 8;
        header.packet_bits = end as u64 * 8;
        header.seq = thread.seq;
        header.discarded = thread.discarded;
        header.pid = std::process::id();
        header.comm[..8].copy_from_slice(b"stand-in");
        header.seal = seal;
        header.clock = self.config.clock as u8;
        header
    }

    fn packet(&self, header: &PacketHeader, chunk: &Chunk) -> Vec<u8> {
        let len = (header.packet_bits / 8) as usize;
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(header.as_bytes());
        for at in (HEADER_SIZE..len).step_by(8) {
            // SAFETY: inside the chunk and aligned; atomic, as an open chunk may be written meanwhile.
            let word = unsafe { AtomicU64::from_ptr(self.memory.add(chunk.offset + at).cast()) };
            bytes.extend_from_slice(&word.load(Ordering::Acquire).to_le_bytes());
        }
        bytes
    }

    fn wipe(&mut self, chunk: &Chunk) {
        // SAFETY: a sealed chunk in the pool.
        unsafe { self.memory.add(chunk.offset).write_bytes(0, chunk.size) };
    }

    fn forget_parent(&mut self) {
        self.alive().store(ALIVE, Ordering::Relaxed);
        self.used = MIN_CHUNK;
        self.free.clear();
        self.threads.clear();
        self.sealed.clear();
    }

    fn ctl(&self, chunk: &Chunk) -> *mut ChunkCtl {
        // SAFETY: the offset lies in the pool.
        unsafe { self.memory.add(chunk.offset).cast() }
    }

    fn address(&self, chunk: &Chunk) -> u64 {
        self.ctl(chunk).cast::<c_void>().expose_provenance() as u64
    }
}

fn now(clock: u32) -> u64 {
    if clock == CLOCK_TSC {
        // SAFETY: Linux allows RDTSC to every process that has not asked for the opposite.
        unsafe { _rdtsc() }
    } else {
        crate::sys::boottime_ns().unwrap_or(0)
    }
}
