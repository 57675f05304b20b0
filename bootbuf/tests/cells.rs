//! Aggregations against the stand-in: what cells hold, threads, fork, exchange, losses, two modules,
//! and a handler after each instruction.

mod common;
#[allow(dead_code, reason = "the test uses a part of the second writer")]
#[path = "../src/writer/mod.rs"]
mod second;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bootbuf::abi::{AGGREGATE_CELL, CELL_KEY_MAX, CLOCK_BOOTTIME, SEAL_OPEN, STREAM_AGGREGATE};
use bootbuf::reader::{Cell, Check, Item, Packet};
use bootbuf::stand_in::{self, Config};
use bootbuf::writer::cell::bucket;
use bootbuf::{Change, abi, sys};
use common::step::{NEVER, catch_traps, step_through};
use common::{pool, write};
use proptest::prelude::*;
use rustix::io::Errno;

/// Number, sum, least, greatest and histogram of what one key saw.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    count: u64,
    sum: i64,
    least: Option<i64>,
    greatest: Option<i64>,
    buckets: BTreeMap<usize, u64>,
}

impl Seen {
    fn add(&mut self, value: i64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.least = Some(self.least.map_or(value, |least| least.min(value)));
        self.greatest = Some(self.greatest.map_or(value, |greatest| greatest.max(value)));
        *self.buckets.entry(bucket(value)).or_default() += 1;
    }

    fn merge(&mut self, cell: &Cell<'_>) {
        let values: Vec<u64> = cell.values().collect();
        assert_eq!(values.len(), 4 + abi::HIST_BUCKETS);
        if cell.count() == 0 {
            return;
        }
        self.count += values[0];
        self.sum = self.sum.wrapping_add(values[1] as i64);
        let (least, greatest) = (values[2] as i64, values[3] as i64);
        self.least = Some(self.least.map_or(least, |old| old.min(least)));
        self.greatest = Some(self.greatest.map_or(greatest, |old| old.max(greatest)));
        for (bucket, &count) in values[4..].iter().enumerate().filter(|(_, n)| **n != 0) {
            *self.buckets.entry(bucket).or_default() += count;
        }
    }
}

type Table = BTreeMap<(u32, u16, Vec<u8>), Seen>;

fn changes(value: i64) -> [Change; 4] {
    [
        Change::Sum(value),
        Change::Min(value),
        Change::Max(value),
        Change::Hist(value),
    ]
}

/// [`bootbuf::aggregate`] with every kind of action.
fn count(key: &[u8], value: i64) -> bool {
    bootbuf::aggregate(300, 1, key, &changes(value))
}

/// The same through the second writer.
fn count_second(key: &[u8], value: i64) -> bool {
    let changes = [
        second::cell::Change::Sum(value),
        second::cell::Change::Min(value),
        second::cell::Change::Max(value),
        second::cell::Change::Hist(value),
    ];
    second::cell::aggregate(300, 1, key, &changes)
}

/// Adds up the cells of some packets; also returns events lost and torn records.
fn add_up(packets: &[Vec<u8>]) -> (Table, u64, usize) {
    let mut table = Table::new();
    let mut lost = BTreeMap::new();
    let mut torn = 0;
    for bytes in packets {
        let (packet, _) = Packet::parse(bytes).expect("a packet");
        let header = packet.header();
        if header.stream_id != STREAM_AGGREGATE {
            continue;
        }
        lost.insert(header.stream_instance, header.discarded);
        let mut check = Check::new(header);
        for item in packet.records() {
            match item {
                Item::Committed(record) => {
                    check.record(&record).expect("in time");
                    let cell = Cell::decode(&record).expect("a cell");
                    let key = (cell.event_id, cell.slot, cell.key.to_vec());
                    table.entry(key).or_default().merge(&cell);
                }
                Item::Torn { .. } => torn += 1,
                Item::Malformed { offset, reason } => panic!("at {offset}: {reason}"),
            }
        }
    }
    table.retain(|_, seen| seen.count != 0);
    (table, lost.values().sum(), torn)
}

/// Ends the calling thread and adds up everything that was sealed.
fn finish() -> Table {
    stand_in::seal_thread();
    let (table, lost, torn) = add_up(&stand_in::take_sealed());
    assert_eq!((lost, torn), (0, 0));
    table
}

