//! Fuzzing what reads, on the host: libFuzzer over the targets of `tools/fuzz`.
//!
//! The folder is laid out as `cargo fuzz` wants it, and `cargo +nightly fuzz run TARGET` in it works too, with
//! AddressSanitizer. What is done here needs neither it nor a nightly compiler: the flags that it
//! would pass for the coverage are the stable compiler's as well.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::progress::Step;
use crate::{paths, process, programs, setup};

/// What the compiler is told, so that libFuzzer sees which branches an input takes and what it is
/// compared with.
const FLAGS: &[&str] = &[
    "--cfg",
    "fuzzing",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "-Ccodegen-units=1",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Seconds after which an input counts as one that hangs.
const HANG: u32 = 20;

/// Fuzzes one target for so long. What it learns is kept in `target/fuzz`, and the next time goes on
/// from there; the corpus of the repository is only read.
///
/// # Errors
/// When it cannot be built, or something was found: the message says where the input is.
pub fn run(target: &str, time: Duration) -> Result<()> {
    setup::ensure(setup::FUZZ_PACKAGES)?;
    let program = build(target)?;
    let known = paths::workspace().join("tools/fuzz/corpus").join(target);
    let work = paths::target().join("fuzz").join(target);
    let learnt = work.join("corpus");
    let found = work.join("found");
    for dir in [&learnt, &found] {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let seconds = time.as_secs().max(1);
    let step = Step::start(&format!("fuzzing {target} for {seconds} s"));
    let log = work.join("log");
    // A new one each time: its last line says how much was run.
    let _ = fs::remove_file(&log);
    let mut command = Command::new(program);
    command
        .arg(&learnt)
        .arg(&known)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={HANG}"))
        .args([
            "-rss_limit_mb=1024",
            "-max_len=65536",
            "-print_final_stats=1",
        ])
        .arg(format!("-artifact_prefix={}/", found.display()))
        // Not one on a disk: some targets make many small directories.
        .env("TMPDIR", memory());
    let ran = process::logged(&mut command, &log, &step);
    let text = fs::read_to_string(&log).unwrap_or_default();
    if ran.is_err() {
        let input = text
            .lines()
            .rev()
            .find_map(|line| line.split_once("Test unit written to "))
            .map(|(_, path)| path.trim());
        let Some(input) = input else {
            return ran.with_context(|| format!("the fuzzer of {target}"));
        };
        bail!(
            "{target} found something: {}\nthe input is {input}; once it is mended, put it into {} so that \
             it is tried by the tests from then on. All that was printed is in {}",
            complaint(&text),
            known.display(),
            log.display()
        );
    }
    step.done(&format!("{} inputs, nothing found", executed(&text)));
    Ok(())
}

/// Why an input is one: what a panic said, else libFuzzer's line.
fn complaint(log: &str) -> String {
    let mut lines = log.lines();
    let panic = lines.find(|line| line.contains("panicked at"));
    match panic {
        Some(line) => format!("{line} {}", lines.next().unwrap_or_default()),
        None => log
            .lines()
            .find(|line| line.contains("ERROR: libFuzzer"))
            .unwrap_or("see the log")
            .to_owned(),
    }
}

/// How many inputs were run.
fn executed(log: &str) -> &str {
    log.lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .map_or("?", str::trim)
}

/// Where temporary files are in memory.
fn memory() -> PathBuf {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        shm.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// Builds a target's program into a folder of its own, as everything in it has other flags.
fn build(target: &str) -> Result<PathBuf> {
    let dir = paths::target().join("fuzz").join("build");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--release", "-p", "bootmark-fuzz", "--features"])
        .args(["fuzzer", "--bin", target, "--target", programs::TARGET])
        .arg("--target-dir")
        .arg(&dir)
        .current_dir(paths::workspace())
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .env_remove("CARGO_BUILD_TARGET");
    let step = Step::start(&format!("building the fuzzer of {target}"));
    process::logged(&mut command, &dir.join("build.log"), &step)?;
    step.clear();
    let release = dir.join(programs::TARGET).join("release");
    Ok(release.join(OsStr::new(target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_told_by_the_panic() {
        let log = "INFO: Seed: 1\nthread '<unnamed>' panicked at tools/src/x.rs:1:2:\nindex out of \
                   bounds\nstat::number_of_executed_units: 77\n";
        assert!(complaint(log).ends_with("x.rs:1:2: index out of bounds"));
        assert_eq!(executed(log), "77");
        let log = "==1== ERROR: libFuzzer: timeout after 20 seconds";
        assert_eq!(complaint(log), log);
    }
}
