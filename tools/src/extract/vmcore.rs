//! Pools in memory dumps: ELF core files of a whole machine, as QEMU's `dump-guest-memory` and kdump's
//! `/proc/vmcore` are.

use std::cmp::Reverse;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bootbuf::abi::{POOL_ALIGN, PoolHeader};
use object::elf::{FileHeader64, PT_LOAD, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, ReadCache, ReadRef};

use super::pool::{self, Contents, HEAD_OCTETS, PoolError};
use super::source::{Source, SourceError};

/// The line of VMCOREINFO that says where the pool is.
const VMCOREINFO_LINE: &[u8] = b"BOOTBUF_POOL=";
/// Longest VMCOREINFO that is looked at, in octets.
const VMCOREINFO_MAX: u64 = 64 << 10;

/// Why a dump gives no packets.
#[derive(Debug, thiserror::Error)]
pub enum VmcoreError {
    /// The file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The dump.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The compressed format of makedumpfile.
    #[error(
        "{} is a compressed dump of makedumpfile: turn it into an ELF file first (makedumpfile -E)",
        .0.display()
    )]
    Compressed(PathBuf),
    /// No ELF file, or not one of memory.
    #[error("{} is no memory dump: {why}", path.display())]
    NoDump {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// There is no pool in it.
    #[error(
        "{} holds no trace buffers: the machine ran without bootbuf=, or they are not in the dump{refused}",
        path.display()
    )]
    NoPool {
        /// The dump.
        path: PathBuf,
        /// What looked like pools and why they were not read; empty or a list.
        refused: String,
    },
}

/// A range of physical memory, all of which is in the file.
struct Segment {
    start: u64,
    offset: u64,
    size: u64,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }
}

struct Dump<'a> {
    data: &'a ReadCache<File>,
    /// Octets of the file.
    len: u64,
    /// None lies within another one, so that of those in order each ends behind the one before.
    segments: Vec<Segment>,
    /// Where VMCOREINFO says that the pool is.
    hint: Option<u64>,
}

impl<'a> Dump<'a> {
    fn parse(data: &'a ReadCache<File>) -> Result<Self, object::Error> {
        let header = FileHeader64::<LittleEndian>::parse(data)?;
        let endian = header.endian()?;
        let mut dump = Self {
            data,
            len: data.len().unwrap_or(0),
            segments: Vec::new(),
            hint: None,
        };
        for segment in header.program_headers(endian, data)? {
            match segment.p_type(endian) {
                PT_LOAD => {
                    let offset = segment.p_offset(endian);
                    // The file may be cut off, and a header may say anything.
                    let rest = dump.len.saturating_sub(offset);
                    dump.segments.push(Segment {
                        start: segment.p_paddr(endian),
                        offset,
                        size: segment.p_filesz(endian).min(rest),
                    });
                }
                // Damage there is no reason to give up: there is the search.
                PT_NOTE => {
                    let notes = segment.notes(endian, data).ok().flatten();
                    let Some(mut notes) = notes else { continue };
                    while let Ok(Some(note)) = notes.next() {
                        if note.name() == b"VMCOREINFO"
                            && note.desc().len() as u64 <= VMCOREINFO_MAX
                        {
                            dump.hint = dump.hint.or(vmcoreinfo(note.desc()));
                        }
                    }
                }
                _ => {}
            }
        }
        dump.segments
            .sort_by_key(|segment| (segment.start, Reverse(segment.size)));
        let mut covered = 0;
        dump.segments.retain(|segment| {
            let more = segment.size != 0 && segment.end() > covered;
            covered = covered.max(segment.end());
            more
        });
        Ok(dump)
    }

