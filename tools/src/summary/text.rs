//! The summary as a page of text, made to be pasted into a report.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::processes::Process;
use super::spans::{Span, Stage};
use super::{Stream, Summary};
use crate::styles::Styles;
use crate::units::{Duration, Seconds, total};
use crate::view::text::Printable;

/// Stages of one parent that are shown at most, and how deep.
const MAX_SIBLINGS: usize = 40;
const MAX_DEPTH: usize = 6;
/// Octets of field text in a row.
const FIELDS_WIDTH: usize = 60;

/// Writes the page, with `top` rows a table.
///
/// # Errors
/// When the output refuses.
pub fn write(
    out: &mut impl Write,
    summary: &Summary,
    top: usize,
    styles: &Styles,
) -> io::Result<()> {
    head(out, summary, styles)?;
    if summary.events == 0 && summary.aggregations.is_empty() && summary.lost == 0 {
        return nothing(out);
    }
    last_events(out, summary, styles)?;
    pid1(out, summary, styles)?;
    spans(out, "Slowest spans", &summary.slowest_spans, styles)?;
    if summary.initcalls != 0 {
        let title = format!(
            "Slowest of {} initcalls ({} in all)",
            summary.initcalls,
            Duration(summary.initcalls_ns)
        );
        spans(out, &title, &summary.slowest_initcalls, styles)?;
    }
    aggregations(out, summary, top, styles)?;
    processes(out, summary, top, styles)?;
    losses(out, summary, top, styles)?;
    let bad = styles.bad;
    for damage in &summary.damage {
        writeln!(out, "{bad}damaged{bad:#}: {damage}")?;
    }
    Ok(())
}

