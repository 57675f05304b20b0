//! The trace directory as a transaction: everything is built in a directory beside the target,
//! which takes the target's place in one step when it is complete and on the disk.
//!
//! Packets have names (stream instance, sequence number), so a packet that comes again is
//! recognised, and the extractor may die at any point:
//!
//! | dies | then |
//! | --- | --- |
//! | before the exchange | the target is as it was; what stands beside it is removed by the next run |
//! | before the acknowledgement | the kernel offers the same packets again; they are recognised |

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use bootbuf::abi::{
    CTF_MAGIC, HEADER_SIZE, PacketHeader, SEAL_OPEN, STREAM_AGGREGATE, STREAM_META,
};
use bootbuf::reader::{Item, Packet};
use rustix::fs::{CWD, RenameFlags};
use zerocopy::{FromZeros, IntoBytes};

use super::check::{self, Checked, LeftOut};
use super::notes::{Notes, StoreError, Totals};
use crate::trace::layout;
use crate::trace::meta::Meta;
use crate::trace::tsdl::{self, Machine};
use crate::units::total;

type Result<T> = std::result::Result<T, StoreError>;

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { what, path, source }
}

/// Streams up to which each file is synced by itself.
const MAX_FILE_SYNCS: usize = 32;

/// One stream on its way.
#[derive(Debug, Default)]
struct Stream {
    /// Its file in the old directory, not copied yet.
    old: Option<PathBuf>,
    /// Its packets' places, in order.
    packets: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    header: PacketHeader,
    events: u64,
    /// Time-stamp of the last record, else the packet's begin.
    last: u64,
}

impl Stream {
    fn len(&self) -> u64 {
        self.packets
            .last()
            .map_or(0, |place| place.offset + place.header.packet_bits / 8)
    }
}

/// A trace directory that is being written.
#[derive(Debug)]
pub struct Store {
    target: PathBuf,
    temp: PathBuf,
    /// Open from the begin, so that a sync reports every write that failed since.
    temp_dir: File,
    /// Whether a target is there to be exchanged.
    exists: bool,
    streams: BTreeMap<u64, Stream>,
    meta: Meta,
    meta_bytes: Vec<u8>,
    meta_seq: u64,
    notes: Notes,
}

