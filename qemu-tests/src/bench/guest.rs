//! The measurement in the guest: the same program over the real system call.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;

use super::calls::{self, Calls};
use super::fleet::{self, Fleet};
use super::native::{Costs, Plan, Ruled};
use super::stats::Spread;
use crate::guest::Guest;
use crate::{paths, reading};

/// What came out in the guest.
#[derive(Debug, Serialize)]
pub struct InGuest {
    /// How much was measured.
    pub plan: Plan,
    /// The costs there; emulation makes them many times the host's.
    pub bootmark: Costs,
    /// An event over a clock read, round by round.
    pub event_per_clock: Spread,
    /// Events whose rules have filters and actions.
    pub ruled: Ruled,
    /// How long it takes to reach many processes.
    pub fleet: Fleet,
    /// What the kernel's part costs those who have no markers.
    pub calls: Calls,
}

/// The rules of the measurement.
const RULES: &str = "bench:event,bench:rejected/number<0/,bench:passed/number>=0/,\
    bench:aggregated{count(),hist(number)}";

/// Boots and measures.
///
/// # Errors
/// When the boot does not go well or an event was lost.
pub fn measure(quick: bool) -> Result<InGuest> {
    // All of it must fit the quarter of the pool that one process may hold, as no extractor runs
    // meanwhile.
    let plan = Plan {
        rounds: if quick { 4 } else { 20 },
        batches: 1,
        events: 10_000,
    };
    let program = super::build(false)?;
    let script = format!(
        "exec /usr/bin/bootmark-bench --rounds {} --batches {} --events {}\n",
        plan.rounds + 1,
        plan.batches,
        plan.events
    );
    let guest = Guest::new()
        .out(paths::target().join("bench"))
        .add(program, "/usr/bin/bootmark-bench")
        .rules(RULES)
        .pool("96M")
        .script(script)
        .timeout(Duration::from_secs(300));
    let (outcome, rounds) = super::rounds_in_guest(guest, super::parse)?;
    check_records(&outcome.trace(), plan)?;
    Ok(InGuest {
        plan,
        bootmark: Costs::of(&rounds),
        event_per_clock: Spread::of(rounds.iter().map(|round| round.enabled / round.clock)),
        ruled: Ruled::of(&rounds),
        fleet: fleet::measure(quick)?,
        calls: calls::measure(quick)?,
    })
}

/// What was rejected or aggregated must not be recorded, and what passed must be, or the figures
/// mean something else.
fn check_records(trace: &Path, plan: Plan) -> Result<()> {
    let rounds = u64::from(plan.rounds + 1) * u64::from(plan.batches);
    // Plain ones, and those that passed.
    let expected = 2 * rounds * u64::from(plan.events);
    let summary = reading::summary(trace)?;
    let recorded = summary["processes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|process| process["name"] == "bootmark-bench")
        .filter_map(|process| process["events"].as_u64())
        .sum::<u64>();
    if recorded != expected {
        bail!("{recorded} records instead of {expected}: the rules did not do what they say");
    }
    Ok(())
}
