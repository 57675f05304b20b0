//! What the kernel makes of pools in memory that no kernel left as they are: of another size, of
//! another version, damaged. They are made by hand from docs/buffers.md, and QEMU puts them where
//! a warm reboot would have left them.

use std::fs;
use std::path::Path;

use bootbuf::abi::*;
use markers::__private::{FieldSpec, Spec, descriptor};
use markers::abi::{HINT_NONE, KIND_INSTANT, TYPE_U64};
use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::reading::{self, Event};
use zerocopy::{FromZeros, IntoBytes};

const PAGE: usize = 4096;
const POOL: usize = 1 << 20;
const DATA: usize = 9 * PAGE;
const PAGES: usize = (POOL - DATA) / PAGE;
const BOOT: [u8; 16] = *b"crafted by hand.";
/// Event id of the one marker that the pools know.
const EVENT: u32 = 300;
/// Records in each of the threads' chunks.
const RECORDS: u64 = 50;

/// A pool as a kernel would leave it: the meta stream in page 0, a thread's chunk of one page in
/// each of the others.
struct Pool {
    bytes: Vec<u8>,
    head: PoolHeader,
}

impl Pool {
    fn new(address: u64, boot_nr: u64) -> Self {
        let mut head = PoolHeader::new_zeroed();
        head.magic = POOL_MAGIC;
        head.version = POOL_VERSION;
        head.page_shift = 12;
        head.size = POOL as u64;
        head.phys = address;
        head.table_off = PAGE as u64;
        head.data_off = DATA as u64;
        head.boot_id = BOOT;
        head.release[..5].copy_from_slice(b"5.1.0");
        head.boot_nr = boot_nr;
        let mut pool = Self {
            bytes: vec![0; POOL],
            head,
        };
        pool.chunk(0, STREAM_META, SEAL_OPEN, &meta());
        for page in 1..PAGES {
            let records: Vec<_> = (0..RECORDS)
                .map(|number| record(EVENT, time(page, number), &number.to_le_bytes()))
                .collect();
            let seal = if page % 2 == 0 { SEAL_OPEN } else { SEAL_FULL };
            pool.chunk(page, STREAM_THREAD, seal, &records.concat());
        }
        pool.write_head();
        pool
    }

