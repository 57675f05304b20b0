//! `bootmark extract`.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cli::{Boot, Exit, ExtractArgs};
use crate::extract::source::{FileSource, KernelSource, Source, SourceError};
use crate::extract::{Report, extract};
use crate::trace::tsdl::Machine;
use crate::units::Octets;

pub fn run(args: &ExtractArgs) -> Result<Exit> {
    let deadline = Instant::now() + Duration::from_secs(args.timeout.into());
    let mut source: Box<dyn Source> = match (&args.packets, args.boot) {
        (Some(file), _) => Box::new(FileSource::open(file)?),
        (None, Boot::Running) => Box::new(KernelSource::open()?),
        (None, Boot::Previous) => match KernelSource::previous() {
            Ok(source) => Box::new(source),
            Err(nothing @ SourceError::NoPrevious) => {
                anstream::eprintln!("bootmark: {nothing}");
                return Ok(Exit::Nothing);
            }
            Err(error) => return Err(error.into()),
        },
    };
    let report = extract(source.as_mut(), &args.output, machine(), deadline)?;
    warn(&report, args);
    let totals = report.totals;
    anstream::println!(
        "{}: {} events, {} lost, {} streams, {}",
        args.output.display(),
        totals.events,
        totals.lost,
        totals.streams,
        Octets(totals.bytes),
    );
    Ok(Exit::Done)
}

fn warn(report: &Report, args: &ExtractArgs) {
    for error in &report.meta_errors {
        anstream::eprintln!("bootmark: {error}: its events are left out");
    }
    let left_out = report.left_out;
    for (count, what) in [
        (left_out.torn, "whose writer was killed within the write"),
        (
            left_out.invalid,
            "that do not fit their descriptor or their time",
        ),
        (
            left_out.unfinished,
            "that were being written, for the next extraction to take",
        ),
    ] {
        if count != 0 {
            anstream::eprintln!("bootmark: left out: {count} records {what}");
        }
    }
    if report.timed_out {
        anstream::eprintln!(
            "bootmark: stopped reading after {} s; more waits in the kernel: run this again, or with a larger --timeout",
            args.timeout
        );
    }
}

fn machine() -> Machine {
    let uname = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    Machine {
        hostname: text(uname.nodename()),
        release: text(uname.release()),
        arch: text(uname.machine()),
    }
}
