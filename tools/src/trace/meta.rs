//! The meta stream: what the records of all other streams mean.

use std::collections::{BTreeMap, HashMap, HashSet};

use bootbuf::abi::{
    KERNEL_PANICS, KERNEL_RUNS, KERNEL_STOPS, MetaLost, PACKET_PREVIOUS, RECORD_ALIGN,
    RECORD_HEADER, STREAM_META,
};
use bootbuf::reader::{self, Item, Packet, Record};
use markers::decode::{DescriptorError, Kind};

use super::clock::Clock;
use super::marker::Marker;

/// A file with markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its path when the kernel first saw it.
    pub path: String,
    /// The GNU build id.
    pub build_id: Vec<u8>,
}

/// A process that wrote records, or was ready to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Thread group id.
    pub pid: u32,
    /// Its parent's.
    pub ppid: u32,
    /// Its user.
    pub uid: u32,
    /// `CLOCK_BOOTTIME` at its start.
    pub start_ns: u64,
    /// Reading of the trace clock when it was handed its first chunk.
    pub first_seen: u64,
    /// Path of the executable.
    pub path: String,
    /// The executable's GNU build id; empty without one.
    pub build_id: Vec<u8>,
    /// Wait status and reading of the trace clock at its end.
    pub exit: Option<(u32, u64)>,
}

/// How a boot ended, as the kernel said itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Whether it panicked; else it was stopped.
    pub panic: bool,
    /// The panic's message, or what the stop was for.
    pub text: String,
    /// Reading of the trace clock.
    pub reading: u64,
}

/// Something in the meta stream that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// A record that cannot be decoded.
    #[error("meta stream: {0}")]
    Record(#[from] reader::MetaError),
    /// Something that is no committed record.
    #[error("meta stream: no record at octet {offset} of packet {seq}")]
    Damaged {
        /// Number of the packet.
        seq: u64,
        /// Offset in it.
        offset: usize,
    },
    /// A descriptor that cannot be understood.
    #[error("meta stream: marker {id}: {source}")]
    Marker {
        /// Event id.
        id: u32,
        /// What is wrong with it.
        source: DescriptorError,
    },
}

/// All that is needed to decode.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// Boot id, when at least one packet was added.
    pub boot_id: Option<[u8; 16]>,
    /// The trace clock.
    pub clock: Clock,
    /// Whether a clock record was there.
    pub has_clock: bool,
    /// Files with markers.
    pub modules: BTreeMap<u32, Module>,
    /// Markers by the id in records.
    pub markers: HashMap<u32, Marker>,
    /// Texts of slots: what cells of aggregations mean.
    pub slots: BTreeMap<u32, String>,
    /// Processes in the order of their first chunk.
    pub processes: Vec<Process>,
    /// Release of the kernel that wrote the trace, when it says so.
    pub release: Option<String>,
    /// Whether the trace was taken from memory by the boot after it.
    pub previous: bool,
    /// Streams with losses that packets may not tell, by number; the greatest counts.
    pub lost: BTreeMap<u64, MetaLost>,
    /// Records of the meta stream itself that found no room.
    pub left_out: u64,
    /// How the boot ended; the last word counts.
    pub end: Option<End>,
    /// What could not be used.
    pub errors: Vec<MetaError>,
    /// The last of `processes` with a number.
    latest: HashMap<u32, usize>,
    seen: HashSet<Vec<u8>>,
}

impl Meta {
    /// Adds a packet of the meta stream. Records that were added before are skipped, so the same
    /// packets may come again. Returns the octets of the records that are new.
    pub fn add(&mut self, packet: &Packet<'_>) -> Vec<u8> {
        if packet.header().stream_id != STREAM_META {
            // A file of a trace directory may hold anything.
            self.errors.push(MetaError::Damaged {
                seq: packet.header().seq,
                offset: 0,
            });
            return Vec::new();
        }
        self.boot_id.get_or_insert(packet.header().uuid);
        self.previous |= packet.header().flags & PACKET_PREVIOUS != 0;
        self.left_out = self.left_out.max(packet.header().discarded);
        let mut fresh = Vec::new();
        for item in packet.records() {
            match item {
                Item::Committed(record) => {
                    let end = record.offset + RECORD_HEADER + record.payload.len();
                    let bytes = &packet.bytes()[record.offset..end];
                    if !self.seen.insert(bytes.to_vec()) {
                        continue;
                    }
                    fresh.extend_from_slice(bytes);
                    fresh.resize(fresh.len().next_multiple_of(RECORD_ALIGN), 0);
                    if let Err(error) = self.record(&record) {
                        self.errors.push(error);
                    }
                }
                Item::Torn { offset, .. } | Item::Malformed { offset, .. } => {
                    self.errors.push(MetaError::Damaged {
                        seq: packet.header().seq,
                        offset,
                    });
                }
            }
        }
        fresh
    }

