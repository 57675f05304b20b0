//! Cells of aggregations, the records of an aggregate stream.

use zerocopy::FromBytes;

use super::record::Record;
use crate::abi::{self, AGGREGATE_CELL, CELL_KEY_MAX, CELL_MAX_ACTIONS, HIST_BUCKETS};

/// Why a record is no cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellError {
    /// Another event id, of a newer version perhaps.
    #[error("record {id} of an aggregate stream at {offset} is not known here")]
    Id {
        /// Event id.
        id: u32,
        /// Offset in the packet.
        offset: usize,
    },
    /// Numbers that no cell has.
    #[error(
        "the cell at {offset} says {nvalues} values and a key of {key_len} octets, and has {have} \
         octets: damaged"
    )]
    Sizes {
        /// Offset in the packet.
        offset: usize,
        /// Its number of values.
        nvalues: u16,
        /// Octets of its key.
        key_len: u16,
        /// Octets of the payload.
        have: usize,
    },
}

/// A cell. Its writer is not trusted: the number of values still has to fit the slot's text, and the
/// key the marker.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The marker's id in records.
    pub event_id: u32,
    /// The slot.
    pub slot: u16,
    /// Values of 8 octets each.
    values: &'a [u8],
    /// Values of the names behind `by`, as in a record.
    pub key: &'a [u8],
}

impl<'a> Cell<'a> {
    /// Decodes a record of a packet whose stream is
    /// [`STREAM_AGGREGATE`](crate::abi::STREAM_AGGREGATE).
    ///
    /// # Errors
    /// When its numbers contradict each other, the limits or its length.
    pub fn decode(record: &Record<'a>) -> Result<Self, CellError> {
        let offset = record.offset;
        if record.id != AGGREGATE_CELL {
            let id = record.id;
            return Err(CellError::Id { id, offset });
        }
        let have = record.payload.len();
        let (head, rest) =
            abi::Cell::read_from_prefix(record.payload).map_err(|_| CellError::Sizes {
                offset,
                nvalues: 0,
                key_len: 0,
                have,
            })?;
        let (nvalues, key_len) = (usize::from(head.nvalues), usize::from(head.key_len));
        let sound = (1..=1 + CELL_MAX_ACTIONS * HIST_BUCKETS).contains(&nvalues)
            && key_len <= CELL_KEY_MAX
            && head.reserved == [0; 3]
            && rest.len() == 8 * nvalues + key_len;
        if !sound {
            return Err(CellError::Sizes {
                offset,
                nvalues: head.nvalues,
                key_len: head.key_len,
                have,
            });
        }
        let (values, key) = rest.split_at(8 * nvalues);
        Ok(Self {
            event_id: head.event_id,
            slot: head.slot,
            values,
            key,
        })
    }

    /// Events counted in it. With 0 the other values mean nothing.
    pub fn count(&self) -> u64 {
        self.values().next().unwrap_or_default()
    }

    /// All values, the number of events first.
    pub fn values(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let words = self.values.chunks_exact(8);
        words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
    }
}
