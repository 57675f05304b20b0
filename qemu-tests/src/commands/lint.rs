//! `cargo xtask lint`

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use qemu_tests::{lint, setup};

/// Check formatting, clippy, and the kernel patch with checkpatch, kernel-doc and sparse.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A Linux 6.12 source tree or tarball [default: Debian's linux-source-6.12].
    #[arg(long, value_name = "DIR|TARBALL")]
    kernel_source: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    setup::ensure(setup::PACKAGES)?;
    lint::rust()?;
    lint::kernel(args.kernel_source.as_deref())?;
    Ok(ExitCode::SUCCESS)
}
