//! `cargo xtask kernel-series`

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use qemu_tests::kernel::mails;
use qemu_tests::{paths, setup};

/// Write the kernel patch as a series of mails, one logical step each.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the mails go; those of an earlier run are replaced [default: target/kernel-series].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Also build each step, with the option on and with it off (10 minutes and more).
    #[arg(long)]
    check: bool,

    /// A Linux 6.12 source tree or tarball [default: Debian's linux-source-6.12].
    #[arg(long, value_name = "DIR|TARBALL")]
    kernel_source: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    setup::ensure(setup::PACKAGES)?;
    let source = args.kernel_source.as_deref();
    let out = args
        .out
        .unwrap_or_else(|| paths::target().join("kernel-series"));
    let mails = mails::write(source, &out)?;
    for path in &mails.files {
        println!("{}", path.display());
    }
    if mails.unsigned {
        eprintln!(
            "git knows no user.name and user.email here, so the mails are signed off by a \
             placeholder"
        );
    }
    mails::check_applies(source, &mails)?;
    let complaints = mails::checkpatch(source, &mails)?;
    let mut failures = if args.check {
        mails::build_steps(source)?
    } else {
        Vec::new()
    };
    if !complaints.is_empty() {
        failures.push(format!("checkpatch has complaints:\n{complaints}"));
    }
    for failure in &failures {
        eprintln!("{}\n", failure.trim_end());
    }
    Ok(if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
