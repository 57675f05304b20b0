//! Packets: the header and where things lie.

use zerocopy::FromBytes;

use super::record::Records;
use crate::abi::{
    CLOCK_BOOTTIME, CTF_MAGIC, HEADER_SIZE, MAX_CHUNK, PacketHeader, RECORD_ALIGN, STREAM_AGGREGATE,
};

/// Why octets are not a packet. Offsets are in the slice that was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The header itself is cut off.
    #[error(
        "{have} octets are left, and a packet header takes {HEADER_SIZE}: the data was cut off"
    )]
    ShortHeader {
        /// Octets that are there.
        have: usize,
    },
    /// Something else than a packet.
    #[error(
        "a packet starts with {CTF_MAGIC:#x}, this with {found:#x}: not trace data, or damaged"
    )]
    Magic {
        /// The first word.
        found: u32,
    },
    /// Sizes in the header contradict each other or the limits.
    #[error(
        "the header says {content_bits} bits of content in {packet_bits} bits: damaged, or from a \
         newer version"
    )]
    Sizes {
        /// Of the content, header included.
        content_bits: u64,
        /// Of the packet.
        packet_bits: u64,
    },
    /// The packet is cut off.
    #[error("a packet of {want} octets has only {have}: the data was cut off")]
    Short {
        /// Octets that the header announces.
        want: usize,
        /// Octets that are there.
        have: usize,
    },
    /// A kind of stream that this version does not know.
    #[error("stream kind {found} is not known here: damaged, or from a newer version")]
    Stream {
        /// The header's `stream_id`.
        found: u32,
    },
    /// A clock that this version does not know.
    #[error("clock {found} is not known here: damaged, or from a newer version")]
    Clock {
        /// The header's `clock`.
        found: u8,
    },
}

/// A packet whose header makes sense; its records may still not.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: PacketHeader,
    bytes: &'a [u8],
    content: usize,
}

impl<'a> Packet<'a> {
    /// Takes a packet off the front of `bytes` and returns it with what follows it.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), PacketError> {
        let have = bytes.len();
        let (header, _) =
            PacketHeader::read_from_prefix(bytes).map_err(|_| PacketError::ShortHeader { have })?;
        if header.magic != CTF_MAGIC {
            return Err(PacketError::Magic {
                found: header.magic,
            });
        }
        let PacketHeader {
            content_bits,
            packet_bits,
            ..
        } = header;
        let least = HEADER_SIZE as u64 * 8;
        let sound = packet_bits % (RECORD_ALIGN as u64 * 8) == 0
            && content_bits % 8 == 0
            && (least..=packet_bits).contains(&content_bits)
            && packet_bits <= MAX_CHUNK as u64 * 8;
        if !sound {
            return Err(PacketError::Sizes {
                content_bits,
                packet_bits,
            });
        }
        if header.stream_id > STREAM_AGGREGATE {
            return Err(PacketError::Stream {
                found: header.stream_id,
            });
        }
        if u32::from(header.clock) > CLOCK_BOOTTIME {
            return Err(PacketError::Clock {
                found: header.clock,
            });
        }
        let want = (packet_bits / 8) as usize;
        let (bytes, rest) = bytes
            .split_at_checked(want)
            .ok_or(PacketError::Short { want, have })?;
        Ok((
            Self {
                header,
                bytes,
                content: (content_bits / 8) as usize,
            },
            rest,
        ))
    }

    /// The header.
    pub fn header(&self) -> &PacketHeader {
        &self.header
    }

    /// All octets of the packet, header and padding included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The writer's name, without padding; whatever the process called itself, so not always UTF-8.
    pub fn comm(&self) -> &[u8] {
        let comm = &self.header.comm;
        let len = comm
            .iter()
            .position(|&octet| octet == 0)
            .unwrap_or(comm.len());
        &comm[..len]
    }

    /// The records in the order in which they were claimed.
    pub fn records(&self) -> Records<'a> {
        Records::new(&self.bytes[..self.content])
    }
}

/// The packets of a file or of another row of packets; ends after the first error, as nothing
/// says where the next packet would begin.
pub fn packets(bytes: &[u8]) -> Packets<'_> {
    Packets {
        rest: bytes,
        offset: 0,
    }
}

/// Iterator of [`packets`].
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl Packets<'_> {
    /// Where the packet that [`next`](Iterator::next) returns begins, or the error.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<Packet<'a>, PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match Packet::parse(self.rest) {
            Ok((packet, rest)) => {
                self.rest = rest;
                self.offset += packet.bytes.len();
                Some(Ok(packet))
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}
