//! Packet headers on their own; everything else about packets is `bootbuf::reader`.

use bootbuf::abi::PacketHeader;
use bootbuf::reader::{Packet, PacketError};
use zerocopy::FromBytes;

/// The header that begins `bytes`, which may end before the packet does.
///
/// # Errors
/// When it is cut off, or no header.
pub fn header(bytes: &[u8]) -> Result<PacketHeader, PacketError> {
    match Packet::parse(bytes) {
        Ok((packet, _)) => Ok(*packet.header()),
        Err(short @ PacketError::Short { .. }) => PacketHeader::read_from_prefix(bytes)
            .map(|(header, _)| header)
            .map_err(|_| short),
        Err(error) => Err(error),
    }
}