    /// As many of `len` octets at a physical address as the dump has in one piece.
    fn read(&self, at: u64, len: u64) -> Option<&'a [u8]> {
        // Of those that have it, the last in order reaches farthest.
        let behind = self.segments.partition_point(|it| it.start <= at);
        let segment = &self.segments[behind.checked_sub(1)?];
        let inside = at - segment.start;
        let len = len.min(segment.size.checked_sub(inside)?);
        let offset = segment.offset.checked_add(inside)?;
        self.data.read_bytes_at(offset, len).ok()
    }

    /// The places where a pool may begin, each once.
    fn places(&self) -> impl Iterator<Item = u64> + '_ {
        let align = u64::from(POOL_ALIGN);
        let mut covered = 0;
        let places = self.segments.iter().flat_map(move |segment| {
            let (from, end) = (segment.start.max(covered), segment.end());
            covered = end;
            let first = from.checked_next_multiple_of(align).unwrap_or(end);
            (first..end).step_by(POOL_ALIGN as usize)
        });
        // No more than the file has room for: segments may say that the same octets of it lie at many
        // addresses.
        let room = (self.len / align).saturating_add(self.segments.len() as u64);
        places.take(usize::try_from(room).unwrap_or(usize::MAX))
    }

    fn head(&self, at: u64) -> Result<PoolHeader, PoolError> {
        let octets = self.read(at, HEAD_OCTETS as u64).unwrap_or_default();
        pool::head(octets, at)
    }

    /// The newest pool: beside that of the boot that was dumped there may be that of the one before. What
    /// looked like one and cannot be used is added to `refused`.
    fn search(&self, refused: &mut String) -> Option<PoolHeader> {
        let mut best: Option<PoolHeader> = None;
        for at in self.places() {
            match self.head(at) {
                Ok(head) if best.is_none_or(|best| head.boot_nr > best.boot_nr) => {
                    best = Some(head);
                }
                Ok(_) | Err(PoolError::None) => {}
                Err(why) => *refused += &format!("\n  at {at:#x}: {why}"),
            }
        }
        best
    }
}

/// The address in the text of VMCOREINFO.
fn vmcoreinfo(text: &[u8]) -> Option<u64> {
    text.split(|&octet| octet == b'\n').find_map(|line| {
        let number = line.strip_prefix(VMCOREINFO_LINE)?;
        u64::from_str_radix(std::str::from_utf8(number).ok()?.trim(), 16).ok()
    })
}

/// The packets of the newest pool in a dump.
#[derive(Debug)]
pub struct VmcoreSource {
    packets: std::vec::IntoIter<Vec<u8>>,
    current: Vec<u8>,
    /// Its head: boot id, kernel release.
    pub head: PoolHeader,
    /// Whether VMCOREINFO said where it is; else it was searched for.
    pub told: bool,
    /// Chunks of it that could not be used.
    pub damaged: u32,
}

impl VmcoreSource {
    /// Looks through the dump.
    ///
    /// # Errors
    /// When it cannot be read, is something else, or holds no pool.
    pub fn open(path: &Path) -> Result<Self, VmcoreError> {
        let open_error = |source| VmcoreError::Open {
            path: path.to_owned(),
            source,
        };
        let data = ReadCache::new(File::open(path).map_err(open_error)?);
        if let Ok(b"KDUMP   " | b"DISKDUMP") = data.read_bytes_at(0, 8) {
            return Err(VmcoreError::Compressed(path.to_owned()));
        }
        let dump = Dump::parse(&data).map_err(|error| VmcoreError::NoDump {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
        if dump.segments.is_empty() {
            return Err(VmcoreError::NoDump {
                path: path.to_owned(),
                why: "it has no memory in it".to_owned(),
            });
        }

        let mut refused = String::new();
        let told = dump.hint.and_then(|at| dump.head(at).ok());
        let Some(head) = told.or_else(|| dump.search(&mut refused)) else {
            return Err(VmcoreError::NoPool {
                path: path.to_owned(),
                refused,
            });
        };
        let octets = dump.read(head.phys, head.size).unwrap_or_default();
        let Contents { packets, damaged } = pool::contents(&head, octets);
        Ok(Self {
            packets: packets.into_iter(),
            current: Vec::new(),
            head,
            told: told.is_some(),
            damaged,
        })
    }
}

impl Source for VmcoreSource {
    fn next_packet(&mut self) -> Result<Option<&[u8]>, SourceError> {
        Ok(match self.packets.next() {
            Some(packet) => {
                self.current = packet;
                Some(&self.current)
            }
            None => None,
        })
    }

    fn snapshots(&mut self) -> Result<Vec<Vec<u8>>, SourceError> {
        Ok(Vec::new())
    }

    fn acknowledge(&mut self, _seal_seq: u64) -> io::Result<()> {
        Ok(())
    }
}