fn expected(events: impl IntoIterator<Item = (Vec<u8>, i64)>) -> Table {
    let mut table = Table::new();
    for (key, value) in events {
        table.entry((300, 1, key)).or_default().add(value);
    }
    table
}

#[test]
fn buckets_are_powers_of_two() {
    assert_eq!([i64::MIN, -1, 0].map(bucket), [0; 3]);
    for n in 1..63 {
        assert_eq!(bucket(1 << (n - 1)), n);
        assert_eq!(bucket((1 << n) - 1), n);
    }
    assert_eq!(bucket(i64::MAX), 63);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn cells_hold_what_was_counted(
        events in prop::collection::vec(
            (prop::collection::vec(0_u8..3, 0..4), any::<i64>()), 0..400),
        exchange in any::<bool>(),
    ) {
        let _guard = pool(Config { pool: 8 << 20, ..Config::default() });
        for (index, (key, value)) in events.iter().enumerate() {
            prop_assert!(count(key, *value));
            if exchange && index % 50 == 0 {
                stand_in::seal_thread();
            }
        }
        prop_assert_eq!(finish(), expected(events));
    }
}

#[test]
fn one_cell_serves_a_million_events() {
    let _guard = pool(Config::default());
    let calls = stand_in::calls();
    for value in 0..1_000_000 {
        assert!(bootbuf::aggregate(300, 1, b"", &[Change::Sum(value)]));
    }
    assert_eq!(stand_in::calls(), calls + 1);
    stand_in::seal_thread();
    let packets = stand_in::take_sealed();
    let (packet, _) = Packet::parse(&packets[0]).expect("a packet");
    let items: Vec<_> = packet.records().collect();
    let [Item::Committed(record)] = items[..] else {
        panic!("{items:?}");
    };
    let cell = Cell::decode(&record).expect("a cell");
    let values: Vec<_> = cell.values().collect();
    assert_eq!(values, [1_000_000, 499_999_500_000]);
}

#[test]
fn floats_are_added_and_compared_as_floats() {
    let _guard = pool(Config::default());
    for value in [2.5, f64::NAN, -0.5, 1e300] {
        let changes = [
            Change::SumF64(if value.is_nan() { 0.0 } else { value }),
            Change::MinF64(value),
            Change::MaxF64(value),
        ];
        assert!(bootbuf::aggregate(7, 2, b"k", &changes));
    }
    stand_in::seal_thread();
    let packets = stand_in::take_sealed();
    let (packet, _) = Packet::parse(&packets[0]).expect("a packet");
    let Some(Item::Committed(record)) = packet.records().next() else {
        panic!("no record");
    };
    let cell = Cell::decode(&record).expect("a cell");
    let values: Vec<_> = cell.values().skip(1).map(f64::from_bits).collect();
    assert_eq!(cell.count(), 4);
    assert_eq!(values, [2.5 - 0.5 + 1e300, -0.5, 1e300]);
}

#[test]
fn slots_markers_keys_and_shapes_are_kept_apart() {
    let _guard = pool(Config::default());
    let count = |event, slot, key: &[u8], width: usize| {
        let changes = [Change::Sum(1); 4];
        assert!(bootbuf::aggregate(event, slot, key, &changes[..width]));
    };
    for _ in 0..3 {
        for event in [300, 301] {
            for slot in [1, 2] {
                for key in [&b"a"[..], b"a\0", b"", b"abcdefgh", b"abcdefghi"] {
                    for width in [0, 1, 4] {
                        count(event, slot, key, width);
                    }
                }
            }
        }
    }
    stand_in::seal_thread();
    let packets = stand_in::take_sealed();
    let mut cells = 0;
    for bytes in &packets {
        let (packet, _) = Packet::parse(bytes).expect("a packet");
        for item in packet.records() {
            let Item::Committed(record) = item else {
                panic!("{item:?}");
            };
            cells += 1;
            assert_eq!(Cell::decode(&record).expect("a cell").count() % 3, 0);
        }
    }
    // The first chunk's are begun again in the second.
    assert!((60..90).contains(&cells), "{cells}");
}