impl Store {
    /// Begins a directory, or goes on with the one that is there.
    ///
    /// # Errors
    /// When the target holds something else, or cannot be written beside.
    pub fn open(target: &Path, machine: Machine) -> Result<Self> {
        let name = target
            .file_name()
            .ok_or_else(|| StoreError::NotATrace(target.to_owned()))?;
        let parent = match target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let beside = |ending: &str| {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(ending);
            parent.join(hidden)
        };
        create_dirs(parent)?;
        let (temp, old) = (beside(".new"), beside(".old"));
        if old.exists() {
            // Left by a run that died in the two steps of `replace`.
            if target.exists() {
                remove(&old)?;
            } else {
                fs::rename(&old, target).map_err(io_error("restore", &old))?;
            }
        }
        remove(&temp)?;
        // What programs wrote is for who may read everybody's memory: see also `replace`.
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&temp)
            .map_err(io_error("create", &temp))?;
        let temp_dir = File::open(&temp).map_err(io_error("open", &temp))?;
        let mut store = Self {
            target: target.to_owned(),
            temp,
            temp_dir,
            exists: false,
            streams: BTreeMap::new(),
            meta: Meta::default(),
            meta_bytes: Vec::new(),
            meta_seq: 0,
            notes: Notes::default(),
        };
        if target.exists() {
            store.load()?;
        }
        store.notes.version = 1;
        store.notes.machine = machine;
        store.notes.extractions = store.notes.extractions.saturating_add(1);
        Ok(store)
    }

    fn load(&mut self) -> Result<()> {
        let list = |path: &Path| -> io::Result<Vec<fs::DirEntry>> { fs::read_dir(path)?.collect() };
        let entries = list(&self.target).map_err(io_error("read", &self.target))?;
        self.exists = true;
        if entries.is_empty() {
            return Ok(());
        }
        let meta = self.target.join(layout::META);
        let bytes = match fs::read(&meta) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::NotATrace(self.target.clone()));
            }
            other => other.map_err(io_error("read", &meta))?,
        };
        let damaged = |path: &Path, offset: usize, what: String| StoreError::Damaged {
            path: path.to_owned(),
            offset: offset as u64,
            what,
        };
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let offset = bytes.len() - rest.len();
            let (packet, next) =
                Packet::parse(rest).map_err(|error| damaged(&meta, offset, error.to_string()))?;
            self.add_meta(&packet);
            rest = next;
        }
        let path = self.target.join(layout::NOTES);
        let text = fs::read(&path).map_err(io_error("read", &path))?;
        self.notes =
            serde_json::from_slice(&text).map_err(|error| damaged(&path, 0, error.to_string()))?;
        for entry in entries {
            if !entry.file_name().to_str().is_some_and(layout::is_stream) {
                continue;
            }
            // A packet's name is none without its boot: another one's packets would be recognised.
            let Some(ours) = self.meta.boot_id else {
                let what = "no packet says of which boot the trace is";
                return Err(damaged(&meta, 0, what.into()));
            };
            let path = entry.path();
            let bytes = fs::read(&path).map_err(io_error("read", &path))?;
            let mut stream = Stream {
                old: Some(path.clone()),
                packets: Vec::new(),
            };
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let offset = bytes.len() - rest.len();
                let (packet, next) = Packet::parse(rest)
                    .map_err(|error| damaged(&path, offset, error.to_string()))?;
                let theirs = packet.header().uuid;
                if theirs != ours {
                    let (theirs, ours) = (tsdl::uuid(&theirs), tsdl::uuid(&ours));
                    let what = format!("a packet of another boot ({theirs}; the trace is {ours})");
                    return Err(damaged(&path, offset, what));
                }
                let mut place = Place {
                    offset: offset as u64,
                    header: *packet.header(),
                    events: 0,
                    last: packet.header().ts_begin,
                };
                for item in packet.records() {
                    let Item::Committed(record) = item else {
                        return Err(damaged(&path, offset, "a damaged record".into()));
                    };
                    place.events += u64::from(place.header.stream_id != STREAM_AGGREGATE);
                    place.last = record.timestamp;
                }
                stream.packets.push(place);
                rest = next;
            }
            if let Some(first) = stream.packets.first() {
                self.streams.insert(first.header.stream_instance, stream);
            }
        }
        Ok(())
    }

    /// Takes a packet. One that is there already is recognised; a snapshot gives way to a later
    /// version of itself.
    ///
    /// # Errors
    /// When it belongs to another boot, or cannot be written.
    pub fn add(&mut self, packet: &Packet<'_>) -> Result<()> {
        let theirs = *self.meta.boot_id.get_or_insert(packet.header().uuid);
        if theirs != packet.header().uuid {
            return Err(StoreError::OtherBoot {
                path: self.target.clone(),
                theirs: tsdl::uuid(&theirs),
                ours: tsdl::uuid(&packet.header().uuid),
            });
        }
        if packet.header().stream_id == STREAM_META {
            self.add_meta(packet);
            return Ok(());
        }
        let header = *packet.header();
        let stream = self.streams.entry(header.stream_instance).or_default();
        if let Some(last) = stream.packets.last() {
            let snapshot = last.header.seal == SEAL_OPEN;
            if header.seq == last.header.seq && snapshot {
                // A snapshot that is not longer has nothing new.
                if header.seal == SEAL_OPEN && header.content_bits < last.header.content_bits {
                    return Ok(());
                }
                stream.packets.pop();
            } else if header.seq > last.header.seq && snapshot {
                // Its chunk was overwritten meanwhile, and all that was in it is counted as lost: what
                // was left out of it too.
                if let Some(left_out) = self.notes.left_out.get_mut(&header.stream_instance) {
                    left_out.remove(&last.header.seq);
                }
                stream.packets.pop();
            } else if header.seq <= last.header.seq {
                // The chunk of a snapshot may have been overwritten, and counted as lost, before it was
                // its turn.
                return if header.seal == SEAL_OPEN
                    || stream
                        .packets
                        .iter()
                        .any(|place| place.header.seq == header.seq)
                {
                    Ok(())
                } else {
                    Err(StoreError::Order {
                        stream: header.stream_instance,
                        seq: header.seq,
                        last: last.header.seq,
                    })
                };
            }
        }
        let previous = stream.packets.last().copied();
        let checked = check::check(packet, &self.meta, previous.map_or(0, |place| place.last));
        self.append(checked, previous)
    }

    fn append(&mut self, mut checked: Checked, previous: Option<Place>) -> Result<()> {
        let instance = checked.header.stream_instance;
        let left_out = self.notes.left_out.entry(instance).or_default();
        if checked.left_out.is_empty() {
            left_out.remove(&checked.header.seq);
        } else {
            left_out.insert(checked.header.seq, checked.left_out);
        }
        let lost = total(left_out.values().map(LeftOut::lost));
        checked.header.discarded = checked.header.discarded.saturating_add(lost);
        if left_out.is_empty() {
            self.notes.left_out.remove(&instance);
        }
        let path = self.temp.join(building(instance));
        let stream = self
            .streams
            .get_mut(&instance)
            .expect("entered by the caller");
        if let Some(old) = stream.old.take() {
            fs::copy(&old, &path).map_err(io_error("copy", &old))?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(false)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io_error("create", &path))?;
        let write = io_error("write", &path);
        let offset = stream.len();
        let mut work = || -> io::Result<()> {
            // CTF wants the packets of a stream one after the other in time; the kernel hands out
            // the next chunk a little before it seals the last.
            if let Some(mut before) = previous.filter(|p| p.header.ts_end > checked.header.ts_begin)
            {
                if checked
                    .first
                    .is_some_and(|first| first < before.header.ts_end)
                {
                    before.header.ts_end = before.last.max(checked.header.ts_begin);
                    file.write_all_at(before.header.as_bytes(), before.offset)?;
                    *stream.packets.last_mut().expect("there is a previous one") = before;
                }
                checked.header.ts_begin = checked.header.ts_begin.max(before.header.ts_end);
            }
            checked.header.ts_end = checked.header.ts_end.max(checked.header.ts_begin);
            checked.store_header();
            file.set_len(offset)?;
            file.write_all_at(&checked.bytes, offset)
        };
        work().map_err(write)?;
        stream.packets.push(Place {
            offset,
            header: checked.header,
            events: checked.events,
            last: checked.last.unwrap_or(checked.header.ts_begin),
        });
        Ok(())
    }

    fn add_meta(&mut self, packet: &Packet<'_>) {
        let records = self.meta.add(packet);
        if records.is_empty() {
            return;
        }
        let mut header = *packet.header();
        header.seq = self.meta_seq;
        header.packet_bits = 8 * (HEADER_SIZE + records.len()) as u64;
        header.content_bits = header.packet_bits;
        self.meta_seq += 1;
        self.meta_bytes.extend_from_slice(header.as_bytes());
        self.meta_bytes.extend_from_slice(&records);
    }

    /// Sees to it that the meta stream's file says of which boot the packets are, even when no record of
    /// that stream came.
    fn name_boot(&mut self) {
        let Some(uuid) = self.meta.boot_id.filter(|_| self.meta_bytes.is_empty()) else {
            return;
        };
        let mut header = PacketHeader::new_zeroed();
        header.magic = CTF_MAGIC;
        header.stream_id = STREAM_META;
        header.uuid = uuid;
        header.packet_bits = 8 * HEADER_SIZE as u64;
        header.content_bits = header.packet_bits;
        self.meta_bytes.extend_from_slice(header.as_bytes());
    }

    /// What the meta stream said so far.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What was left out so far.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Completes the directory, puts it on the disk and in the target's place. After this the
    /// packets may be acknowledged.
    ///
    /// # Errors
    /// When the file system refuses; then the target is as it was.
    pub fn commit(mut self) -> Result<Totals> {
        let mut totals = Totals::default();
        self.streams.retain(|_, stream| !stream.packets.is_empty());
        for (instance, stream) in &self.streams {
            let last = stream
                .packets
                .last()
                .expect("streams without packets are dropped");
            totals.streams += 1;
            totals.events += total(stream.packets.iter().map(|place| place.events));
            let left_out = self.notes.lost_of(*instance);
            let lost = self
                .meta
                .lost_of(*instance, last.header.discarded, left_out);
            totals.lost = totals.lost.saturating_add(lost);
            totals.bytes += stream.len();
            let path = self.temp.join(layout::stream_file(&last.header));
            match &stream.old {
                Some(old) => fs::hard_link(old, &path)
                    .or_else(|_| fs::copy(old, &path).map(drop))
                    .map_err(io_error("copy", old))?,
                None => fs::rename(self.temp.join(building(*instance)), &path)
                    .map_err(io_error("name", &path))?,
            }
        }
        let without_packets = self.meta.lost.iter();
        let without_packets = without_packets
            .filter(|(instance, _)| !self.streams.contains_key(instance))
            .map(|(_, said)| said.lost);
        totals.lost = total(without_packets.chain([totals.lost]));
        // An earlier boot may have had another kernel than the one that runs here.
        if let Some(release) = &self.meta.release {
            self.notes.machine.release.clone_from(release);
        }
        let notes = serde_json::to_string_pretty(&self.notes).expect("numbers and text");
        let begins = self
            .streams
            .values()
            .map(|stream| stream.packets[0].header.ts_begin);
        let earliest = begins.min().unwrap_or(u64::MAX);
        let metadata = tsdl::metadata(&self.meta, &self.notes.machine, earliest);
        self.name_boot();
        for (name, bytes) in [
            (layout::META, &self.meta_bytes[..]),
            (layout::NOTES, notes.as_bytes()),
            (layout::METADATA, metadata.as_bytes()),
        ] {
            let path = self.temp.join(name);
            let mut file = File::create(&path).map_err(io_error("create", &path))?;
            file.write_all(bytes).map_err(io_error("write", &path))?;
        }
        self.sync()?;
        self.replace()?;
        Ok(totals)
    }

    /// Puts the built directory on the disk. Many files are synced by one call for the whole file
    /// system: one call a file takes seconds for a few thousand threads.
    fn sync(&self) -> Result<()> {
        if self.streams.len() > MAX_FILE_SYNCS {
            return rustix::fs::syncfs(&self.temp_dir)
                .map_err(|error| io_error("sync", &self.temp)(error.into()));
        }
        let entries = fs::read_dir(&self.temp).map_err(io_error("read", &self.temp))?;
        for entry in entries {
            let path = entry.map_err(io_error("read", &self.temp))?.path();
            File::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(io_error("sync", &path))?;
        }
        sync_dir(&self.temp)
    }

    fn replace(&self) -> Result<()> {
        let parent = self.temp.parent().unwrap_or(Path::new("."));
        let name = io_error("put the finished trace at", &self.target);
        if !self.exists {
            fs::rename(&self.temp, &self.target).map_err(name)?;
            return sync_dir(parent);
        }
        // Whom its owner lets in stays in.
        fs::metadata(&self.target)
            .and_then(|before| fs::set_permissions(&self.temp, before.permissions()))
            .map_err(io_error("set the mode of", &self.temp))?;
        match rustix::fs::renameat_with(CWD, &self.temp, CWD, &self.target, RenameFlags::EXCHANGE) {
            Ok(()) => {
                sync_dir(parent)?;
                remove(&self.temp)
            }
            // Not every file system can exchange; `open` repairs what is between the two steps.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                let old = self.temp.with_extension("old");
                fs::rename(&self.target, &old).map_err(io_error("move away", &self.target))?;
                sync_dir(parent)?;
                fs::rename(&self.temp, &self.target).map_err(name)?;
                sync_dir(parent)?;
                remove(&old)
            }
            Err(error) => Err(name(error.into())),
        }
    }
}

impl Drop for Store {
    /// A store that was not committed leaves nothing behind, if it can.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.temp);
    }
}

fn building(instance: u64) -> String {
    format!(".stream-{instance}")
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Makes a directory and those above it, so that they are on the disk when this returns: a trace in a
/// directory that a power cut takes away is gone too.
fn create_dirs(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = match path.parent() {
        Some(above) if above != Path::new("") => above,
        _ => Path::new("."),
    };
    create_dirs(above)?;
    match fs::create_dir(path) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(io_error("create", path))?,
    }
    sync_dir(above)
}

fn sync_dir(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|dir| dir.sync_all())
        .map_err(io_error("sync", path))
}
