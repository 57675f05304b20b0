//! Events of a trace directory in the order of time.
//!
//! Streams are merged with a heap that holds one entry a stream. A packet is read when its time
//! comes and given up when its last event was returned, so memory is a packet (64 KiB at most) for
//! each stream that is active at that time, however long the trace is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bootbuf::abi::{
    HEADER_SIZE, MAX_CHUNK, PacketHeader, RECORD_ALIGN, RECORD_HEADER, STREAM_AGGREGATE,
    STREAM_META,
};
use bootbuf::reader::{Item, Packet, PacketError};
use zerocopy::{FromBytes, IntoBytes};

use super::layout;
use super::marker::Marker;
use super::meta::Meta;
use super::packet;
use crate::extract::notes::Notes;

/// Why a directory cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Nothing there that was made by `bootmark extract`.
    #[error("{} is no Bootmark trace: it has no file {}", .0.display(), layout::META)]
    NotATrace(PathBuf),
    /// The file system refuses.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The meta stream says nothing.
    #[error("{}: {source}: nothing can be decoded without it", path.display())]
    Meta {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: PacketError,
    },
}

/// Something that was lost in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}, offset {offset}: {what}", file.display())]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Where.
    pub offset: u64,
    /// What is wrong, and what is lost.
    pub what: String,
}

/// A stream of the directory.
#[derive(Clone, Debug)]
pub struct StreamInfo {
    /// Its file.
    pub file: PathBuf,
    /// Header of its last packet.
    pub last: PacketHeader,
    /// Packets seen so far.
    pub packets: u64,
}

/// A trace directory.
#[derive(Debug)]
pub struct Trace {
    /// Where it is.
    pub dir: PathBuf,
    /// What its records mean.
    pub meta: Meta,
    /// What the extractor noted; empty when the file cannot be read.
    pub notes: Notes,
    /// What was found to be damaged so far.
    pub damage: Vec<Damage>,
    files: Vec<PathBuf>,
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Number of its stream in [`Events::streams`].
    pub stream: usize,
    /// Header of its packet.
    pub header: &'a PacketHeader,
    /// What it means.
    pub marker: &'a Marker,
    /// Raw reading of the trace clock.
    pub timestamp: u64,
    /// Nanoseconds since boot.
    pub ns: i64,
    /// The fields' octets.
    pub payload: &'a [u8],
}

impl Trace {
    /// Opens a directory, or its subdirectory `trace`.
    ///
    /// # Errors
    /// When it was not made by `bootmark extract`, or nothing of it can be decoded.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let inner = path.join("trace");
        let dir = if !path.join(layout::META).exists() && inner.join(layout::META).exists() {
            inner
        } else {
            path.to_owned()
        };
        let io_error = |path: &Path, source| TraceError::Io {
            path: path.to_owned(),
            source,
        };
        let mut files = Vec::new();
        for entry in fs::read_dir(&dir).map_err(|error| io_error(&dir, error))? {
            let entry = entry.map_err(|error| io_error(&dir, error))?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && entry.file_name().to_str().is_some_and(layout::is_stream) {
                files.push(entry.path());
            }
        }
        files.sort();
        let path = dir.join(layout::META);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(TraceError::NotATrace(dir));
            }
            other => other.map_err(|error| io_error(&path, error))?,
        };
        let mut trace = Self {
            dir,
            meta: Meta::default(),
            notes: Notes::default(),
            damage: Vec::new(),
            files,
        };
        trace.read_meta(&path, &bytes)?;
        trace.read_notes();
        Ok(trace)
    }

    fn read_meta(&mut self, path: &Path, bytes: &[u8]) -> Result<(), TraceError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = (bytes.len() - rest.len()) as u64;
            match Packet::parse(rest) {
                Ok((packet, next)) if packet.header().stream_id == STREAM_META => {
                    self.meta.add(&packet);
                    rest = next;
                }
                Ok((packet, _)) => {
                    let what = format!("a packet of stream class {}", packet.header().stream_id);
                    self.damage.push(Damage {
                        file: path.to_owned(),
                        offset,
                        what,
                    });
                    break;
                }
                Err(source) if offset == 0 => {
                    return Err(TraceError::Meta {
                        path: path.to_owned(),
                        source,
                    });
                }
                Err(source) => {
                    let what = format!("{source}: markers described behind it are unknown");
                    self.damage.push(Damage {
                        file: path.to_owned(),
                        offset,
                        what,
                    });
                    break;
                }
            }
        }
        let errors = self.meta.errors.iter().map(|error| Damage {
            file: path.to_owned(),
            offset: 0,
            what: error.to_string(),
        });
        self.damage.extend(errors);
        Ok(())
    }

    fn read_notes(&mut self) {
        let file = self.dir.join(layout::NOTES);
        let notes = fs::read(&file)
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
        match notes {
            Ok(notes) => self.notes = notes,
            Err(what) => self.damage.push(Damage {
                file,
                offset: 0,
                what,
            }),
        }
    }

    /// The files of this boot's streams of a kind, so far as their first header can be read.
    pub fn files_of(&self, stream_id: u32) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path).filter(move |path| {
            let header = File::open(path).and_then(|file| read_header(&file, 0));
            header.is_ok_and(|header| {
                header.stream_id == stream_id
                    && self.meta.boot_id.is_none_or(|id| id == header.uuid)
            })
        })
    }

    /// Its events in the order of time.
    pub fn events(&self) -> Events<'_> {
        let mut events = Events {
            meta: &self.meta,
            streams: Vec::new(),
            cursors: Vec::new(),
            heap: BinaryHeap::new(),
            damage: Vec::new(),
        };
        for file in &self.files {
            events.add_file(file);
        }
        events
    }
}

