//! What a marker runs: the test of its state word and, when that is not zero, the record.

use core::sync::atomic::Ordering;

use crate::abi::{self, Descriptor};
use crate::note::emit_note;
use crate::value::Payload;

/// Where the state word stands in a descriptor.
pub const STATE_OFFSET: usize = core::mem::offset_of!(Descriptor, state);

/// Writes a record and returns its time-stamp, or 0 when it could not be written.
///
/// All of it stands where the marker is, out of the straight path, because it is a few stores around
/// reading the clock: as a function of its own it takes a fifth longer. What happens rarely, like
/// asking for a chunk, is a function.
#[inline(always)]
pub fn emit<P: Payload>(marker: &'static Descriptor, payload: P) -> u64 {
    emit_note();
    let state = marker.state.load(Ordering::Relaxed);
    if state & abi::STATE_ENABLED == 0 {
        // Turned off since the caller looked.
        return 0;
    }
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
