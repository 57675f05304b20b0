//! The measurement of how long it takes to reach many processes of the guest, by a rule and by a
//! uprobe with a reference counter.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::stats::Spread;
use crate::guest::Guest;
use crate::paths;

/// One round, in milliseconds by the clock on the wall, as the program in the guest prints it.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Round {
    rule_on: f64,
    rule_off: f64,
    uprobe_on: f64,
    uprobe_off: f64,
}

/// What came out; times in milliseconds.
#[derive(Debug, Serialize)]
pub struct Fleet {
    /// Processes that map the file.
    pub processes: u32,
    /// Rounds.
    pub rounds: u32,
    /// Adding a rule.
    pub rule_on: Spread,
    /// Removing it.
    pub rule_off: Spread,
    /// Enabling the uprobe.
    pub uprobe_on: Spread,
    /// Disabling it.
    pub uprobe_off: Spread,
    /// Enabling the uprobe over adding the rule, round by round.
    pub uprobe_per_rule_on: Spread,
    /// Disabling the uprobe over removing the rule, round by round.
    pub uprobe_per_rule_off: Spread,
}

/// Boots and measures.
///
/// # Errors
/// When the boot does not go well or a process was left out.
pub fn measure(quick: bool) -> Result<Fleet> {
    let processes = if quick { 200 } else { 1000 };
    let rounds = if quick { 4 } else { 10 };
    let program = super::build(false)?;
    // The first round, which copies pages in every process, does not count.
    let script = format!(
        "mount -t tracefs none /sys/kernel/tracing 2>/dev/null
        exec /usr/bin/bootmark-bench --fleet {processes} --rounds {}\n",
        rounds + 1
    );
    let guest = Guest::new()
        .out(paths::target().join("bench-fleet"))
        .add(program, "/usr/bin/bootmark-bench")
        .append("bootmark.services=no bootmark.extract=no")
        .rules("")
        .memory(1024)
        .script(script)
        .timeout(Duration::from_secs(600));
    let (_, rounds) = super::rounds_in_guest(guest, |line| {
        serde_json::from_str::<Round>(line).with_context(|| format!("in `{line}`"))
    })?;
    let spread = |value: fn(&Round) -> f64| Spread::of(rounds.iter().map(value));
    Ok(Fleet {
        processes,
        rounds: u32::try_from(rounds.len())?,
        rule_on: spread(|round| round.rule_on),
        rule_off: spread(|round| round.rule_off),
        uprobe_on: spread(|round| round.uprobe_on),
        uprobe_off: spread(|round| round.uprobe_off),
        uprobe_per_rule_on: spread(|round| round.uprobe_on / round.rule_on),
        uprobe_per_rule_off: spread(|round| round.uprobe_off / round.rule_off),
    })
}
