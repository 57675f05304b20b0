//! What must be true after an attack.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{Attack, Tried};
use crate::outcome::Outcome;
use crate::reading;

/// The largest chunk, in octets: what an open chunk may hold of the pool.
const MAX_CHUNK: u64 = 64 << 10;

/// A process that must not have noticed anything.
#[derive(Debug, PartialEq, Eq)]
struct Control {
    pid: u64,
    committed: u64,
    refused: u64,
}

/// What `bootmark-attack state` says.
#[derive(Debug, Default, PartialEq, Eq)]
struct State {
    free: u64,
    sealed: u64,
    meta: u64,
    /// Kind of stream and process of each open chunk.
    open: Vec<(u64, u64)>,
}

pub(super) fn judge(attack: Attack, outcome: &Outcome) -> Result<Tried> {
    let log = &outcome.script_log;
    let with_log = || format!("the guest's script printed:\n{log}");
    if outcome.script_status != Some(0) {
        bail!(
            "the script ended with {:?}; {}",
            outcome.script_status,
            with_log()
        );
    }
    if let Some(line) = log.lines().find(|line| line.contains("failed")) {
        bail!("{line}; {}", with_log());
    }
    let section = |title: &str| -> Result<&str> {
        let head = format!("== {title}\n");
        let (_, rest) = log.split_once(&head).with_context(with_log)?;
        Ok(rest.split("\n== ").next().unwrap_or_default())
    };
    let controls = controls(section("controls")?).with_context(with_log)?;
    check_controls(attack, outcome, &controls)?;
    let (before, after) = (state(section("before")?)?, state(section("after")?)?);
    check_pool(&before, &after)?;
    check_readable(outcome)?;
    let counts = counts(section("tried")?).with_context(with_log)?;
    Ok(Tried {
        counts,
        control: controls.iter().map(|control| control.committed).sum(),
    })
}

fn controls(text: &str) -> Result<Vec<Control>> {
    let mut controls = Vec::new();
    for line in text
        .lines()
        .filter_map(|line| line.strip_prefix("control "))
    {
        let numbers: Vec<u64> = line
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        let [pid, committed, refused] = numbers[..] else {
            bail!("a control says `{line}`");
        };
        controls.push(Control {
            pid,
            committed,
            refused,
        });
    }
    if controls.len() != 2 || controls.iter().any(|control| control.committed == 0) {
        bail!("not both controls wrote and ended: {controls:?}");
    }
    Ok(controls)
}

/// Every event that a control committed is there, once.
fn check_controls(attack: Attack, outcome: &Outcome, controls: &[Control]) -> Result<()> {
    let stolen = match attack {
        Attack::Syscalls => {
            let path = outcome.dir.join("fetched/stolen");
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?
        }
        Attack::Elf | Attack::Scribble => String::new(),
    };
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for line in stolen.lines() {
        let pair = line
            .split_once(' ')
            .context("a line of the thief's without a number")?;
        taken.push((pair.0.parse()?, pair.1.parse()?));
    }
    let summary = reading::summary(&outcome.trace())?;
    for control in controls {
        let events = reading::events_of(&outcome.trace(), "fuzz:control", control.pid)?;
        let numbers: Vec<u64> = events
            .iter()
            .filter_map(|event| event.number("number"))
            // The first one, through the library, is not counted.
            .filter(|number| *number != 0)
            .collect();
        let mut all: BTreeSet<u64> = numbers.iter().copied().collect();
        if all.len() != numbers.len() {
            bail!(
                "{} events of a control are there twice",
                numbers.len() - all.len()
            );
        }
        let last = all.last().copied().unwrap_or_default();
        all.extend(
            taken
                .iter()
                // Nor is it when the other reader took it.
                .filter(|(pid, number)| *pid == control.pid && *number != 0)
                .map(|(_, number)| number),
        );
        let committed = control.committed;
        if all.len() as u64 != committed || last > committed + control.refused {
            bail!(
                "a control committed {committed} events, and {} are there ({} of them taken by the \
                 second reader); it was refused {}",
                all.len(),
                all.len() - numbers.len(),
                control.refused
            );
        }
        if attack != Attack::Syscalls {
            let lost: u64 = summary["streams"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|stream| {
                    let middle = format!("-{}-", control.pid);
                    stream["file"]
                        .as_str()
                        .is_some_and(|file| file.contains(&middle))
                })
                .filter_map(|stream| stream["lost"].as_u64())
                .sum();
            if lost != control.refused {
                bail!(
                    "a control was refused {} events, and {lost} are counted",
                    control.refused
                );
            }
        }
    }
    Ok(())
}

