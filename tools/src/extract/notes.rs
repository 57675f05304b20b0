//! What the extractor says about a directory: notes beside the trace, totals, errors.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::check::LeftOut;
use crate::trace::tsdl::Machine;
use crate::units::total;

/// What the extractor notes beside the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// Version of this structure.
    pub version: u32,
    /// The machine.
    pub machine: Machine,
    /// Extractions that made this directory.
    pub extractions: u64,
    /// Records that were left out, by stream and packet; packets without any are not listed.
    pub left_out: BTreeMap<u64, BTreeMap<u64, LeftOut>>,
}

impl Notes {
    /// Records of a stream that were left out and are gone for good.
    pub fn lost_of(&self, stream: u64) -> u64 {
        let packets = self.left_out.get(&stream);
        packets.map_or(0, |packets| total(packets.values().map(LeftOut::lost)))
    }
}

/// What a trace directory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records.
    pub events: u64,
    /// Records lost: by the kernel for want of room, torn, invalid.
    pub lost: u64,
    /// Threads and CPUs.
    pub streams: u64,
    /// Octets of all stream files.
    pub bytes: u64,
}

/// Why a trace directory cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refuses.
    #[error("cannot {what} {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The directory holds something else.
    #[error("{} is not empty and no Bootmark trace: choose another directory", .0.display())]
    NotATrace(PathBuf),
    /// The directory holds another boot.
    #[error("{} holds the trace of another boot ({theirs}; this one is {ours}): choose another directory", path.display())]
    OtherBoot {
        /// The directory.
        path: PathBuf,
        /// Its boot id.
        theirs: String,
        /// That of the packets.
        ours: String,
    },
    /// The directory was cut off or changed.
    #[error("{}, offset {offset}: {what}: move the directory away and extract again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The kernel broke its word.
    #[error("the kernel returned packet {seq} of stream {stream} after packet {last}")]
    Order {
        /// Stream instance.
        stream: u64,
        /// The packet's number.
        seq: u64,
        /// The last stored.
        last: u64,
    },
}

/// What to do about a refusal of the file system, where that can be said.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            ": mount it read-write, or extract to another directory; nothing was acknowledged, so nothing is lost"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": make room there, or extract to another directory; nothing was acknowledged, so nothing is lost"
        }
        _ => "",
    }
}
