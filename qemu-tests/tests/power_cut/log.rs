//! The log of all writes to a disk that QEMU's driver `blklogwrites` keeps, in the format of the kernel's
//! dm-log-writes: a sector for the log, then a sector for each write, with its octets behind it.

use std::fs;
use std::path::Path;

/// Octets of a sector, of the disk and of the log.
pub const SECTOR: usize = 512;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const DISCARD: u64 = 4;

/// What happened to the disk.
#[derive(Debug)]
pub enum Entry {
    /// Octets came to this place.
    Write { at: usize, octets: Vec<u8> },
    /// Everything before is on the disk to stay.
    Flush,
}

/// Reads a log.
pub fn read(path: &Path) -> Vec<Entry> {
    let log = fs::read(path).unwrap();
    let word = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
    assert_eq!(word(0), MAGIC, "no log of writes");
    assert_eq!(word(24) as u32 as usize, SECTOR);
    let mut entries = Vec::new();
    let mut at = SECTOR;
    for _ in 0..word(16) {
        let (sector, count, flags) = (word(at), word(at + 8) as usize, word(at + 16));
        at += SECTOR;
        assert_eq!(flags & DISCARD, 0, "the disk offers no discarding");
        if flags & FLUSH != 0 {
            entries.push(Entry::Flush);
        }
        if count != 0 {
            let octets = log[at..at + count * SECTOR].to_vec();
            at += octets.len();
            entries.push(Entry::Write {
                at: sector as usize * SECTOR,
                octets,
            });
        }
    }
    entries
}