#[test]
fn records_and_cells_have_chunks_of_their_own() {
    let _guard = pool(Config {
        pool: 8 << 20,
        ..Config::default()
    });
    for value in 0..5_000 {
        assert!(write(300, value, 8));
        assert!(count(&(value as u16 % 50).to_le_bytes(), value as i64));
    }
    stand_in::seal_thread();
    let packets = stand_in::take_sealed();
    let (table, lost, torn) = add_up(&packets);
    assert_eq!((lost, torn), (0, 0));
    let events = (0..5_000).map(|value: i64| ((value as u16 % 50).to_le_bytes().to_vec(), value));
    assert_eq!(table, expected(events));
    let records: usize = packets
        .iter()
        .filter(|bytes| {
            let (packet, _) = Packet::parse(bytes).expect("a packet");
            packet.header().stream_id != STREAM_AGGREGATE
        })
        .map(|bytes| common::read(bytes).events.len())
        .sum();
    assert_eq!(records, 5_000);
}

#[test]
fn more_keys_than_a_chunk_holds_go_to_the_next() {
    let _guard = pool(Config {
        pool: 8 << 20,
        ..Config::default()
    });
    let events = (0..3_000_i64).map(|value| ((value % 400).to_le_bytes().to_vec(), value));
    for (key, value) in events.clone() {
        assert!(count(&key, value));
    }
    assert_eq!(finish(), expected(events));
}

#[test]
fn threads_and_modules_add_up() {
    let _guard = pool(Config {
        pool: 8 << 20,
        ..Config::default()
    });
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for value in 0..2_000 {
                    assert!(count(&[thread % 2], value));
                    assert!(count_second(b"both", value));
                }
                stand_in::seal_thread();
            });
        }
    });
    let (table, lost, torn) = add_up(&stand_in::take_sealed());
    assert_eq!((lost, torn), (0, 0));
    let events = (0..4_u8).flat_map(|thread| {
        (0..2_000).flat_map(move |value| [(vec![thread % 2], value), (b"both".to_vec(), value)])
    });
    assert_eq!(table, expected(events));
}

#[test]
fn a_snapshot_shows_what_was_counted_so_far() {
    let _guard = pool(Config::default());
    for value in 1..=10 {
        assert!(count(b"k", value));
        let packets = stand_in::peek();
        let (packet, _) = Packet::parse(&packets[0]).expect("a packet");
        assert_eq!(packet.header().seal, SEAL_OPEN);
        let (table, ..) = add_up(&packets);
        assert_eq!(table, expected((1..=value).map(|v| (b"k".to_vec(), v))));
    }
}

#[test]
fn the_other_clock_serves_cells_too() {
    let _guard = pool(Config {
        clock: CLOCK_BOOTTIME,
        ..Config::default()
    });
    let events = (0..100_i64).map(|value| (vec![value as u8 % 3], value));
    for (key, value) in events.clone() {
        assert!(count(&key, value));
    }
    assert_eq!(finish(), expected(events));
}

#[test]
fn without_room_old_cells_count_and_new_keys_are_lost_and_counted() {
    let _guard = pool(Config {
        pool: 4096,
        ..Config::default()
    });
    let mut fitted = 0_u64;
    while count(&fitted.to_le_bytes(), 1) {
        fitted += 1;
    }
    assert!(fitted > 3);
    for _ in 0..500 {
        assert!(!count(b"new", 1));
        assert!(count(&0_u64.to_le_bytes(), 1));
    }
    // No chunk can hold it.
    assert!(!count(&[1; CELL_KEY_MAX + 1], 1));
    stand_in::seal_thread();
    let (table, lost, _) = add_up(&stand_in::take_sealed());
    assert_eq!(lost, 502);
    assert_eq!(table.len() as u64, fitted);
    let first = &table[&(300, 1, 0_u64.to_le_bytes().to_vec())];
    assert_eq!(first.count, 501);
}

#[test]
fn without_the_patch_nothing_happens() {
    let _guard = pool(Config::default());
    stand_in::refuse_with(Some(Errno::NOSYS));
    let calls = stand_in::calls();
    for value in 0..10_000 {
        assert!(!count(b"k", value));
    }
    assert!(stand_in::calls() - calls < 20);
    stand_in::refuse_with(None);
}

