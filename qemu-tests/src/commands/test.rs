//! `cargo xtask test`

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use qemu_tests::{lint, paths, setup};

/// Run all checks and tests, the ones in QEMU included.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A Linux 6.12 source tree or tarball for the checks [default: Debian's linux-source-6.12].
    #[arg(long, value_name = "DIR|TARBALL")]
    kernel_source: Option<PathBuf>,

    /// Arguments for `cargo test` in place of `--workspace`, as in `-- -p qemu-tests panic`.
    #[arg(last = true, value_name = "ARGS")]
    cargo: Vec<String>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    setup::ensure(setup::PACKAGES)?;
    lint::rust()?;
    lint::kernel(args.kernel_source.as_deref())?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg("test").current_dir(paths::workspace());
    if args.cargo.is_empty() {
        // All of them, so that one failure does not hide the next.
        command.args(["--workspace", "--no-fail-fast"]);
    } else {
        command.args(&args.cargo);
    }
    let status = command
        .status()
        .context("cannot start cargo to run the tests")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
