//! `bootmark status`.

use std::io::Write;

use anyhow::Result;
use bootbuf::abi::{CLOCK_BOOTTIME, CLOCK_TSC};
use serde_json::json;

use crate::cli::{Exit, Output, StatusArgs};
use crate::control::{self, Rule};
use crate::trace::tsdl::uuid;
use crate::units::Octets;

pub fn run(args: &StatusArgs, out: &mut Output) -> Result<Exit> {
    let status = control::status()?;
    let rules = control::rules()?;
    let clock = match status.clock {
        CLOCK_TSC => "tsc",
        CLOCK_BOOTTIME => "boottime",
        _ => "none",
    };
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
            "clock": clock,
            "modules": status.modules,
            "markers": status.markers,
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
    writeln!(out, "lost     {} events", status.events_lost)?;
    writeln!(out, "clock    {clock}")?;
    writeln!(
        out,
        "markers  {} in {} files and the kernel",
        status.markers, status.modules
    )?;
    if rules.is_empty() {
        writeln!(
            out,
            "rules    none: nothing is recorded until `bootmark enable RULE`"
        )?;
    } else {
        writeln!(out, "rules    (the last that matches a marker decides)")?;
    }
    for rule in &rules {
        writeln!(out, "  {}", rule_line(rule))?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn rule_line(rule: &Rule) -> String {
    let matched = match rule.matched {
        0 => "matches nothing yet".to_owned(),
        1 => "1 marker".to_owned(),
        count => format!("{count} markers"),
    };
    let boot = if rule.boot {
        ", from the command line"
    } else {
        ""
    };
    format!("{:<32} {matched}{boot}", rule.text)
}
