//! Aggregations: numbers that a thread keeps in a chunk of its own instead of writing records.
//!
//! A cell is a record that goes on changing after it was committed. It is found by a hint or by walking
//! along the chunk's records, made by a claim like any other, and changed by single instructions: one thread
//! writes a chunk, so none needs a `lock` prefix, and a signal handler that counts in the same cell
//! between two of them finds and leaves whole numbers.
//!
//! The number of events is added to last. So a cell that counts any has every value of at least one of
//! them, and one that counts none (its thread was killed before) means nothing.
//!
//! A cell that a handler finds claimed and not committed is passed over, and another one made beside
//! it: who reads them adds up all cells of one key, in whatever chunks.

use core::arch::asm;
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use zerocopy::transmute;

use super::exchange::{Chunk, claim_in};
use super::thread::Stream;
use super::{Claim, exchange_word, padded, word};
use crate::abi::{
    AGGREGATE_CELL, CELL_KEY_MAX, CELL_MAX_ACTIONS, Cell, HEADER_SIZE, HIST_BUCKETS, MAX_RECORD,
    RECORD_HEADER, WORD_COMMITTED, WORD_LEN_SHIFT,
};

/// Words of a cell between its record's word and its values: time-stamp and [`Cell`].
const HEAD_WORDS: usize = 3;
/// Words of the longest key.
const KEY_WORDS: usize = CELL_KEY_MAX / 8;

/// What one event does to the values of one action; see [`Cell`] for where they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Adds, wrapping.
    Sum(i64),
    /// Adds.
    SumF64(f64),
    /// Keeps the least.
    Min(i64),
    /// Keeps the least; what is not a number is passed over.
    MinF64(f64),
    /// Keeps the greatest.
    Max(i64),
    /// Keeps the greatest; what is not a number is passed over.
    MaxF64(f64),
    /// Counts in the value's [`bucket`].
    Hist(i64),
}

impl Change {
    /// Values that the action has in a cell.
    const fn width(&self) -> usize {
        match self {
            Self::Hist(_) => HIST_BUCKETS,
            _ => 1,
        }
    }

    /// What its value is before the first event.
    const fn neutral(&self) -> u64 {
        match self {
            Self::Sum(_) | Self::SumF64(_) | Self::Hist(_) => 0,
            Self::Min(_) => i64::MAX as u64,
            Self::MinF64(_) => f64::INFINITY.to_bits(),
            Self::Max(_) => i64::MIN as u64,
            Self::MaxF64(_) => f64::NEG_INFINITY.to_bits(),
        }
    }

    /// # Safety
    ///
    /// `value` must be the first of the action's values, in the thread's own chunk.
    unsafe fn apply(self, value: *mut u64) {
        // SAFETY: the caller's promise; a bucket is less than the action's width.
        unsafe {
            match self {
                Self::Sum(more) => add(value, more as u64),
                Self::SumF64(more) => {
                    revise(value, |old| Some((f64::from_bits(old) + more).to_bits()))
                }
                Self::Min(new) => revise(value, |old| (new < old as i64).then_some(new as u64)),
                Self::Max(new) => revise(value, |old| (new > old as i64).then_some(new as u64)),
                Self::MinF64(new) => revise(value, |old| {
                    (new < f64::from_bits(old)).then_some(new.to_bits())
                }),
                Self::MaxF64(new) => revise(value, |old| {
                    (new > f64::from_bits(old)).then_some(new.to_bits())
                }),
                Self::Hist(new) => add(value.add(bucket(new)), 1),
            }
        }
    }
}

/// The bucket of a histogram that a value counts in: 0 below 1, `n` from 2^(n-1) to 2^n - 1.
pub const fn bucket(value: i64) -> usize {
    if value < 1 {
        0
    } else {
        (i64::BITS - value.leading_zeros()) as usize
    }
}

/// Counts an event of a marker in the cell of `slot` and `key`: `changes` are those of the slot's
/// actions that have values, in order, for this event, of the same kinds every time.
///
/// `false` when there is no room for a new cell, or the cell is larger than any can be: the event is
/// lost, and counted where the kernel can know of it.
///
/// May be called anywhere, in signal handlers too. Makes no system call except when a chunk is full,
/// and leaves `errno` alone.
pub fn aggregate(event_id: u32, slot: u16, key: &[u8], changes: &[Change]) -> bool {
    let Some(sought) = Sought::new(event_id, slot, key, changes) else {
        // Too long for any chunk, so this only counts the loss.
        return claim_in(Stream::Cells, AGGREGATE_CELL, MAX_RECORD + 1).is_some();
    };
    let chunk = Chunk::of(Stream::Cells.writer());
    let Some(values) = sought.find(&chunk).or_else(|| sought.make(changes)) else {
        return false;
    };
    let mut value = 1;
    for change in changes {
        // SAFETY: a cell of this length has the values of all changes. Should a handler have had the
        // chunk sealed, it stays mapped, and what is added before it is read counts.
        unsafe { change.apply(values.add(value)) };
        value += change.width();
    }
    // SAFETY: the first value is the number of events.
    unsafe { add(values, 1) };
    true
}

/// A cell's octets but for its values, in words.
struct Sought {
    /// The record's word when it is committed.
    word: u64,
    len: usize,
    cell: [u64; 2],
    key: [u64; KEY_WORDS],
    nvalues: usize,
    key_words: usize,
}

