//! The fuzzers in the guest for a few seconds each: with a seed that is always the same, so that what was
//! found once stays mended, and with one that never is. `cargo xtask fuzz` goes on for as long as asked.

use std::time::SystemTime;

use qemu_tests::attack::{self, Attack, Round, Tried};
use qemu_tests::kernel;

/// Seconds for each of the two seeds; kernels that are slower get more.
const SECONDS: u64 = 3;

#[track_caller]
fn run(target: Attack) -> Tried {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let seeds = vec![1, now.as_nanos() as u64 >> 10];
    println!("{}: seeds {seeds:?}", target.name());
    let round = Round {
        attack: target,
        seeds,
        seconds: SECONDS * u64::from(kernel::Needs::of(&kernel::default_config()).time),
        // A machine that is busy with others shall not pass without having tried anything.
        steps: 300,
        kernel: None,
        out: None,
    };
    let (_, tried) = attack::run(&round).unwrap_or_else(|error| panic!("{error:#}"));
    println!("{tried:?}");
    tried
}

#[track_caller]
fn did(tried: &Tried, names: &[&str]) {
    for name in names {
        let count = tried.counts.iter().find(|(known, _)| known == name);
        assert!(
            count.is_some_and(|(_, count)| *count > 0),
            "no {name}: {tried:?}"
        );
    }
}

#[test]
fn system_calls_with_any_arguments() {
    let tried = run(Attack::Syscalls);
    did(&tried, &["good", "refused", "forks", "execs"]);
}

#[test]
fn files_that_are_almost_right() {
    let tried = run(Attack::Elf);
    did(&tried, &["files", "execs", "good"]);
}

#[test]
fn chunks_that_are_scribbled_over() {
    let tried = run(Attack::Scribble);
    did(&tried, &["words"]);
}
