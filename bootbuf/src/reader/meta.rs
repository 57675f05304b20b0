//! The meta stream: clock readings, modules, markers, processes, slots.

use zerocopy::FromBytes;

use super::record::Record;
use crate::abi::{
    BUILD_ID_MAX, META_CLOCK, META_EXIT, META_KERNEL, META_LOST, META_MARKER, META_MODULE,
    META_PROCESS, META_SLOT, MetaClock, MetaExit, MetaKernel, MetaLost, MetaMarker, MetaModule,
    MetaProcess, MetaSlot,
};

/// Why a record of the meta stream cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// Shorter than its structure and what the structure says follows it.
    #[error("meta record {id} at {offset} has {have} octets where {want} are needed: damaged")]
    Short {
        /// Event id.
        id: u32,
        /// Offset in the packet.
        offset: usize,
        /// Octets of the payload.
        have: usize,
        /// Octets needed.
        want: usize,
    },
    /// A build id longer than its room.
    #[error(
        "meta record {id} at {offset} has a build id of {len} octets, {BUILD_ID_MAX} fit: damaged"
    )]
    BuildId {
        /// Event id.
        id: u32,
        /// Offset in the packet.
        offset: usize,
        /// Its length as given.
        len: u16,
    },
}

/// A decoded record of the meta stream.
#[derive(Clone, Copy, Debug)]
pub enum Meta<'a> {
    /// Readings of the clocks at one moment.
    Clock(MetaClock),
    /// A file with markers.
    Module {
        /// The structure.
        module: MetaModule,
        /// Path of the file as it was first seen; not always UTF-8.
        path: &'a [u8],
    },
    /// A marker.
    Marker {
        /// The structure.
        marker: MetaMarker,
        /// Its descriptor, for `markers::decode`.
        descriptor: &'a [u8],
    },
    /// A process with markers.
    Process {
        /// The structure.
        process: MetaProcess,
        /// Path of the executable; not always UTF-8.
        path: &'a [u8],
    },
    /// The end of one.
    Exit(MetaExit),
    /// The kernel starts or ends.
    Kernel {
        /// The structure.
        kernel: MetaKernel,
        /// Its release, or why it ends; not always UTF-8.
        text: &'a [u8],
    },
    /// What a slot filters and keeps.
    Slot {
        /// The structure.
        slot: MetaSlot,
        /// Its text, for `bootmark_expr`; not always UTF-8.
        text: &'a [u8],
    },
    /// Losses that no packet tells.
    Lost(MetaLost),
    /// Added by a newer kernel; to be passed over.
    Unknown {
        /// Event id.
        id: u32,
    },
}

impl<'a> Meta<'a> {
    /// Decodes a record of a packet whose stream is [`STREAM_META`](crate::abi::STREAM_META).
    pub fn decode(record: &Record<'a>) -> Result<Self, MetaError> {
        Ok(match record.id {
            META_CLOCK => Self::Clock(split(record)?.0),
            META_MODULE => {
                let (module, rest): (MetaModule, _) = split(record)?;
                check_build_id(record, module.build_id_len)?;
                Self::Module {
                    module,
                    path: take(record, rest, module.path_len.into())?,
                }
            }
            META_MARKER => {
                let (marker, descriptor) = split(record)?;
                Self::Marker { marker, descriptor }
            }
            META_PROCESS => {
                let (process, rest): (MetaProcess, _) = split(record)?;
                check_build_id(record, process.build_id_len)?;
                Self::Process {
                    process,
                    path: take(record, rest, process.path_len.into())?,
                }
            }
            META_EXIT => Self::Exit(split(record)?.0),
            META_KERNEL => {
                let (kernel, rest): (MetaKernel, _) = split(record)?;
                Self::Kernel {
                    kernel,
                    text: take(record, rest, kernel.text_len.into())?,
                }
            }
            META_LOST => Self::Lost(split(record)?.0),
            META_SLOT => {
                let (slot, rest): (MetaSlot, _) = split(record)?;
                Self::Slot {
                    slot,
                    text: take(record, rest, slot.text_len.into())?,
                }
            }
            id => Self::Unknown { id },
        })
    }
}

fn split<'a, T: FromBytes>(record: &Record<'a>) -> Result<(T, &'a [u8]), MetaError> {
    T::read_from_prefix(record.payload).map_err(|_| short(record, size_of::<T>()))
}

fn take<'a>(record: &Record<'a>, rest: &'a [u8], len: usize) -> Result<&'a [u8], MetaError> {
    rest.get(..len)
        .ok_or_else(|| short(record, record.payload.len() - rest.len() + len))
}

fn short(record: &Record<'_>, want: usize) -> MetaError {
    MetaError::Short {
        id: record.id,
        offset: record.offset,
        have: record.payload.len(),
        want,
    }
}

fn check_build_id(record: &Record<'_>, len: u16) -> Result<(), MetaError> {
    if usize::from(len) > BUILD_ID_MAX {
        return Err(MetaError::BuildId {
            id: record.id,
            offset: record.offset,
            len,
        });
    }
    Ok(())
}
