//! A pool as it lies in memory (docs/buffers.md), taken apart into packets: the same that the kernel does
//! with what an earlier boot left, for pools in memory dumps.
//!
//! Nothing in it is believed before it was checked: a dump may be cut off, its memory damaged.

use bootbuf::abi::{
    CLOCK_BOOTTIME, CLOCK_TSC, CTF_MAGIC, ChunkCtl, HEADER_SIZE, LOST_TAKEN, MAX_CHUNK, MIN_CHUNK,
    POOL_COPY, POOL_MAGIC, POOL_VERSION, PacketHeader, PoolHeader, RECORD_ALIGN, RECORD_HEADER,
    SEAL_EXIT, SEAL_OPEN, SEAL_RECOVERED, STREAM_AGGREGATE, STREAM_CPU, STREAM_META,
    WORD_COMMITTED, WORD_LEN_SHIFT,
};
use zerocopy::{FromBytes, IntoBytes};

/// Octets at the start of a pool in which both copies of its head lie.
pub const HEAD_OCTETS: usize = 2 * POOL_COPY;

/// Why what begins like a pool is none that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// No copy of the head has the magic number: there is no pool.
    #[error("no pool")]
    None,
    /// Of another version.
    #[error("its layout is of version {0}, this program reads {POOL_VERSION}")]
    Version(u32),
    /// Both checksums are wrong.
    #[error("its head is damaged")]
    Damaged,
    /// Sizes and offsets contradict each other.
    #[error("its head makes no sense")]
    Nonsense,
    /// It was written at another address.
    #[error("it says that it lies at {0:#x}")]
    Elsewhere(u64),
}

/// Reads the head of the pool that may begin at physical address `at`; `octets` are [`HEAD_OCTETS`] from
/// there.
///
/// # Errors
/// When there is none, or one that cannot be used.
pub fn head(octets: &[u8], at: u64) -> Result<PoolHeader, PoolError> {
    let mut why = PoolError::None;
    for copy in [0, POOL_COPY] {
        let Some(Ok((head, _))) = octets.get(copy..).map(PoolHeader::read_from_prefix) else {
            continue;
        };
        if head.magic != POOL_MAGIC {
            continue;
        }
        if head.version != POOL_VERSION {
            why = PoolError::Version(head.version);
        } else if head.crc != checksum(&head) {
            why = PoolError::Damaged;
        } else {
            return check(head, at);
        }
    }
    Err(why)
}

/// `crc32_le(~0)` of the octets before the checksum, which lacks the inversion at the end that crc32 has.
fn checksum(head: &PoolHeader) -> u32 {
    !crc32fast::hash(&head.as_bytes()[..core::mem::offset_of!(PoolHeader, crc)])
}

fn check(head: PoolHeader, at: u64) -> Result<PoolHeader, PoolError> {
    let PoolHeader {
        size,
        phys,
        table_off,
        data_off,
        ..
    } = head;
    if phys != at {
        return Err(PoolError::Elsewhere(phys));
    }
    let page = MIN_CHUNK as u64;
    let aligned = [size, table_off, data_off].iter().all(|n| n % page == 0);
    let entries = data_off.saturating_sub(table_off) / HEADER_SIZE as u64;
    let sound = head.page_shift == page.ilog2()
        && aligned
        && (page..data_off).contains(&table_off)
        && data_off < size
        && (size - data_off) / page <= entries;
    if sound {
        Ok(head)
    } else {
        Err(PoolError::Nonsense)
    }
}

/// The packets of a pool.
#[derive(Debug)]
pub struct Contents {
    /// The meta stream first, then stream by stream in the order of their packets.
    pub packets: Vec<Vec<u8>>,
    /// Entries of the table that make no sense, and packets whose name another one has.
    pub damaged: u32,
}

/// Takes the pool whose head is `head` apart. `octets` begin with it and may end too early; then what lies
/// behind is missing.
pub fn contents(head: &PoolHeader, octets: &[u8]) -> Contents {
    let pool = Pool { head, octets };
    let mut chunks = Vec::new();
    let mut damaged = 0;
    // A head may be sound and claim more than any dump has.
    let table = octets.len().saturating_sub(head.table_off as usize);
    let pages = ((head.size - head.data_off) as usize / MIN_CHUNK).min(table / HEADER_SIZE);
    let mut page = 0;
    while page < pages {
        let next = match pool
            .entry(page)
            .map(|entry| (length(&entry, page, pages), entry))
        {
            Some((Some(length), entry)) => {
                // It cannot reach into the next one; who of the two lies is not known.
                let end = (page + 1..page + length)
                    .find(|&inner| pool.entry(inner).is_some())
                    .unwrap_or(page + length);
                chunks.push((entry, page, end));
                end
            }
            Some((None, _)) => {
                damaged += 1;
                page + 1
            }
            None => page + 1,
        };
        page = next;
    }
    chunks.sort_by_key(|(entry, page, _)| {
        let meta = entry.stream_id == STREAM_META;
        (!meta, entry.stream_instance, entry.seq, *page)
    });
    let all = chunks.len();
    chunks.dedup_by(|(later, ..), (earlier, ..)| {
        let same_stream = later.stream_instance == earlier.stream_instance;
        same_stream && (later.seq == earlier.seq || later.stream_id != earlier.stream_id)
    });
    damaged += (all - chunks.len()) as u32;

    let mut seal_seq = 0;
    let mut packets = Vec::with_capacity(chunks.len());
    for (entry, begin, end) in chunks {
        let Some(data) = pool.data(begin, end) else {
            damaged += 1;
            continue;
        };
        if entry.stream_id != STREAM_META {
            seal_seq += 1;
        }
        packets.push(packet(entry, data, seal_seq));
    }
    Contents { packets, damaged }
}

