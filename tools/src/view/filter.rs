//! Which events are shown.

use std::collections::HashMap;

use bootbuf::abi::{PacketHeader, STREAM_CPU};
use globset::{Glob, GlobMatcher};

use crate::trace::layout;
use crate::trace::reader::Event;

/// A pattern for names: `*`, `?`, `[a-z]`; a `!` in front turns it round.
#[derive(Clone, Debug)]
pub struct Pattern {
    negated: bool,
    matcher: GlobMatcher,
}

/// Reads a pattern for events. Without a colon it is a provider, as in rules.
///
/// # Errors
/// When it is malformed, with words for a user.
pub fn event_pattern(text: &str) -> Result<Pattern, String> {
    let (negated, glob) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let glob = if glob.contains(':') {
        glob.to_owned()
    } else {
        format!("{glob}:*")
    };
    pattern(negated, &glob)
}

/// Reads a pattern for the names of threads.
///
/// # Errors
/// When it is malformed, with words for a user.
pub fn comm_pattern(text: &str) -> Result<Pattern, String> {
    match text.strip_prefix('!') {
        Some(rest) => pattern(true, rest),
        None => pattern(false, text),
    }
}

fn pattern(negated: bool, glob: &str) -> Result<Pattern, String> {
    let matcher = Glob::new(glob)
        .map_err(|error| error.kind().to_string())?
        .compile_matcher();
    Ok(Pattern { negated, matcher })
}

/// Shown is what one of the patterns names (all, when there are only negated ones) and no negated
/// pattern names.
fn passes(patterns: &[Pattern], name: &str) -> bool {
    let named = |pattern: &&Pattern| pattern.matcher.is_match(name);
    let mut wanted = patterns
        .iter()
        .filter(|pattern| !pattern.negated)
        .peekable();
    let all = wanted.peek().is_none();
    (all || wanted.any(|pattern| named(&pattern)))
        && !patterns
            .iter()
            .filter(|pattern| pattern.negated)
            .any(|pattern| named(&pattern))
}

/// Which events are shown.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// By name.
    pub events: Vec<Pattern>,
    /// By process or thread id.
    pub pids: Vec<u32>,
    /// By the thread's name.
    pub comms: Vec<Pattern>,
    /// From this time on, in nanoseconds since boot.
    pub since: Option<i64>,
    /// Up to this time.
    pub until: Option<i64>,
    /// What `events` say of each marker, once found out.
    pub(crate) names: HashMap<u32, bool>,
}

impl Filter {
    /// Whether to show an event.
    pub fn shows(&mut self, event: &Event<'_>) -> bool {
        let header = event.header;
        if self.since.is_some_and(|since| event.ns < since) || self.is_over(event) {
            return false;
        }
        let (pids, comms) = (&self.pids, &self.comms);
        if !pids.is_empty() || !comms.is_empty() {
            let user = header.stream_id != STREAM_CPU;
            let pid = pids.is_empty() || pids.contains(&header.pid) || pids.contains(&header.tid);
            if !user || !pid || !passes(comms, &layout::comm(&header.comm)) {
                return false;
            }
        }
        let events = &self.events;
        *self
            .names
            .entry(event.marker.id)
            .or_insert_with(|| passes(events, &event.marker.full_name))
    }

    /// Whether to show what a marker's aggregation kept in a thread.
    pub fn shows_cell(&self, marker: &str, header: &PacketHeader) -> bool {
        let pids = &self.pids;
        (pids.is_empty() || pids.contains(&header.pid) || pids.contains(&header.tid))
            && passes(&self.comms, &layout::comm(&header.comm))
            && passes(&self.events, marker)
    }

    /// Whether anything is filtered at all.
    pub fn is_some(&self) -> bool {
        !self.events.is_empty()
            || !self.pids.is_empty()
            || !self.comms.is_empty()
            || self.since.is_some()
            || self.until.is_some()
    }

    /// Whether this event and all later ones are too late.
    pub fn is_over(&self, event: &Event<'_>) -> bool {
        self.until.is_some_and(|until| event.ns > until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let patterns = |texts: &[&str]| -> Vec<Pattern> {
            texts
                .iter()
                .map(|text| event_pattern(text).unwrap())
                .collect()
        };
        assert!(passes(&patterns(&[]), "init:mount"));
        assert!(passes(&patterns(&["init"]), "init:mount"));
        assert!(!passes(&patterns(&["init:s*"]), "init:mount"));
        assert!(passes(&patterns(&["!init:s*"]), "init:mount"));
        assert!(!passes(&patterns(&["init", "!*:mount"]), "init:mount"));
        assert!(passes(&patterns(&["svc", "init:mou[n]t"]), "init:mount"));
        assert!(event_pattern("init:[").is_err());
    }
}
