//! Memory dumps whose headers say what is not so.

#[path = "../fuzz/src/dump.rs"]
mod dump;

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use bootbuf::abi::*;
use bootmark_tools::extract::source::Source;
use bootmark_tools::extract::vmcore::{VmcoreError, VmcoreSource};
use dump::{Load, headers};
use zerocopy::{FromZeros, IntoBytes};

const PAGE: usize = MIN_CHUNK;
const PAGES: usize = 4;
const DATA: usize = 2 * PAGE;
const SIZE: usize = DATA + PAGES * PAGE;
const MIB: u64 = 1 << 20;
/// Seconds of a processor after which a search is taken for endless.
const ENDLESS: u32 = 60;

/// A pool at a physical address, with a packet in each of its pages.
fn pool(phys: u64) -> Vec<u8> {
    let mut head = PoolHeader::new_zeroed();
    head.magic = POOL_MAGIC;
    head.version = POOL_VERSION;
    head.page_shift = PAGE.ilog2();
    head.size = SIZE as u64;
    head.phys = phys;
    head.table_off = PAGE as u64;
    head.data_off = DATA as u64;
    head.boot_id = *b"a boot like any.";
    head.crc = !crc32fast::hash(&head.as_bytes()[..core::mem::offset_of!(PoolHeader, crc)]);
    let mut octets = vec![0; SIZE];
    octets[..size_of::<PoolHeader>()].copy_from_slice(head.as_bytes());
    for page in 0..PAGES {
        let mut entry = PacketHeader::new_zeroed();
        entry.magic = CTF_MAGIC;
        entry.uuid = head.boot_id;
        entry.stream_id = STREAM_THREAD;
        entry.stream_instance = 7;
        entry.seq = page as u64;
        entry.packet_bits = 8 * PAGE as u64;
        entry.content_bits = 8 * HEADER_SIZE as u64;
        entry.clock = CLOCK_TSC as u8;
        let at = PAGE + page * HEADER_SIZE;
        octets[at..at + HEADER_SIZE].copy_from_slice(entry.as_bytes());
    }
    octets
}

/// Where memory begins in the files of these tests.
const MEMORY: usize = 4096;

/// A dump with these segments and this memory.
fn dump(path: &Path, loads: &[Load], memory: &[u8]) {
    let mut octets = headers(loads);
    octets.resize(MEMORY, 0);
    octets.extend(memory);
    fs::write(path, octets).unwrap();
}

/// Packets of a dump, chunks that are not in it.
fn packets(path: &Path) -> (usize, u32) {
    let mut source = VmcoreSource::open(path).unwrap();
    let mut count = 0;
    while source.next_packet().unwrap().is_some() {
        count += 1;
    }
    (count, source.damaged)
}

/// Extracts from a dump without a pool; the search must end.
fn finds_nothing(dump: &Path) {
    let into = dump.with_extension("trace");
    let output = Command::new("bash")
        .args(["-c", "ulimit -t $0; exec \"$@\"", &ENDLESS.to_string()])
        .args([env!("CARGO_BIN_EXE_bootmark"), "extract", "--vmcore"])
        .arg(dump)
        .arg("--output")
        .arg(&into)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("holds no trace buffers"),
        "{:?}: {errors}",
        output.status
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_segment_that_claims_more_than_the_file_is_searched_to_its_end() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("dump");
    let whole = Load {
        phys: MIB,
        offset: MEMORY as u64,
        size: 1 << 63,
    };
    dump(&path, &[whole], &[0; SIZE]);
    finds_nothing(&path);

    // What the file has of it is read, and so is what a cut left.
    dump(&path, &[whole], &pool(MIB));
    assert_eq!(packets(&path), (PAGES, 0));
    dump(&path, &[whole], &pool(MIB)[..DATA + 2 * PAGE + 5]);
    assert_eq!(packets(&path), (2, 2));

    // Nothing of this one is in the file.
    let behind = Load {
        offset: 1 << 40,
        ..whole
    };
    dump(&path, &[behind], &pool(MIB));
    assert!(matches!(
        VmcoreSource::open(&path),
        Err(VmcoreError::NoDump { .. })
    ));
}

#[test]
fn the_same_octets_at_many_addresses_are_not_searched_again_and_again() {
    let temp = tempfile::tempdir().unwrap();
    let len = 100 * MIB;
    for (name, apart) in [("same", 0), ("apart", len)] {
        let loads: Vec<Load> = (0..65_534)
            .map(|index| Load {
                phys: index * apart,
                offset: 0,
                size: len,
            })
            .collect();
        let path = temp.path().join(name);
        fs::write(&path, headers(&loads)).unwrap();
        let sparse = File::options().write(true).open(&path).unwrap();
        sparse.set_len(len).unwrap();
        finds_nothing(&path);
    }
}

#[test]
fn of_segments_that_overlap_the_one_that_reaches_farthest_is_read() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("dump");
    let memory = pool(MIB);
    let load = |from: usize, to: usize| Load {
        phys: MIB + from as u64,
        offset: (MEMORY + from) as u64,
        size: (to - from) as u64,
    };
    // As dumps of page tables have them: parts of the memory, and the memory around them.
    let parts = [load(0, PAGE), load(PAGE, 3 * PAGE), load(0, SIZE)];
    dump(&path, &parts, &memory);
    assert_eq!(packets(&path), (PAGES, 0));
    let parts = [load(0, SIZE), load(PAGE, 2 * PAGE), load(PAGE, SIZE)];
    dump(&path, &parts, &memory);
    assert_eq!(packets(&path), (PAGES, 0));
    // A hole is one: the pool ends there.
    let parts = [load(0, DATA + PAGE), load(DATA + 2 * PAGE, SIZE)];
    dump(&path, &parts, &memory);
    assert_eq!(packets(&path), (1, PAGES as u32 - 1));
}
