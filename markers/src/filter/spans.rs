//! Spans whose end decides: what their begin was, until then.
//!
//! A place is taken by one exchange and belongs to the span whose guard has the ticket. A guard that
//! is forgotten keeps its place; of a child of fork, so do the spans of its parent's other threads.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use expr::Program;

use super::MAX_PAYLOAD;

/// Spans under way at most, of this copy of the library.
const PLACES: usize = 64;

/// What names a place: its number, and how often it was taken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// Bits of a place's number in a ticket.
const NUMBER_BITS: u32 = 8;

struct Place {
    /// Odd while it is taken; goes up with each change.
    turn: AtomicU32,
    held: UnsafeCell<Held>,
}

struct Held {
    program: Option<&'static Program<'static>>,
    state: u32,
    begin: u64,
    len: usize,
    payload: [u8; MAX_PAYLOAD],
}

// SAFETY: `held` is touched by the thread that has the ticket, which a guard keeps on it.
unsafe impl Sync for Place {}

static TABLE: [Place; PLACES] = [const {
    Place {
        turn: AtomicU32::new(0),
        held: UnsafeCell::new(Held {
            program: None,
            state: 0,
            begin: 0,
            len: 0,
            payload: [0; MAX_PAYLOAD],
        }),
    }
}; PLACES];

/// A span that waits for its end.
pub struct Kept {
    place: &'static Place,
    turn: u32,
}

/// Keeps the begin of a span; `None` when there is no place.
pub fn keep(
    program: &'static Program<'static>,
    state: u32,
    begin: u64,
    payload: &[u8],
) -> Option<Ticket> {
    if payload.len() > MAX_PAYLOAD {
        return None;
    }
    // From the first on, so that few spans under way touch few pages.
    for (number, place) in (0..).zip(&TABLE) {
        let turn = place.turn.load(Ordering::Relaxed);
        if turn & 1 != 0
            || place
                .turn
                .compare_exchange(
                    turn,
                    turn.wrapping_add(1),
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_err()
        {
            continue;
        }
        // SAFETY: the exchange made it this thread's.
        let held = unsafe { &mut *place.held.get() };
        held.program = Some(program);
        held.state = state;
        held.begin = begin;
        held.len = payload.len();
        held.payload[..payload.len()].copy_from_slice(payload);
        let turn = u64::from(turn.wrapping_add(1));
        return Some(Ticket(turn << NUMBER_BITS | number));
    }
    None
}

/// What a ticket stands for; `None` for one that was used already.
pub fn find(ticket: Ticket) -> Option<Kept> {
    let place = TABLE.get((ticket.0 & ((1 << NUMBER_BITS) - 1)) as usize)?;
    let turn = (ticket.0 >> NUMBER_BITS) as u32;
    let valid = turn & 1 != 0 && place.turn.load(Ordering::Relaxed) == turn;
    valid.then_some(Kept { place, turn })
}

impl Kept {
    fn held(&self) -> &Held {
        // SAFETY: this thread has the ticket of the present turn, so nobody else touches it.
        unsafe { &*self.place.held.get() }
    }

    /// What decides.
    pub fn program(&self) -> Option<&'static Program<'static>> {
        self.held().program
    }

    /// The begin's state word.
    pub fn state(&self) -> u32 {
        self.held().state
    }

    /// A reading of the clock at the begin.
    pub fn begin(&self) -> u64 {
        self.held().begin
    }

    /// The begin's payload.
    pub fn payload(&self) -> &[u8] {
        let held = self.held();
        held.payload.get(..held.len).unwrap_or_default()
    }

    /// Gives the place back.
    pub fn release(self) {
        self.place
            .turn
            .store(self.turn.wrapping_add(1), Ordering::Release);
    }
}
