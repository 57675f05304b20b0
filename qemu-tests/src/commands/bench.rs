//! `cargo xtask bench`

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use qemu_tests::bench::report::Report;
use qemu_tests::bench::{guest, native};
use qemu_tests::setup;

/// Measure what markers cost, beside the clock read alone and beside LTTng-UST.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write all figures to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// A glance of a few seconds instead of a measurement.
    #[arg(long)]
    quick: bool,

    /// Measure in the guest too, over the real system call.
    #[arg(long)]
    guest: bool,

    /// Fail when a target is missed.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    setup::ensure(setup::BENCH_PACKAGES)?;
    if args.guest {
        setup::ensure(setup::PACKAGES)?;
    }
    let report = Report {
        cpu: cpu(),
        native: native::measure(native::Plan::new(args.quick))?,
        guest: args.guest.then(|| guest::measure(args.quick)).transpose()?,
    };
    print!("{}", report.text());
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let missed = report.targets().iter().any(|(_, _, met)| !met);
    Ok(if args.check && missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// What the kernel calls the processor.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    line.and_then(|rest| rest.split_once(':')).map_or_else(
        || "unknown processor".to_owned(),
        |(_, name)| name.trim().to_owned(),
    )
}
