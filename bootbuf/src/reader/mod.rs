//! Reading packets, their records, cells of aggregations, and the meta stream.
//!
//! The input is what the extraction descriptor returned, a file that an extractor wrote, or memory
//! that was recovered. None of it is trusted: a process can write anything into its chunk, and a file
//! may be cut off. Everything here returns an error or an item that says what is wrong; nothing
//! panics, allocates, or reads outside the slice it was given.
//!
//! ```
//! use bootbuf::reader::{Item, packets};
//!
//! fn count(bytes: &[u8]) -> usize {
//!     packets(bytes)
//!         .filter_map(Result::ok)
//!         .flat_map(|packet| packet.records())
//!         .filter(|item| matches!(item, Item::Committed(_)))
//!         .count()
//! }
//! assert_eq!(count(&[]), 0);
//! ```

mod cell;
mod meta;
mod packet;
mod record;

pub use cell::{Cell, CellError};
pub use meta::{Meta, MetaError};
pub use packet::{Packet, PacketError, Packets, packets};
pub use record::{Check, CheckError, Item, MalformedReason, Record, Records};
