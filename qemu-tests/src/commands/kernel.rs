//! `cargo xtask kernel`

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use qemu_tests::{kernel, setup};

/// Build the kernel only (or find it in the cache) and print its path.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Configuration: small, off (without Bootmark), debug (KASAN, lockdep, kmemleak), allno (nothing but
    /// Bootmark), kunit (that and its unit tests), up (one CPU, the patch's objects only).
    #[arg(long, default_value = "small", value_name = "NAME")]
    config: String,

    /// A Linux 6.12 source tree or tarball [default: Debian's linux-source-6.12].
    #[arg(long, value_name = "DIR|TARBALL")]
    kernel_source: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    setup::ensure(setup::PACKAGES)?;
    let kernel = kernel::kernel(args.kernel_source.as_deref(), &args.config)?;
    println!("{}", kernel.image.display());
    Ok(ExitCode::SUCCESS)
}