fn state(text: &str) -> Result<State> {
    let mut state = State::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["free", value] => state.free = value.parse()?,
            ["sealed", value] => state.sealed = value.parse()?,
            ["meta", value] => state.meta = value.parse()?,
            ["open", kind, pid] => state.open.push((kind.parse()?, pid.parse()?)),
            _ => bail!("`{line}` of the pool's state is not known here"),
        }
    }
    if state.free == 0 {
        bail!("the pool's state is not complete: {text}");
    }
    Ok(state)
}

/// Nobody who is gone holds anything: what is not free is the meta stream, which is never freed, and the
/// chunks of those that are there (PID 1, and CPUs).
fn check_pool(before: &State, after: &State) -> Result<()> {
    if after.sealed != 0 {
        bail!(
            "{} sealed chunks are left behind the last extraction",
            after.sealed
        );
    }
    if let Some((kind, pid)) = after.open.iter().find(|(_, pid)| *pid > 1) {
        bail!("a chunk of a stream of kind {kind} of process {pid}, which is gone, is open");
    }
    // The meta stream grows in chunks.
    let meta = (after.meta - before.meta).next_multiple_of(MAX_CHUNK);
    let held = meta + MAX_CHUNK * after.open.len() as u64;
    if after.free + held < before.free {
        bail!(
            "the pool had {} free octets, and does not get all back: {after:?}",
            before.free
        );
    }
    Ok(())
}

/// The trace is one for readers that none of us wrote.
fn check_readable(outcome: &Outcome) -> Result<()> {
    let out = Command::new("babeltrace2")
        .args(["--output-format=dummy"])
        .arg("--input-format=ctf")
        .arg(outcome.trace())
        .stdin(Stdio::null())
        .output()
        .context("cannot start babeltrace2")?;
    if !out.status.success() {
        bail!(
            "babeltrace2 does not read {}:\n{}",
            outcome.trace().display(),
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(())
}

/// The numbers of all seeds together.
fn counts(text: &str) -> Result<Vec<(String, u64)>> {
    let mut counts: Vec<(String, u64)> = Vec::new();
    for line in text.lines() {
        let (name, value) = line
            .split_once(' ')
            .with_context(|| format!("the fuzzer says `{line}`"))?;
        if name == "seed" {
            continue;
        }
        let value: u64 = value
            .parse()
            .with_context(|| format!("the fuzzer says `{line}`"))?;
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += value,
            None => counts.push((name.to_owned(), value)),
        }
    }
    if counts
        .iter()
        .all(|(name, value)| name != "steps" || *value == 0)
    {
        bail!("the fuzzer did nothing");
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_pool_does_not_get_back_is_seen() {
        let before = state("free 1000000\nsealed 0\nmeta 500\n").unwrap();
        let good = state("free 934464\nsealed 0\nopen 1 0\nmeta 500").unwrap();
        check_pool(&before, &good).unwrap();
        let less = state("free 934463\nsealed 0\nopen 1 0\nmeta 500").unwrap();
        assert!(check_pool(&before, &less).is_err());
        let grown = state("free 934464\nsealed 0\nmeta 501").unwrap();
        check_pool(&before, &grown).unwrap();
        let dead = state("free 1000000\nsealed 0\nopen 0 77\nmeta 500").unwrap();
        assert!(check_pool(&before, &dead).is_err());
        let unread = state("free 1000000\nsealed 1\nmeta 500").unwrap();
        assert!(check_pool(&before, &unread).is_err());
    }

    #[test]
    fn both_controls_are_asked_for() {
        let both = "started\ncontrol 5 10 0\nstarted\ncontrol 6 20 3\n";
        assert_eq!(controls(both).unwrap()[1].refused, 3);
        assert!(controls("control 5 10 0\n").is_err());
        assert!(controls("control 5 10 0\ncontrol 6 0 0\n").is_err());
    }
}
