//! `bootmark view`.

use std::io::Write;

use anyhow::Result;

use crate::aggregate::text::{Bars, Look};
use crate::aggregate::{self, tables};
use crate::cli::{Exit, Output, ViewArgs};
use crate::trace::reader::Trace;
use crate::view::condition::Condition;
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
    let text = args.condition.as_deref();
    let mut condition = text.map(|text| Condition::new(text, &trace.meta));
    let mut events = trace.events();
    let styles = out.styles;
    let mut shown = 0;
    while !args.aggregations && args.limit.is_none_or(|limit| shown < limit) {
        let Some(event) = events.next_event() else {
            break;
        };
        if filter.is_over(&event) {
            break;
        }
        if let Some(condition) = &mut condition {
            condition.sees(&event);
        }
        let wanted = filter.shows(&event)
            && condition
                .as_mut()
                .is_none_or(|condition| condition.holds(&event));
        if !wanted {
            continue;
        }
        shown += 1;
        if args.json {
            json::write(out, &event, clock)?;
        } else {
            text::write(out, &event, clock, &styles)?;
        }
    }
    // Cells have no time to be cut off at, so these filters are about events alone.
    let events_alone =
        args.since.is_some() || args.until.is_some() || args.limit.is_some() || condition.is_some();
    let mut cells_damage = Vec::new();
    if args.aggregations || !events_alone {
        let (tables, found) = tables::collect(&trace, |layout, header| {
            filter.shows_cell(&layout.marker.full_name, header)
        });
        if args.json {
            aggregate::json::write(out, &tables, clock)?;
        } else {
            if shown != 0 && !tables.is_empty() {
                writeln!(out)?;
            }
            let look = Look {
                styles: &styles,
                bars: Bars::of_locale(),
                clock,
            };
            aggregate::text::write(out, &tables, &look)?;
        }
        shown += tables.iter().count() as u64;
        cells_damage = found.damage;
    }
    out.flush()?;
    if let Some(note) = condition.as_ref().and_then(Condition::note) {
        anstream::eprintln!("bootmark: {note}");
    }
    let damage: Vec<_> = trace
        .damage
        .iter()
        .chain(&events.damage)
        .chain(&cells_damage)
        .collect();
    for damage in &damage {
        anstream::eprintln!("bootmark: {damage}");
    }
    Ok(match (damage.is_empty(), shown) {
        (false, _) => Exit::Failed,
        (true, 0) if filter.is_some() || condition.is_some() || args.aggregations => Exit::Nothing,
        (true, _) => Exit::Done,
    })
}
