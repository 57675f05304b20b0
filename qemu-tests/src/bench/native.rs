//! The measurement on the host: ours and LTTng's program in turns.

use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use super::code::{self, Code};
use super::lttng::Session;
use super::stats::Spread;
use super::{Round, Worker};
use crate::progress::Step;

/// How much is measured.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Plan {
    /// Turns of each program.
    pub rounds: u32,
    /// Batches a round; the fastest counts.
    pub batches: u32,
    /// Events a batch.
    pub events: u32,
}

impl Plan {
    /// The plan of a measurement, or of a glance.
    pub fn new(quick: bool) -> Self {
        Self {
            rounds: if quick { 8 } else { 60 },
            batches: 5,
            events: if quick { 20_000 } else { 100_000 },
        }
    }
}

/// One tracer's costs, in nanoseconds an iteration.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Costs {
    /// The loop alone.
    pub empty: Spread,
    /// Reading the clock that time-stamps come from.
    pub clock: Spread,
    /// Off.
    pub disabled: Spread,
    /// On: an int and a 10-octet string.
    pub enabled: Spread,
}

impl Costs {
    pub(super) fn of(rounds: &[Round]) -> Self {
        let spread = |value: fn(&Round) -> f64| Spread::of(rounds.iter().map(value));
        Self {
            empty: spread(|round| round.empty),
            clock: spread(|round| round.clock),
            disabled: spread(|round| round.disabled),
            enabled: spread(|round| round.enabled),
        }
    }
}

/// What events cost whose rules have filters and actions, in nanoseconds, and over a plain one round
/// by round.
#[derive(Debug, Serialize)]
pub struct Ruled {
    /// A filter that rejects.
    pub rejected: Spread,
    /// A filter that passes.
    pub passed: Spread,
    /// Actions: a count and a histogram.
    pub aggregated: Spread,
    /// Rejected over plain.
    pub rejected_per_event: Spread,
    /// Passed over plain.
    pub passed_per_event: Spread,
    /// Aggregated over plain.
    pub aggregated_per_event: Spread,
}

impl Ruled {
    pub(super) fn of(rounds: &[Round]) -> Self {
        let spread = |value: fn(&Round) -> f64| Spread::of(rounds.iter().map(value));
        Self {
            rejected: spread(|round| round.rejected),
            passed: spread(|round| round.passed),
            aggregated: spread(|round| round.aggregated),
            rejected_per_event: spread(|round| round.rejected / round.enabled),
            passed_per_event: spread(|round| round.passed / round.enabled),
            aggregated_per_event: spread(|round| round.aggregated / round.enabled),
        }
    }
}

/// What came out on the host.
#[derive(Debug, Serialize)]
pub struct Native {
    /// How much was measured.
    pub plan: Plan,
    /// Ours.
    pub bootmark: Costs,
    /// LTTng-UST's.
    pub lttng: Costs,
    /// Our events whose rules have filters and actions.
    pub ruled: Ruled,
    /// Its version, as `lttng --version` says.
    pub lttng_version: String,
    /// An event of ours over a clock read, round by round.
    pub event_per_clock: Spread,
    /// An event of LTTng's over one of ours, turn by turn.
    pub lttng_per_event: Spread,
    /// The same, each less its clock read: what the tracers add.
    pub lttng_per_event_net: Spread,
    /// Our marker that is off over LTTng's, turn by turn.
    pub disabled_per_lttng: Spread,
    /// The machine code of a marker that is off.
    pub code: Code,
}

/// Measures.
///
/// # Errors
/// When something cannot be built or started, an event was lost, or the machine code of a marker that is
/// off is not two instructions.
pub fn measure(plan: Plan) -> Result<Native> {
    let program = super::build(true)?;
    let code = code::of_disabled_marker(&program)?;
    let session = Session::start()?;
    let counts = [plan.events.to_string(), plan.batches.to_string()];
    let mut ours = Worker::start(Command::new(&program).args([
        "--events",
        &counts[0],
        "--batches",
        &counts[1],
    ]))?;
    let mut theirs = Worker::start(session.program()?.args(&counts))?;
    let step = Step::start("measuring on the host");
    let mut rounds = Vec::new();
    // The first turn of each warms up caches and clock frequency and is not counted.
    for turn in 0..=plan.rounds {
        step.detail(&format!("turn {turn} of {}", plan.rounds));
        let pair = (
            ours.round().context("measuring Bootmark")?,
            theirs.round().context("measuring LTTng-UST")?,
        );
        if turn > 0 {
            rounds.push(pair);
        }
    }
    step.clear();
    let (ours, theirs): (Vec<Round>, Vec<Round>) = rounds.iter().copied().unzip();
    let ratio = |of: fn(&(Round, Round)) -> f64| Spread::of(rounds.iter().map(of));
    Ok(Native {
        plan,
        bootmark: Costs::of(&ours),
        lttng: Costs::of(&theirs),
        ruled: Ruled::of(&ours),
        lttng_version: session.version()?,
        event_per_clock: ratio(|(ours, _)| ours.enabled / ours.clock),
        lttng_per_event: ratio(|(ours, theirs)| theirs.enabled / ours.enabled),
        lttng_per_event_net: ratio(|(ours, theirs)| {
            (theirs.enabled - theirs.clock) / (ours.enabled - ours.clock)
        }),
        disabled_per_lttng: ratio(|(ours, theirs)| ours.disabled / theirs.disabled),
        code,
    })
}
