//! The command line.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands;
use crate::styles::Styles;
use crate::units::parse_time;
use crate::view::condition;
use crate::view::filter::{self, Pattern};

/// What a command came to; its number is the program's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All is well.
    Done = 0,
    /// An error, or a check that failed.
    Failed = 1,
    /// Nothing was found or matched.
    Nothing = 3,
}

/// Standard output.
#[derive(Debug)]
pub struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    /// What to write with.
    pub styles: Styles,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

const STATUSES: &str = "\
Exit status:
  0  all is well
  1  an error, or a check that failed
  2  a wrong command line
  3  nothing was found or matched";

/// Boot traces: take them from the kernel, read them, and say which markers are on.
#[derive(Debug, Parser)]
#[command(name = "bootmark", version, after_help = STATUSES, propagate_version = true)]
pub struct Cli {
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take everything from the kernel's buffers into a trace directory
    Extract(ExtractArgs),
    /// Show the events of a trace in the order of time
    View(Box<ViewArgs>),
    /// Say in a page what happened: time to PID 1, its stages, slowest spans, processes, losses
    Summary(SummaryArgs),
    /// List the markers of files, or those that the running kernel knows
    List(ListArgs),
    /// Check that a build kept its markers, and that the kernel can use them
    Verify(VerifyArgs),
    /// Turn markers on, in all running and future processes
    Enable(RuleArgs),
    /// Turn markers off, in all running and future processes
    Disable(RuleArgs),
    /// Remove rules, so that those before them decide
    Forget(ForgetArgs),
    /// Show buffers, rules and what they match
    Status(StatusArgs),
    /// Print shell completions
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command into a directory
    Man {
        /// Where to write `bootmark.1`, `bootmark-extract.1` and so on.
        #[arg(long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}

/// A boot, by its distance from the running one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Boot {
    /// The running one.
    #[value(name = "0")]
    Running,
    /// The one before it.
    #[value(name = "-1")]
    Previous,
}

/// Arguments of `extract`.
#[derive(Debug, Args)]
pub struct ExtractArgs {
    /// The trace directory; one that holds an earlier extraction of the same boot is completed.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Which boot: 0 is the running one, -1 the one before it, as far as it survived in memory.
    #[arg(
        long,
        value_enum,
        default_value = "0",
        value_name = "NUMBER",
        allow_hyphen_values = true
    )]
    pub boot: Boot,
    /// Take the trace from a memory dump instead: an ELF file as QEMU's dump-guest-memory and kdump's
    /// /proc/vmcore are.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["boot", "packets"])]
    pub vmcore: Option<PathBuf>,
    /// Stop reading after so many seconds, even when programs write faster than this reads.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub timeout: u32,
    /// Take packets from a file (as read from the kernel) instead of the running kernel.
    #[arg(long, value_name = "FILE", hide = true)]
    pub packets: Option<PathBuf>,
}

/// Arguments of `view`.
#[derive(Debug, Args)]
pub struct ViewArgs {
    /// The trace directory, or the one that holds it as `trace`.
    pub dir: PathBuf,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Only events that match, as `provider:name`; `!GLOB` leaves out what matches.
    #[arg(short, long, value_name = "GLOB", value_parser = filter::event_pattern)]
    pub event: Vec<Pattern>,
    /// Only this process or thread.
    #[arg(short, long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Only threads of this name; `!GLOB` leaves out what matches.
    #[arg(short, long, value_name = "GLOB", value_parser = filter::comm_pattern)]
    pub comm: Vec<Pattern>,
    /// Only events for which this holds, in the language of filters: `ret != 0 || dur > 5ms`. Names are
    /// the event's fields (of a span's end, those of its begin too), pid, tid, uid, comm and dur.
    #[arg(long = "where", value_name = "EXPR", value_parser = condition::parse)]
    pub condition: Option<String>,
    /// From this time after boot on: 1.5, 1.5s, 1500ms, 20us.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    pub since: Option<i64>,
    /// Up to this time after boot.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    pub until: Option<i64>,
    /// Only what aggregations kept, no events.
    #[arg(short, long)]
    pub aggregations: bool,
    /// Stop after so many events.
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub limit: Option<u64>,
}

