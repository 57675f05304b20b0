//! `bootmark verify`.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use markers::elf::{self, Module};

use crate::cli::{Exit, Output, VerifyArgs};

pub fn run(args: &VerifyArgs, out: &mut Output) -> Result<Exit> {
    let mut exit = Exit::Done;
    let mut found = HashSet::new();
    for path in &args.files {
        match check(path) {
            Ok(Some(module)) => {
                let (count, (major, minor)) = (module.markers.len(), module.abi);
                writeln!(
                    out,
                    "{}: {count} markers, ABI {major}.{minor}",
                    path.display()
                )?;
                found.extend(module.markers.iter().map(ToString::to_string));
            }
            Ok(None) => {
                anstream::eprintln!(
                    "bootmark: {}: no markers: none was compiled in, or the linker dropped them with the code that holds them",
                    path.display()
                );
                if exit == Exit::Done {
                    exit = Exit::Nothing;
                }
            }
            Err(error) => {
                anstream::eprintln!("bootmark: {}: {error:#}", path.display());
                exit = Exit::Failed;
            }
        }
    }
    for name in args.expect.iter().filter(|name| !found.contains(*name)) {
        anstream::eprintln!("bootmark: marker {name} is expected, and none of the files has it");
        exit = Exit::Failed;
    }
    out.flush()?;
    Ok(exit)
}

fn check(path: &Path) -> Result<Option<Module>> {
    let data = fs::read(path).context("cannot read it")?;
    let module = elf::read(&data)?;
    if module
        .as_ref()
        .is_some_and(|module| module.markers.is_empty())
    {
        bail!(
            "a bootmark note, but no marker: the linker dropped the section {}",
            markers::abi::SECTION
        );
    }
    Ok(module)
}
