//! `bootmark completions` and `bootmark man`.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;

use crate::cli::{Cli, Exit, Output};

pub fn completions(shell: clap_complete::Shell, out: &mut Output) -> Result<Exit> {
    // The generator ends the process when writing fails, so it writes to memory.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "bootmark", &mut text);
    out.write_all(&text)?;
    out.flush()?;
    Ok(Exit::Done)
}

pub fn manual(dir: Option<&Path>, out: &mut Output) -> Result<Exit> {
    match dir {
        Some(dir) => {
            fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
            clap_mangen::generate_to(Cli::command(), dir)
                .with_context(|| format!("cannot write manual pages into {}", dir.display()))?;
        }
        None => {
            clap_mangen::Man::new(Cli::command()).render(out)?;
            out.flush()?;
        }
    }
    Ok(Exit::Done)
}
