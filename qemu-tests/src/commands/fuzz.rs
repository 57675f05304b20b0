//! `cargo xtask fuzz`

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use qemu_tests::fuzz;

/// Feed hostile input to everything that reads, for as long as asked.
///
/// What is found fails the command, with the place of the input; target/fuzz keeps what was learnt for the
/// next time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to fuzz [default: all, one after the other].
    #[arg(value_enum, value_name = "TARGET")]
    targets: Vec<Target>,

    /// How long, in minutes, for each target.
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    minutes: f64,
}

/// What can be fuzzed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Target {
    /// On the host: packets into the reader.
    Packets,
    /// On the host: trace directories into `view`, `summary` and a second extraction.
    Trace,
    /// On the host: memory dumps into `extract --vmcore`.
    Pool,
    /// On the host: ELF files into `list` and `verify`.
    ElfTools,
    /// On the host: rules, filters and conditions.
    Rules,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let Ok(time) = Duration::try_from_secs_f64(args.minutes * 60.0) else {
        bail!("--minutes {}: expected a number above zero", args.minutes);
    };
    let targets = match args.targets.as_slice() {
        [] => Target::value_variants(),
        some => some,
    };
    let mut code = ExitCode::SUCCESS;
    for target in targets {
        let done = match target {
            Target::Packets => fuzz::run("packets", time),
            Target::Trace => fuzz::run("trace", time),
            Target::Pool => fuzz::run("pool", time),
            Target::ElfTools => fuzz::run("elf-tools", time),
            Target::Rules => fuzz::run("rules", time),
        };
        // The others still get their turn.
        if let Err(error) = done {
            eprintln!("error: {error:#}");
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}
