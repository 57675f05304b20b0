//! `cargo xtask`: one command line for building, booting, testing and measuring.
//!
//! Each command is a module of [`commands`] with its arguments and a `run`.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Build Bootmark's kernel and image, boot them in QEMU, and read what happened.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Boot(commands::boot::Args),
    Test(commands::test::Args),
    Kernel(commands::kernel::Args),
    KernelSeries(commands::kernel_series::Args),
    Image(commands::image::Args),
    Lint(commands::lint::Args),
    Bench(commands::bench::Args),
    Panics(commands::panics::Args),
    Fuzz(commands::fuzz::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Boot(args) => commands::boot::run(args),
        Command::Test(args) => commands::test::run(args),
        Command::Kernel(args) => commands::kernel::run(args),
        Command::KernelSeries(args) => commands::kernel_series::run(args),
        Command::Image(args) => commands::image::run(args),
        Command::Lint(args) => commands::lint::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Panics(args) => commands::panics::run(args),
        Command::Fuzz(args) => commands::fuzz::run(args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
