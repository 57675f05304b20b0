//! The cells in a trace directory.

use std::path::Path;

use bootbuf::abi::{PacketHeader, STREAM_AGGREGATE};
use bootbuf::reader::{Cell, Item, packets};

use super::layout::{Layout, Layouts};
use crate::trace::reader::{Damage, Trace};

/// What was found in the aggregate streams of a trace.
#[derive(Debug, Default)]
pub struct Found {
    /// Header of the last packet of each, with the stream's file name.
    pub streams: Vec<(String, PacketHeader)>,
    /// What cannot be used.
    pub damage: Vec<Damage>,
}

/// Calls `each` with every cell that counts an event, its layout, its packet's header and its time.
pub fn read<'a>(
    trace: &'a Trace,
    mut each: impl FnMut(&Layout<'a>, &Cell<'_>, &PacketHeader, u64),
) -> Found {
    let mut found = Found::default();
    let mut layouts = Layouts::new(&trace.meta);
    for path in trace.files_of(STREAM_AGGREGATE) {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                found.damaged(path, 0, format!("{error}: the stream is left out"));
                continue;
            }
        };
        read_stream(path, &bytes, &mut layouts, &mut found, &mut each);
    }
    found
}

fn read_stream<'a>(
    path: &Path,
    bytes: &[u8],
    layouts: &mut Layouts<'a>,
    found: &mut Found,
    each: &mut impl FnMut(&Layout<'a>, &Cell<'_>, &PacketHeader, u64),
) {
    let mut last = None;
    let mut walk = packets(bytes);
    loop {
        let start = walk.offset() as u64;
        let packet = match walk.next() {
            None => break,
            Some(Err(error)) => {
                let left = bytes.len() as u64 - start;
                found.damaged(path, start, format!("{error}: {left} octets are lost"));
                break;
            }
            Some(Ok(packet)) => packet,
        };
        if packet.header().stream_id != STREAM_AGGREGATE {
            found.damaged(path, start, "a packet of another stream".into());
            break;
        }
        last = Some(*packet.header());
        for item in packet.records() {
            let (offset, what) = match item {
                Item::Committed(record) => {
                    let used = Cell::decode(&record)
                        .map_err(|error| error.to_string())
                        .and_then(|cell| {
                            let layout = layouts.of(&cell).map_err(|error| error.to_string())?;
                            if cell.count() != 0 {
                                each(layout, &cell, packet.header(), record.timestamp);
                            }
                            Ok(())
                        });
                    match used {
                        Ok(()) => continue,
                        Err(what) => (record.offset, format!("{what}: it is left out")),
                    }
                }
                Item::Torn { offset, .. } => (offset, "a cell that was never completed".into()),
                Item::Malformed { offset, reason } => {
                    (offset, format!("{reason}: the rest of the packet is lost"))
                }
            };
            found.damaged(path, start + offset as u64, what);
        }
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.into_owned();
    found.streams.extend(last.map(|header| (name, header)));
}

impl Found {
    fn damaged(&mut self, file: &Path, offset: u64, what: String) {
        self.damage.push(Damage {
            file: file.to_owned(),
            offset,
            what,
        });
    }
}
