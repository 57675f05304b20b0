//! What a marker runs: the test of its state word and, when that is not zero, the record.

use core::sync::atomic::Ordering;

use crate::abi::{self, Descriptor};
use crate::filter;
use crate::handler;
use crate::note::emit_note;
use crate::value::{AnyPayload, Payload};

/// Where the state word stands in a descriptor.
pub const STATE_OFFSET: usize = core::mem::offset_of!(Descriptor, state);

/// What is asked of a marker; nothing but [`abi::STATE_ENABLED`] is a plain record.
const ASKED: u32 = abi::STATE_ENABLED | abi::STATE_SLOT_MASK | abi::STATE_CALL;

/// [`record`] from where the marker is, whose module gets the note by it.
#[inline(always)]
pub fn emit<P: Payload>(marker: &'static Descriptor, payload: P) -> u64 {
    emit_note();
    record(marker, payload)
}

/// Writes a record and returns its time-stamp, or 0 when it could not be written; of a span's begin
/// that is not plainly recorded, what [`record_end`] is to know of it.
///
/// All of it stands where the marker is, out of the straight path, because it is a few stores around
/// reading the clock: as a function of its own it takes a fifth longer. What happens rarely, like
/// asking for a chunk, is a function.
#[inline(always)]
pub(crate) fn record<P: Payload>(marker: &'static Descriptor, payload: P) -> u64 {
    let state = marker.state.load(Ordering::Relaxed);
    if state & ASKED != abi::STATE_ENABLED {
        return special(marker, state, payload);
    }
    write(state, payload)
}

/// Writes the record of a span's end. `begin` is what [`record`] returned at the beginning.
#[inline(always)]
pub(crate) fn record_end(marker: &'static Descriptor, begin: u64, ret: i32) {
    let state = marker.state.load(Ordering::Relaxed);
    if state & ASKED != abi::STATE_ENABLED || filter::is_special(begin) {
        special_end(marker, state, begin, ret);
        return;
    }
    write(state, (begin, ret));
}

/// Writes a record whatever the state asks for.
#[inline(always)]
pub(crate) fn write<P: Payload>(state: u32, payload: P) -> u64 {
    let Some(mut claim) = claim(state >> abi::STATE_ID_SHIFT, RECORD_HEADER + payload.size())
    else {
        return 0;
    };
    // SAFETY: the claim has room for the length asked for without the header, which is payload.size().
    unsafe { payload.put(claim.payload()) };
    let timestamp = claim.timestamp();
    claim.commit();
    timestamp
}

/// [`record`] of a marker that has more than its record to see to, or was turned off since the caller
/// looked.
#[cold]
#[inline(never)]
fn special<P: Payload>(marker: &'static Descriptor, state: u32, payload: P) -> u64 {
    special_any(marker, state, &AnyPayload::new(&payload))
}

/// [`special`] for all payloads.
#[inline(never)]
fn special_any(marker: &'static Descriptor, state: u32, payload: &AnyPayload<'_>) -> u64 {
    let on = state & abi::STATE_ENABLED != 0;
    let recorded = if on {
        filter::event(marker, state, payload)
    } else {
        0
    };
    if state & abi::STATE_CALL == 0 {
        return recorded;
    }
    let timestamp = if filter::is_special(recorded) {
        0
    } else {
        recorded
    };
    let called = handler::event(marker, payload, timestamp);
    if on {
        filter::with_begin(recorded, called)
    } else {
        called
    }
}

/// [`record_end`] likewise.
#[cold]
#[inline(never)]
fn special_end(marker: &'static Descriptor, state: u32, begin: u64, ret: i32) {
    let began = filter::begin(begin);
    let timestamp = filter::end(state, begin, ret);
    if state & abi::STATE_CALL != 0 {
        handler::event(marker, &AnyPayload::new(&(began, ret)), timestamp);
    }
}

#[cfg(not(feature = "dylib"))]
use bootbuf::claim;

/// The thread-local variable of the writer is that of one module; generic code, like [`write`], may be
/// compiled in another.
#[cfg(feature = "dylib")]
#[inline(never)]
fn claim(id: u32, len: usize) -> Option<bootbuf::Claim> {
    bootbuf::claim(id, len)
}

const RECORD_HEADER: usize = bootbuf::abi::RECORD_HEADER;
