//! `bootmark status`.

use std::io::{self, Write};

use anyhow::Result;
use bootbuf::abi::{CLOCK_BOOTTIME, CLOCK_TSC};
use markers::abi::{STATUS_FOLLOW, STATUS_GATED};
use serde::Serialize;
use serde_json::json;

use crate::cli::{Exit, Output, StatusArgs};
use crate::control::{self, KnownMarker};
use crate::expressions::check_slot_fits;
use crate::rule::Rule;
use crate::trace::marker::kind_name;
use crate::trace::tsdl::uuid;
use crate::units::Octets;

/// A marker that a rule with a filter matches and that records everything all the same.
#[derive(Serialize)]
struct Unfiltered {
    event: String,
    kind: &'static str,
    reason: String,
}

/// A rule, and what its filter is not applied to.
#[derive(Serialize)]
struct RuleReport {
    #[serde(flatten)]
    rule: control::Rule,
    unfiltered: Vec<Unfiltered>,
}

pub fn run(args: &StatusArgs, out: &mut Output) -> Result<Exit> {
    let status = control::status()?;
    let rules = report(control::rules()?)?;
    let clock = match status.clock {
        CLOCK_TSC => "tsc",
        CLOCK_BOOTTIME => "boottime",
        _ => "none",
    };
    let follows = status.flags & STATUS_FOLLOW != 0;
    let gated = status.flags & STATUS_GATED != 0;
    if args.json {
        let object = json!({
            "abi": format!("{}.{}", status.abi >> 16, status.abi & 0xffff),
            "boot_id": uuid(&status.boot_id),
            "buffers": {
                "pool_bytes": status.pool_bytes,
                "free_bytes": status.free_bytes,
                "open_chunks": status.open_chunks,
                "sealed_chunks": status.sealed_chunks,
            },
            "events_lost": status.events_lost,
            "events_overwritten": status.events_overwritten,
            "meta_lost": status.meta_lost,
            "clock": clock,
            "follow_ftrace": follows.then_some(!gated),
            "modules": status.modules,
            "markers": status.markers,
            "slots": status.slots,
            "rules": rules,
        });
        serde_json::to_writer_pretty(&mut *out, &object)?;
        writeln!(out)?;
        out.flush()?;
        return Ok(Exit::Done);
    }
    writeln!(out, "boot     {}", uuid(&status.boot_id))?;
    if status.pool_bytes == 0 {
        writeln!(
            out,
            "buffers  none: boot with bootbuf=16M on the kernel command line"
        )?;
    } else {
        writeln!(
            out,
            "buffers  {}, {} free; {} chunks in use, {} wait for `bootmark extract`",
            Octets(status.pool_bytes),
            Octets(status.free_bytes),
            status.open_chunks,
            status.sealed_chunks
        )?;
    }
    writeln!(
        out,
        "lost     {} events, {} of them overwritten",
        status.events_lost, status.events_overwritten
    )?;
    if status.meta_lost != 0 {
        writeln!(
            out,
            "         {} records about processes, for which there was no room",
            status.meta_lost
        )?;
    }
    writeln!(out, "clock    {clock}")?;
    if follows {
        let now = if gated {
            "off now: everything is off while tracing_on is 0"
        } else {
            "on now"
        };
        writeln!(out, "ftrace   followed, {now}")?;
    }
    writeln!(
        out,
        "markers  {} in {} files and the kernel",
        status.markers, status.modules
    )?;
    print_rules(&rules, out)?;
    out.flush()?;
    Ok(Exit::Done)
}

fn report(rules: Vec<control::Rule>) -> Result<Vec<RuleReport>, control::ControlError> {
    let has_slot = |rule: &control::Rule| Rule::parse(&rule.text).is_ok_and(|r| r.slot.is_some());
    let markers = if rules.iter().any(has_slot) {
        control::markers()?
    } else {
        Vec::new()
    };
    Ok(rules
        .into_iter()
        .map(|rule| RuleReport {
            unfiltered: unfiltered(&rule.text, &markers),
            rule,
        })
        .collect())
}

fn unfiltered(text: &str, markers: &[KnownMarker]) -> Vec<Unfiltered> {
    let Ok(rule) = Rule::parse(text) else {
        return Vec::new();
    };
    let Some((_, slot)) = rule.slot else {
        return Vec::new();
    };
    markers
        .iter()
        .filter(|known| rule.matches(&known.marker, known.marker.module == 0))
        // Some kernel events are on request only.
        .filter(|known| known.marker.module != 0 || known.enabled)
        .filter_map(|known| {
            let reason = if known.marker.module == 0 {
                "the kernel records all of its events".to_owned()
            } else {
                let misfit = check_slot_fits(slot, &known.marker).err()?;
                format!("at {}: {}", misfit.pos + 1, misfit.reason)
            };
            Some(Unfiltered {
                event: known.marker.full_name.clone(),
                kind: kind_name(known.marker.kind()),
                reason,
            })
        })
        .collect()
}

fn print_rules(rules: &[RuleReport], out: &mut impl Write) -> io::Result<()> {
    if rules.is_empty() {
        return writeln!(
            out,
            "rules    none: nothing is recorded until `bootmark enable RULE`"
        );
    }
    writeln!(out, "rules    (the last that matches a marker decides)")?;
    for RuleReport { rule, unfiltered } in rules {
        writeln!(out, "  {}", rule_line(rule))?;
        for marker in unfiltered {
            writeln!(
                out,
                "       {} ({}) records everything: {}",
                marker.event, marker.kind, marker.reason
            )?;
        }
    }
    Ok(())
}

fn rule_line(rule: &control::Rule) -> String {
    let matched = match rule.matched {
        0 => "matches nothing yet".to_owned(),
        1 => "1 marker".to_owned(),
        count => format!("{count} markers"),
    };
    let mut notes = String::new();
    if rule.scoped {
        notes += ", in some processes";
    }
    if rule.boot {
        notes += ", from the command line";
    }
    if rule.process {
        notes += ", from /proc, ends with the process";
    }
    format!("{:>4} {:<32} {matched}{notes}", rule.id, rule.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_say_where_they_are_from() {
        let mut rule = control::Rule {
            id: 3,
            text: "svc:*@pid=7".to_owned(),
            matched: 0,
            disables: false,
            boot: false,
            scoped: true,
            process: true,
        };
        let line = rule_line(&rule);
        assert!(line.starts_with("   3 svc:*@pid=7 "), "{line}");
        assert!(
            line.ends_with(
                "matches nothing yet, in some processes, from /proc, ends with the process"
            ),
            "{line}"
        );
        rule.matched = 2;
        assert!(rule_line(&rule).contains(" 2 markers,"));
    }
}
