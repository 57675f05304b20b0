//! What a reviewer should not have to say: formatting, clippy, and for the
//! kernel side checkpatch and sparse.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use walkdir::WalkDir;

use crate::kernel::{Inputs, Patch, in_build_tree, kbuild};
use crate::progress::Step;
use crate::{paths, process};

/// Checks the Rust workspace.
///
/// # Errors
/// When rustfmt or clippy has something to say.
pub fn rust() -> Result<()> {
    let cargo = || {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(paths::workspace());
        command
    };
    let step = Step::start("rustfmt");
    process::output(cargo().args(["fmt", "--all", "--check"]))
        .context("the Rust code is not formatted (`cargo fmt --all` does it)")?;
    step.done("clean");
    clippy(&mut cargo(), "clippy", &["--workspace"])?;
    // Takes the place of the system calls, so it cannot be on where programs for the guest are built.
    clippy(
        &mut cargo(),
        "clippy (stand-in)",
        &["--package", "bootmark-bootbuf", "--features", "stand-in"],
    )
}

fn clippy(cargo: &mut Command, what: &str, packages: &[&str]) -> Result<()> {
    let step = Step::start(what);
    let log = tempfile::NamedTempFile::new()?;
    cargo
        .arg("clippy")
        .args(packages)
        .args(["--all-targets", "--", "-D", "warnings"]);
    process::logged(cargo, log.path(), &step).map_err(|_| {
        // Its messages are longer than the tail that an error shows.
        let all = std::fs::read_to_string(log.path()).unwrap_or_default();
        anyhow!("{what} has complaints:\n{}", all.trim_end())
    })?;
    step.done("clean");
    Ok(())
}

/// Checks the kernel patch with checkpatch, kernel-doc and sparse of (and over) the kernel source.
///
/// # Errors
/// When one of them has something to say.
pub fn kernel(source: Option<&Path>) -> Result<()> {
    let inputs = Inputs::read(source, "small")?;
    in_build_tree(&inputs, |tree, build| {
        checkpatch(tree)?;
        kernel_doc(tree, inputs.patch())?;
        sparse(inputs.patch(), build)
    })
}

/// What checkpatch is not asked about in a file.
fn ignored(is_of_programs: bool) -> String {
    // New files have no MAINTAINERS entry in somebody else's tree, and without a tree checkpatch
    // does not find the options that the patch documents.
    let mut types = vec!["FILE_PATH_CHANGES", "COMMIT_MESSAGE", "UNDOCUMENTED_SETUP"];
    if is_of_programs {
        // Programs: the kernel writes their state words behind the compiler's back, elf.h has
        // names of its own, and the kernel's macros for attributes are not there.
        types.extend(["VOLATILE", "CAMELCASE", "PREFER_DEFINED_ATTRIBUTE_MACRO"]);
    }
    types.join(",")
}

/// What checkpatch says about a mail, nothing when it is clean.
pub(crate) fn checkpatch_mail(tree: &Path, mail: &Path, is_of_programs: bool) -> Result<String> {
    // It leaves a cache file where it runs.
    let scratch = tempfile::tempdir()?;
    run_checkpatch(tree, scratch.path(), &ignored(is_of_programs), &[], mail)
}

fn run_checkpatch(
    tree: &Path,
    dir: &Path,
    ignored: &str,
    kind: &[&str],
    path: &Path,
) -> Result<String> {
    let out = Command::new("perl")
        .arg(tree.join("scripts/checkpatch.pl"))
        .current_dir(dir)
        .args(["--no-tree", "--strict", "--quiet", "--show-types"])
        .args(["--ignore", ignored])
        .args(kind)
        .arg(path)
        .output()
        .context("cannot run checkpatch.pl")?;
    if out.status.success() && out.stdout.is_empty() {
        return Ok(String::new());
    }
    Ok(format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    ))
}

fn checkpatch(tree: &Path) -> Result<()> {
    let step = Step::start("checkpatch");
    let top = paths::kernel_patch();
    let mut complaints = String::new();
    // checkpatch leaves a cache file where it runs.
    let scratch = tempfile::tempdir()?;
    for entry in WalkDir::new(&top).sort_by_file_name() {
        let entry = entry.with_context(|| format!("cannot walk {}", top.display()))?;
        let path = entry.path();
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let kind: &[&str] = match &*extension {
            "c" | "h" | "S" => &["-f"],
            "patch" => &["--no-signoff"],
            _ if path.ends_with("Kconfig") => &["-f"],
            _ => continue,
        };
        step.detail(&path.display().to_string());
        let mut parts = path.components();
        let ignored = ignored(parts.any(|part| part.as_os_str() == "selftests"));
        complaints.push_str(&run_checkpatch(tree, scratch.path(), &ignored, kind, path)?);
    }
    if !complaints.is_empty() {
        bail!("checkpatch has complaints:\n{}", complaints.trim_end());
    }
    step.done("clean");
    Ok(())
}

/// Comments that describe functions and structures: whether they do, parameter by parameter.
fn kernel_doc(tree: &Path, patch: &Patch) -> Result<()> {
    let step = Step::start("kernel-doc");
    let described = patch.overlay().keys().filter(|path| {
        (path.ends_with(".c") || path.ends_with(".h")) && !path.starts_with("tools/")
    });
    let out = Command::new("perl")
        .current_dir(tree)
        .args(["scripts/kernel-doc", "-none", "-Wall"])
        .args(described)
        .output()
        .context("cannot run kernel-doc")?;
    let said = [out.stdout, out.stderr].concat();
    if !out.status.success() || !said.is_empty() {
        let said = String::from_utf8_lossy(&said).into_owned();
        bail!("kernel-doc has complaints:\n{}", said.trim_end());
    }
    step.done("clean");
    Ok(())
}

fn sparse(patch: &Patch, build: &Path) -> Result<()> {
    let step = Step::start("sparse");
    // Folders, not files: which of a folder's files are built is for its Makefile to say.
    let folders: BTreeSet<String> = patch
        .sources()
        .iter()
        .filter_map(|path| Some(format!("{}/", Path::new(path).parent()?.display())))
        .collect();
    if folders.is_empty() {
        step.done("nothing to check");
        return Ok(());
    }
    let log = tempfile::NamedTempFile::new()?;
    process::logged(kbuild(build).arg("C=2").args(&folders), log.path(), &step)
        .context("the kernel patch does not compile under sparse")?;
    let complaints: String = std::fs::read_to_string(log.path())?
        .lines()
        .filter(|line| line.contains(" warning: ") || line.contains(" error: "))
        .filter(|line| {
            patch
                .paths()
                .iter()
                .any(|path| line.contains(path.as_str()))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    if !complaints.is_empty() {
        bail!("sparse has complaints:\n{}", complaints.trim_end());
    }
    step.done("clean");
    Ok(())
}