fn aggregations(
    out: &mut impl Write,
    summary: &Summary,
    top: usize,
    styles: &Styles,
) -> io::Result<()> {
    let name = styles.name;
    let all = &summary.aggregations;
    if all.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{name}Aggregations{name:#} (`bootmark view --aggregations` shows them)"
    )?;
    for kept in all.iter().take(top) {
        writeln!(
            out,
            "  {} {}: {} events in {} rows",
            kept.event, kept.aggregation, kept.events, kept.rows
        )?;
    }
    match all.len().saturating_sub(top) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

fn head(out: &mut impl Write, summary: &Summary, styles: &Styles) -> io::Result<()> {
    let name = styles.name;
    let machine = &summary.machine;
    writeln!(out, "{name}Boot {}{name:#}", summary.boot_id)?;
    if !machine.release.is_empty() {
        writeln!(
            out,
            "  machine    {}, Linux {} {}",
            Printable(machine.hostname.as_bytes()),
            Printable(machine.release.as_bytes()),
            Printable(machine.arch.as_bytes())
        )?;
    }
    let bad = if summary.lost == 0 {
        Styles::default().bad
    } else {
        styles.bad
    };
    let with_packets = |stream: &&Stream| stream.file.is_some();
    let streams = summary.streams.iter().filter(with_packets).count();
    let overwritten = match summary.overwritten {
        0 => String::new(),
        events => format!(", {events} of them overwritten"),
    };
    writeln!(
        out,
        "  events     {} recorded in {streams} streams, {bad}{} lost{bad:#}{overwritten}",
        summary.events, summary.lost
    )?;
    if let (Some(first), Some(last)) = (summary.first_ns, summary.last_ns) {
        writeln!(
            out,
            "  from       {} s to {} s after boot",
            Seconds(first),
            Seconds(last)
        )?;
    }
    ending(out, summary, styles)?;
    if let Some(ns) = summary.pid1.exec_ns.or(summary.pid1.first_event_ns) {
        writeln!(out, "  {name}time to PID 1   {} s{name:#}", Seconds(ns))?;
    }
    Ok(())
}

/// How the boot ended. That one which still runs has not ended goes without saying.
fn ending(out: &mut impl Write, summary: &Summary, styles: &Styles) -> io::Result<()> {
    let bad = styles.bad;
    match &summary.end {
        Some(end) if end.how == "panic" => writeln!(
            out,
            "  ended      {bad}without shutdown{bad:#}, by a panic at {} s: {}",
            Seconds(end.ns),
            Printable(end.text.as_bytes())
        ),
        Some(end) => writeln!(
            out,
            "  ended      by a shutdown ({}) at {} s",
            Printable(end.text.as_bytes()),
            Seconds(end.ns)
        ),
        None if summary.previous => writeln!(
            out,
            "  ended      {bad}without shutdown{bad:#} and without a word: reset, or hung until then"
        ),
        None => Ok(()),
    }
}

fn last_events(out: &mut impl Write, summary: &Summary, styles: &Styles) -> io::Result<()> {
    let name = styles.name;
    if summary.last_events.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{name}Last events{name:#}")?;
    for line in &summary.last_events {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

fn nothing(out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "
No event was recorded. Markers are off until a rule turns them on: with bootmark=\"init:*,kernel:*\" on
the kernel command line, or with `bootmark enable`. `bootmark status` shows the rules and what they
match, `bootmark list --system` the markers there are."
    )
}

fn pid1(out: &mut impl Write, summary: &Summary, styles: &Styles) -> io::Result<()> {
    let name = styles.name;
    let pid1 = &summary.pid1;
    let Some(first) = pid1.first_event_ns else {
        return writeln!(out, "\nPID 1 recorded nothing.");
    };
    writeln!(out, "\n{name}PID 1{name:#}")?;
    if let Some(exec) = pid1.exec_ns {
        writeln!(out, "  executed by the kernel at {} s", Seconds(exec))?;
    }
    writeln!(out, "  first event at {} s", Seconds(first))?;
    if !pid1.stages.is_empty() {
        writeln!(out, "  {:>13}  {:>11}  stage", "begin", "duration")?;
    }
    stages(out, &pid1.stages, 0)?;
    if pid1.stages_left_out != 0 {
        writeln!(
            out,
            "  {} more spans: see `bootmark view --pid 1`",
            pid1.stages_left_out
        )?;
    }
    Ok(())
}

fn stages(out: &mut impl Write, stages: &[Stage], depth: usize) -> io::Result<()> {
    let indent = "  ".repeat(depth);
    if depth >= MAX_DEPTH && !stages.is_empty() {
        return writeln!(
            out,
            "  {:>13}  {:>11}  {indent}... {} within",
            "",
            "",
            stages.len()
        );
    }
    for stage in stages.iter().take(MAX_SIBLINGS) {
        let duration = match stage.dur_ns {
            Some(ns) => Duration(ns).to_string(),
            None => "not ended".into(),
        };
        let line = format!("{indent}{} {}", stage.event, shortened(&stage.fields));
        writeln!(
            out,
            "  {:>13}  {duration:>11}  {}",
            Seconds(stage.begin_ns),
            line.trim_end()
        )?;
        self::stages(out, &stage.stages, depth + 1)?;
    }
    if stages.len() > MAX_SIBLINGS {
        let more = stages.len() - MAX_SIBLINGS;
        writeln!(out, "  {:>13}  {:>11}  {indent}... {more} more", "", "")?;
    }
    Ok(())
}

fn table(head: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head);
    for &index in right {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn write_table(out: &mut impl Write, table: &Table) -> io::Result<()> {
    for line in table.lines() {
        writeln!(out, " {}", line.trim_end())?;
    }
    Ok(())
}

fn spans(out: &mut impl Write, title: &str, spans: &[Span], styles: &Styles) -> io::Result<()> {
    let name = styles.name;
    if spans.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{name}{title}{name:#}")?;
    let mut table = table(&["duration", "begin", "who", "span"], &[0, 1]);
    for span in spans {
        let who = Printable(span.who.as_bytes()).to_string();
        let who = if span.pid == 0 {
            who
        } else {
            format!("{who} ({})", span.pid)
        };
        table.add_row([
            Duration(span.dur_ns).to_string(),
            Seconds(span.begin_ns).to_string(),
            who,
            format!("{} {}", span.event, shortened(&span.fields)),
        ]);
    }
    write_table(out, &table)
}

fn processes(
    out: &mut impl Write,
    summary: &Summary,
    top: usize,
    styles: &Styles,
) -> io::Result<()> {
    let name = styles.name;
    let shown = &summary.processes;
    if shown.is_empty() {
        return Ok(());
    }
    let limit = top.saturating_mul(4);
    writeln!(out, "\n{name}Processes{name:#}")?;
    let mut table = table(
        &[
            "start", "pid", "parent", "ran for", "events", "program", "end",
        ],
        &[0, 1, 2, 3, 4],
    );
    for process in shown.iter().take(limit) {
        let ran_for = match (process.start_ns, process.end_ns) {
            (Some(start), Some(end)) => {
                Duration(end.saturating_sub(start).max(0) as u64).to_string()
            }
            _ => "-".into(),
        };
        table.add_row([
            process
                .start_ns
                .map_or("-".into(), |ns| Seconds(ns).to_string()),
            process.pid.to_string(),
            process.ppid.map_or("-".into(), |pid| pid.to_string()),
            ran_for,
            process.events.to_string(),
            program(process),
            process.end.clone().unwrap_or_else(|| "runs".into()),
        ]);
    }
    write_table(out, &table)?;
    if shown.len() > limit {
        writeln!(
            out,
            "  ... {} more: --top {} or --json show them",
            shown.len() - limit,
            shown.len() / 4 + 1
        )?;
    }
    Ok(())
}

/// A process's program, with its name when that says something else.
fn program(process: &Process) -> String {
    let program = Printable(process.program.as_bytes());
    let base = process.program.rsplit('/').next().unwrap_or_default();
    if process.name.is_empty() || base.starts_with(&process.name) {
        program.to_string()
    } else {
        format!("{program} ({})", Printable(process.name.as_bytes()))
    }
}

fn losses(out: &mut impl Write, summary: &Summary, top: usize, styles: &Styles) -> io::Result<()> {
    let name = styles.name;
    let left_out = &summary.left_out;
    if summary.lost == 0 && left_out.is_empty() && summary.meta_lost == 0 {
        return Ok(());
    }
    writeln!(out, "\n{name}Lost{name:#}")?;
    let others = left_out.lost().saturating_add(summary.overwritten);
    for (count, what) in [
        (
            summary.lost.saturating_sub(others),
            "for want of room in the buffers: more with bootbuf=SIZE, fewer rules",
        ),
        (
            summary.overwritten,
            "overwritten by later ones before they were read (mode=flight)",
        ),
        (
            left_out.torn,
            "torn: their writer was killed within the write",
        ),
        (
            left_out.invalid,
            "invalid: not what their descriptor or their time says",
        ),
        (
            left_out.unfinished,
            "being written at the extraction: the next one takes them",
        ),
        (
            summary.meta_lost,
            "no events, but records about processes that found no room: names or counts may be missing",
        ),
    ] {
        if count != 0 {
            writeln!(out, "  {count:>8}  {what}")?;
        }
    }
    let mut losers: Vec<&Stream> = summary.streams.iter().filter(|s| s.lost != 0).collect();
    losers.sort_by_key(|stream| std::cmp::Reverse(stream.lost));
    let limit = top.saturating_mul(4);
    for stream in losers.iter().take(limit) {
        let all = stream.events.saturating_add(stream.lost);
        writeln!(out, "  {:>8}  of {all} events {}", stream.lost, of(stream))?;
    }
    match losers.get(limit..) {
        None | Some([]) => Ok(()),
        Some(more) => {
            let lost = total(more.iter().map(|stream| stream.lost));
            writeln!(out, "  {lost:>8}  in {} more streams", more.len())
        }
    }
}

/// Whose events were lost, and what for.
fn of(stream: &Stream) -> String {
    let comm = Printable(stream.comm.as_bytes());
    let mut words = match &stream.file {
        Some(file) => format!("in {file}"),
        None if stream.pid != 0 => {
            format!("of {comm}, process {}, thread {}", stream.pid, stream.tid)
        }
        None if stream.threads > 1 => format!("of {} threads of one user", stream.threads),
        None => format!("of {comm}"),
    };
    if stream.overwritten != 0 {
        words += &format!(", {} of them overwritten", stream.overwritten);
    }
    if let Some(why) = stream.why {
        words += &format!(": {why}");
    }
    words
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= FIELDS_WIDTH {
        return text.to_owned();
    }
    let cut: String = text.chars().take(FIELDS_WIDTH - 3).collect();
    format!("{cut}...")
}
