//! `bootmark extract`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cli::{Boot, Exit, ExtractArgs};
use crate::extract::source::{FileSource, KernelSource, Source, SourceError};
use crate::extract::vmcore::VmcoreSource;
use crate::extract::{Report, extract};
use crate::trace::tsdl::Machine;
use crate::units::Octets;

pub fn run(args: &ExtractArgs) -> Result<Exit> {
    let deadline = Instant::now() + Duration::from_secs(args.timeout.into());
    let Some(mut source) = source(args)? else {
        return Ok(Exit::Nothing);
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

/// Where the packets come from; `None` when it was said that there are none.
fn source(args: &ExtractArgs) -> Result<Option<Box<dyn Source>>> {
    if let Some(dump) = &args.vmcore {
        return Ok(Some(Box::new(vmcore(dump)?)));
    }
    if let Some(file) = &args.packets {
        return Ok(Some(Box::new(FileSource::open(file)?)));
    }
    if args.boot == Boot::Running {
        return Ok(Some(Box::new(KernelSource::open()?)));
    }
    match KernelSource::previous() {
        Ok(source) => Ok(Some(Box::new(source))),
        Err(nothing @ SourceError::NoPrevious) => {
            anstream::eprintln!("bootmark: {nothing}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn vmcore(dump: &Path) -> Result<VmcoreSource> {
    let source = VmcoreSource::open(dump)?;
    let release = source.head.release.split(|&octet| octet == 0).next();
    anstream::eprintln!(
        "bootmark: {}: trace buffers of {} at {:#x}, {}, of Linux {}",
        dump.display(),
        Octets(source.head.size),
        source.head.phys,
        if source.told {
            "as VMCOREINFO says"
        } else {
            "found by search"
        },
        String::from_utf8_lossy(release.unwrap_or_default()),
    );
    if source.damaged != 0 {
        anstream::eprintln!(
            "bootmark: {} chunks of them are damaged or not in the dump",
            source.damaged
        );
    }
    Ok(source)
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
