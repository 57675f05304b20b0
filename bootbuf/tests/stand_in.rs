//! The writer against the stand-in: threads, signals, fork, exchange, losses, two modules.

mod common;
// The writer once more, with thread-local variables of its own, as a second module of the process
// (a shared object with markers) would bring it along.
#[allow(dead_code, reason = "the test uses a part of the second writer")]
#[path = "../src/writer/mod.rs"]
mod second;

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bootbuf::abi::{CLOCK_BOOTTIME, CLOCK_TSC, MAX_RECORD, RECORD_HEADER};
use bootbuf::stand_in::{self, Config};
// What `second` expects at the root of its crate.
use bootbuf::{abi, sys};
use common::{Event, finish, lost, pool, read, values, write, write_with};
use rustix::io::Errno;

fn write_second(id: u32, value: u64, fill: usize) -> bool {
    let claim = second::claim(id, RECORD_HEADER + 8 + fill);
    write_with(
        claim.map(|mut claim| (claim.payload(), || claim.commit())),
        value,
        fill,
    )
}

#[test]
fn chunks_grow_and_records_come_back_in_order() {
    let _guard = pool(Config {
        pool: 8 << 20,
        ..Config::default()
    });
    for value in 0..20_000 {
        assert!(write(300, value, value as usize % 50));
    }
    let packets = finish();
    assert_eq!(values(&packets), (0..20_000).collect::<Vec<_>>());
    assert_eq!(lost(&packets), 0);
    // Each but the last was left only when the next record did not fit.
    let sizes = [4096_u64, 16384, 65536];
    for (index, packet) in packets.iter().enumerate() {
        assert_eq!(packet.header.seq, index as u64);
        let size = sizes[index.min(2)];
        let used = packet.header.content_bits / 8;
        assert!(
            used <= size && (index + 1 == packets.len() || used + 80 > size),
            "{index}: {used}"
        );
    }
}

#[test]
fn the_longest_record_fits_the_first_chunk() {
    let _guard = pool(Config::default());
    assert!(write(300, 1, MAX_RECORD - RECORD_HEADER - 8));
    assert!(write(300, 2, 0));
    assert_eq!(values(&finish()), [1, 2]);
}

#[test]
fn lengths_that_no_record_has_are_counted_as_lost() {
    let _guard = pool(Config::default());
    for len in [0, RECORD_HEADER - 1, MAX_RECORD + 1, 65536, usize::MAX] {
        assert!(bootbuf::claim(300, len).is_none());
    }
    assert!(write(300, 1, 0));
    assert!(bootbuf::claim(300, MAX_RECORD + 1).is_none());
    let packets = finish();
    assert_eq!(values(&packets), [1]);
    assert_eq!(lost(&packets), 6);
}

#[test]
fn threads_have_chunks_of_their_own() {
    let _guard = pool(Config {
        pool: 64 << 20,
        ..Config::default()
    });
    const THREADS: u64 = 8;
    const EVENTS: u64 = 30_000;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for value in 0..EVENTS {
                    assert!(write(300 + thread as u32, value, 10));
                }
                stand_in::seal_thread();
            });
        }
    });
    let mut streams = BTreeMap::<u64, Vec<_>>::new();
    for packet in finish() {
        streams
            .entry(packet.header.stream_instance)
            .or_default()
            .extend(packet.events);
    }
    assert_eq!(streams.len(), THREADS as usize);
    for events in streams.values() {
        assert!(events.iter().all(|event| event.id == events[0].id));
        let values = events.iter().map(|event| event.value);
        assert!(values.eq(0..EVENTS));
    }
}

#[test]
fn a_full_pool_loses_events_and_counts_each() {
    let _guard = pool(Config {
        pool: 64 << 10,
        ..Config::default()
    });
    let calls = stand_in::calls();
    let mut written = 0_u64;
    for value in 0..100_000 {
        written += u64::from(write(300, value, 10));
    }
    assert!(
        stand_in::calls() - calls < 100,
        "a loss must not cost a system call"
    );
    let packets = stand_in::take_sealed();
    // There is room again: within the longest interval an event is recorded.
    let mut tries = 0;
    while !write(300, 1_000_000, 10) {
        tries += 1;
        assert!(tries <= 4096);
    }
    let mut packets: Vec<_> = packets.iter().map(|packet| read(packet)).collect();
    packets.extend(finish());
    let read = values(&packets);
    assert_eq!(read.len() as u64, written + 1);
    assert_eq!(read.last(), Some(&1_000_000));
    assert_eq!(lost(&packets), 100_000 - written + tries);
}

