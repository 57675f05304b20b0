//! The fuzzers that run in the guest, and the processes that watch what they do to others.
//!
//! `bootmark-attack TARGET --seed S --seconds N` starts processes, privileged and not, that attack the
//! kernel part of Bootmark, replaces those that die, and ends with none of them left. It prints the seed
//! and what was tried. The seed decides what each process tries, not how they are scheduled.
//!
//! `control` is a process that must not notice any of it: each of its events is counted. `state` says
//! what the kernel's pool holds, before and after.

mod arena;
mod calls;
mod control;
mod elf;
mod files;
mod life;
mod memory;
mod rules;
mod scribble;
mod shared;
mod state;
mod swarm;
mod thief;
mod values;
mod worker;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Do to the kernel what one should not.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The three system calls, readers, /proc/PID/bootmark, memory and processes.
    Syscalls(Plan),
    /// Files that are almost right, and such that change.
    Elf(Plan),
    /// Processes that scribble over their chunks.
    Scribble(Plan),
    /// One process of a target; what the targets start.
    #[command(hide = true)]
    Worker(worker::Part),
    /// What processes of `syscalls` execute: a few events, and the end.
    #[command(hide = true)]
    Leaf,
    /// Writes numbered events until SIGTERM, then says how many.
    Control {
        /// Runs as this user.
        #[arg(long, default_value_t = 0)]
        uid: u32,
    },
    /// Reads and frees packets now and then, and notes whose events it took in a file.
    Thief {
        /// The file.
        #[arg(long)]
        output: PathBuf,
    },
    /// What the pool holds.
    State,
}

/// How long, and from what start.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// What all random decisions follow from.
    #[arg(long)]
    seed: u64,
    /// How long.
    #[arg(long)]
    seconds: u64,
    /// Goes on until so many things were tried, on a machine that is slow: twenty times as long at most.
    #[arg(long, default_value_t = 0)]
    steps: u64,
    /// Processes at a time.
    #[arg(long, default_value_t = 6)]
    processes: u32,
    /// Where the files are that `elf` makes its own from.
    #[arg(long, default_value = "/usr/share/attack")]
    files: PathBuf,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Syscalls(plan) => swarm::run(&plan, worker::Target::Syscalls),
        Command::Elf(plan) => swarm::run(&plan, worker::Target::Elf),
        Command::Scribble(plan) => swarm::run(&plan, worker::Target::Scribble),
        Command::Worker(part) => worker::run(&part),
        Command::Leaf => {
            worker::leaf();
            Ok(())
        }
        Command::Control { uid } => control::run(uid),
        Command::Thief { output } => thief::run(&output),
        Command::State => state::print(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bootmark-attack: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The error of the system call before, for one that libc makes.
fn last_error(what: &str) -> io::Error {
    let error = io::Error::last_os_error();
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
