//! `cargo xtask boot`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use qemu_tests::guest::{DEFAULT_RULES, Guest};
use qemu_tests::outcome::Outcome;
use qemu_tests::qemu::Alarm;
use qemu_tests::{paths, process, programs, setup};

/// Build everything, boot it in QEMU with tracing on, and show what PID 1 did.
///
/// Results go to the directory that --out names: trace/ is a CTF 1.8 trace, console.log the
/// guest's console, summary.txt the summary that is also printed, script.log the output
/// of --script, previous/ with --panic-after the trace of the boot that panicked.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where results go [default: target/boot].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// What to record: short for `bootmark=RULES` on the kernel command line; an empty
    /// text records nothing.
    #[arg(long, value_name = "RULES", default_value = DEFAULT_RULES)]
    rules: String,

    /// Add to the kernel command line. Can be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    append: Vec<String>,

    /// A Linux 6.12 source tree or tarball [default: Debian's linux-source-6.12].
    #[arg(long, value_name = "DIR|TARBALL")]
    kernel_source: Option<PathBuf>,

    /// Kernel configuration: small, off (without Bootmark), debug (KASAN, lockdep, kmemleak).
    #[arg(long, value_name = "NAME", default_value = "small")]
    config: String,

    /// Give a shell on the guest's console instead of powering off; leaving the shell
    /// powers off, Ctrl-A X ends QEMU.
    #[arg(long)]
    shell: bool,

    /// Copy a file or folder of this machine into the guest. Can be given several times.
    #[arg(long, value_name = "HOST:GUEST")]
    add: Vec<String>,

    /// Run a shell script of this machine in the guest, as root, once the services are
    /// up and before the extractor. Its exit status becomes this command's.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,

    /// Panic the kernel so many milliseconds after PID 1 started, and boot again in the same
    /// memory: previous/ is then the trace of the boot that died, trace/ that of the second one.
    #[arg(long, value_name = "MS", conflicts_with = "shell")]
    panic_after: Option<u64>,

    /// Guest memory in MiB; the kernel `debug` gets twice as much, and eight times the time.
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    memory: u32,

    /// Virtual CPUs.
    #[arg(long, value_name = "N", default_value_t = 2)]
    cpus: u32,

    /// Time limit for the guest in seconds; --shell has none.
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    timeout: u64,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let guest = describe(&args)?;
    setup::ensure(setup::PACKAGES)?;
    let outcome = if args.shell {
        guest.run_interactive()?
    } else {
        guest.run()?
    };
    if !args.shell || outcome.trace().exists() {
        outcome.check()?;
    }
    report(&outcome, &args)
}

/// The boot that the arguments ask for; what is wrong with them is said before
/// anything is built.
fn describe(args: &Args) -> Result<Guest> {
    let out = match &args.out {
        Some(out) => out.clone(),
        None => paths::target().join("boot"),
    };
    let mut guest = Guest::new()
        .beside_others()
        .out(out)
        .kernel(&args.config)
        .kernel_source(args.kernel_source.as_deref())
        .rules(&args.rules)
        .memory(args.memory)
        .cpus(args.cpus)
        .timeout(Duration::from_secs(args.timeout));
    for text in &args.append {
        guest = guest.append(text);
    }
    if args.shell {
        guest = guest.append("bootmark.shell");
    }
    if let Some(ms) = args.panic_after {
        guest = guest
            .append(&format!("bootmark.panic_after={ms}"))
            .reboots()
            .tolerate(Alarm::Panic);
    }
    for pair in &args.add {
        let Some((host, path)) = pair.rsplit_once(':').filter(|(_, g)| g.starts_with('/')) else {
            bail!("--add {pair}: expected HOST:GUEST, with an absolute path for the guest");
        };
        if fs::symlink_metadata(host).is_err() {
            bail!("--add {pair}: there is no {host} on this machine");
        }
        guest = guest.add(host, path);
    }
    if let Some(script) = &args.script {
        let text = fs::read(script)
            .with_context(|| format!("cannot read the script {}", script.display()))?;
        guest = guest.script(text);
    }
    guest.command_line()?;
    Ok(guest)
}

/// What `bootmark summary` says of a trace.
fn summary(trace: &Path) -> Result<String> {
    let bootmark = programs::build()?.bootmark;
    process::output(Command::new(bootmark).arg("summary").arg(trace))
        .with_context(|| format!("the trace in {} cannot be summed up", trace.display()))
}

/// Shows the summary and where everything is; gives the script's status.
fn report(outcome: &Outcome, args: &Args) -> Result<ExitCode> {
    let mut places = vec![("console", outcome.console_log().display().to_string())];
    if outcome.previous().exists() {
        println!(
            "The boot that panicked:\n\n{}\n\nThe boot after it:\n",
            summary(&outcome.previous())?.trim_end()
        );
        places.push(("previous", outcome.previous().display().to_string()));
    } else if let Some(ms) = args.panic_after {
        bail!(
            "no boot has left a trace to the one after it; was the guest done before its panic, \
             {ms} ms after PID 1's start? Its console is in {}",
            outcome.console_log().display()
        );
    }
    if outcome.trace().exists() {
        let summary = summary(&outcome.trace())?;
        let path = outcome.dir.join("summary.txt");
        fs::write(&path, &summary).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}\n", summary.trim_end());
        let mut view = Command::new(programs::build()?.bootmark);
        view.arg("view").arg(outcome.trace());
        places.push(("trace", outcome.trace().display().to_string()));
        places.push(("summary", path.display().to_string()));
        places.push(("view", process::show(&view)));
    } else if !args.shell && !args.rules.is_empty() && args.config != "off" {
        bail!(
            "the guest left no trace; its console is in {}",
            outcome.console_log().display()
        );
    }
    let mut code = ExitCode::SUCCESS;
    if args.script.is_some() {
        print!("{}", outcome.script_log);
        places.push((
            "script",
            outcome.dir.join("script.log").display().to_string(),
        ));
        let Some(status) = outcome.script_status else {
            bail!(
                "the guest did not run the script; its console is in {}",
                outcome.console_log().display()
            );
        };
        if status != 0 {
            eprintln!("the script ended with status {status}");
            code = ExitCode::from(u8::try_from(status).unwrap_or(1));
        }
    }
    for (name, place) in places {
        println!("{name:8} {place}");
    }
    Ok(code)
}