/// Arguments of `summary`.
#[derive(Debug, Args)]
pub struct SummaryArgs {
    /// The trace directory, or the one that holds it as `trace`.
    pub dir: PathBuf,
    /// As one JSON object, which holds everything.
    #[arg(long)]
    pub json: bool,
    /// Rows of each table.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub top: usize,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(false))]
pub struct ListArgs {
    /// Programs and shared objects.
    #[arg(group = "what", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The markers that the running kernel has seen, with their state.
    #[arg(long, group = "what")]
    pub system: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Programs and shared objects.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A marker that must be there, as `provider:name`.
    #[arg(long, value_name = "NAME")]
    pub expect: Vec<String>,
}

/// Arguments of `enable` and `disable`.
#[derive(Debug, Args)]
pub struct RuleArgs {
    /// Only in this process, not in its children.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// Only in processes of this effective user.
    #[arg(long, value_name = "UID")]
    pub uid: Option<u32>,
    /// Only in programs whose absolute path matches.
    #[arg(long, value_name = "GLOB")]
    pub exe: Option<String>,
    /// Only markers of this level and more urgent ones: 0 to 7 or emergency ... debug.
    #[arg(long, value_name = "LEVEL")]
    pub level: Option<String>,
    /// What to do when there is no room: `discard` new events, or `flight`: overwrite the oldest ones
    /// of the process (of the kernel, for `kernel:*`). Only with `enable`.
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Rules: a pattern as `provider:name` or `provider`, with `*`, `?` and `[a-z]`; behind it scopes
    /// (`@uid=1000`), and with `enable` a filter and actions (`/ret != 0/{count()}`).
    #[arg(required = true, value_name = "RULE")]
    pub rules: Vec<String>,
}

/// Arguments of `forget`.
#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// Rules as `bootmark status` shows them; `!` and filters do not matter.
    #[arg(required_unless_present_any = ["all", "id"], value_name = "RULE")]
    pub rules: Vec<String>,
    /// The rule of this number, which `bootmark status` shows. Can be given several times.
    #[arg(long, value_name = "N")]
    pub id: Vec<u32>,
    /// All rules: everything is off.
    #[arg(long, conflicts_with_all = ["rules", "id"])]
    pub all: bool,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let choice = match cli.color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    };
    choice.write_global();
    match run(cli.command) {
        Ok(exit) => ExitCode::from(exit as u8),
        // Whoever read the output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("bootmark: {}", in_words(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Extract(args) => commands::extract::run(&args),
        Command::View(args) => commands::view::run(*args, &mut output()),
        Command::Summary(args) => commands::summary::run(&args, &mut output()),
        Command::List(args) => commands::list::run(&args, &mut output()),
        Command::Verify(args) => commands::verify::run(&args, &mut output()),
        Command::Enable(args) => commands::rules::enable(&args),
        Command::Disable(args) => commands::rules::disable(&args),
        Command::Forget(args) => commands::rules::forget(&args),
        Command::Status(args) => commands::status::run(&args, &mut output()),
        Command::Completions { shell } => commands::help::completions(shell, &mut output()),
        Command::Man { output: dir } => commands::help::manual(dir.as_deref(), &mut output()),
    }
}

fn output() -> Output {
    let stdout = io::stdout();
    let coloured = AutoStream::choice(&stdout) != ColorChoice::Never;
    Output {
        writer: BufWriter::with_capacity(1 << 16, stdout.lock()),
        styles: Styles::new(coloured),
    }
}

/// An error with its causes, except those that its text names already.
fn in_words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
            || cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|error| error.io_error_kind() == Some(io::ErrorKind::BrokenPipe))
    })
}
