//! Spans: pairs of records, found by the time-stamp that the end carries.

use std::collections::HashMap;

use bootbuf::abi::STREAM_CPU;

use super::reader::Event;

/// Where a span runs: a thread's stays in its stream, the kernel's may change the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The stream of this number.
    Thread(usize),
    /// Any CPU.
    Kernel,
}

impl Place {
    /// Where an event's spans run.
    pub fn of(event: &Event<'_>) -> Self {
        match event.header.stream_id {
            STREAM_CPU => Self::Kernel,
            _ => Self::Thread(event.stream),
        }
    }
}

/// The begins whose ends have not come yet, with something to remember of each. Names are numbers
/// that the caller gives.
#[derive(Debug)]
pub struct OpenSpans<T> {
    open: HashMap<(Place, usize), Vec<(u64, T)>>,
    count: usize,
}

impl<T> Default for OpenSpans<T> {
    fn default() -> Self {
        Self {
            open: HashMap::new(),
            count: 0,
        }
    }
}

impl<T> OpenSpans<T> {
    /// Begins that are remembered at most: a trace whose ends were lost does not fill the memory.
    const LIMIT: usize = 1 << 20;

    /// A span of this name begins.
    pub fn begin(&mut self, place: Place, reading: u64, name: usize, value: T) {
        if self.count < Self::LIMIT {
            self.count += 1;
            let open = self.open.entry((place, name)).or_default();
            open.push((reading, value));
        }
    }

    /// It ends, and says when it began: what was remembered of that, when it was seen.
    ///
    /// When a filter decided at the end, the begin was written there too, right in front of it: then
    /// it is the last begin, and its record is later than the beginning.
    pub fn end(&mut self, place: Place, reading: u64, name: usize) -> Option<T> {
        let open = self.open.get_mut(&(place, name))?;
        let late = |(begin, _): &(u64, T)| matches!(place, Place::Thread(_)) && *begin > reading;
        let index = open
            .iter()
            .rposition(|(begin, _)| *begin == reading)
            .or_else(|| open.last().is_some_and(late).then(|| open.len() - 1))?;
        self.count -= 1;
        Some(open.remove(index).1)
    }

    /// Those that never ended: place, reading and name of each.
    pub fn into_open(self) -> impl Iterator<Item = (Place, u64, usize, T)> {
        self.open.into_iter().flat_map(|((place, name), open)| {
            open.into_iter()
                .map(move |(reading, value)| (place, reading, name, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_find_their_begins() {
        let mut spans = OpenSpans::default();
        let thread = Place::Thread(0);
        spans.begin(thread, 10, 0, "outer");
        spans.begin(thread, 20, 0, "inner");
        spans.begin(thread, 20, 1, "other name");
        spans.begin(Place::Thread(1), 20, 0, "other thread");
        assert_eq!(spans.end(thread, 20, 0), Some("inner"));
        assert_eq!(spans.end(thread, 10, 0), Some("outer"));
        assert_eq!(spans.end(thread, 10, 0), None);
        let mut open: Vec<_> = spans.into_open().map(|(.., what)| what).collect();
        open.sort_unstable();
        assert_eq!(open, ["other name", "other thread"]);
    }

    #[test]
    fn begins_written_at_the_end_belong_to_it() {
        let mut spans = OpenSpans::default();
        let thread = Place::Thread(0);
        spans.begin(thread, 5, 0, "plain");
        // Began at 20 and at 10, in each other.
        spans.begin(thread, 30, 0, "inner");
        assert_eq!(spans.end(thread, 20, 0), Some("inner"));
        spans.begin(thread, 40, 0, "outer");
        assert_eq!(spans.end(thread, 10, 0), Some("outer"));
        assert_eq!(spans.end(thread, 5, 0), Some("plain"));
        // The kernel decides nothing at the end.
        spans.begin(Place::Kernel, 30, 0, "kernel");
        assert_eq!(spans.end(Place::Kernel, 20, 0), None);
    }
}