/// Iterator over the events of a trace; lends each until the next is asked for.
#[derive(Debug)]
pub struct Events<'a> {
    meta: &'a Meta,
    /// The streams.
    pub streams: Vec<StreamInfo>,
    cursors: Vec<Cursor>,
    /// Time, stream: the next event of each stream, or the begin of its next packet.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// What was found to be damaged so far.
    pub damage: Vec<Damage>,
}

/// Where reading a stream stands.
#[derive(Debug)]
struct Cursor {
    uuid: [u8; 16],
    instance: u64,
    /// Octets of the packet being read, its header and its records.
    packet: Vec<u8>,
    header: PacketHeader,
    records: std::vec::IntoIter<Place>,
    /// The packet that comes next, and where it is in the file.
    next: Option<(u64, PacketHeader)>,
}

/// A record in the packet being read.
#[derive(Clone, Copy, Debug)]
struct Place {
    id: u32,
    timestamp: u64,
    payload: (usize, usize),
}

impl Events<'_> {
    fn add_file(&mut self, path: &Path) {
        let header = File::open(path).and_then(|file| read_header(&file, 0));
        let header = match header {
            Ok(header) if self.meta.boot_id.is_some_and(|id| id != header.uuid) => {
                return self.damaged(path, 0, "belongs to another boot: left out".into());
            }
            // Cells are no events: `aggregate::cells` reads them.
            Ok(header) if header.stream_id == STREAM_AGGREGATE => return,
            Ok(header) => header,
            Err(error) => return self.damaged(path, 0, format!("{error}: the stream is left out")),
        };
        self.heap
            .push(Reverse((header.ts_begin, self.streams.len())));
        self.streams.push(StreamInfo {
            file: path.to_owned(),
            last: header,
            packets: 0,
        });
        self.cursors.push(Cursor {
            uuid: header.uuid,
            instance: header.stream_instance,
            packet: Vec::new(),
            header,
            records: Vec::new().into_iter(),
            next: Some((0, header)),
        });
    }

    fn damaged(&mut self, file: &Path, offset: u64, what: String) {
        self.damage.push(Damage {
            file: file.to_owned(),
            offset,
            what,
        });
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<Event<'_>> {
        loop {
            let Reverse((_, stream)) = self.heap.pop()?;
            let Some(place) = self.cursors[stream].records.next() else {
                if let Some((offset, header)) = self.cursors[stream].next.take() {
                    self.load(stream, offset, header);
                    self.schedule(stream);
                }
                continue;
            };
            self.schedule(stream);
            // `load` keeps none without.
            let Some(marker) = self.meta.markers.get(&place.id) else {
                continue;
            };
            let cursor = &self.cursors[stream];
            return Some(Event {
                stream,
                header: &cursor.header,
                marker,
                timestamp: place.timestamp,
                ns: self.meta.clock.ns(place.timestamp),
                payload: &cursor.packet[place.payload.0..place.payload.1],
            });
        }
    }

    /// Enters the stream's next record, or else its next packet.
    fn schedule(&mut self, stream: usize) {
        let cursor = &self.cursors[stream];
        let record = cursor
            .records
            .as_slice()
            .first()
            .map(|place| place.timestamp);
        let time = record.or(cursor.next.map(|(_, header)| header.ts_begin));
        self.heap.extend(time.map(|time| Reverse((time, stream))));
    }

    /// Reads a packet, and finds the one behind it.
    fn load(&mut self, stream: usize, offset: u64, header: PacketHeader) {
        let path = self.streams[stream].file.clone();
        let whole = (header.packet_bits / 8) as usize;
        let mut bytes = vec![0; whole.min(MAX_CHUNK)];
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) => return self.damaged(&path, offset, format!("{error}: the rest is lost")),
        };
        let have = match read_up_to(&file, &mut bytes, offset) {
            Ok(have) => have,
            Err(error) => return self.damaged(&path, offset, format!("{error}: the rest is lost")),
        };
        let content = (header.content_bits / 8) as usize;
        if have < content {
            let what = format!(
                "cut off: {} octets of packet {} are lost",
                content - have,
                header.seq
            );
            self.damaged(&path, offset + have as u64, what);
            // What is there is read as a shorter packet.
            let shorter = PacketHeader {
                content_bits: 8 * have as u64,
                ..header
            };
            bytes[..HEADER_SIZE].copy_from_slice(shorter.as_bytes());
        }
        let mut records = Vec::new();
        match Packet::parse(&bytes) {
            Ok((packet, _)) => {
                for item in packet.records() {
                    match self.place(item) {
                        Ok(place) => records.push(place),
                        // The record that the file's end cuts is told of already.
                        Err(_) if have < content && matches!(item, Item::Malformed { .. }) => {}
                        Err((at, what)) => self.damaged(&path, offset + at as u64, what),
                    }
                }
            }
            Err(error) => self.damaged(
                &path,
                offset,
                format!("{error}: packet {} is lost", header.seq),
            ),
        }
        let cursor = &mut self.cursors[stream];
        cursor.packet = bytes;
        cursor.header = header;
        cursor.records = records.into_iter();
        self.streams[stream].last = header;
        self.streams[stream].packets += 1;
        self.find_next(stream, &path, &file, offset + whole as u64);
    }

    fn place(&self, item: Item<'_>) -> Result<Place, (usize, String)> {
        let record = match item {
            Item::Committed(record) => record,
            Item::Torn { offset, .. } => {
                return Err((offset, "a record that was never completed".into()));
            }
            Item::Malformed { offset, reason } => {
                return Err((offset, format!("{reason}: the rest of the packet is lost")));
            }
        };
        let lost = |why: String| (record.offset, format!("{why}: one event is lost"));
        let marker = self.meta.markers.get(&record.id);
        let marker =
            marker.ok_or_else(|| lost(format!("no marker has the event id {}", record.id)))?;
        marker
            .check(record.payload)
            .map_err(|error| lost(format!("{}: {error}", marker.full_name)))?;
        let start = record.offset + RECORD_HEADER;
        let payload = (start, start + record.payload.len());
        Ok(Place {
            id: record.id,
            timestamp: record.timestamp,
            payload,
        })
    }

    /// Finds the packet at `offset`, or the next one behind it.
    fn find_next(&mut self, stream: usize, path: &Path, file: &File, offset: u64) {
        let len = file.metadata().map_or(0, |meta| meta.len());
        if offset >= len {
            return;
        }
        let cursor = &self.cursors[stream];
        let what = match read_header(file, offset) {
            Ok(header)
                if header.uuid == cursor.uuid && header.stream_instance == cursor.instance =>
            {
                self.cursors[stream].next = Some((offset, header));
                return;
            }
            Ok(_) => "a packet of another stream".into(),
            Err(error) => error.to_string(),
        };
        let found = resync(
            file,
            offset + RECORD_ALIGN as u64,
            cursor.uuid,
            cursor.instance,
        );
        let lost = found.map_or(len, |(at, _)| at) - offset;
        self.cursors[stream].next = found;
        self.damaged(path, offset, format!("{what}: {lost} octets are lost"));
    }
}

fn read_up_to(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(len) => filled += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn read_header(file: &File, offset: u64) -> io::Result<PacketHeader> {
    let mut bytes = [0; HEADER_SIZE];
    let len = read_up_to(file, &mut bytes, offset)?;
    packet::header(&bytes[..len]).map_err(io::Error::other)
}

/// The next place at or behind `offset` where a header of the stream stands.
fn resync(file: &File, offset: u64, uuid: [u8; 16], instance: u64) -> Option<(u64, PacketHeader)> {
    let mut window = vec![0; 1 << 20];
    let mut base = offset.next_multiple_of(8);
    loop {
        let len = read_up_to(file, &mut window, base).ok()?;
        if len < HEADER_SIZE {
            return None;
        }
        for at in (0..=len - HEADER_SIZE).step_by(8) {
            let (header, _) = PacketHeader::read_from_prefix(&window[at..len]).ok()?;
            if header.uuid == uuid
                && header.stream_instance == instance
                && packet::header(&window[at..len]).is_ok()
            {
                return Some((base + at as u64, header));
            }
        }
        base += (len - HEADER_SIZE + 8) as u64 & !7;
    }
}
