//! A process that writes anything into its chunks, from several threads, while they are read.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use bootbuf::abi::{
    HEADER_SIZE, MAX_RECORD, RECORD_HEADER, RESERVE_AGGREGATE, ReserveArgs, WORD_COMMITTED,
    WORD_END, WORD_LEN_SHIFT,
};
use bootbuf::sys;
use fastrand::Rng;

use crate::control;
use crate::memory::windows;
use crate::shared::{Count, Shared};
use crate::values::number;
use crate::worker::{Actor, Part, events, watchdog};

const PAGE: usize = 4096;

pub(crate) fn run(part: &Part, shared: &'static Shared) -> io::Result<()> {
    let mut rng = Rng::with_seed(part.seed);
    for _ in 0..rng.u8(1..4) {
        let mut actor = Actor::new(part, shared, rng.u64(..))?;
        thread::spawn(move || scribble(&mut actor));
    }
    scribble(&mut Actor::new(part, shared, rng.u64(..))?);
    Ok(())
}

fn scribble(actor: &mut Actor) {
    // The process has this from its own marker, so it can forge the control's events.
    let control = control::event_id();
    // A process that lives for a moment has its chunks sealed as they are.
    let rounds = actor.rng.usize(10..2000);
    for _ in 0..rounds {
        if Instant::now() >= actor.until {
            return;
        }
        watchdog(std::time::Duration::from_secs(3));
        actor.shared.count(Count::Steps);
        // As the library does it, with a position that others may have changed just now.
        events(&mut actor.rng);
        let flags = if actor.rng.u8(0..4) == 0 {
            RESERVE_AGGREGATE
        } else {
            0
        };
        let mut args = ReserveArgs {
            flags,
            chunk: actor.chunks.last().copied().unwrap_or(0),
            want: 24,
            ..ReserveArgs::default()
        };
        // Full, refused: there is something to write to anyway.
        if actor.rng.u8(0..3) == 0 && sys::reserve(&mut args).is_ok() {
            actor.chunks.push(args.base);
        }
        let windows = windows();
        let Some(window) = actor.rng.choice(&windows) else {
            continue;
        };
        for _ in 0..actor.rng.usize(1..200) {
            // Where chunks begin: one of those that are known, or any page.
            let start = match actor.rng.choice(&actor.chunks) {
                Some(&chunk) if actor.rng.bool() => chunk as usize,
                // Only what has been used of a window is worth it.
                _ => window.start + actor.rng.usize(0..(window.len() / PAGE).min(64)) * PAGE,
            };
            write(actor, start, control);
        }
    }
}

/// One change of a chunk, or of what is taken for one.
fn write(actor: &mut Actor, start: usize, control: u32) {
    actor.shared.count(Count::Words);
    let rng = &mut actor.rng;
    match rng.u8(0..8) {
        // Position, limit, size, clock, losses, names.
        0 | 1 => store32(
            start + rng.usize(0..HEADER_SIZE / 4) * 4,
            number(rng) as u32,
        ),
        2 => store32(start, rng.u32(0..5000)),
        // A word of a record where one may be.
        3 | 4 => {
            let at = start + HEADER_SIZE + rng.usize(0..(PAGE - HEADER_SIZE) / 8) * 8;
            store64(at, word(rng, control));
        }
        // A chain of records from the start, some of them as the control writes them.
        5 => {
            let mut at = start + HEADER_SIZE;
            for _ in 0..rng.usize(1..30) {
                let len = rng.choice([16, 24, 24, 32, 40]).unwrap_or(16);
                if at + len > start + PAGE {
                    break;
                }
                let id = if rng.bool() {
                    control
                } else {
                    rng.u32(250..400)
                };
                store64(at + 8, number(rng));
                if len > 16 {
                    store64(at + 16, number(rng));
                }
                store64(
                    at,
                    u64::from(id) | (len as u64) << WORD_LEN_SHIFT | WORD_COMMITTED,
                );
                at += len;
            }
        }
        6 => store64(start + rng.usize(0..PAGE / 8) * 8, number(rng)),
        _ => store64(start + HEADER_SIZE + rng.usize(0..64) * 8, WORD_END),
    }
}

/// The word of a record, nearly.
fn word(rng: &mut Rng, control: u32) -> u64 {
    let id = match rng.u8(0..4) {
        0 => control,
        1 => number(rng) as u32,
        _ => rng.u32(250..400),
    };
    let len = match rng.u8(0..4) {
        0 => number(rng) & 0xffff,
        1 => (MAX_RECORD + rng.usize(0..16)) as u64 - 8,
        _ => (RECORD_HEADER + rng.usize(0..64)) as u64,
    };
    let committed = if rng.u8(0..4) == 0 { 0 } else { WORD_COMMITTED };
    let odd = if rng.u8(0..8) == 0 {
        1 << rng.u32(48..63)
    } else {
        0
    };
    u64::from(id) | len << WORD_LEN_SHIFT | committed | odd
}

fn store64(at: usize, value: u64) {
    // SAFETY: aligned, and in a window, which is never unmapped (its slots may lose their chunks, and
    // are zero pages then). Nothing that Rust knows of is in there but atomics.
    unsafe { AtomicU64::from_ptr(at as *mut u64) }.store(value, Ordering::Relaxed);
}

fn store32(at: usize, value: u32) {
    // SAFETY: as in `store64`.
    unsafe { AtomicU32::from_ptr(at as *mut u32) }.store(value, Ordering::Relaxed);
}
