//! What is printed and written.

use std::fmt::Write;

use serde::Serialize;

use super::calls::{Calls, RULES};
use super::fleet::Fleet;
use super::guest::InGuest;
use super::native::{Costs, Native, Ruled};
use super::stats::Spread;

/// All that was measured; its JSON is what `--json` writes.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The processor, as the kernel names it.
    pub cpu: String,
    /// On the host.
    pub native: Native,
    /// In the guest, when asked for.
    pub guest: Option<InGuest>,
}

/// An event may take as many clock reads.
const EVENT_PER_CLOCK: f64 = 1.5;
/// An event of LTTng's takes at least as many of ours.
const LTTNG_PER_EVENT: f64 = 10.0;
/// "No slower" between two loops of a third of a nanosecond: as much is noise.
const NOISE: f64 = 1.02;

impl Report {
    /// The targets with whether they are met.
    pub fn targets(&self) -> [(String, Spread, bool); 3] {
        let Native {
            event_per_clock,
            lttng_per_event,
            disabled_per_lttng,
            ..
        } = self.native;
        [
            (
                format!("event / clock read, at most {EVENT_PER_CLOCK}"),
                event_per_clock,
                event_per_clock.median <= EVENT_PER_CLOCK,
            ),
            (
                format!("LTTng-UST event / event, at least {LTTNG_PER_EVENT}"),
                lttng_per_event,
                lttng_per_event.median >= LTTNG_PER_EVENT,
            ),
            (
                "off / LTTng-UST off, at most 1".to_owned(),
                disabled_per_lttng,
                disabled_per_lttng.median <= NOISE,
            ),
        ]
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let native = &self.native;
        let _ = writeln!(text, "{}", self.cpu);
        heading(&mut text, "on the host, nanoseconds an iteration");
        costs(&mut text, "Bootmark", "rdtsc", &native.bootmark);
        heading(&mut text, "on the host, rules with filters and actions");
        ruled(&mut text, &native.ruled);
        heading(&mut text, &native.lttng_version);
        costs(&mut text, "LTTng-UST", "clock_gettime", &native.lttng);
        heading(&mut text, "ratios");
        for (name, spread, met) in self.targets() {
            line(&mut text, &name, spread);
            let _ = writeln!(text, "  {}", if met { "met" } else { "MISSED" });
        }
        line(
            &mut text,
            "LTTng-UST event / event, less clock reads",
            native.lttng_per_event_net,
        );
        text.push('\n');
        heading(&mut text, "a marker that is off");
        for instruction in &native.code.straight_path {
            let _ = writeln!(text, "  {instruction}");
        }
        if let Some(guest) = &self.guest {
            heading(
                &mut text,
                "in the guest, under emulation, nanoseconds an iteration",
            );
            costs(&mut text, "Bootmark", "rdtsc", &guest.bootmark);
            line(&mut text, "event / clock read", guest.event_per_clock);
            text.push('\n');
            heading(&mut text, "in the guest, rules with filters and actions");
            ruled(&mut text, &guest.ruled);
            fleet(&mut text, &guest.fleet);
            calls(&mut text, &guest.calls);
        }
        text
    }
}

fn heading(text: &mut String, name: &str) {
    let _ = writeln!(text, "\n{name:<60}{:>9}{:>9}{:>9}", "median", "p10", "p90");
}

fn line(text: &mut String, name: &str, spread: Spread) {
    let Spread { median, p10, p90 } = spread;
    let _ = write!(text, "  {name:<58}{median:>9.2}{p10:>9.2}{p90:>9.2}");
}

fn ruled(text: &mut String, ruled: &Ruled) {
    for (name, spread) in [
        ("event, rejected by a filter", ruled.rejected),
        ("event, passed by a filter", ruled.passed),
        ("event, counted and put in a histogram", ruled.aggregated),
        ("rejected / plain", ruled.rejected_per_event),
        ("passed / plain", ruled.passed_per_event),
        ("aggregated / plain", ruled.aggregated_per_event),
    ] {
        line(text, name, spread);
        text.push('\n');
    }
}

fn fleet(text: &mut String, fleet: &Fleet) {
    let title = format!("reaching {} processes, milliseconds", fleet.processes);
    heading(text, &title);
    for (name, spread) in [
        ("a rule, added", fleet.rule_on),
        ("a rule, removed", fleet.rule_off),
        ("a uprobe, enabled", fleet.uprobe_on),
        ("a uprobe, disabled", fleet.uprobe_off),
        ("uprobe enabled / rule added", fleet.uprobe_per_rule_on),
        ("uprobe disabled / rule removed", fleet.uprobe_per_rule_off),
    ] {
        line(text, name, spread);
        text.push('\n');
    }
}

fn calls(text: &mut String, calls: &Calls) {
    heading(
        text,
        "without markers, in the guest, thousands of instructions",
    );
    let ruled = format!("with {RULES} idle rules");
    for (name, call) in [
        ("exec and exit", calls.exec),
        ("fork and exit", calls.fork),
        ("mmap and munmap of a file", calls.mmap),
    ] {
        for (what, spread) in [
            ("unpatched", call.unpatched),
            ("patched", call.patched),
            (&ruled, call.ruled),
            ("patched / unpatched", call.patched_per_unpatched),
            (&format!("{ruled} / unpatched"), call.ruled_per_unpatched),
            (&format!("{ruled} / patched"), call.ruled_per_patched),
        ] {
            line(text, &format!("{name}: {what}"), spread);
            text.push('\n');
        }
    }
}

fn costs(text: &mut String, tracer: &str, clock: &str, costs: &Costs) {
    let lines = [
        ("the loop alone".to_owned(), costs.empty),
        (format!("the clock, {clock}"), costs.clock),
        (format!("{tracer}, off"), costs.disabled),
        (
            format!("{tracer}, event of i32 and 10 octets"),
            costs.enabled,
        ),
    ];
    for (name, spread) in lines {
        line(text, &name, spread);
        text.push('\n');
    }
}
