//! `bootmark summary`.

use std::io::Write;

use anyhow::Result;

use crate::cli::{Exit, Output, SummaryArgs};
use crate::summary::{collect, text};
use crate::trace::reader::Trace;

pub fn run(args: &SummaryArgs, out: &mut Output) -> Result<Exit> {
    let trace = Trace::open(&args.dir)?;
    let summary = collect(&trace, args.top);
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &summary)?;
        writeln!(out)?;
    } else {
        let styles = out.styles;
        text::write(out, &summary, args.top, &styles)?;
    }
    out.flush()?;
    if summary.damage.is_empty() {
        return Ok(Exit::Done);
    }
    anstream::eprintln!(
        "bootmark: {} is damaged: what is above is what could be read",
        trace.dir.display()
    );
    Ok(Exit::Failed)
}
