//! Spans that ended: the slowest, and how those of a thread nest.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::Serialize;

/// A span that ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// How long it took, in nanoseconds.
    pub dur_ns: u64,
    /// When it began, in nanoseconds since boot.
    pub begin_ns: i64,
    /// `provider:name`.
    pub event: String,
    /// The fields of begin and end, as text.
    pub fields: String,
    /// The thread, or the CPU.
    pub who: String,
    /// Process id, 0 for the kernel.
    pub pid: u32,
}

/// The slowest of many.
#[derive(Debug)]
pub struct Slowest {
    spans: BTreeSet<Span>,
    limit: usize,
}

impl Slowest {
    /// Keeps `limit` spans.
    pub fn new(limit: usize) -> Self {
        Self {
            spans: BTreeSet::new(),
            limit,
        }
    }

    /// Whether a span of this duration would be kept.
    pub fn wants(&self, dur_ns: u64) -> bool {
        self.spans.len() < self.limit || self.spans.first().is_some_and(|span| span.dur_ns < dur_ns)
    }

    /// Takes a span.
    pub fn add(&mut self, span: Span) {
        self.spans.insert(span);
        if self.spans.len() > self.limit {
            self.spans.pop_first();
        }
    }

    /// The spans kept, slowest first.
    pub fn into_vec(self) -> Vec<Span> {
        self.spans.into_iter().rev().collect()
    }
}

/// A span of PID 1 with what happened in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// `provider:name`.
    pub event: String,
    /// The fields of begin and end, as text.
    pub fields: String,
    /// When it began, in nanoseconds since boot.
    pub begin_ns: i64,
    /// How long it took; `None` when its end is not in the trace.
    pub dur_ns: Option<u64>,
    /// Spans within it.
    pub stages: Vec<Stage>,
}

/// Nests spans of one thread by their times. A span is not put into one of the same name: these are
/// rather two of a kind that overlap, such as services started in parallel.
pub fn nest(mut flat: Vec<Stage>) -> Vec<Stage> {
    flat.sort_by_key(|stage| (stage.begin_ns, Reverse(end(stage))));
    let mut roots = Vec::new();
    let mut open: Vec<Stage> = Vec::new();
    for stage in flat {
        while open
            .last()
            .is_some_and(|parent| end(parent) < end(&stage) || end(parent) <= stage.begin_ns)
            || open
                .last()
                .is_some_and(|parent| parent.event == stage.event)
        {
            close(&mut open, &mut roots);
        }
        open.push(stage);
    }
    while !open.is_empty() {
        close(&mut open, &mut roots);
    }
    roots
}

fn end(stage: &Stage) -> i64 {
    match stage.dur_ns {
        Some(dur) => stage.begin_ns.saturating_add_unsigned(dur),
        None => i64::MAX,
    }
}

fn close(open: &mut Vec<Stage>, roots: &mut Vec<Stage>) {
    if let Some(stage) = open.pop() {
        match open.last_mut() {
            Some(parent) => parent.stages.push(stage),
            None => roots.push(stage),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(event: &str, begin_ns: i64, dur: Option<u64>) -> Stage {
        Stage {
            event: event.into(),
            fields: String::new(),
            begin_ns,
            dur_ns: dur,
            stages: Vec::new(),
        }
    }

    fn shape(stages: &[Stage]) -> String {
        let one = |stage: &Stage| {
            if stage.stages.is_empty() {
                stage.event.clone()
            } else {
                format!("{}({})", stage.event, shape(&stage.stages))
            }
        };
        stages.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nesting_follows_time() {
        let stages = nest(vec![
            stage("b", 2, Some(3)),
            stage("a", 0, Some(10)),
            stage("c", 3, Some(1)),
            stage("d", 6, Some(4)),
            stage("e", 12, Some(0)),
            stage("f", 13, None),
            stage("g", 14, Some(1)),
        ]);
        assert_eq!(shape(&stages), "a(b(c) d) e f(g)");
    }

    #[test]
    fn parallel_ones_of_a_kind_stand_side_by_side() {
        let stages = nest(vec![
            stage("service", 0, Some(10)),
            stage("service", 1, Some(2)),
            stage("service", 4, Some(20)),
        ]);
        assert_eq!(shape(&stages), "service service service");
    }

    #[test]
    fn slowest_are_kept_in_order() {
        let mut slowest = Slowest::new(2);
        for dur_ns in [5, 9, 1, 7] {
            let span = Span {
                dur_ns,
                begin_ns: 0,
                event: String::new(),
                fields: String::new(),
                who: String::new(),
                pid: 0,
            };
            assert_eq!(slowest.wants(dur_ns), dur_ns != 1);
            slowest.add(span);
        }
        assert_eq!(
            slowest
                .into_vec()
                .iter()
                .map(|span| span.dur_ns)
                .collect::<Vec<_>>(),
            [9, 7]
        );
    }
}
