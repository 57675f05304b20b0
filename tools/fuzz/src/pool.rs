//! Target `pool`: `bootmark extract --vmcore` of a dump that was made to harm.
//!
//! An input that begins like an ELF file is the dump. Any other describes a pool, which is put into a
//! sound dump with a sound checksum, as there is nothing to be found behind a wrong one: the head, then
//! for each chunk its header and the [`CHUNK`] octets that follow it; the rest of its memory is zero.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bootbuf::abi::{HEADER_SIZE, MIN_CHUNK, POOL_ALIGN, POOL_COPY, PacketHeader, PoolHeader};
use bootmark_tools::extract::extract;
use bootmark_tools::extract::vmcore::VmcoreSource;
use bootmark_tools::trace::tsdl::Machine;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::dump::{Load, headers};
use crate::reading::read;

/// Octets that an input gives for the records of a chunk.
pub const CHUNK: usize = 512;
/// Data pages of a pool made here.
const PAGES: usize = 16;
/// Where its data begins: behind the head and a page of the table.
const DATA: usize = 2 * MIN_CHUNK;

/// Extracts from the dump, twice, and reads what came of it; the number of events.
///
/// # Panics
/// When what is in the directory is not what the extraction says, or comes twice.
pub fn run(data: &[u8]) -> u64 {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dump = temp.path().join("dump");
    let octets = match data.starts_with(b"\x7fELF") {
        true => data.to_vec(),
        false => wrap(&pool(data)),
    };
    fs::write(&dump, octets).expect("a file in it");
    let dir = temp.path().join("trace");
    let Some(first) = take(&dump, &dir) else {
        return 0;
    };
    assert_eq!(take(&dump, &dir), Some(first));
    first
}

fn take(dump: &Path, dir: &Path) -> Option<u64> {
    let mut source = match VmcoreSource::open(dump) {
        Ok(source) => source,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    match extract(&mut source, dir, Machine::default(), deadline) {
        Ok(report) => {
            // Without a clock there is nothing to show times by.
            if let Some(count) = read(dir) {
                assert_eq!(count, report.totals.events);
            }
            Some(report.totals.events)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

/// The pool that an input describes.
fn pool(data: &[u8]) -> Vec<u8> {
    let mut head = PoolHeader::new_zeroed();
    let len = data.len().min(size_of::<PoolHeader>());
    head.as_mut_bytes()[..len].copy_from_slice(&data[..len]);
    head.phys = u64::from(POOL_ALIGN);
    head.crc = !crc32fast::hash(&head.as_bytes()[..core::mem::offset_of!(PoolHeader, crc)]);
    let mut octets = vec![0; DATA + PAGES * MIN_CHUNK];
    for copy in [0, POOL_COPY] {
        octets[copy..copy + size_of::<PoolHeader>()].copy_from_slice(head.as_bytes());
    }
    let mut page = 0;
    for chunk in data[len..].chunks(HEADER_SIZE + CHUNK) {
        if page >= PAGES {
            break;
        }
        let (entry, records) = chunk.split_at(chunk.len().min(HEADER_SIZE));
        let at = MIN_CHUNK + page * HEADER_SIZE;
        octets[at..at + entry.len()].copy_from_slice(entry);
        let at = DATA + page * MIN_CHUNK + HEADER_SIZE;
        octets[at..at + records.len()].copy_from_slice(records);
        let long = PacketHeader::read_from_bytes(entry).map_or(1, |entry| entry.packet_bits);
        page += usize::try_from(long / 8 / MIN_CHUNK as u64)
            .unwrap_or(1)
            .clamp(1, PAGES);
    }
    octets
}

/// An ELF file with one segment: the memory behind the first MiB.
fn wrap(pool: &[u8]) -> Vec<u8> {
    let (phys, size) = (u64::from(POOL_ALIGN), pool.len() as u64);
    let offset = 120;
    let mut octets = headers(&[Load { phys, offset, size }]);
    octets.extend(pool);
    octets
}
