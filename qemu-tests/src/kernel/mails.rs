//! The series as mails: one commit a step in a scratch repository, and `git format-patch` over it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::build::{in_build_tree_of, with_sources};
use super::patch::Change;
use super::series::Series;
use super::{Config, Inputs, Patch, kbuild};
use crate::progress::Step as Progress;
use crate::{paths, process};

/// Where the steps are built: apart from the trees of the kernels that are booted, which would be
/// made anew from end to end whenever a header had changed and changed back.
const TREES: &str = "series";
/// What each step is built with: the option on, and off.
const CONFIGS: [&str; 2] = ["step", "step-off"];

/// Who signs mails off when git does not know who is sending them.
const NOBODY: (&str, &str) = ("Your Name", "you@example.org");

/// The series, written.
#[derive(Debug)]
pub struct Mails {
    /// The mails in order, the cover letter first.
    pub files: Vec<PathBuf>,
    /// Whether they are signed off by a placeholder, since git knows no name.
    pub unsigned: bool,
}

/// Writes the series into `out`, whose mails of earlier runs go.
///
/// # Errors
/// When the manifest does not fit the patch, a step's patches do not apply, or git fails.
pub fn write(source: Option<&Path>, out: &Path) -> Result<Mails> {
    let (inputs, series) = read(source)?;
    let (steps, before) = with_sources(&inputs, |top| {
        let steps = outcomes(&series, &inputs.patch, top)?;
        let whole = inputs.patch.outcome(top)?;
        let last = steps.last().context("the series has no steps")?;
        check_sum(last, &whole)?;
        Ok((steps, whole))
    })?;

    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    for path in mails_in(out)? {
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    let scratch = tempfile::tempdir().context("cannot make a scratch folder")?;
    let repository = Repository::new(scratch.path(), &before)?;
    for (step, tree) in series.steps.iter().zip(&steps) {
        repository.commit(tree, &step.subject, &step.body)?;
    }
    repository.format(&series, out)?;
    Ok(Mails {
        files: mails_in(out)?,
        unsigned: repository.unsigned,
    })
}

/// Applies mails to the files that the base has, and says whether that gives the tree which
/// kernels are built from.
///
/// # Errors
/// When a mail does not apply, or something else comes out.
pub fn check_applies(source: Option<&Path>, mails: &Mails) -> Result<()> {
    let (inputs, _) = read(source)?;
    let whole = with_sources(&inputs, |top| inputs.patch.outcome(top))?;
    let scratch = tempfile::tempdir().context("cannot make a scratch folder")?;
    let repository = Repository::new(scratch.path(), &whole)?;
    // Behind the cover letter.
    repository.git(&["am", "--quiet"], mails.files.iter().skip(1))?;
    let mut found = BTreeMap::new();
    for path in repository.git(&["ls-files"], [""; 0])?.lines() {
        let after = fs::read(scratch.path().join(path))?;
        found.insert(
            path.to_owned(),
            Change {
                before: None,
                after,
            },
        );
    }
    check_sum(&found, &whole)
}

/// Builds every step, with the option and without, and returns what does not build.
///
/// # Errors
/// When the trees cannot be prepared.
pub fn build_steps(source: Option<&Path>) -> Result<Vec<String>> {
    let (inputs, series) = read(source)?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut failures = Vec::new();
    for (number, step) in series.steps.iter().enumerate() {
        for config in CONFIGS {
            let inputs = Inputs {
                patch: series.up_to(number, &inputs.patch)?,
                config: Config::read(&paths::kernel_patch().join("configs"), config)?,
                ..inputs.clone()
            };
            let name = format!("{:2} {} ({config})", number + 1, step.subject);
            let progress = Progress::start(&name);
            let built = in_build_tree_of(TREES, &inputs, |_, build| {
                let log = tempfile::NamedTempFile::new()?;
                let mut make = kbuild(build);
                make.arg(format!("-j{jobs}")).arg("vmlinux");
                process::logged(&mut make, log.path(), &progress).map_err(|_| {
                    let all = fs::read_to_string(log.path()).unwrap_or_default();
                    anyhow::anyhow!("{}", process::tail(&all, 40))
                })
            });
            match built {
                Ok(()) => progress.done("builds"),
                Err(error) => {
                    progress.done("does NOT build");
                    failures.push(format!("{name}:\n{error:#}"));
                }
            }
        }
    }
    Ok(failures)
}

/// What checkpatch of the kernel source says about the mails, nothing when they are clean.
///
/// # Errors
/// When it cannot be run.
pub fn checkpatch(source: Option<&Path>, mails: &Mails) -> Result<String> {
    let (inputs, series) = read(source)?;
    with_sources(&inputs, |top| {
        let mut complaints = String::new();
        for (mail, step) in mails.files.iter().skip(1).zip(&series.steps) {
            complaints.push_str(&crate::lint::checkpatch_mail(
                &top.join("linux"),
                mail,
                step.is_of_programs(),
            )?);
        }
        Ok(complaints)
    })
}

fn read(source: Option<&Path>) -> Result<(Inputs, Series)> {
    let inputs = Inputs::read(source, "small")?;
    let series = Series::read(&paths::kernel_patch(), &inputs.patch)?;
    Ok((inputs, series))
}

/// The files behind each step.
fn outcomes(series: &Series, patch: &Patch, top: &Path) -> Result<Vec<BTreeMap<String, Change>>> {
    let mut trees = Vec::new();
    for (number, step) in series.steps.iter().enumerate() {
        let tree = series
            .up_to(number, patch)
            .and_then(|part| part.outcome(top))
            .with_context(|| format!("step {}, `{}`", number + 1, step.subject))?;
        trees.push(tree);
    }
    Ok(trees)
}

/// Whether two trees have the same files.
fn check_sum(found: &BTreeMap<String, Change>, whole: &BTreeMap<String, Change>) -> Result<()> {
    let differ: BTreeSet<&String> = whole
        .keys()
        .chain(found.keys())
        .filter(|path| {
            found.get(*path).map(|file| &file.after) != whole.get(*path).map(|file| &file.after)
        })
        .collect();
    if !differ.is_empty() {
        bail!("the steps do not add up to the patch: {differ:?} come out otherwise");
    }
    Ok(())
}

fn mails_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut mails = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".patch") && name.as_bytes().iter().take(4).all(u8::is_ascii_digit) {
            mails.push(path);
        }
    }
    mails.sort();
    Ok(mails)
}