#[test]
fn a_child_counts_for_itself() {
    let _guard = pool(Config::default());
    assert!(count(b"k", 1));
    // SAFETY: the child only counts, adds up, and ends without returning.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let counted = (0..5).all(|value| count(b"k", value));
        stand_in::seal_thread();
        let (table, ..) = add_up(&stand_in::take_sealed());
        let right = table == expected((0..5).map(|value| (b"k".to_vec(), value)));
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!(counted && right))) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(count(b"k", 2));
    assert_eq!(
        finish(),
        expected([1, 2].map(|value| (b"k".to_vec(), value)))
    );
}

static HANDLED: AtomicU64 = AtomicU64::new(0);
static KEYS: AtomicU64 = AtomicU64::new(1);

/// The handler's turn: counts in the interrupted cell and in others, enough of them to need another
/// chunk or two.
fn burst() {
    for value in 0..KEYS.load(Ordering::Relaxed) {
        let counted = if value % 2 == 0 {
            count(&value.to_le_bytes(), value as i64 - 5)
        } else {
            count_second(&value.to_le_bytes(), value as i64 - 5)
        };
        assert!(counted);
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
}

fn look(step: usize) {
    let (_, _, torn) = add_up(&stand_in::peek());
    assert!(torn <= 1, "{torn} torn cells after {step} instructions");
}

#[test]
fn a_handler_after_any_instruction_harms_no_number() {
    let _guard = pool(Config {
        pool: 1 << 20,
        ..Config::default()
    });
    catch_traps();
    let key = |value: u64| value.to_le_bytes().to_vec();
    let mut runs = 0;
    // With the cell there already, with room for it, and without any.
    for before in [0, 3, 7] {
        for keys in [1, 3, 20] {
            KEYS.store(keys, Ordering::Relaxed);
            let interrupt = |turn: usize| {
                HANDLED.store(0, Ordering::Relaxed);
                for value in 0..before {
                    assert!(count(&key(value + 1), 1));
                }
                let steps = step_through(turn, burst, None, || assert!(count(&key(0), 77)));
                assert!(count(&key(0), -3));
                let mut events: Vec<_> = (0..before).map(|value| (key(value + 1), 1)).collect();
                events.extend([(key(0), 77), (key(0), -3)]);
                let handled = HANDLED.load(Ordering::Relaxed);
                assert_eq!(handled, if steps < turn { 0 } else { keys });
                events.extend((0..handled).map(|value| (key(value), value as i64 - 5)));
                assert_eq!(
                    finish(),
                    expected(events),
                    "{before} cells, {keys} keys, after instruction {turn}"
                );
                steps
            };
            let steps = interrupt(NEVER);
            let turns = (1..steps + 1).step_by(steps / 60 + 1);
            runs += turns.len();
            for turn in turns {
                interrupt(turn);
            }
        }
    }
    println!("{runs} interruptions");
    assert!(runs > 400, "{runs}");
}

#[test]
fn a_kill_after_any_instruction_costs_one_event_at_most() {
    let _guard = pool(Config {
        pool: 1 << 20,
        ..Config::default()
    });
    catch_traps();
    for before in [0, 1, 7] {
        for value in 0..before {
            assert!(count(&[value], 1));
        }
        let steps = step_through(NEVER, burst, Some(look), || assert!(count(&[0], 5)));
        assert!(steps > 30, "{steps}");
        let mut events: Vec<_> = (0..before).map(|value| (vec![value], 1)).collect();
        events.push((vec![0], 5));
        assert_eq!(finish(), expected(events));
    }
}

proptest! {
    #[test]
    fn any_octets_are_a_cell_or_an_error(
        payload in prop::collection::vec(any::<u8>(), 0..300),
        id in 0_u32..3,
    ) {
        let record = bootbuf::reader::Record { offset: 128, id, timestamp: 0, payload: &payload };
        if let Ok(cell) = Cell::decode(&record) {
            prop_assert_eq!(id, AGGREGATE_CELL);
            prop_assert_eq!(16 + 8 * cell.values().len() + cell.key.len(), payload.len());
        }
    }
}
