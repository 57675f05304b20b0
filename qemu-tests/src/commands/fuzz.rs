//! `cargo xtask fuzz`

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use qemu_tests::attack::{self, Attack, Round};
use qemu_tests::{fuzz, kernel, paths, setup};

/// Attack everything that reads, and the kernel part, with hostile input, for as long as asked.
///
/// What is found fails the command. On the host: with the place of the input; target/fuzz keeps what was learnt for the
/// next time. In the guest: with the seed that tries it again, and the guest's console in
/// target/fuzz/TARGET.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to fuzz [default: all, one after the other].
    #[arg(value_enum, value_name = "TARGET")]
    targets: Vec<Target>,

    /// How long, in minutes, for each target.
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    minutes: f64,

    /// In the guest: the seed of the first round; the next ones count on from it [default: the time].
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// In the guest: how long each round attacks, in seconds by the guest's clock.
    #[arg(long, value_name = "N", default_value_t = 30)]
    round: u64,

    /// In the guest: the configuration of its kernel.
    #[arg(long, value_name = "NAME", default_value = "small")]
    kernel: String,
}

/// What can be fuzzed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Target {
    /// In the guest: system calls, readers, /proc/PID/bootmark, memory and processes.
    Syscalls,
    /// In the guest: ELF files that are almost right, through exec, mmap and dlopen().
    Elf,
    /// In the guest: processes that scribble over their chunks while they are read.
    Scribble,
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
    if !kernel::for_guests().any(|name| name == args.kernel) {
        bail!(
            "--kernel {}: no kernel with Bootmark of that name",
            args.kernel
        );
    }
    let targets = match args.targets.as_slice() {
        [] => Target::value_variants(),
        some => some,
    };
    let mut code = ExitCode::SUCCESS;
    for target in targets {
        let done = match target {
            Target::Syscalls => in_guest(&args, Attack::Syscalls, time),
            Target::Elf => in_guest(&args, Attack::Elf, time),
            Target::Scribble => in_guest(&args, Attack::Scribble, time),
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

/// Rounds in guests until the time is up, at least one.
fn in_guest(args: &Args, attack: Attack, time: Duration) -> Result<()> {
    setup::ensure(setup::PACKAGES)?;
    let name = attack.name();
    let first = match args.seed {
        Some(seed) => seed,
        None => SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .context("the clock stands before 1970")?
            .as_secs(),
    };
    let until = Instant::now() + time;
    for seed in first.. {
        println!("{name}: seed {seed}");
        let round = Round {
            attack,
            seeds: vec![seed],
            seconds: args.round,
            steps: 0,
            kernel: Some(args.kernel.clone()),
            out: Some(paths::target().join("fuzz").join(name)),
        };
        let (_, tried) = attack::run(&round).with_context(|| {
            format!(
                "{name} found something; again: cargo xtask fuzz {name} --minutes 0 --seed {seed} \
                 --round {} --kernel {}",
                args.round, args.kernel
            )
        })?;
        let counts: Vec<String> = tried
            .counts
            .iter()
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        println!(
            "{name}: {}; {} events of controls, all there",
            counts.join(", "),
            tried.control
        );
        if Instant::now() >= until {
            break;
        }
    }
    Ok(())
}
