//! Records: the walk along the chain of words, and the check against the packet's time.

use zerocopy::FromBytes;

use crate::abi::{
    HEADER_SIZE, MAX_RECORD, PacketHeader, RECORD_ALIGN, RECORD_HEADER, RecordHeader,
    WORD_COMMITTED, WORD_LEN_SHIFT,
};

/// A committed record. Its writer is not trusted: the payload still has to fit the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Offset in the packet, in octets.
    pub offset: usize,
    /// Event id; its marker's, or [`META_CLOCK`](crate::abi::META_CLOCK) and the like.
    pub id: u32,
    /// Raw reading of the packet's clock.
    pub timestamp: u64,
    /// What follows the header, padding excluded.
    pub payload: &'a [u8],
}

/// What stands at one place of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A record.
    Committed(Record<'a>),
    /// A record that was claimed and never committed: its writer was killed, or is still at it.
    Torn {
        /// Offset in the packet, in octets.
        offset: usize,
        /// Event id.
        id: u32,
        /// Octets claimed, header included.
        len: usize,
    },
    /// Not a record; the last item, as nothing says where the next one would begin.
    Malformed {
        /// Offset in the packet, in octets.
        offset: usize,
        /// What is wrong.
        reason: MalformedReason,
    },
}

/// Why octets are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedReason {
    /// The chain ends before the content does.
    #[error("no record where the packet's content goes on")]
    Hole,
    /// Bits 48 to 62 of the word are not zero.
    #[error("unknown bits in the record's word {word:#x}")]
    Bits {
        /// The word.
        word: u64,
    },
    /// Shorter than a header or longer than a record may be.
    #[error("a record of {len} octets, where {RECORD_HEADER} to {MAX_RECORD} are possible")]
    Length {
        /// Octets that the word claims.
        len: usize,
    },
    /// Longer than what is left of the packet.
    #[error("a record of {len} octets, where {left} are left in the packet")]
    Overrun {
        /// Octets that the word claims.
        len: usize,
        /// Octets to the end of the content.
        left: usize,
    },
}

/// Iterator over a packet's records.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    content: &'a [u8],
    offset: usize,
}

impl<'a> Records<'a> {
    /// `content` is a packet up to the end of its content.
    pub(super) fn new(content: &'a [u8]) -> Self {
        Self {
            content,
            offset: HEADER_SIZE,
        }
    }

    fn end(&mut self, offset: usize, reason: MalformedReason) -> Item<'a> {
        self.offset = self.content.len();
        Item::Malformed { offset, reason }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let offset = self.offset;
        let rest = self.content.get(offset..).filter(|rest| !rest.is_empty())?;
        let left = rest.len();
        let Ok((RecordHeader { word, timestamp }, _)) = RecordHeader::read_from_prefix(rest) else {
            return Some(self.end(
                offset,
                MalformedReason::Overrun {
                    len: RECORD_HEADER,
                    left,
                },
            ));
        };
        if word == 0 {
            return Some(self.end(offset, MalformedReason::Hole));
        }
        let len = (word >> WORD_LEN_SHIFT & 0xffff) as usize;
        if word & !WORD_COMMITTED != u64::from(word as u32) | (len as u64) << WORD_LEN_SHIFT {
            return Some(self.end(offset, MalformedReason::Bits { word }));
        }
        if !(RECORD_HEADER..=MAX_RECORD).contains(&len) {
            return Some(self.end(offset, MalformedReason::Length { len }));
        }
        let Some(payload) = rest.get(RECORD_HEADER..len) else {
            return Some(self.end(offset, MalformedReason::Overrun { len, left }));
        };
        self.offset = offset + len.next_multiple_of(RECORD_ALIGN);
        let id = word as u32;
        Some(if word & WORD_COMMITTED == 0 {
            Item::Torn { offset, id, len }
        } else {
            Item::Committed(Record {
                offset,
                id,
                timestamp,
                payload,
            })
        })
    }
}

/// What is wrong with a record's time-stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// Before the chunk was handed out.
    #[error("time-stamp {timestamp} is before the packet begins, {begin}")]
    Early {
        /// The record's.
        timestamp: u64,
        /// The packet's `ts_begin`.
        begin: u64,
    },
    /// After the chunk was sealed.
    #[error("time-stamp {timestamp} is after the packet ends, {end}")]
    Late {
        /// The record's.
        timestamp: u64,
        /// The packet's `ts_end`.
        end: u64,
    },
    /// Earlier than a record before it.
    #[error("time-stamp {timestamp} is before the preceding one, {before}")]
    Backwards {
        /// The record's.
        timestamp: u64,
        /// That of the last record that passed.
        before: u64,
    },
}

/// Checks the time-stamps of one packet, record by record. A trace in which one lies outside its
/// packet, or before its predecessor, does not open, so an extractor leaves such records out and
/// counts them: an honest writer makes none.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    begin: u64,
    end: u64,
    last: u64,
}

impl Check {
    /// For the records of the packet with this header.
    pub fn new(header: &PacketHeader) -> Self {
        Self {
            begin: header.ts_begin,
            end: header.ts_end,
            last: header.ts_begin,
        }
    }

    /// Whether the record may follow those that passed.
    pub fn record(&mut self, record: &Record<'_>) -> Result<(), CheckError> {
        let timestamp = record.timestamp;
        if timestamp < self.begin {
            return Err(CheckError::Early {
                timestamp,
                begin: self.begin,
            });
        }
        if timestamp > self.end {
            return Err(CheckError::Late {
                timestamp,
                end: self.end,
            });
        }
        if timestamp < self.last {
            return Err(CheckError::Backwards {
                timestamp,
                before: self.last,
            });
        }
        self.last = timestamp;
        Ok(())
    }
}
