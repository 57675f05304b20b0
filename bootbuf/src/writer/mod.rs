//! Writing an event: claim room in the thread's chunk, fill in the payload, commit.
//!
//! A claim is a compare-and-exchange of the record's own first word, from zero to id and length.
//! Three things follow from the word being the claim:
//!
//! - A signal handler that writes events between any two instructions here does no harm: either its
//!   exchange comes first and ours fails, or ours is done and it steps over our record. One thread
//!   writes a chunk, so the exchange needs no `lock` prefix: an interrupt cannot split an
//!   instruction.
//! - A thread that is killed between claim and commit leaves a record with a length that a reader
//!   steps over. It alone is lost.
//! - The position in [`ChunkCtl`] is a hint that may lag. It is stored after the claim; who is interrupted
//!   in between and finds it moved by the handler puts it back, and the next claim steps over.
//!
//! The clock is read before the claim. If the claim succeeds, nobody wrote in between, so time-stamps
//! never go backwards along a chunk; if it fails, the clock is read again.
//!
//! `limit` says whether there is room: it is 0 when the chunk is sealed, was wiped by fork, or wants
//! another clock. A handler may have the chunk sealed between that look and the claim. So the seal puts
//! a word that is no record ([`WORD_END`](crate::abi::WORD_END)) behind the last record that it counts
//! in: a claim made before the seal is counted in, whenever it is committed (sealed chunks stay mapped),
//! and one made after it fails.
//!
//! fork in the middle (in a handler) leaves the child with a private page of zeros in place of the
//! chunk: it either sees `limit` 0 and asks for its own, or ends a write that nobody reads.

pub mod cell;
pub mod context;
mod exchange;
mod thread;

use core::arch::asm;
use core::arch::x86_64::_rdtsc;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::abi::{ChunkCtl, MAX_RECORD, RECORD_HEADER, WORD_COMMITTED, WORD_LEN_SHIFT};

/// A record that is claimed and not committed yet. Dropping it leaves a torn record, which readers
/// step over and count.
#[must_use = "an event that is not committed is lost"]
#[derive(Debug)]
pub struct Claim {
    record: NonNull<u8>,
    word: u64,
    timestamp: u64,
}

impl Claim {
    /// Where the payload goes: as many octets as were claimed, less [`RECORD_HEADER`], all zero and
    /// the caller's to write until [`commit`](Self::commit). Aligned to 8.
    #[inline(always)]
    pub fn payload(&mut self) -> *mut u8 {
        // SAFETY: a record is at least RECORD_HEADER long, so this stays in it or just behind.
        unsafe { self.record.as_ptr().add(RECORD_HEADER) }
    }

    /// The record's time-stamp: a raw reading of the trace clock, never 0 in practice.
    #[inline(always)]
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// Makes the record count.
    #[inline(always)]
    pub fn commit(self) {
        // SAFETY: the claim gave this thread the record, whose first 8 octets are the aligned word.
        // Release order makes the payload visible first, to a handler, to the extractor on another
        // CPU, and to whoever reads memory after a crash.
        unsafe {
            AtomicU64::from_ptr(self.record.as_ptr().cast())
                .store(self.word | WORD_COMMITTED, Ordering::Release);
        }
    }
}

/// Claims a record of `len` octets, [`RECORD_HEADER`] included, for event `id`. `None` when there is
/// no room or `len` is out of range: the event is lost, and counted where the kernel can know of it.
///
/// May be called anywhere, in signal handlers too. Makes no system call except when a chunk is full,
/// and leaves `errno` alone.
#[inline(always)]
pub fn claim(id: u32, len: usize) -> Option<Claim> {
    match claim_fast(id, len) {
        None => claim_slow(id, len),
        claimed => claimed,
    }
}

