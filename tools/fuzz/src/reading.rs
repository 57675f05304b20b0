//! A trace directory, read in every way.

use std::path::Path;

use bootmark_tools::aggregate::{json as rows, tables, text as bars};
use bootmark_tools::styles::Styles;
use bootmark_tools::summary;
use bootmark_tools::trace::reader::Trace;
use bootmark_tools::view::{json, text};

/// Opens and reads it; the number of events, if it can be opened.
///
/// # Panics
/// When two ways of reading do not find the same.
pub fn read(dir: &Path) -> Option<u64> {
    let trace = match Trace::open(dir) {
        Ok(trace) => trace,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let styles = Styles::new(true);
    let clock = &trace.meta.clock;
    let mut sink = Vec::new();
    let mut count = 0;
    let mut events = trace.events();
    while let Some(event) = events.next_event() {
        count += 1;
        sink.clear();
        json::write(&mut sink, &event, clock).expect("memory takes it");
        text::write(&mut sink, &event, clock, &styles).expect("memory takes it");
    }
    let summary = summary::collect(&trace, 3);
    assert_eq!(summary.events, count);
    summary::text::write(&mut sink, &summary, 3, &styles).expect("memory takes it");
    let (tables, _) = tables::collect(&trace, |_, _| true);
    let look = bars::Look {
        styles: &styles,
        bars: bars::Bars::Unicode,
        clock,
    };
    bars::write(&mut sink, &tables, &look).expect("memory takes it");
    rows::write(&mut sink, &tables, clock).expect("memory takes it");
    Some(count)
}
