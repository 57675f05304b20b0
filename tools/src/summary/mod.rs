//! `bootmark summary`: what a boot did, in a page.
//!
//! | module | role |
//! | --- | --- |
//! | [`collect`](mod@collect) | one pass over the events |
//! | [`spans`] | the slowest spans, the stages of PID 1 |
//! | [`processes`] | processes, from the meta stream and from kernel events |
//! | [`text`] | the page |

pub mod collect;
pub mod processes;
pub mod spans;
pub mod text;

use serde::Serialize;

pub use self::collect::collect;
use self::processes::Process;
use self::spans::{Span, Stage};
use crate::extract::check::LeftOut;
use crate::trace::tsdl::Machine;

/// All that the summary says; also its JSON form, documented in docs/trace.md. Times are
/// nanoseconds since boot, durations nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// The boot's id.
    pub boot_id: String,
    /// The machine.
    pub machine: Machine,
    /// Events in the trace.
    pub events: u64,
    /// Events lost: for want of room, overwritten, torn, invalid.
    pub lost: u64,
    /// How many of them were recorded, and overwritten before they were read.
    pub overwritten: u64,
    /// Records about processes, and of losses, that found no room.
    pub meta_lost: u64,
    /// Records that the extractor left out.
    pub left_out: LeftOut,
    /// Time of the first event.
    pub first_ns: Option<i64>,
    /// Time of the last event.
    pub last_ns: Option<i64>,
    /// The begin of user space.
    pub pid1: Pid1,
    /// The slowest spans of programs.
    pub slowest_spans: Vec<Span>,
    /// The slowest initcalls of the kernel.
    pub slowest_initcalls: Vec<Span>,
    /// Initcalls in the trace.
    pub initcalls: u64,
    /// Their sum; nested and parallel ones count twice.
    pub initcalls_ns: u64,
    /// Processes, in the order of their start.
    pub processes: Vec<Process>,
    /// What aggregations kept; `bootmark view` shows it.
    pub aggregations: Vec<Aggregation>,
    /// Whether it was taken from memory by the boot after it.
    pub previous: bool,
    /// How the boot ended; none while it runs, and when it ended without a word.
    pub end: Option<End>,
    /// With `previous`: the last events, each as `bootmark view` shows it.
    pub last_events: Vec<String>,
    /// Streams, in the order of their first event.
    pub streams: Vec<Stream>,
    /// Damage of the files.
    pub damage: Vec<String>,
}

/// The kernel's last words.
#[derive(Clone, Debug, Serialize)]
pub struct End {
    /// `panic` or `shutdown`.
    pub how: &'static str,
    /// The panic's message, or `restart`, `halt`, `power off`.
    pub text: String,
    /// When.
    pub ns: i64,
}

/// PID 1.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Pid1 {
    /// When the kernel executed it, if that event was recorded.
    pub exec_ns: Option<i64>,
    /// Its first event.
    pub first_event_ns: Option<i64>,
    /// Its spans, nested.
    pub stages: Vec<Stage>,
    /// Spans that are not among them, because there are too many.
    pub stages_left_out: u64,
}

/// What one text kept of one marker.
#[derive(Clone, Debug, Serialize)]
pub struct Aggregation {
    /// `provider:name`.
    pub event: String,
    /// The text.
    pub aggregation: String,
    /// Events counted.
    pub events: u64,
    /// Rows of its table.
    pub rows: usize,
}

/// A stream.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stream {
    /// Name of its file; none when all its events were lost.
    pub file: Option<String>,
    /// Process; 0 for the kernel, and for several threads.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Name of the thread.
    pub comm: String,
    /// 1; more: all of one user's that were not told one by one.
    pub threads: u32,
    /// Its events.
    pub events: u64,
    /// Its lost events.
    pub lost: u64,
    /// How many of them were overwritten.
    pub overwritten: u64,
    /// What the last of them found no room for, in words.
    pub why: Option<&'static str>,
}
