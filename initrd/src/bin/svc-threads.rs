//! A service with four threads that all write markers; leaves the number of its events in
//! `/run/bootmark/svc-threads.count`.

use initrd::trace::{marker, span};
use std::fs;
use std::io;
use std::process::ExitCode;
use std::thread;

const THREADS: u32 = 4;
const STEPS: u32 = 500;
const COUNT: &str = "/run/bootmark/svc-threads.count";

fn main() -> ExitCode {
    marker!("svc", "threads_start", threads: u32 = THREADS, steps: u32 = STEPS);
    let workers: Vec<_> = (0..THREADS)
        .map(|thread| thread::spawn(move || work(thread)))
        .collect();
    // A thread that could not work has a count of its own: none.
    let events: u64 = workers.into_iter().map(|w| w.join().unwrap_or(0)).sum();
    // The one before and the one after all threads.
    let events = events + 2;
    marker!("svc", "threads_done", events: u64);
    match write_count(events) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("svc-threads: cannot write {COUNT}: {e}");
            ExitCode::FAILURE
        }
    }
}

/// One thread: a span around its steps, each with a number of its own and a sum that takes a moment.
fn work(thread: u32) -> u64 {
    let mut events = 0;
    {
        let _span = span!("svc", "thread", thread: u32);
        let mut sum = 0_u64;
        for step in 0..STEPS {
            sum = (0..200_u64).fold(sum, |sum, n| {
                sum.rotate_left(5) ^ n.wrapping_mul(0x9e37_79b9)
            });
            let text = ["odd", "even", "third"][(step % 3) as usize];
            marker!(
                "svc", "step",
                thread: u32,
                step: u32,
                sum: u64 [hex],
                text: str,
            );
            events += 1;
        }
    }
    // Begin and end of the span.
    events + 2
}

fn write_count(events: u64) -> io::Result<()> {
    fs::create_dir_all("/run/bootmark")?;
    fs::write(COUNT, format!("{events}\n"))
}
