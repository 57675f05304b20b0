//! What a marker runs: the test of its state word and, when that is not zero, the record.

use core::hint::cold_path;
use core::sync::atomic::Ordering;

use crate::abi::{self, Descriptor};
use crate::note::emit_note;
use crate::value::Payload;
use crate::writer;

/// Whether the kernel has turned the marker on: one load and, with the caller's branch, a compare.
#[inline(always)]
pub fn enabled(marker: &Descriptor) -> bool {
    // Relaxed: the word guards nothing but the decision to write a record.
    if marker.state.load(Ordering::Relaxed) == 0 {
        return false;
    }
    cold_path();
    emit_note();
    true
}

/// Writes a record and returns its time-stamp, or 0 when it could not be written.
///
/// One copy serves all markers with the same types of fields.
#[inline(never)]
pub fn emit<P: Payload>(marker: &'static Descriptor, payload: P) -> u64 {
    let state = marker.state.load(Ordering::Relaxed);
    if state & abi::STATE_ENABLED == 0 {
        // Turned off since the caller looked.
        return 0;
    }
    let Some(mut claim) =
        writer::claim(state >> abi::STATE_ID_SHIFT, RECORD_HEADER + payload.size())
    else {
        return 0;
    };
    // SAFETY: the claim has room for the length asked for without the header, which is payload.size().
    unsafe { payload.put(claim.payload()) };
    let timestamp = claim.timestamp();
    claim.commit();
    timestamp
}

const RECORD_HEADER: usize = bootbuf::abi::RECORD_HEADER;
