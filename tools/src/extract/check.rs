//! The check of every record, before it is believed.
//!
//! A process can write anything into its chunk. What does not fit its descriptor, lies outside the
//! time of its chunk or goes back in time is left out and counted; the packet's header comes from
//! the kernel and is believed.

use bootbuf::abi::{
    HEADER_SIZE, PacketHeader, RECORD_ALIGN, RECORD_HEADER, SEAL_OPEN, STREAM_AGGREGATE,
};
use bootbuf::reader::{Cell, Check, CheckError, Item, MalformedReason, Packet, Record};
use serde::{Deserialize, Serialize};
use zerocopy::IntoBytes;

use crate::aggregate::layout::Layouts;
use crate::trace::meta::Meta;
use crate::trace::tsdl::stream_class;

/// Records of a packet that are not in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Claimed and never committed: the writer was killed within the write.
    pub torn: u64,
    /// Not committed yet when a chunk in use was looked at; a later extraction finds them.
    pub unfinished: u64,
    /// Not what their descriptor says, or outside their chunk's time.
    pub invalid: u64,
}

impl LeftOut {
    /// Those that are gone for good, and so count as discarded.
    pub fn lost(&self) -> u64 {
        self.torn.saturating_add(self.invalid)
    }

    /// Whether nothing was left out.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds another packet's.
    pub fn add(&mut self, other: &Self) {
        self.torn = self.torn.saturating_add(other.torn);
        self.unfinished = self.unfinished.saturating_add(other.unfinished);
        self.invalid = self.invalid.saturating_add(other.invalid);
    }
}

/// A packet whose records are all good.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Header of the packet as it is stored.
    pub header: PacketHeader,
    /// Header and records, padded to the packet's length.
    pub bytes: Vec<u8>,
    /// Events in it; cells are none.
    pub events: u64,
    /// Time-stamp of the first record.
    pub first: Option<u64>,
    /// Time-stamp of the last record.
    pub last: Option<u64>,
    /// What is not in it.
    pub left_out: LeftOut,
}

/// Checks a packet's records; those before `not_before`, the last of the packet before, are out of
/// order.
pub fn check(packet: &Packet<'_>, meta: &Meta, not_before: u64) -> Checked {
    let header = *packet.header();
    let open = header.seal == SEAL_OPEN;
    let mut times = Check::new(&PacketHeader {
        ts_begin: header.ts_begin.max(not_before),
        ..header
    });
    let mut out = Checked {
        header,
        bytes: Vec::with_capacity(packet.bytes().len()),
        events: 0,
        first: None,
        last: None,
        left_out: LeftOut::default(),
    };
    out.bytes.extend_from_slice(&packet.bytes()[..HEADER_SIZE]);
    let mut content = HEADER_SIZE;
    let mut layouts = Layouts::new(meta);
    for item in packet.records() {
        match item {
            Item::Committed(record) => match times.record(&record) {
                // Written while the kernel copied the chunk.
                Err(CheckError::Late { .. }) if open => out.left_out.unfinished += 1,
                Ok(()) if fits(&record, &header, meta, &mut layouts) => {
                    out.first.get_or_insert(record.timestamp);
                    out.last = Some(record.timestamp);
                    out.events += u64::from(header.stream_id != STREAM_AGGREGATE);
                    let end = record.offset + RECORD_HEADER + record.payload.len();
                    out.bytes
                        .resize(out.bytes.len().next_multiple_of(RECORD_ALIGN), 0);
                    out.bytes
                        .extend_from_slice(&packet.bytes()[record.offset..end]);
                    content = out.bytes.len();
                }
                _ => out.left_out.invalid += 1,
            },
            Item::Torn { .. } if open => out.left_out.unfinished += 1,
            Item::Torn { .. } => out.left_out.torn += 1,
            // The end of what was written when the kernel copied the chunk.
            Item::Malformed {
                reason: MalformedReason::Hole,
                ..
            } if open => {}
            Item::Malformed { .. } => out.left_out.invalid += 1,
        }
    }
    let whole = content.next_multiple_of(RECORD_ALIGN);
    out.bytes.resize(whole, 0);
    out.header.content_bits = 8 * content as u64;
    out.header.packet_bits = 8 * whole as u64;
    out.store_header();
    out
}

fn fits(
    record: &Record<'_>,
    header: &PacketHeader,
    meta: &Meta,
    layouts: &mut Layouts<'_>,
) -> bool {
    if header.stream_id == STREAM_AGGREGATE {
        return Cell::decode(record).is_ok_and(|cell| layouts.of(&cell).is_ok());
    }
    stream_class(record.id) == header.stream_id
        && meta
            .markers
            .get(&record.id)
            .is_some_and(|marker| marker.check(record.payload).is_ok())
}

impl Checked {
    /// Puts the header in front of the records, after a change.
    pub fn store_header(&mut self) {
        self.bytes[..HEADER_SIZE].copy_from_slice(self.header.as_bytes());
    }
}
