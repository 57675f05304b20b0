//! `cargo xtask image`

use std::process::ExitCode;

use anyhow::Result;
use qemu_tests::{image, programs, setup};

/// Build the guest's initramfs and root image only and print their paths.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: Args) -> Result<ExitCode> {
    setup::ensure(setup::PACKAGES)?;
    let programs = programs::build()?;
    let initramfs = image::initramfs(&image::initramfs_layout(&programs)?, true)?;
    let root = image::root(&image::root_layout(&programs)?)?;
    println!("{}\n{}", initramfs.display(), root.display());
    Ok(ExitCode::SUCCESS)
}
