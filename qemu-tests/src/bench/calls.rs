//! The measurement of what the kernel's part costs those who have no markers: exec, fork and mmap on a kernel
//! with Bootmark, with and without rules, and on the same kernel built without it.
//!
//! Time in these guests is instructions executed: by a clock, what differs by a hundredth drowns in what the
//! host does meanwhile.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::stats::Spread;
use crate::guest::Guest;
use crate::{paths, programs};

/// Rules of the set that matches nothing.
pub const RULES: u32 = 1000;

/// One round, in thousands of instructions a call, as the program in the guest prints it.
#[derive(Debug, Clone, Deserialize)]
struct Round {
    name: String,
    exec: f64,
    fork: f64,
    mmap: f64,
}

/// Medians of the rounds of one boot.
#[derive(Debug, Clone, Copy, Serialize)]
struct Medians {
    exec: f64,
    fork: f64,
    mmap: f64,
}

impl Medians {
    fn of(rounds: &[Round], name: &str) -> Result<Self> {
        let of = |value: fn(&Round) -> f64| {
            Spread::of(rounds.iter().filter(|r| r.name == name).map(value)).median
        };
        let medians = Self {
            exec: of(|round| round.exec),
            fork: of(|round| round.fork),
            mmap: of(|round| round.mmap),
        };
        if medians.exec.is_nan() {
            bail!("the guest printed no round of `{name}`");
        }
        Ok(medians)
    }
}

/// One system call.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Call {
    /// Without Bootmark, in thousands of instructions.
    pub unpatched: Spread,
    /// With Bootmark and no rules.
    pub patched: Spread,
    /// With Bootmark and rules that match nothing.
    pub ruled: Spread,
    /// The second over the first, boot by boot.
    pub patched_per_unpatched: Spread,
    /// The third over the first.
    pub ruled_per_unpatched: Spread,
    /// The third over the second, in one boot.
    pub ruled_per_patched: Spread,
}

/// What came out.
#[derive(Debug, Serialize)]
pub struct Calls {
    /// Boots of each kernel.
    pub boots: u32,
    /// Starting a process that ends at once.
    pub exec: Call,
    /// Forking one that does.
    pub fork: Call,
    /// Mapping and unmapping a file.
    pub mmap: Call,
}

/// Boots the two kernels in turns and measures.
///
/// # Errors
/// When a boot does not go well, or the program has markers.
pub fn measure(quick: bool) -> Result<Calls> {
    let (boots, rounds) = if quick { (2, 3) } else { (7, 4) };
    let program = super::build(false)?.with_file_name("bootmark-calls");
    has_no_markers(&program)?;
    let mut all = Vec::new();
    for _ in 0..boots {
        let without = boot("off", &program, &plain(rounds))?;
        let with = boot("small", &program, &ruled(rounds))?;
        all.push([
            Medians::of(&without, "plain")?,
            Medians::of(&with, "plain")?,
            Medians::of(&with, "ruled")?,
        ]);
    }
    let call = |value: fn(&Medians) -> f64| {
        let spread = |of: fn([f64; 3]) -> f64| {
            Spread::of(all.iter().map(|medians| of(medians.each_ref().map(value))))
        };
        Call {
            unpatched: spread(|[unpatched, _, _]| unpatched),
            patched: spread(|[_, patched, _]| patched),
            ruled: spread(|[_, _, ruled]| ruled),
            patched_per_unpatched: spread(|[unpatched, patched, _]| patched / unpatched),
            ruled_per_unpatched: spread(|[unpatched, _, ruled]| ruled / unpatched),
            ruled_per_patched: spread(|[_, patched, ruled]| ruled / patched),
        }
    };
    Ok(Calls {
        boots,
        exec: call(|medians| medians.exec),
        fork: call(|medians| medians.fork),
        mmap: call(|medians| medians.mmap),
    })
}

/// A script that measures without rules; its first round, in which caches are filled, has another name.
fn plain(rounds: u32) -> String {
    format!(
        "bootmark-calls --rounds 1 --name first || exit 1
        bootmark-calls --rounds {} --name plain || exit 1\n",
        2 * rounds
    )
}

/// One that measures without and with rules, in turns.
fn ruled(rounds: u32) -> String {
    format!(
        "bootmark-calls --rounds 1 --name first || exit 1
        for turn in 1 2; do
            bootmark-calls --rounds {rounds} --name plain || exit 1
            bootmark enable $(for n in $(seq {RULES}); do echo idle$n:event; done) >/dev/null 2>&1
            [ $(bootmark status --json | grep -c '\"text\": \"idle') = {RULES} ] || exit 1
            bootmark-calls --rounds {rounds} --name ruled || exit 1
            bootmark forget --all || exit 1
        done\n"
    )
}

fn boot(config: &str, program: &Path, script: &str) -> Result<Vec<Round>> {
    let outcome = Guest::new()
        .out(paths::target().join("bench-calls").join(config))
        .kernel(config)
        .add(program, "/usr/bin/bootmark-calls")
        .append("bootmark.services=no bootmark.extract=no")
        .cpus(1)
        .counted()
        .rules("")
        .script(script)
        .timeout(Duration::from_secs(600))
        .boot()?;
    if outcome.script_status != Some(0) {
        bail!(
            "the measurement on kernel `{config}` failed: {}",
            outcome.script_log.trim()
        );
    }
    outcome
        .script_log
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).with_context(|| format!("in `{line}`")))
        .collect()
}

/// What has markers is another program than the one that is meant.
fn has_no_markers(program: &Path) -> Result<()> {
    let listed = Command::new(programs::build()?.bootmark)
        .arg("list")
        .arg(program)
        .output()
        .context("cannot run bootmark")?;
    // Nothing was found.
    if listed.status.code() == Some(3) {
        return Ok(());
    }
    bail!(
        "{} is to have no markers, and `bootmark list` says: {}",
        program.display(),
        String::from_utf8_lossy(&listed.stdout)
    );
}
