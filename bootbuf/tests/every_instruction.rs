//! Interrupts the writer after each of its instructions, one run an instruction.
//!
//! The trap flag of the processor raises SIGTRAP after every instruction. In the run number N the
//! handler writes events after the Nth, as a handler of any other signal might. After every
//! instruction of every run it also looks at the chunks as an extractor would find them if the process
//! were killed there.

mod common;
#[allow(dead_code, reason = "the test uses a part of the second writer")]
#[path = "../src/writer/mod.rs"]
mod second;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bootbuf::abi::{HEADER_SIZE, MIN_CHUNK, RECORD_HEADER};
use bootbuf::stand_in::{self, Config};
use bootbuf::{abi, sys};
use common::step::{NEVER, catch_traps, step_through};
use common::{Event, finish, lost, pool, read, values, write, write_with};

/// What the handler does at its turn.
#[derive(Clone, Copy, Debug)]
struct Burst {
    events: u64,
    fill: usize,
    other_module: bool,
}

static HANDLED: AtomicU64 = AtomicU64::new(0);
static EVENTS: AtomicU64 = AtomicU64::new(0);
static FILL: AtomicUsize = AtomicUsize::new(0);
static OTHER_MODULE: AtomicU64 = AtomicU64::new(0);

fn write_second(id: u32, value: u64, fill: usize) -> bool {
    let claim = second::claim(id, RECORD_HEADER + 8 + fill);
    write_with(
        claim.map(|mut claim| (claim.payload(), || claim.commit())),
        value,
        fill,
    )
}

/// The handler's turn: a burst of events.
fn write_burst() {
    for value in 0..EVENTS.load(Ordering::Relaxed) {
        let fill = FILL.load(Ordering::Relaxed);
        let written = if OTHER_MODULE.load(Ordering::Relaxed) != 0 {
            write_second(400, value, fill)
        } else {
            write(400, value, fill)
        };
        HANDLED.fetch_add(u64::from(written), Ordering::Relaxed);
    }
}

/// What a SIGKILL would leave: at most the record that is being written is torn.
fn look(step: usize) {
    let torn: usize = stand_in::peek()
        .iter()
        .map(|packet| read(packet).torn)
        .sum();
    assert!(torn <= 1, "{torn} torn records after {step} instructions");
}

/// Fills the thread's first chunk up to `left` octets, `left` being 0 or at least 24.
fn fill_up_to(left: usize) -> u64 {
    let mut room = MIN_CHUNK - HEADER_SIZE - left;
    let mut value = 0;
    while room > 0 {
        let take = if room < 1024 + 24 { room } else { 1024 };
        assert!(write(300, value, take - RECORD_HEADER - 8));
        room -= take;
        value += 1;
    }
    value
}

/// One event with the handler's turn after `turn` instructions, everything checked. Returns how many
/// instructions there were, up to the turn.
fn interrupt(left: usize, fill: usize, burst: Burst, turn: usize) -> usize {
    HANDLED.store(0, Ordering::Relaxed);
    let value = fill_up_to(left);
    let mut written = [false; 2];
    let steps = step_through(turn, write_burst, None, || {
        written[0] = write(300, value, fill)
    });
    // Meets whatever the interruption left behind.
    written[1] = write(300, value + 1, fill);
    let context = format!("left {left}, fill {fill}, {burst:?}, after instruction {turn}");
    assert_eq!(written, [true; 2], "{context}");
    let packets = finish();
    let events = packets.iter().flat_map(|packet| &packet.events);
    let (main, handler): (Vec<_>, Vec<_>) = events.partition(|event| event.id == 300);
    let values = |events: Vec<&Event>| -> Vec<_> { events.iter().map(|e| e.value).collect() };
    assert_eq!(
        values(main),
        (0..value + 2).collect::<Vec<_>>(),
        "{context}"
    );
    let handled = HANDLED.load(Ordering::Relaxed);
    assert_eq!(
        handled,
        if steps < turn { 0 } else { burst.events },
        "{context}"
    );
    assert_eq!(
        values(handler),
        (0..handled).collect::<Vec<_>>(),
        "{context}"
    );
    assert_eq!(lost(&packets), 0, "{context}");
    steps
}

