//! Where packets come from.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bootbuf::abi::{MAX_CHUNK, OPEN_NONBLOCK, OPEN_PEEK, OPEN_PREVIOUS, SEAL_OPEN, STREAM_META};
use bootbuf::reader::{Packet, PacketError};
use bootbuf::sys;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// Why there are no packets.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The running kernel does not know the system call.
    #[error("this kernel has no Bootmark (bootbuf_open: ENOSYS): boot a patched kernel")]
    NoBootmark,
    /// The kernel has no pool.
    #[error(
        "the kernel has no trace buffers (bootbuf_open: ENODEV): boot with bootbuf=16M on the kernel command line"
    )]
    NoPool,
    /// Not allowed.
    #[error(
        "not allowed to read the trace buffers (bootbuf_open: EPERM): run as root, or with CAP_PERFMON"
    )]
    NotAllowed,
    /// Somebody else reads.
    #[error(
        "another extractor is reading the trace buffers (bootbuf_open: EBUSY): wait until it ends"
    )]
    Busy,
    /// The boot before this one left nothing.
    #[error(
        "the boot before this one left no trace (bootbuf_open: ENODATA): its memory was not kept, it had no bootbuf=, or its trace was extracted before"
    )]
    NoPrevious,
    /// Anything else.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The file of packets cannot be read.
    #[error("{}, offset {offset}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong.
        source: PacketError,
    },
}

/// Something that offers packets, as the kernel does.
pub trait Source {
    /// The next packet: of the meta stream, or sealed. `None` when there are no more now.
    ///
    /// # Errors
    /// When reading fails.
    fn next_packet(&mut self) -> Result<Option<&[u8]>, SourceError>;

    /// Packets of the meta stream, and what the chunks still in use hold.
    ///
    /// # Errors
    /// When reading fails.
    fn snapshots(&mut self) -> Result<Vec<Vec<u8>>, SourceError>;

    /// Frees the packets whose number is at most `seal_seq`; an earlier boot's all at once, with
    /// the last of them.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn acknowledge(&mut self, seal_seq: u64) -> io::Result<()>;
}

/// Packets in a file, one after the other as they were read.
#[derive(Debug)]
pub struct FileSource {
    sealed: std::vec::IntoIter<Vec<u8>>,
    open: Vec<Vec<u8>>,
    current: Vec<u8>,
}

impl FileSource {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, or holds something else.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(|source| SourceError::Io {
                what: "read the file of packets",
                source,
            })?;
        let (mut sealed, mut open) = (Vec::new(), Vec::new());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let offset = (bytes.len() - rest.len()) as u64;
            let (parsed, next) = Packet::parse(rest).map_err(|source| SourceError::File {
                path: path.to_owned(),
                offset,
                source,
            })?;
            let whole = rest[..rest.len() - next.len()].to_vec();
            let snapshot =
                parsed.header().seal == SEAL_OPEN && parsed.header().stream_id != STREAM_META;
            if snapshot {
                open.push(whole)
            } else {
                sealed.push(whole)
            }
            rest = next;
        }
        Ok(Self {
            sealed: sealed.into_iter(),
            open,
            current: Vec::new(),
        })
    }
}

impl Source for FileSource {
    fn next_packet(&mut self) -> Result<Option<&[u8]>, SourceError> {
        Ok(match self.sealed.next() {
            Some(packet) => {
                self.current = packet;
                Some(&self.current)
            }
            None => None,
        })
    }

    fn snapshots(&mut self) -> Result<Vec<Vec<u8>>, SourceError> {
        Ok(std::mem::take(&mut self.open))
    }

    fn acknowledge(&mut self, _seal_seq: u64) -> io::Result<()> {
        Ok(())
    }
}

/// The running kernel.
#[derive(Debug)]
pub struct KernelSource {
    fd: OwnedFd,
    buffer: Box<[u8]>,
    /// Whether it is the earlier boot's buffers, in which no chunk is in use.
    previous: bool,
}

impl KernelSource {
    /// Opens the running kernel's buffers; while this lives, nobody else extracts.
    ///
    /// # Errors
    /// When the kernel has none, or refuses.
    pub fn open() -> Result<Self, SourceError> {
        Ok(Self {
            fd: open(OPEN_NONBLOCK)?,
            buffer: vec![0; MAX_CHUNK].into(),
            previous: false,
        })
    }

    /// Opens what the boot before this one left in memory.
    ///
    /// # Errors
    /// When it left nothing, or the kernel refuses.
    pub fn previous() -> Result<Self, SourceError> {
        Ok(Self {
            fd: open(OPEN_PREVIOUS)?,
            buffer: vec![0; MAX_CHUNK].into(),
            previous: true,
        })
    }
}

fn open(flags: u64) -> Result<OwnedFd, SourceError> {
    sys::open(flags).map_err(|errno| match errno {
        Errno::NOSYS => SourceError::NoBootmark,
        Errno::NODEV => SourceError::NoPool,
        Errno::PERM => SourceError::NotAllowed,
        Errno::BUSY => SourceError::Busy,
        Errno::NODATA => SourceError::NoPrevious,
        other => SourceError::Io {
            what: "open the trace buffers (bootbuf_open)",
            source: other.into(),
        },
    })
}

fn read<'a>(fd: &OwnedFd, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, SourceError> {
    match sys::read_packet(fd, buffer) {
        Ok(0) | Err(Errno::AGAIN) => Ok(None),
        Ok(len) => Ok(Some(&buffer[..len])),
        Err(error) => Err(SourceError::Io {
            what: "read a packet",
            source: error.into(),
        }),
    }
}

impl Source for KernelSource {
    fn next_packet(&mut self) -> Result<Option<&[u8]>, SourceError> {
        read(&self.fd, &mut self.buffer)
    }

    fn snapshots(&mut self) -> Result<Vec<Vec<u8>>, SourceError> {
        let mut packets = Vec::new();
        if self.previous {
            return Ok(packets);
        }
        let fd = open(OPEN_PEEK | OPEN_NONBLOCK)?;
        while let Some(packet) = read(&fd, &mut self.buffer)? {
            packets.push(packet.to_vec());
        }
        Ok(packets)
    }

    fn acknowledge(&mut self, seal_seq: u64) -> io::Result<()> {
        Ok(sys::ack(&self.fd, seal_seq)?)
    }
}