struct Pool<'a> {
    head: &'a PoolHeader,
    octets: &'a [u8],
}

impl Pool<'_> {
    /// The header in the table for a page, when a chunk of this boot begins there.
    fn entry(&self, page: usize) -> Option<PacketHeader> {
        let at = self.head.table_off as usize + page * HEADER_SIZE;
        let (entry, _) = PacketHeader::read_from_prefix(self.octets.get(at..)?).ok()?;
        (entry.magic == CTF_MAGIC && entry.uuid == self.head.boot_id).then_some(entry)
    }

    fn data(&self, begin: usize, end: usize) -> Option<&[u8]> {
        let data = self.octets.get(self.head.data_off as usize..)?;
        data.get(begin * MIN_CHUNK..end * MIN_CHUNK)
    }
}

/// Pages of the chunk; `None` when its header is damaged.
fn length(entry: &PacketHeader, page: usize, pages: usize) -> Option<usize> {
    let octets = usize::try_from(entry.packet_bits / 8).ok()?;
    let length = octets / MIN_CHUNK;
    let sound = entry.packet_bits.is_multiple_of(8)
        && octets.is_power_of_two()
        && (MIN_CHUNK..=MAX_CHUNK).contains(&octets)
        && page.is_multiple_of(length)
        && length <= pages - page
        && entry.stream_id <= STREAM_AGGREGATE
        && (CLOCK_TSC..=CLOCK_BOOTTIME).contains(&entry.clock.into());
    sound.then_some(length)
}

/// A packet as the kernel returns it: its header fitted to what its records say.
fn packet(mut header: PacketHeader, chunk: &[u8], seal_seq: u64) -> Vec<u8> {
    if header.seal > SEAL_EXIT {
        header.seal = SEAL_OPEN;
    }
    let mut room = chunk.len();
    if header.seal != SEAL_OPEN {
        let content = (header.content_bits / 8).min(room as u64) as usize;
        room = room.min(content.next_multiple_of(RECORD_ALIGN));
    }
    let (end, last) = walk(chunk, room);
    let padded = end.next_multiple_of(RECORD_ALIGN);
    header.content_bits = end as u64 * 8;
    header.packet_bits = padded as u64 * 8;
    if header.seal == SEAL_OPEN && header.stream_id != STREAM_META {
        if header.stream_id != STREAM_CPU
            && let Ok((ctl, _)) = ChunkCtl::read_from_prefix(chunk)
        {
            let lost = match ctl.lost {
                LOST_TAKEN => 0,
                lost => lost.min(u32::MAX.into()),
            };
            header.discarded = header.discarded.saturating_add(lost);
        }
        header.ts_end = last.max(header.ts_begin);
        header.seal = SEAL_RECOVERED;
        header.exit_code = 0;
    }
    header.seal_seq = if header.stream_id == STREAM_META {
        0
    } else {
        seal_seq
    };
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(&chunk[HEADER_SIZE..padded]);
    bytes
}

/// Follows the records of a chunk: where the last one ends, and the latest time-stamp of those that are
/// committed.
fn walk(chunk: &[u8], room: usize) -> (usize, u64) {
    let (mut at, mut end, mut last) = (HEADER_SIZE, HEADER_SIZE, 0);
    while at + RECORD_HEADER <= room {
        let Ok((word, rest)) = u64::read_from_prefix(&chunk[at..room]) else {
            break;
        };
        let len = ((word & !WORD_COMMITTED) >> WORD_LEN_SHIFT) as usize;
        if len < RECORD_HEADER || len > room - at {
            break;
        }
        if word & WORD_COMMITTED != 0
            && let Ok((timestamp, _)) = u64::read_from_prefix(rest)
        {
            last = last.max(timestamp);
        }
        end = at + len;
        at = end.next_multiple_of(RECORD_ALIGN);
    }
    (end, last)
}