#[test]
fn a_thread_without_a_chunk_counts_its_losses_too() {
    // Room for one page, which one thread takes and gives back at its end.
    let _guard = pool(Config {
        pool: 4096,
        ..Config::default()
    });
    let step = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(write(300, 1, 10));
            step.wait();
            step.wait();
            assert_eq!(values(&finish()), [1]);
            step.wait();
        });
        step.wait();
        assert!((0..1000).all(|value| !write(301, value, 10)));
        step.wait();
        step.wait();
        assert!(write(301, 2, 10));
    });
    let packets = finish();
    assert_eq!(values(&packets), [2]);
    assert_eq!(lost(&packets), 1000);
}

#[test]
fn refusals_drop_events_and_are_rarely_asked_for() {
    let _guard = pool(Config::default());
    stand_in::seal_thread();
    // ENOMEM is told to the kernel event by event, like ENOSPC, so that the count is exact.
    let calls = stand_in::calls();
    stand_in::refuse_with(Some(Errno::NOMEM));
    assert!((0..1000).all(|value| !write(300, value, 10)));
    assert!(stand_in::calls() - calls >= 1000);
    for errno in [Errno::NOSYS, Errno::PERM, Errno::NODEV, Errno::FAULT] {
        let calls = stand_in::calls();
        stand_in::refuse_with(Some(errno));
        assert!((0..50_000).all(|value| !write(300, value, 10)));
        assert!(stand_in::calls() - calls < 50);
    }
    stand_in::refuse_with(None);
    assert!(
        (0..4097).any(|value| write(300, value, 10)),
        "goes on when it may"
    );
    assert_eq!(finish().len(), 1);
}

#[test]
fn errno_is_left_alone() {
    let _guard = pool(Config {
        pool: 4096,
        ..Config::default()
    });
    // SAFETY: errno is this thread's.
    unsafe { *libc::__errno_location() = 4242 };
    for value in 0..10_000 {
        write(300, value, 10);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { *libc::__errno_location() }, 4242);
}

#[test]
fn boottime_is_the_clock_when_the_kernel_says_so() {
    let _guard = pool(Config {
        clock: CLOCK_BOOTTIME,
        ..Config::default()
    });
    let before = sys::boottime_ns().expect("a clock");
    for value in 0..1000 {
        assert!(write(300, value, 10));
    }
    let after = sys::boottime_ns().expect("a clock");
    let packets = finish();
    assert_eq!(values(&packets), (0..1000).collect::<Vec<_>>());
    let mut events = packets.iter().flat_map(|packet| &packet.events);
    assert!(events.all(|event| (before..=after).contains(&event.timestamp)));
    assert!(
        packets
            .iter()
            .all(|packet| u32::from(packet.header.clock) == CLOCK_BOOTTIME)
    );
}

#[test]
fn two_modules_share_the_threads_chunk() {
    for clock in [CLOCK_TSC, CLOCK_BOOTTIME] {
        let _guard = pool(Config {
            pool: 8 << 20,
            clock,
            ..Config::default()
        });
        for value in 0..20_000 {
            // In runs, so that each module meets chunks that the other has exchanged.
            if value / 700 % 2 == 0 {
                assert!(write(300, value, 10));
            } else {
                assert!(write_second(400, value, 10));
            }
        }
        let packets = finish();
        assert_eq!(values(&packets), (0..20_000).collect::<Vec<_>>());
        assert!(
            packets
                .iter()
                .all(|packet| packet.header.stream_instance == 1)
        );
        assert!(
            packets
                .iter()
                .take(3)
                .all(|packet| packet.header.content_bits > 4000 * 8)
        );
    }
}