impl Sought {
    fn new(event_id: u32, slot: u16, key: &[u8], changes: &[Change]) -> Option<Self> {
        if key.len() > CELL_KEY_MAX || changes.len() > CELL_MAX_ACTIONS {
            return None;
        }
        let nvalues = 1 + changes.iter().map(Change::width).sum::<usize>();
        let len = RECORD_HEADER + size_of::<Cell>() + 8 * nvalues + key.len();
        let mut octets = [0; CELL_KEY_MAX];
        octets[..key.len()].copy_from_slice(key);
        Some(Self {
            word: word(AGGREGATE_CELL, len) | WORD_COMMITTED,
            len,
            cell: transmute!(Cell {
                event_id,
                slot,
                nvalues: nvalues as u16,
                key_len: key.len() as u16,
                reserved: [0; 3],
            }),
            key: transmute!(octets),
            nvalues,
            key_words: key.len().div_ceil(8),
        })
    }

    /// The values of the cell in the chunk, if it is there.
    fn find(&self, chunk: &Chunk<'_>) -> Option<*mut u64> {
        let room = chunk.room() as usize;
        let hint = chunk.hint(self.hash());
        let at = usize::from(hint.load(Ordering::Relaxed)) * 8;
        if at >= HEADER_SIZE && at + padded(self.len) <= room {
            // SAFETY: inside the chunk, and a multiple of 8, for all of the cell.
            unsafe {
                let record = chunk.start().add(at).cast::<u64>();
                if load(record) == self.word && self.is_at(record) {
                    return Some(record.add(1 + HEAD_WORDS));
                }
            }
        }
        self.walk(chunk, room, hint)
    }

    /// [`find`](Self::find) along the chain of words.
    fn walk(&self, chunk: &Chunk<'_>, room: usize, hint: &AtomicU16) -> Option<*mut u64> {
        let mut at = HEADER_SIZE;
        // Ends: each turn moves `at` on by 16 at least.
        while at + RECORD_HEADER <= room {
            // SAFETY: inside the chunk, and a multiple of 8.
            let record = unsafe { chunk.start().add(at).cast::<u64>() };
            // SAFETY: as above.
            let word = unsafe { load(record) };
            let len = ((word & !WORD_COMMITTED) >> WORD_LEN_SHIFT) as usize;
            // Not a record, so the end of the chunk, whatever a program has scribbled there.
            if len < RECORD_HEADER || len > room - at {
                return None;
            }
            // SAFETY: the record is of the cell's length and lies in the chunk, whose size is a multiple
            // of 8, with the octets that fill up its last word.
            if word == self.word && unsafe { self.is_at(record) } {
                // A chunk has 2^13 units.
                hint.store((at / 8) as u16, Ordering::Relaxed);
                // SAFETY: as above.
                return Some(unsafe { record.add(1 + HEAD_WORDS) });
            }
            at += padded(len);
        }
        None
    }

    /// Spreads cells over the hints.
    fn hash(&self) -> usize {
        let words = self.cell.iter().chain(&self.key[..self.key_words]);
        let hash = words.fold(0_u64, |hash, word| {
            (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        (hash >> 48) as usize
    }

    /// Whether it is this cell; nobody changes these words once the record is committed.
    ///
    /// # Safety
    ///
    /// `record` must be aligned and readable for a cell's padded length.
    unsafe fn is_at(&self, record: *mut u64) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let key = record.add(1 + HEAD_WORDS + self.nvalues);
            load(record.add(2)) == self.cell[0]
                && load(record.add(3)) == self.cell[1]
                && (0..self.key_words).all(|word| load(key.add(word)) == self.key[word])
        }
    }

    /// A new cell that counts no event yet.
    #[cold]
    fn make(&self, changes: &[Change]) -> Option<*mut u64> {
        let (record, timestamp) = claim_in(Stream::Cells, AGGREGATE_CELL, self.len)?;
        let mut claim = Claim {
            record,
            word: word(AGGREGATE_CELL, self.len),
            timestamp,
        };
        let payload = claim.payload().cast::<u64>();
        // SAFETY: the record was claimed for all of this, is aligned to 8, and a record's last word is
        // its own to the end.
        let values = unsafe {
            payload.write(self.cell[0]);
            payload.add(1).write(self.cell[1]);
            payload.add(2)
        };
        let mut value = 1;
        for change in changes {
            // SAFETY: as above.
            unsafe { values.add(value).write(change.neutral()) };
            value += change.width();
        }
        for word in 0..self.key_words {
            // SAFETY: as above.
            unsafe { values.add(self.nvalues + word).write(self.key[word]) };
        }
        claim.commit();
        Some(values)
    }
}

/// # Safety
///
/// `word` must be readable and aligned.
unsafe fn load(word: *mut u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Relaxed)
}

/// Adds, in one instruction: whole for this thread's handlers and for who reads the word.
///
/// # Safety
///
/// `word` must be valid for reads and writes and aligned.
unsafe fn add(word: *mut u64, more: u64) {
    // SAFETY: the caller's promise; the instruction touches nothing else.
    unsafe {
        asm!(
            "add qword ptr [{word}], {more}",
            word = in(reg) word,
            more = in(reg) more,
            options(nostack),
        );
    }
}

/// Puts what `new` makes of the value in its place, again when a handler came in between.
///
/// # Safety
///
/// As for [`add`].
unsafe fn revise(word: *mut u64, new: impl Fn(u64) -> Option<u64>) {
    loop {
        // SAFETY: the caller's promise.
        let old = unsafe { load(word) };
        let Some(new) = new(old) else { return };
        // SAFETY: as above.
        if unsafe { exchange_word(word.cast(), old, new) } == old {
            return;
        }
    }
}
