//! Filters: what a marker runs when its state word names a slot. See docs/filters.md.
//!
//! All of it may be interrupted by a signal handler whose markers run it too: programs are compiled
//! into places that are published when they are whole ([`programs`]), and a span whose decision waits for
//! its end has a place of its own ([`spans`]). Nothing is allocated, and the kernel is entered once for
//! each marker with a slot, never for an event.

mod aggregate;
mod programs;
mod shape;
mod spans;

pub use shape::{END, field_type};

use core::mem::MaybeUninit;

use bootbuf::Context;
use bootbuf::abi::{MAX_RECORD, RECORD_HEADER};
use expr::{Program, Values};

use crate::abi::{self, Descriptor};
use crate::emit::write;
use crate::value::{AnyPayload, Encoded, Payload};

/// Set in what [`event`] returns for a span's begin that is not recorded for now. The clock gets
/// there after 146 years at 2 GHz.
const SPECIAL: u64 = 1 << 63;
/// With it: the end decides, and the other bits are a [`spans::Ticket`]. Without, both are rejected, and
/// the other bits are what [`with_begin`] left there.
const DEFERRED: u64 = 1 << 62;

/// Longest payload.
const MAX_PAYLOAD: usize = MAX_RECORD - RECORD_HEADER;
/// Payloads up to this length take little of the stack, which may be a signal handler's.
const SHORT_PAYLOAD: usize = 256;

/// Whether a span's begin was not simply recorded.
#[inline(always)]
pub fn is_special(begin: u64) -> bool {
    begin & SPECIAL != 0
}

/// What [`event`] returned for a span's begin, with the time of the begin if it is to be rejected: the
/// call-backs of the end ask for it.
pub fn with_begin(begin: u64, timestamp: u64) -> u64 {
    if begin == SPECIAL {
        SPECIAL | (timestamp & (DEFERRED - 1))
    } else {
        begin
    }
}

/// The time of a span's begin, 0 when it is not known.
pub fn begin(begin: u64) -> u64 {
    if !is_special(begin) {
        begin
    } else if begin & DEFERRED != 0 {
        spans::find(spans::Ticket(begin & !(SPECIAL | DEFERRED))).map_or(0, |kept| kept.begin())
    } else {
        begin & (DEFERRED - 1)
    }
}

/// An event of a marker that is on: returns the time-stamp of its record or 0, or of a span's begin
/// what [`end`] is to know.
pub fn event(marker: &'static Descriptor, state: u32, payload: &AnyPayload<'_>) -> u64 {
    match programs::get(marker, slot(state)) {
        Some(program) if payload.size() <= SHORT_PAYLOAD => {
            encoded::<SHORT_PAYLOAD>(marker, state, program, payload)
        }
        Some(program) if payload.size() <= MAX_PAYLOAD => {
            encoded::<MAX_PAYLOAD>(marker, state, program, payload)
        }
        _ => write(state, *payload),
    }
}

/// Encodes the payload as a record has it, and goes on.
#[inline(never)]
fn encoded<const ROOM: usize>(
    marker: &'static Descriptor,
    state: u32,
    program: &'static Program<'static>,
    payload: &AnyPayload<'_>,
) -> u64 {
    let mut room = MaybeUninit::<[u8; ROOM]>::uninit();
    let start = room.as_mut_ptr().cast::<u8>();
    let len = payload.size();
    if len > ROOM {
        return write(state, *payload);
    }
    // SAFETY: the room has that many octets, see above, and put() writes all of them.
    let octets = unsafe {
        payload.put(start);
        core::slice::from_raw_parts(start, len)
    };
    decide(marker, state, program, octets)
}

/// Decides about an event, or puts that off to the end of the span.
fn decide(
    marker: &'static Descriptor,
    state: u32,
    program: &'static Program<'static>,
    payload: &[u8],
) -> u64 {
    let span = marker.kind == abi::KIND_SPAN_BEGIN;
    let later = span && (program.needs_end() || program.aggregates());
    let context = if program.needs_thread() || later {
        match context(program) {
            Some(context) => Some(context),
            // No chunk to look at, so none to write to either: the record finds that out and counts.
            None => return write(state, Encoded(payload)),
        }
    } else {
        None
    };
    let values = values(payload, &[], context.as_ref(), 0);
    if !program.needs_end() && !program.eval_filter(&values) {
        return if span { SPECIAL } else { 0 };
    }
    let now = context.filter(|_| later).and_then(|context| context.now());
    if let Some(now) = now
        && let Some(ticket) = spans::keep(program, state, now, payload)
    {
        return SPECIAL | DEFERRED | ticket.0;
    }
    let id = state >> abi::STATE_ID_SHIFT;
    let aggregated = !later && aggregate::aggregate(program, id, slot(state), &values);
    if aggregated && !program.records() {
        return 0;
    }
    write(state, Encoded(payload))
}

fn slot(state: u32) -> u32 {
    (state & abi::STATE_SLOT_MASK) >> abi::STATE_SLOT_SHIFT
}

/// What is known of the thread, by a chunk of the kind that the program is going to need.
fn context(program: &Program<'_>) -> Option<Context> {
    bootbuf::context(!program.records())
}

/// The end of a span whose begin or end is not simply recorded: returns the time-stamp of its record,
/// or 0.
pub fn end(state: u32, begin: u64, ret: i32) -> u64 {
    let on = state & abi::STATE_ENABLED != 0;
    if !is_special(begin) {
        // The begin was recorded, so the end is.
        if on {
            return write(state, (begin, ret));
        }
    } else if begin & DEFERRED != 0
        && let Some(kept) = spans::find(spans::Ticket(begin & !(SPECIAL | DEFERRED)))
    {
        let timestamp = if on {
            decide_span(state, &kept, ret)
        } else {
            0
        };
        kept.release();
        return timestamp;
    }
    0
}

/// Decides about a span that ends, and writes both records when it passes.
fn decide_span(state: u32, kept: &spans::Kept, ret: i32) -> u64 {
    let begin = kept.begin();
    let [a, b, c, d, e, f, g, h] = begin.to_le_bytes();
    let [i, j, k, l] = ret.to_le_bytes();
    let end = [a, b, c, d, e, f, g, h, i, j, k, l];
    let recorded = match kept
        .program()
        .and_then(|program| Some((program, context(program)?)))
    {
        Some((program, context)) => {
            let dur = context.now().map(|now| context.ns_between(begin, now));
            let values = values(
                kept.payload(),
                &end,
                Some(&context),
                dur.unwrap_or_default(),
            );
            let id = state >> abi::STATE_ID_SHIFT;
            program.eval_filter(&values)
                && (!aggregate::aggregate(program, id, slot(kept.state()), &values)
                    || program.records())
        }
        // No chunk: the records find that out and count.
        None => true,
    };
    if !recorded {
        return 0;
    }
    write(kept.state(), Encoded(kept.payload()));
    write(state, Encoded(&end))
}

fn values<'a>(
    payload: &'a [u8],
    end: &'a [u8],
    context: Option<&'a Context>,
    dur_ns: u64,
) -> Values<'a> {
    let context = context.map(|context| expr::Context {
        pid: context.pid,
        tid: context.tid,
        uid: context.uid,
        comm: &context.comm,
        dur_ns,
    });
    Values {
        payload,
        end,
        context: context.unwrap_or_default(),
    }
}