#[test]
fn fork_gives_the_child_chunks_of_its_own() {
    let _guard = pool(Config::default());
    assert!((0..100).all(|value| write(300, value, 10)));
    // SAFETY: the child calls only what a signal handler may call, and the stand-in, whose lock this
    // thread does not hold and no other thread wants.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let written = (1000..1100).all(|value| write(300, value, 10));
        let packets = finish();
        let right = written && values(&packets) == (1000..1100).collect::<Vec<_>>();
        // SAFETY: ends the process.
        unsafe { libc::_exit(if right { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: waits for the child just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!((100..200).all(|value| write(300, value, 10)));
    assert_eq!(values(&finish()), (0..200).collect::<Vec<_>>());
}

#[test]
fn a_program_that_scribbles_over_its_chunk_harms_nothing_else() {
    let _guard = pool(Config {
        pool: 1 << 20,
        ..Config::default()
    });
    for garbage in [
        u64::MAX,
        1,
        15 << 32,
        0xffff << 32,
        0x7fff_0000_0000_0000,
        4096 << 32,
    ] {
        let mut claim = bootbuf::claim(300, 64).expect("room");
        let payload = claim.payload();
        claim.commit();
        // SAFETY: 48 octets of payload, and a chunk is never full after 64 octets of its last kilobyte
        // were not used; the words behind are this thread's as well.
        unsafe { payload.add(48).cast::<u64>().write(garbage) };
        for value in 0..10 {
            assert!(write(300, value, 10));
        }
    }
    stand_in::seal_thread();
    assert!(stand_in::take_sealed().len() > 1);
}

/// Events that the storm's thread writes itself.
const EVENTS: u64 = 1_000_000;
/// Events that the handler writes at most, so that all fit the pool on a slow machine too.
const MOST_FROM_HANDLER: u64 = 700_000;

static FROM_HANDLER: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_alarm(_signal: libc::c_int) {
    // Bursts of a length that now and then exchanges the chunk.
    for _ in 0..7 {
        let value = FROM_HANDLER.load(Ordering::Relaxed);
        if value == MOST_FROM_HANDLER {
            return;
        }
        if write(400, value, 33) {
            FROM_HANDLER.store(value + 1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_storm_of_signals_loses_nothing() {
    let _guard = pool(Config {
        pool: 128 << 20,
        ..Config::default()
    });
    // Its own thread, so that the signals are delivered to nobody else.
    thread::spawn(|| {
        let timer = storm(20_000);
        for value in 0..EVENTS {
            assert!(write(300, value, value as usize % 40));
        }
        // SAFETY: the timer made above.
        unsafe { libc::timer_delete(timer) };
        let packets = finish();
        let events = packets.iter().flat_map(|packet| &packet.events);
        let (main, handler): (Vec<&Event>, Vec<&Event>) = events.partition(|event| event.id == 300);
        assert!(main.iter().map(|event| event.value).eq(0..EVENTS));
        let handled = FROM_HANDLER.load(Ordering::Relaxed);
        assert!(handler.iter().map(|event| event.value).eq(0..handled));
        assert!(handled > 1000, "the storm blew: {handled}");
        assert_eq!(lost(&packets), 0);
    })
    .join()
    .expect("the writer");
}

/// Sends SIGALRM to the calling thread every so many nanoseconds.
fn storm(every_ns: i64) -> libc::timer_t {
    // SAFETY: the structures are plain data, filled in before the calls read them.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_alarm as extern "C" fn(libc::c_int) as usize;
        assert_eq!(
            libc::sigaction(libc::SIGALRM, &action, core::ptr::null_mut()),
            0
        );
        let mut event: libc::sigevent = core::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer = core::mem::zeroed();
        assert_eq!(
            libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer),
            0
        );
        let step = libc::timespec {
            tv_sec: 0,
            tv_nsec: every_ns,
        };
        let times = libc::itimerspec {
            it_interval: step,
            it_value: step,
        };
        assert_eq!(
            libc::timer_settime(timer, 0, &times, core::ptr::null_mut()),
            0
        );
        timer
    }
}
