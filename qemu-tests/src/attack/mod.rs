//! `cargo xtask fuzz` and the test of the same name: what is attacked, and what must be true afterwards.
//!
//! The attackers are programs in the guest (`qemu-tests/attack`); here they are built, booted, and judged.

mod build;
mod judge;

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::guest::Guest;
use crate::outcome::Outcome;

/// What is attacked in the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// The system calls, readers, `/proc/PID/bootmark`, memory and processes.
    Syscalls,
    /// ELF files that are almost right, through exec, mmap and dlopen(), and such that change.
    Elf,
    /// Chunks, by the processes that they are mapped into, while they are read.
    Scribble,
}

impl Attack {
    /// As the program in the guest calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Syscalls => "syscalls",
            Self::Elf => "elf",
            Self::Scribble => "scribble",
        }
    }
}

/// One boot.
#[derive(Debug, Clone)]
pub struct Round {
    /// What is attacked.
    pub attack: Attack,
    /// One after the other, in the same boot.
    pub seeds: Vec<u64>,
    /// How long each, by the guest's clock.
    pub seconds: u64,
    /// Goes on for longer until so many things were tried with each seed.
    pub steps: u64,
    /// The kernel's configuration; none for that of tests.
    pub kernel: Option<String>,
    /// Where results go; none for the place of the running test.
    pub out: Option<PathBuf>,
}

/// What was tried: the numbers that the program in the guest printed, summed up over the seeds.
#[derive(Debug, Clone)]
pub struct Tried {
    /// Names and numbers, in the order of the program.
    pub counts: Vec<(String, u64)>,
    /// Events of the processes that must not notice anything, all of which were found.
    pub control: u64,
}

/// The controls write past the state words; the others are to be on as well.
const RULES: &str = "fuzz:*,fuzzed:*";

/// The frame around the fuzzer: processes that must not notice anything, and a reader that never rests.
const SCRIPT: &str = r#"
attack=/usr/bin/bootmark-attack
trace=/var/lib/bootmark/trace
extract() {
    bootmark extract --output $trace > /run/extract.log 2>&1 && return
    # Those who open readers may be faster, while they are there.
    [ -n "$others" ] && grep -q EBUSY /run/extract.log && return
    echo "extraction failed with status $?:"
    cat /run/extract.log
}
extract
echo "== before"
$attack state || echo "state failed"
for uid in 0 1000; do
    $attack control --uid $uid > /run/control-$uid 2>&1 &
    controls="$controls $!"
done
for uid in 0 1000; do
    until grep -q . /run/control-$uid; do sleep 0.05; done
done
echo "== extractions"
[ TARGET = syscalls ] && others=yes
while [ ! -e /run/stop ]; do extract; echo done; sleep 0.05; done &
reader=$!
[ TARGET = syscalls ] && { $attack thief --output /var/lib/bootmark/stolen & thief=$!; }
for seed in SEEDS; do
    # What those say that are hit by another's system calls counts for nothing, unless all fails.
    $attack TARGET --seed $seed --seconds SECONDS --steps STEPS > /run/tried-$seed 2> /run/said ||
        { echo "fuzzer failed"; cat /run/said; } >> /run/tried-$seed
done
touch /run/stop
wait $reader
others=
[ -n "$thief" ] && { kill $thief; wait $thief || echo "thief failed"; }
kill $controls
wait $controls
echo "== tried"
cat /run/tried-*
echo "== controls"
cat /run/control-*
bootmark forget --all > /dev/null 2>&1
echo "== after"
extract
$attack state || echo "state failed"
"#;

/// Boots, attacks, and judges.
///
/// # Errors
/// When the boot does not go well (a report of the kernel's included), a control's event is missing or
/// there twice, an extraction failed, the trace cannot be read, or the pool did not get back what it gave.
pub fn run(round: &Round) -> Result<(Outcome, Tried)> {
    if round.seeds.is_empty() {
        bail!("no seed to start from");
    }
    let programs = build::programs()?;
    let seeds: Vec<String> = round.seeds.iter().map(u64::to_string).collect();
    let script = SCRIPT
        .replace("TARGET", round.attack.name())
        .replace("SEEDS", &seeds.join(" "))
        .replace("SECONDS", &round.seconds.to_string())
        .replace("STEPS", &round.steps.to_string());
    let mut guest = Guest::new()
        .rules(RULES)
        .append("bootmark.services=no")
        .add(&programs.attack, "/usr/bin/bootmark-attack")
        .script(script)
        .timeout(std::time::Duration::from_secs(
            120 + 25 * round.seconds * round.seeds.len() as u64,
        ));
    for (host, name) in &programs.files {
        guest = guest.add(host, name);
    }
    if let Some(kernel) = &round.kernel {
        guest = guest.kernel(kernel);
    }
    if let Some(out) = &round.out {
        guest = guest.out(out);
    }
    let outcome = guest.boot()?;
    let tried = judge::judge(round.attack, &outcome)?;
    Ok((outcome, tried))
}
