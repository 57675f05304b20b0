//! `cargo xtask test`

use std::ffi::OsStr;
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
    // All of them, so that one failure does not hide the next.
    let passed = if args.cargo.is_empty() {
        let everywhere = cargo_test(&["--workspace", "--no-fail-fast"])?;
        // The writer against a stand-in for the kernel, with which nothing else may be built.
        let writer = ["-p", "bootmark-bootbuf", "--features", "stand-in"];
        let writer = [&writer[..], &["--no-fail-fast", "--tests"]].concat();
        cargo_test(&writer)? && everywhere
    } else {
        cargo_test(&args.cargo)?
    };
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether `cargo test` with these arguments passes.
fn cargo_test(args: &[impl AsRef<OsStr>]) -> Result<bool> {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .arg("test")
        .args(args)
        .current_dir(paths::workspace())
        .status()
        .context("cannot start cargo to run the tests")?;
    Ok(status.success())
}
