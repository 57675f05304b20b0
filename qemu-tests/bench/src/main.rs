//! Measures what markers cost, one line of JSON a round: nanoseconds an iteration of an empty loop, of
//! reading the clock, of a marker that is off, and of an event of an int and a 10-octet string.
//!
//! `cargo xtask bench` runs it: on the host with the feature `stand-in`, in turns with LTTng-UST, and in
//! the guest without, where the kernel has to be told `bench:event` and nothing else.

use std::hint::black_box;
use std::io::{BufRead, Write};
use std::process::ExitCode;

use clap::Parser;
use rustix::time::{ClockId, clock_gettime};

#[cfg(not(feature = "stand-in"))]
mod fleet;
mod measured;

/// Measure what markers cost.
#[derive(Debug, Parser)]
struct Args {
    /// Events a batch.
    #[arg(long, default_value_t = 100_000)]
    events: u32,

    /// Batches a round; the fastest counts, as what slows one down is other programs.
    #[arg(long, default_value_t = 3)]
    batches: u32,

    /// Rounds; without it, one for each line of the standard input.
    #[arg(long)]
    rounds: Option<u32>,

    /// Instead: how long it takes to reach this many processes, by a rule and by a uprobe.
    #[cfg(not(feature = "stand-in"))]
    #[arg(long, value_name = "PROCESSES")]
    fleet: Option<u32>,

    /// Instead: be one of those processes.
    #[cfg(not(feature = "stand-in"))]
    #[arg(long, hide = true)]
    wait: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    #[cfg(not(feature = "stand-in"))]
    {
        if args.wait {
            fleet::wait();
            return ExitCode::SUCCESS;
        }
        if let Some(count) = args.fleet {
            return match fleet::measure(count, args.rounds.unwrap_or(1)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("bootmark-bench: {error}");
                    ExitCode::FAILURE
                }
            };
        }
    }
    if let Err(error) = set_up(&args) {
        eprintln!("bootmark-bench: {error}");
        return ExitCode::FAILURE;
    }
    // Through black_box, so that the compiler does not know the length.
    let text = black_box("0123456789");
    let lines = std::io::stdin().lock().lines().map_while(Result::ok);
    let rounds: Box<dyn Iterator<Item = ()>> = match args.rounds {
        Some(rounds) => Box::new((0..rounds).map(|_| ())),
        None => Box::new(lines.map(|_| ())),
    };
    for () in rounds {
        let n = args.events;
        let mut best = [f64::INFINITY; 4];
        let mut ruled = [f64::INFINITY; 3];
        for _ in 0..args.batches {
            make_room();
            let times = [
                time(n, || measured::empty_loop(n)),
                time(n, || measured::clock(n)),
                time(n, || measured::disabled(n, text)),
                time(n, || measured::enabled(n, text)),
            ];
            for (best, time) in best.iter_mut().zip(times) {
                *best = best.min(time);
            }
            let times = [
                time(n, || measured::rejected(n, text)),
                time(n, || measured::passed(n, text)),
                time(n, || measured::aggregated(n, text)),
            ];
            for (best, time) in ruled.iter_mut().zip(times) {
                *best = best.min(time);
            }
        }
        let [empty, clock, disabled, enabled] = best;
        let [rejected, passed, aggregated] = ruled;
        println!(
            r#"{{"loop":{empty:.4},"clock":{clock:.4},"disabled":{disabled:.4},"enabled":{enabled:.4},"rejected":{rejected:.4},"passed":{passed:.4},"aggregated":{aggregated:.4},"lost":{}}}"#,
            lost()
        );
        let _ = std::io::stdout().flush();
    }
    ExitCode::SUCCESS
}

/// Nanoseconds of the thread's own time an iteration, system calls included: other programs on the
/// machine do not count.
fn time(iterations: u32, body: impl FnOnce()) -> f64 {
    let start = own_ns();
    body();
    (own_ns() - start) as f64 / f64::from(iterations)
}

fn own_ns() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A pool that holds twice what a batch writes; the markers on.
#[cfg(feature = "stand-in")]
fn set_up(args: &Args) -> Result<(), String> {
    use bootbuf::stand_in::{Config, install};
    const RECORD: usize = 32;
    install(Config {
        pool: 4 * RECORD * args.events as usize + (1 << 20),
        ..Config::default()
    });
    measured::turn_on();
    Ok(())
}

/// Checks that the kernel has turned the right marker on.
#[cfg(not(feature = "stand-in"))]
fn set_up(_: &Args) -> Result<(), String> {
    match measured::states() {
        (true, false) => Ok(()),
        (false, _) => Err("the marker bench:event is off: the rules must name it".to_owned()),
        (_, true) => Err("the marker bench:off is on: the rules must not name it".to_owned()),
    }
}

/// Events lost so far; any makes the figures worthless, as a loss is cheaper than an event.
#[cfg(feature = "stand-in")]
fn lost() -> u64 {
    bootbuf::stand_in::free_sealed()
}

/// Does the extractor's work between two batches: chunks are zeroed by who frees them, not by the
/// thread that writes.
#[cfg(feature = "stand-in")]
fn make_room() {
    bootbuf::stand_in::free_sealed();
}

#[cfg(not(feature = "stand-in"))]
fn make_room() {}

#[cfg(not(feature = "stand-in"))]
fn lost() -> u64 {
    use markers::abi::{CTL_STATUS, CtlArgs, Status};
    use zerocopy::{FromZeros, IntoBytes};
    let mut status = Status::new_zeroed();
    let buffer = status.as_mut_bytes();
    let mut args = CtlArgs {
        buf: buffer.as_mut_ptr() as u64,
        buf_size: buffer.len() as u64,
        ..CtlArgs::default()
    };
    // SAFETY: the arguments name a buffer of the size given with it, which lives on.
    let result = unsafe { bootbuf::sys::marker_ctl(CTL_STATUS, args.as_mut_bytes()) };
    if result.is_ok() {
        status.events_lost
    } else {
        u64::MAX
    }
}