/// A scratch repository with the files of the base that the patch changes.
struct Repository<'a> {
    dir: &'a Path,
    name: String,
    email: String,
    unsigned: bool,
}

impl<'a> Repository<'a> {
    fn new(dir: &'a Path, files: &BTreeMap<String, Change>) -> Result<Self> {
        let known = |key: &str| {
            let mut git = Command::new("git");
            let out = git
                .current_dir(paths::workspace())
                .args(["config", key])
                .output();
            out.ok()
                .filter(|out| out.status.success())
                .map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let (name, email, unsigned) = match (known("user.name"), known("user.email")) {
            (Some(name), Some(email)) => (name, email, false),
            _ => (NOBODY.0.to_owned(), NOBODY.1.to_owned(), true),
        };
        let repository = Self {
            dir,
            name,
            email,
            unsigned,
        };
        repository.git(&["init", "--quiet", "--initial-branch=bootmark"], [""; 0])?;
        for (path, change) in files {
            if let Some(bytes) = &change.before {
                repository.put(path, bytes)?;
            }
        }
        repository.git(&["add", "--all", "--force"], [""; 0])?;
        repository.git(&["commit", "--quiet", "--message=base"], [""; 0])?;
        repository.git(&["tag", "base"], [""; 0])?;
        Ok(repository)
    }

    fn git(
        &self,
        args: &[&str],
        more: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>,
    ) -> Result<String> {
        process::output(
            Command::new("git")
                .current_dir(self.dir)
                // What the user likes in other repositories is not for this one.
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .args(["-c", &format!("user.name={}", self.name)])
                .args(["-c", &format!("user.email={}", self.email)])
                .args(["-c", "core.hooksPath=/dev/null"])
                .args(args)
                .args(more),
        )
    }

    fn put(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let place = self.dir.join(path);
        if let Some(dir) = place.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(&place, bytes).with_context(|| format!("cannot write {}", place.display()))
    }

    fn commit(&self, tree: &BTreeMap<String, Change>, subject: &str, body: &str) -> Result<()> {
        for (path, change) in tree {
            self.put(path, &change.after)?;
        }
        let message = self.dir.join(".git/bootmark-message");
        fs::write(&message, format!("{subject}\n\n{}\n", body.trim()))?;
        self.git(&["add", "--all", "--force"], [""; 0])?;
        self.git(
            &[
                "commit",
                "--quiet",
                "--signoff",
                "--cleanup=verbatim",
                "--file",
            ],
            [&message],
        )?;
        Ok(())
    }

    fn format(&self, series: &Series, out: &Path) -> Result<()> {
        let out = fs::canonicalize(out)?;
        let letter = format!("{}\n\n{}\n", series.cover.subject, series.cover.body.trim());
        self.git(&["config", "branch.bootmark.description"], [&letter])?;
        self.git(
            &[
                "format-patch",
                "--quiet",
                "--cover-letter",
                "--cover-from-description=subject",
                "--numbered",
                "--thread=shallow",
                "--signature=bootmark",
                "-o",
            ],
            [out.as_os_str(), "base..bootmark".as_ref()],
        )?;
        Ok(())
    }
}