    /// The losses of a stream whose last packet counts `in_packets`, of which the extractor added
    /// `left_out`.
    pub fn lost_of(&self, stream: u64, in_packets: u64, left_out: u64) -> u64 {
        self.lost.get(&stream).map_or(in_packets, |said| {
            in_packets.max(said.lost.saturating_add(left_out))
        })
    }

    /// The markers that may begin a span which `end` ends, the likeliest first: descriptors do not say
    /// which belong together, but those of one place in a source are mostly neighbours.
    pub fn begins(&self, end: &Marker) -> Vec<&Marker> {
        let mut begins: Vec<_> = self
            .markers
            .values()
            .filter(|marker| {
                marker.kind() == Kind::SpanBegin
                    && marker.module == end.module
                    && marker.full_name == end.full_name
            })
            .collect();
        begins.sort_by_key(|begin| {
            let same_line = begin.line() == end.line();
            (!same_line, begin.id.abs_diff(end.id), begin.id)
        });
        begins
    }

    fn record(&mut self, record: &Record<'_>) -> Result<(), MetaError> {
        match reader::Meta::decode(record)? {
            reader::Meta::Clock(clock) => {
                if let Some(clock) = Clock::from_meta(&clock) {
                    self.clock = clock;
                    self.has_clock = true;
                }
            }
            reader::Meta::Module { module, path } => {
                let build_id = module.build_id[..module.build_id_len.into()].to_vec();
                self.modules.insert(
                    module.module_id,
                    Module {
                        path: text(path),
                        build_id,
                    },
                );
            }
            reader::Meta::Marker { marker, descriptor } => {
                let id = marker.event_id;
                let marker = Marker::parse(id, marker.module_id, descriptor)
                    .map_err(|source| MetaError::Marker { id, source })?;
                self.markers.insert(id, marker);
            }
            reader::Meta::Process { process, path } => {
                self.latest.insert(process.pid, self.processes.len());
                self.processes.push(Process {
                    pid: process.pid,
                    ppid: process.ppid,
                    uid: process.uid,
                    start_ns: process.start_boottime_ns,
                    first_seen: record.timestamp,
                    path: text(path),
                    build_id: process.build_id[..process.build_id_len.into()].to_vec(),
                    exit: None,
                });
            }
            reader::Meta::Exit(exit) => {
                let latest = self.latest.get(&exit.pid);
                if let Some(process) = latest.and_then(|&at| self.processes.get_mut(at)) {
                    process
                        .exit
                        .get_or_insert((exit.exit_code, record.timestamp));
                }
            }
            reader::Meta::Slot { slot, text: octets } => {
                self.slots.insert(slot.slot, text(octets));
            }
            reader::Meta::Kernel { kernel, text: word } => match kernel.state {
                KERNEL_RUNS => self.release = Some(text(word)),
                KERNEL_STOPS | KERNEL_PANICS => {
                    self.end = Some(End {
                        panic: kernel.state == KERNEL_PANICS,
                        text: text(word),
                        reading: record.timestamp,
                    });
                }
                _ => {}
            },
            reader::Meta::Lost(lost) => {
                let of_stream = self.lost.entry(lost.stream_instance).or_insert(lost);
                *of_stream = MetaLost {
                    lost: lost.lost.max(of_stream.lost),
                    overwritten: lost.overwritten.max(of_stream.overwritten),
                    ..lost
                };
            }
            // A newer kernel's: nothing here depends on it.
            reader::Meta::Unknown { .. } => {}
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