/// One scenario, with the handler's turn after every instruction. Returns how many turns there were.
fn run(left: usize, fill: usize, burst: Burst) -> usize {
    EVENTS.store(burst.events, Ordering::Relaxed);
    FILL.store(burst.fill, Ordering::Relaxed);
    OTHER_MODULE.store(u64::from(burst.other_module), Ordering::Relaxed);
    let steps = interrupt(left, fill, burst, NEVER);
    // Optimised, an event takes some 100 instructions. A debug build is not what matters here and
    // takes ten times as many, of which a sample is enough.
    let stride = steps / 200 + 1;
    let turns = (1..steps + 1).step_by(stride);
    for turn in turns.clone() {
        interrupt(left, fill, burst, turn);
    }
    turns.len()
}

#[test]
fn a_handler_after_any_instruction_harms_nothing() {
    let _guard = pool(Config {
        pool: 1 << 20,
        ..Config::default()
    });
    catch_traps();
    let mut runs = 0;
    for left in [0, 24, 64, 1024] {
        for (fill, events, size, other_module) in [
            (0, 1, 0, false),
            (0, 1, 40, false),
            (0, 40, 480, false),
            (40, 1, 0, false),
            (40, 3, 33, false),
            (40, 40, 480, false),
            (0, 1, 40, true),
            (40, 40, 480, true),
        ] {
            let burst = Burst {
                events,
                fill: size,
                other_module,
            };
            runs += run(left, fill, burst);
        }
    }
    println!("{runs} interruptions");
    assert!(runs > 1500, "{runs}");
}

#[test]
fn a_kill_after_any_instruction_costs_one_record_at_most() {
    let _guard = pool(Config {
        pool: 1 << 20,
        ..Config::default()
    });
    catch_traps();
    for left in [0, 24, 64] {
        let value = fill_up_to(left);
        let steps = step_through(NEVER, write_burst, Some(look), || {
            assert!(write(300, value, 8));
        });
        assert!(steps > 30, "{steps}");
        assert_eq!(values(&finish()).len() as u64, value + 1);
    }
}

static FREES: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// The handler's turn: what was read makes room, so that its event finds some.
fn free_and_write() {
    FREES.fetch_add(1, Ordering::Relaxed);
    stand_in::free_sealed();
    let written = if OTHER_MODULE.load(Ordering::Relaxed) != 0 {
        write_second(400, 0, 8)
    } else {
        write(400, 0, 8)
    };
    if !written {
        REFUSED.fetch_add(1, Ordering::Relaxed);
    }
}

/// One event that finds the pool full, with the handler's turn after `turn` instructions. Returns how many
/// instructions there were, up to the turn.
fn interrupt_loss(earlier: u64, turn: usize) -> usize {
    REFUSED.store(0, Ordering::Relaxed);
    // One chunk waits for its reader, and there is no third.
    fill_up_to(0);
    assert!(write(300, 0, MIN_CHUNK - HEADER_SIZE - RECORD_HEADER - 8));
    for _ in 0..earlier {
        assert!(!write(300, 0, 8));
    }
    let mut written = false;
    let steps = step_through(turn, free_and_write, None, || written = write(300, 0, 8));
    let refused = earlier + u64::from(!written) + REFUSED.load(Ordering::Relaxed);
    let packets = finish();
    assert_eq!(
        lost(&packets),
        refused,
        "{earlier} before, after instruction {turn}"
    );
    steps
}

#[test]
fn every_loss_is_counted_whatever_a_handler_finds() {
    let _guard = pool(Config {
        pool: 2 * MIN_CHUNK,
        ..Config::default()
    });
    catch_traps();
    // The first one asks, the next ones do not, but another copy of the library does.
    for (earlier, other_module) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        OTHER_MODULE.store(other_module, Ordering::Relaxed);
        let steps = interrupt_loss(earlier, NEVER);
        println!("{steps} interruptions");
        for turn in 1..=steps {
            interrupt_loss(earlier, turn);
        }
    }
    assert!(FREES.load(Ordering::Relaxed) > 50);
}