/// The part of [`claim`] that is worth inlining: it calls nothing. After `None` it is up to the caller
/// to call [`claim_slow`].
#[inline(always)]
pub fn claim_fast(id: u32, len: usize) -> Option<Claim> {
    if !fits_a_record(len) {
        return None;
    }
    let chunk = thread::base();
    // SAFETY: `base` points to a chunk or to NO_CHUNK, both of which hold a ChunkCtl for as long as
    // the thread lives.
    let (pos, limit) = unsafe { (position(chunk), limit(chunk)) };
    let at = pos.load(Ordering::Relaxed) as usize;
    let end = at + padded(len);
    if end > limit.load(Ordering::Relaxed) as usize {
        return None;
    }
    // SAFETY: `limit` is the size of the chunk when it is not 0, and `end` is at most that.
    let record = unsafe { chunk.cast::<u8>().cast_mut().add(at) };
    let word = word(id, len);
    // SAFETY: RDTSC is allowed: the kernel sets `limit` only when the TSC is the trace clock.
    let timestamp = unsafe { _rdtsc() };
    // SAFETY: the word lies in the chunk and is aligned: positions are multiples of 8.
    if unsafe { exchange_word(record, 0, word) } != 0 {
        return None;
    }
    pos.store(end as u32, Ordering::Relaxed);
    // SAFETY: 8 octets behind the word, inside the claimed record.
    unsafe { record.add(8).cast::<u64>().write(timestamp) };
    // SAFETY: an address inside a chunk is not null.
    let record = unsafe { NonNull::new_unchecked(record) };
    Some(Claim {
        record,
        word,
        timestamp,
    })
}

/// [`claim`] for when [`claim_fast`] had nothing to offer.
#[inline(always)]
pub fn claim_slow(id: u32, len: usize) -> Option<Claim> {
    let (record, timestamp) = exchange::claim(id, len)?;
    // Read back rather than kept, so that the code around has one register less to save.
    // SAFETY: the record was just claimed; its word is aligned.
    let word = unsafe { record.cast::<u64>().read_volatile() };
    Some(Claim {
        record,
        word,
        timestamp,
    })
}

/// Address and time-stamp of a claimed record: what fits into the registers that a function returns.
type Claimed = (NonNull<u8>, u64);

#[inline(always)]
fn fits_a_record(len: usize) -> bool {
    len.wrapping_sub(RECORD_HEADER) <= MAX_RECORD - RECORD_HEADER
}

/// A record's first word before it is committed.
#[inline(always)]
fn word(id: u32, len: usize) -> u64 {
    u64::from(id) | (len as u64) << WORD_LEN_SHIFT
}

/// Octets from a record to the next.
#[inline(always)]
fn padded(len: usize) -> usize {
    (len + 7) & !7
}

/// Puts `new` where `old` is, and returns what was there. Atomic for this thread and its signal
/// handlers only, which is all that may write a chunk.
///
/// # Safety
///
/// `word` must be valid for reads and writes and aligned to 8.
#[inline(always)]
unsafe fn exchange_word(word: *mut u8, old: u64, new: u64) -> u64 {
    let seen;
    // SAFETY: the caller's promise; the instruction touches nothing else. The compiler must not move
    // accesses to memory across it, which it does not as nothing says `nomem`.
    unsafe {
        asm!(
            "cmpxchg qword ptr [{word}], {new}",
            word = in(reg) word,
            new = in(reg) new,
            inout("rax") old => seen,
            options(nostack),
        );
    }
    seen
}

/// # Safety
///
/// `chunk` must point to a [`ChunkCtl`] that stays readable while the reference lives.
#[inline(always)]
unsafe fn position<'a>(chunk: *const ChunkCtl) -> &'a AtomicU32 {
    // SAFETY: the caller's promise. Writes go through it only after a check of `limit` or `size`,
    // which are 0 where the memory is read-only.
    unsafe { AtomicU32::from_ptr((&raw const (*chunk).pos).cast_mut()) }
}

/// # Safety
///
/// As for [`position`].
#[inline(always)]
unsafe fn limit<'a>(chunk: *const ChunkCtl) -> &'a AtomicU32 {
    // SAFETY: the caller's promise.
    unsafe { AtomicU32::from_ptr((&raw const (*chunk).limit).cast_mut()) }
}
