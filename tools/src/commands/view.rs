//! `bootmark view`.

use std::io::Write;

use anyhow::Result;

use crate::cli::{Exit, Output, ViewArgs};
use crate::trace::reader::Trace;
use crate::view::filter::Filter;
use crate::view::{json, text};

pub fn run(args: ViewArgs, out: &mut Output) -> Result<Exit> {
    let trace = Trace::open(&args.dir)?;
    let mut filter = Filter {
        events: args.event,
        pids: args.pid,
        comms: args.comm,
        since: args.since,
        until: args.until,
        ..Filter::default()
    };
    let clock = &trace.meta.clock;
    let mut events = trace.events();
    let styles = out.styles;
    let mut shown = 0;
    while args.limit.is_none_or(|limit| shown < limit) {
        let Some(event) = events.next_event() else {
            break;
        };
        if filter.is_over(&event) {
            break;
        }
        if !filter.shows(&event) {
            continue;
        }
        shown += 1;
        if args.json {
            json::write(out, &event, clock)?;
        } else {
            text::write(out, &event, clock, &styles)?;
        }
    }
    out.flush()?;
    let damage: Vec<_> = trace.damage.iter().chain(&events.damage).collect();
    for damage in &damage {
        anstream::eprintln!("bootmark: {damage}");
    }
    Ok(match (damage.is_empty(), shown) {
        (false, _) => Exit::Failed,
        (true, 0) if filter.is_some() => Exit::Nothing,
        (true, _) => Exit::Done,
    })
}
