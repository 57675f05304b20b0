//! `cargo xtask bench`: what markers cost, beside the clock read that no tracer can avoid and beside
//! LTTng-UST, all in one run. docs/bench.md says how and why.

pub mod calls;
pub mod code;
pub mod fleet;
pub mod guest;
pub mod lttng;
pub mod native;
pub mod report;
pub mod stats;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::guest::Guest;
use crate::outcome::Outcome;
use crate::paths;

/// Nanoseconds an iteration, as a measuring program prints them for one round.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Round {
    /// The loop alone.
    #[serde(rename = "loop")]
    pub empty: f64,
    /// Reading the clock.
    pub clock: f64,
    /// A marker that is off.
    pub disabled: f64,
    /// An event of an int and a 10-octet string.
    pub enabled: f64,
    /// The same with a filter that rejects it (ours).
    #[serde(default)]
    pub rejected: f64,
    /// With a filter that it passes.
    #[serde(default)]
    pub passed: f64,
    /// With actions instead of a record.
    #[serde(default)]
    pub aggregated: f64,
    /// Events lost so far (ours).
    #[serde(default)]
    pub lost: u64,
    /// Whether the right tracepoints are on (LTTng's).
    #[serde(default = "yes")]
    pub on: bool,
}

fn yes() -> bool {
    true
}

impl Round {
    /// Refuses a round in which not every event was written: not writing is faster.
    fn check(self) -> Result<Self> {
        if self.lost != 0 {
            bail!(
                "{} events were lost, so the figures mean nothing",
                self.lost
            );
        }
        if !self.on {
            bail!("LTTng has not turned the right tracepoints on");
        }
        Ok(self)
    }
}

/// Reads one line of a measuring program.
fn parse(line: &str) -> Result<Round> {
    serde_json::from_str::<Round>(line)
        .with_context(|| format!("a measuring program printed `{}`", line.trim()))?
        .check()
}

/// Boots a guest whose script is a measuring program, and reads what it printed. The first round is
/// left out: in it, pages are had and copied for the first time.
fn rounds_in_guest<T>(guest: Guest, read: impl Fn(&str) -> Result<T>) -> Result<(Outcome, Vec<T>)> {
    let outcome = guest.boot()?;
    if outcome.script_status != Some(0) {
        bail!(
            "the measurement in the guest failed: {}",
            outcome.script_log.trim()
        );
    }
    let rounds = outcome
        .script_log
        .lines()
        .filter(|line| line.starts_with('{'))
        .skip(1)
        .map(read)
        .collect::<Result<Vec<T>>>()
        .context("measuring in the guest")?;
    if rounds.is_empty() {
        bail!("the measurement in the guest printed nothing");
    }
    Ok((outcome, rounds))
}

/// A measuring program that does one round whenever it is asked to.
struct Worker {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", crate::process::show(command)))?;
        let requests = child.stdin.take().context("no pipe to the child")?;
        let answers = child.stdout.take().context("no pipe from the child")?;
        Ok(Self {
            child,
            requests,
            answers: BufReader::new(answers),
        })
    }

    fn round(&mut self) -> Result<Round> {
        self.requests.write_all(b"\n")?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("a measuring program ended before it was asked to: see its message above");
        }
        parse(&line)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // What it would do at the end of its input; killing only makes sure of it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds the measuring program into a target folder of its own, where nothing else picks up what was
/// built with the stand-in.
fn build(stand_in: bool) -> Result<PathBuf> {
    let name = if stand_in {
        "bench-native"
    } else {
        "bench-guest"
    };
    let target_dir = paths::target().join(name);
    let target = crate::programs::TARGET;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args([
            "build",
            "--release",
            "-p",
            "bootmark-bench",
            "--target",
            target,
        ])
        .arg("--target-dir")
        .arg(&target_dir)
        .current_dir(paths::workspace())
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    if stand_in {
        command
            .args(["--features", "stand-in"])
            .env_remove("RUSTFLAGS");
    } else {
        command.env("RUSTFLAGS", "-C target-feature=+crt-static");
    }
    std::fs::create_dir_all(&target_dir)
        .with_context(|| format!("cannot make {}", target_dir.display()))?;
    let step = crate::progress::Step::start("building the measuring program");
    crate::process::logged(&mut command, &target_dir.join("build.log"), &step)?;
    step.clear();
    Ok(target_dir.join(target).join("release/bootmark-bench"))
}
