//! Reading a trace that a guest left: with our tool, and with babeltrace2, which none of us wrote.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{process, programs};

/// One event as `bootmark view --json` shows it; docs/trace.md lists the keys.
#[derive(Debug, Clone)]
pub struct Event(pub Value);

impl Event {
    /// `provider:name`, with `.begin` or `.end` for spans.
    pub fn name(&self) -> &str {
        self.0["event"].as_str().unwrap_or_default()
    }

    /// Nanoseconds since boot.
    pub fn ns(&self) -> i64 {
        self.0["ts_ns"].as_i64().unwrap_or(i64::MIN)
    }

    /// The process; none for kernel events.
    pub fn pid(&self) -> Option<u64> {
        self.0["pid"].as_u64()
    }

    /// The number of the stream, that is of the thread or CPU.
    pub fn stream(&self) -> Option<u64> {
        self.0["stream"].as_u64()
    }

    /// A field that is a number.
    pub fn number(&self, field: &str) -> Option<u64> {
        self.0["fields"][field].as_u64()
    }

    /// A field that is text.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.0["fields"][field].as_str()
    }
}

/// All events of a trace, in the order of time.
///
/// # Errors
/// When the trace cannot be read whole.
pub fn events(trace: &Path) -> Result<Vec<Event>> {
    let lines = view(trace, &[])?.into_iter();
    // Those of aggregations come behind the events.
    Ok(lines
        .filter(|value| value.get("aggregation").is_none())
        .map(|mut value| {
            // The name that CTF readers show.
            if let (Some(event), Some(kind @ ("begin" | "end"))) =
                (value["event"].as_str(), value["kind"].as_str())
            {
                value["event"] = format!("{event}.{kind}").into();
            }
            Event(value)
        })
        .collect())
}

/// The events of this name that a process wrote, in the order of time; for traces that hold a great many
/// others.
///
/// # Errors
/// When the trace cannot be read whole.
pub fn events_of(trace: &Path, name: &str, pid: u64) -> Result<Vec<Event>> {
    let pid = pid.to_string();
    Ok(view(trace, &["--event", name, "--pid", &pid])?
        .into_iter()
        .filter(|value| value.get("aggregation").is_none())
        .map(Event)
        .collect())
}

/// What aggregations kept: the rows of all tables, as `bootmark view --json` shows them.
///
/// # Errors
/// When the trace cannot be read whole, or there are none.
pub fn rows(trace: &Path) -> Result<Vec<Value>> {
    view(trace, &["--aggregations"])
}

fn view(trace: &Path, args: &[&str]) -> Result<Vec<Value>> {
    let lines = process::output(
        Command::new(programs::build()?.bootmark)
            .args(["view", "--json"])
            .args(args)
            .arg(trace),
    )?;
    lines
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("not JSON: {line}")))
        .collect()
}

/// What `bootmark summary` says of a trace, as JSON.
///
/// # Errors
/// When the trace cannot be read whole.
pub fn summary(trace: &Path) -> Result<Value> {
    let text = process::output(
        Command::new(programs::build()?.bootmark)
            .args(["summary", "--json"])
            .arg(trace),
    )?;
    serde_json::from_str(&text).context("the summary is not JSON")
}

/// The lines that babeltrace2 prints of a trace, one an event.
///
/// # Errors
/// When it fails, or says anything on its standard error.
pub fn babeltrace(trace: &Path) -> Result<Vec<String>> {
    let (events, complaints) = run_babeltrace(trace)?;
    if !complaints.is_empty() {
        bail!(
            "babeltrace2 on {}:\n{}",
            trace.display(),
            complaints.join("\n")
        );
    }
    Ok(events)
}

/// What babeltrace2 makes of a trace with losses.
#[derive(Debug)]
pub struct Losses {
    /// How many events it prints.
    pub events: usize,
    /// The lines on its standard error.
    pub complaints: Vec<String>,
}

/// Reads a trace from which events were lost with babeltrace2.
///
/// # Errors
/// When it fails.
pub fn babeltrace_losses(trace: &Path) -> Result<Losses> {
    let (events, complaints) = run_babeltrace(trace)?;
    Ok(Losses {
        events: events.len(),
        complaints,
    })
}

/// The lines on standard output and standard error.
fn run_babeltrace(trace: &Path) -> Result<(Vec<String>, Vec<String>)> {
    let out = Command::new("babeltrace2")
        .arg(trace)
        .stdin(Stdio::null())
        .output()
        .context("cannot start babeltrace2")?;
    let lines = |octets: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(octets);
        text.lines().map(str::to_owned).collect()
    };
    let complaints = lines(&out.stderr);
    if !out.status.success() {
        bail!(
            "babeltrace2 on {}: {}\n{}",
            trace.display(),
            out.status,
            complaints.join("\n")
        );
    }
    Ok((lines(&out.stdout), complaints))
}
