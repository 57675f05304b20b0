//! `bootmark extract`: everything from the kernel's buffers to a trace directory.
//!
//! Read, write, rename, acknowledge: only the acknowledgement frees anything in the kernel, and it
//! comes when the directory is on the disk. So a crash neither loses nor repeats an event.

pub mod check;
pub mod notes;
pub mod pool;
pub mod source;
pub mod store;
pub mod vmcore;

use std::path::Path;
use std::time::Instant;

use bootbuf::abi::{SEAL_OPEN, STREAM_META};
use bootbuf::reader::{Packet, PacketError};

use self::check::LeftOut;
use self::notes::{StoreError, Totals};
use self::source::{Source, SourceError};
use self::store::Store;
use crate::trace::meta::MetaError;
use crate::trace::tsdl::Machine;

/// Why an extraction failed. Nothing was acknowledged, so nothing is lost.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The packets cannot be had.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The directory cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was read is no packet.
    #[error("what the kernel returned is no packet: {0}")]
    Packet(#[from] PacketError),
    /// The directory is complete, but the kernel refuses to free the packets.
    #[error(
        "the trace is complete, but its packets could not be acknowledged: {0}; the next extraction recognises them"
    )]
    Acknowledge(std::io::Error),
}

/// What an extraction did.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the directory holds now.
    pub totals: Totals,
    /// Records that are not in it.
    pub left_out: LeftOut,
    /// What in the meta stream could not be used.
    pub meta_errors: Vec<MetaError>,
    /// Whether the time limit ended the reading; more waits in the kernel.
    pub timed_out: bool,
}

/// Takes what `source` offers into the directory `target`, and acknowledges it.
///
/// # Errors
/// When packets cannot be read or the directory cannot be written; then nothing was acknowledged.
pub fn extract(
    source: &mut dyn Source,
    target: &Path,
    machine: Machine,
    deadline: Instant,
) -> Result<Report, ExtractError> {
    let mut store = Store::open(target, machine)?;
    let mut acknowledge = 0;
    let mut timed_out = drain(source, &mut store, &mut acknowledge, deadline)?;
    let snapshots = source.snapshots()?;
    // A chunk that was sealed since the first pass is in neither; its stream's snapshot comes after it.
    timed_out = timed_out || drain(source, &mut store, &mut acknowledge, deadline)?;
    for bytes in &snapshots {
        let (packet, _) = Packet::parse(bytes)?;
        // After a time-out, sealed packets that were not read come before the snapshot.
        let usable = packet.header().stream_id == STREAM_META || !timed_out;
        if usable && (packet.header().seal == SEAL_OPEN || packet.header().stream_id == STREAM_META)
        {
            store.add(&packet)?;
        }
    }
    let mut left_out = LeftOut::default();
    for packets in store.notes().left_out.values() {
        packets.values().for_each(|packet| left_out.add(packet));
    }
    let meta_errors = store.meta().errors.clone();
    let totals = store.commit()?;
    source
        .acknowledge(acknowledge)
        .map_err(ExtractError::Acknowledge)?;
    Ok(Report {
        totals,
        left_out,
        meta_errors,
        timed_out,
    })
}

fn drain(
    source: &mut dyn Source,
    store: &mut Store,
    acknowledge: &mut u64,
    deadline: Instant,
) -> Result<bool, ExtractError> {
    loop {
        if Instant::now() >= deadline {
            return Ok(true);
        }
        let Some(bytes) = source.next_packet()? else {
            return Ok(false);
        };
        let (packet, _) = Packet::parse(bytes)?;
        *acknowledge = packet.header().seal_seq.max(*acknowledge);
        store.add(&packet)?;
    }
}