    /// The head in both its places, with the checksum that belongs to it.
    fn write_head(&mut self) {
        let covered = std::mem::offset_of!(PoolHeader, crc);
        self.head.crc = !crc32fast::hash(&self.head.as_bytes()[..covered]);
        for at in [0, POOL_COPY] {
            let bytes = self.head.as_bytes();
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn chunk(&mut self, page: usize, stream_id: u32, seal: u8, records: &[u8]) {
        let mut header = PacketHeader::new_zeroed();
        header.magic = CTF_MAGIC;
        header.stream_id = stream_id;
        header.uuid = BOOT;
        header.stream_instance = page as u64 + 1;
        header.ts_begin = time(page, 0) - 1;
        header.packet_bits = 8 * PAGE as u64;
        header.content_bits = 8 * (HEADER_SIZE + records.len()) as u64;
        header.pid = 1000 + page as u32;
        header.tid = header.pid;
        header.comm[..7].copy_from_slice(b"crafted");
        header.clock = CLOCK_BOOTTIME as u8;
        header.seal = seal;
        if seal != SEAL_OPEN {
            header.ts_end = time(page, RECORDS);
            header.seal_seq = page as u64;
        }
        self.entry(page).copy_from_slice(header.as_bytes());
        let at = DATA + page * PAGE + HEADER_SIZE;
        self.bytes[at..at + records.len()].copy_from_slice(records);
    }

    /// The packet header of the chunk at a page.
    fn entry(&mut self, page: usize) -> &mut [u8] {
        let at = PAGE + page * HEADER_SIZE;
        &mut self.bytes[at..at + HEADER_SIZE]
    }

    /// The octets of a page's record.
    fn record(&mut self, page: usize, number: usize) -> &mut [u8] {
        let at = DATA + page * PAGE + HEADER_SIZE + number * (RECORD_HEADER + 8);
        &mut self.bytes[at..at + RECORD_HEADER + 8]
    }
}

fn time(page: usize, number: u64) -> u64 {
    1_000_000_000 + page as u64 * 1_000_000 + number * 1000
}

fn record(id: u32, timestamp: u64, payload: &[u8]) -> Vec<u8> {
    let len = (RECORD_HEADER + payload.len()) as u64;
    let word = u64::from(id) | len << WORD_LEN_SHIFT | WORD_COMMITTED;
    let mut bytes = word.to_le_bytes().to_vec();
    bytes.extend(timestamp.to_le_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(RECORD_ALIGN), 0);
    bytes
}

fn meta() -> Vec<u8> {
    let clock = MetaClock {
        clock: CLOCK_BOOTTIME,
        reserved: 0,
        freq_hz: 1_000_000_000,
        reading: 1,
        boottime_ns: 1,
        realtime_ns: 0,
    };
    let mut marker = MetaMarker {
        event_id: EVENT,
        module_id: 1,
    }
    .as_bytes()
    .to_vec();
    let mut number = descriptor(&Spec {
        provider: "crafted",
        name: "number",
        kind: KIND_INSTANT,
        level: 6,
        line: 1,
        fields: &[FieldSpec {
            name: "number",
            ty: TYPE_U64,
            hint: HINT_NONE,
            labels: &[],
        }],
    });
    marker.extend_from_slice(number.as_mut_bytes());
    [
        record(META_CLOCK, 1, clock.as_bytes()),
        record(META_MARKER, 2, &marker),
    ]
    .concat()
}

/// A guest that finds these pools, each at the address in its file's name.
fn boot(dir: &Path, pools: &[(u64, &Pool)]) -> Outcome {
    let mut guest = Guest::new().rules("init:*");
    for (address, pool) in pools {
        let file = dir.join(format!("{address:x}"));
        fs::write(&file, &pool.bytes).unwrap();
        guest = guest.qemu_arg("-device").qemu_arg(&format!(
            "loader,file={},addr={address:#x},force-raw=on",
            file.display()
        ));
    }
    guest.boot().unwrap()
}

/// How many events of a page's chunk are in the trace.
fn found(events: &[Event], page: usize) -> u64 {
    let pid = 1000 + page as u64;
    events
        .iter()
        .filter(|event| event.pid() == Some(pid))
        .count() as u64
}

#[test]
fn of_several_pools_the_latest_is_read_and_damage_costs_what_it_hit() {
    let dir = tempfile::tempdir().unwrap();
    let mut good = Pool::new(0x0800_0000, 5);
    // The first copy of the head.
    good.bytes[40] ^= 0x10;
    // No header, an impossible length, one that reaches over its neighbours, an impossible clock,
    // another boot's.
    good.entry(3)[0] ^= 1;
    good.entry(5)[63] ^= 1;
    let long = 8 * MAX_CHUNK as u64;
    good.entry(16)[56..64].copy_from_slice(&long.to_le_bytes());
    good.entry(9)[117] = 77;
    good.entry(11)[8] ^= 0xff;
    // A record's length; a record's time; a record that was never committed.
    good.record(20, 10)[4] = 0xff;
    good.record(21, 10)[15] = 0xff;
    good.record(22, 10)[7] = 0;

    let mut version = Pool::new(0x0900_0000, 9);
    version.head.version = 1;
    version.write_head();
    let mut damaged = Pool::new(0x0a00_0000, 9);
    damaged.bytes[20] ^= 1;
    damaged.bytes[POOL_COPY + 60] ^= 1;
    let moved = Pool::new(0x7700_0000, 9);
    let older = Pool::new(0x0c00_0000, 4);
    let mut huge = Pool::new(0x0d00_0000, 9);
    huge.head.size = 1 << 40;
    huge.head.data_off = 1 << 36;
    huge.write_head();
    let mut senseless = Pool::new(0x0e00_0000, 9);
    senseless.head.data_off = senseless.head.table_off;
    senseless.write_head();

    let outcome = boot(
        dir.path(),
        &[
            (0x0800_0000, &good),
            (0x0900_0000, &version),
            (0x0a00_0000, &damaged),
            (0x0b00_0000, &moved),
            (0x0c00_0000, &older),
            (0x0d00_0000, &huge),
            (0x0e00_0000, &senseless),
        ],
    );
    outcome.shows(&[
        "left at 0x0000000009000000 is not read: its layout is of another version",
        "left at 0x000000000a000000 is not read: its head is damaged",
        "left at 0x000000000b000000 is not read: it was written at another address",
        "left at 0x000000000c000000 is not read: a later boot left one too",
        "left at 0x000000000d000000 is not read: both pools would take more than half",
        "left at 0x000000000e000000 is not read: its head makes no sense",
        "(Linux 5.1.0, pool of 1024 KiB)",
    ]);
    let events = reading::events(&outcome.previous()).unwrap();
    for page in 1..PAGES {
        let expected = match page {
            3 | 5 | 9 | 11 => 0,
            20 => 10,
            21 | 22 => RECORDS - 1,
            _ => RECORDS,
        };
        assert_eq!(found(&events, page), expected, "page {page}");
    }
    let summary = reading::summary(&outcome.previous()).unwrap();
    // The pool does not say; a kernel of ours does, in the meta stream.
    let release = summary["machine"]["release"].as_str().unwrap();
    assert!(release.starts_with("6.12"), "{release}");
}

#[test]
fn flipped_bits_crash_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut pool = Pool::new(0x0800_0000, 1);
    // The same bits in each run: a linear congruential generator's (Knuth's MMIX).
    let mut random = 0x1234_5678_9abc_def0_u64;
    let mut next = |below: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    // A third of the table's entries and a third of the chunks; not page 0, which says what
    // the others mean.
    for _ in 0..PAGES / 3 {
        let (page, at, bit) = (1 + next(PAGES - 1), next(HEADER_SIZE), next(8));
        pool.entry(page)[at] ^= 1 << bit;
        let (page, at, bit) = (1 + next(PAGES - 1), next(PAGE), next(8));
        pool.bytes[DATA + page * PAGE + at] ^= 1 << bit;
    }
    let clean = Pool::new(0x0800_0000, 1);
    let outcome = boot(dir.path(), &[(0x0800_0000, &pool)]);
    let events = reading::events(&outcome.previous()).unwrap();
    let mut whole = 0;
    for page in 1..PAGES {
        let entry = PAGE + page * HEADER_SIZE;
        let data = DATA + page * PAGE;
        let same = |at: usize, len: usize| pool.bytes[at..at + len] == clean.bytes[at..at + len];
        if same(entry, HEADER_SIZE) && same(data, PAGE) {
            whole += 1;
            // A flipped bit may have given another chunk this one's pid.
            let found = found(&events, page);
            assert!(found >= RECORDS, "page {page}: {found}");
        }
    }
    assert!(whole > PAGES / 3, "{whole}");
}
