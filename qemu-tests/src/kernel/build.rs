//! One build: the kept tree brought up to date, configured, made, and its
//! outputs put in their place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use super::config::unmet;
use super::{Goal, Inputs, Kernel, Patch};
use crate::progress::Step;
use crate::{lock, paths, process};

/// In a build folder while `make` runs in it.
const UNFINISHED: &str = "bootmark-unfinished";
/// In a build folder: what it was made by.
const MADE_BY: &str = "bootmark-made-by";
/// The folder of the kept trees in the cache.
const TREES: &str = "tree";
/// The folder of the patch's own objects.
const OBJECTS: &str = "kernel/bootmark/";
/// The log of the last build, in the build folder.
const LOG: &str = "bootmark-build.log";

/// Marks errors of `make` itself, which a damaged tree can cause.
#[derive(Debug)]
struct KbuildFailed(String);

impl std::fmt::Display for KbuildFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the kernel ({}) does not build", self.0)
    }
}

/// Builds the kernel into `dest`. The caller holds the kernel lock.
pub(super) fn build(inputs: &Inputs, cache: &Path, dest: &Path) -> Result<()> {
    let place = Place::of(inputs, &cache.join(TREES));
    let reused = place.build.exists();
    if let Err(error) = place.make(inputs) {
        let damaged = error.is::<KbuildFailed>() && !ours_to_blame(inputs, &place.log());
        if !(reused && damaged) {
            return Err(error);
        }
        // Nothing in the patch explains it, so the kept tree must be the cause.
        eprintln!("  the kept kernel tree does not build; starting from scratch: {error:#}");
        place.discard()?;
        place.make(inputs)?;
    }
    publish(&place.build, dest, inputs.config.goal())
}

/// Runs `work` with the synced source tree and the configured build folder of
/// these inputs, under the kernel lock: for checks that need kbuild.
///
/// # Errors
/// When the tree cannot be brought up to date, or what `work` returns.
pub fn in_build_tree<T>(
    inputs: &Inputs,
    work: impl FnOnce(&Path, &Path) -> Result<T>,
) -> Result<T> {
    in_build_tree_of(TREES, inputs, work)
}

/// As [`in_build_tree`], in the trees of another folder of the cache: where the sources that
/// change do not make the kernels that are booted anew.
pub(super) fn in_build_tree_of<T>(
    trees: &str,
    inputs: &Inputs,
    work: impl FnOnce(&Path, &Path) -> Result<T>,
) -> Result<T> {
    let cache = paths::cache()?;
    let _lock = lock::exclusive(&cache.join("kernel.lock"), "is building a kernel")?;
    let place = Place::of(inputs, &cache.join(trees));
    let step = Step::start("preparing the kernel tree");
    place.prepare(inputs, &step)?;
    step.clear();
    work(&place.tree(), &place.build)
}

/// Runs `work` with the folder that holds the synced source tree of these inputs (`linux`) and
/// what the patch replaced in it (`orig`), under the kernel lock.
pub(super) fn with_sources<T>(inputs: &Inputs, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let cache = paths::cache()?;
    let _lock = lock::exclusive(&cache.join("kernel.lock"), "is building a kernel")?;
    let place = Place::of(inputs, &cache.join(TREES));
    let step = Step::start("preparing the kernel tree");
    place.sync(inputs, &step)?;
    step.clear();
    work(&place.top)
}

/// The kept tree and build folder of one base and configuration.
struct Place {
    top: PathBuf,
    build: PathBuf,
}

impl Place {
    fn of(inputs: &Inputs, trees: &Path) -> Self {
        let top = trees.join(inputs.base.id());
        let build = top.join(format!("build-{}", inputs.config.name()));
        Self { top, build }
    }

    fn tree(&self) -> PathBuf {
        self.top.join("linux")
    }

    /// What the last build printed.
    fn log(&self) -> String {
        fs::read(self.build.join(LOG))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Whether the kept source still says what was put into it.
    fn is_sound(&self) -> bool {
        self.tree().join("Makefile").exists() && Patch::manifest_is_sound(&self.top)
    }

    /// Source in step with the patch, build folder configured.
    fn prepare(&self, inputs: &Inputs, step: &Step) -> Result<()> {
        self.sync(inputs, step)?;
        self.check_build_folder(inputs, step)?;
        self.configure(inputs, step)
    }

    fn sync(&self, inputs: &Inputs, step: &Step) -> Result<()> {
        if self.tree().exists() && !self.is_sound() {
            self.discard()?;
        }
        if !self.tree().exists() {
            inputs.base.unpack(&self.tree())?;
        }
        step.detail("applying the patch");
        inputs.patch.sync(&self.top)
    }

    fn make(&self, inputs: &Inputs) -> Result<()> {
        let name = inputs.config.name();
        let step = Step::start(&format!("building the kernel ({name})"));
        self.prepare(inputs, &step)?;
        fs::write(self.build.join(UNFINISHED), "")?;
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let made = process::logged(
            kbuild(&self.build)
                .arg(format!("-j{jobs}"))
                .arg(match inputs.config.goal() {
                    Goal::Image => "bzImage",
                    Goal::Objects => OBJECTS,
                }),
            &self.build.join(LOG),
            &step,
        );
        // make has ended by itself: what it left is sound, even on an error.
        fs::remove_file(self.build.join(UNFINISHED))?;
        made.context(KbuildFailed(name.to_owned()))?;
        step.done("done");
        Ok(())
    }

    /// A build folder made by another compiler is useless, and one whose
    /// `make` was killed may hold files that were being written.
    fn check_build_folder(&self, inputs: &Inputs, step: &Step) -> Result<()> {
        let made_by = self.build.join(MADE_BY);
        if fs::read_to_string(&made_by).is_ok_and(|text| text != inputs.compiler) {
            fs::remove_dir_all(&self.build)
                .with_context(|| format!("cannot remove {}", self.build.display()))?;
        }
        if !self.build.exists() {
            self.seed(inputs, step)?;
            fs::create_dir_all(&self.build)
                .with_context(|| format!("cannot make {}", self.build.display()))?;
        }
        fs::write(&made_by, &inputs.compiler)?;
        if self.build.join(UNFINISHED).exists() {
            remove_youngest(&self.build)?;
        }
        // The log starts anew with every build.
        fs::write(self.build.join(LOG), "")?;
        Ok(())
    }

    /// Starts from a copy of another configuration's build folder, when there
    /// is one: kbuild rebuilds what the differing options reach, not the rest.
    fn seed(&self, inputs: &Inputs, step: &Step) -> Result<()> {
        let sibling = fs::read_dir(&self.top)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.strip_prefix("build-")
                    .is_some_and(|name| inputs.config.is_close_to(name))
                    && path.join("vmlinux").exists()
                    && path.join(MADE_BY).exists()
                    && !path.join(UNFINISHED).exists()
            });
        let Some(sibling) = sibling else {
            return Ok(());
        };
        step.detail("copying another configuration's objects");
        let scratch = self.build.with_extension("copying");
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        process::output(
            Command::new("cp")
                .args(["-a", "--reflink=auto"])
                .args([&sibling, &scratch]),
        )?;
        fs::rename(&scratch, &self.build)?;
        Ok(())
    }

    /// Makes `.config` from what the configuration starts from and the fragments, and checks it.
    /// A `.config` that comes out the same keeps its time.
    fn configure(&self, inputs: &Inputs, step: &Step) -> Result<()> {
        const SCRATCH: &str = ".config.bootmark";
        step.detail("configuring");
        let log = self.build.join(LOG);
        let scratch = self.build.join(SCRATCH);
        let run = |target: &str| {
            process::logged(
                kbuild(&self.tree())
                    .arg(format!("O={}", self.build.display()))
                    .arg(format!("KCONFIG_CONFIG={SCRATCH}"))
                    .arg(target),
                &log,
                step,
            )
            .context(KbuildFailed(inputs.config.name().to_owned()))
        };
        run(inputs.config.start())?;
        // A later assignment wins, but Kconfig warns of each; so the earlier ones go.
        let ours = inputs.config.requirements();
        let mut text: String = fs::read_to_string(&scratch)?
            .lines()
            .filter(|line| {
                let words = line.trim_start_matches("# ");
                let option = words.split(['=', ' ']).next().unwrap_or_default();
                !ours.iter().any(|requirement| requirement.option == option)
            })
            .map(|line| format!("{line}\n"))
            .collect();
        text.push_str(&inputs.config.text());
        fs::write(&scratch, text)?;
        run("olddefconfig")?;

        let text = fs::read_to_string(&scratch)?;
        let bad = unmet(ours, &text);
        if !bad.is_empty() {
            let lines: String = bad
                .iter()
                .map(|(wanted, found)| format!("\n  {} (it is {found})", wanted.line()))
                .collect();
            bail!(
                "kernel-patch/configs ({}) asks for what Kconfig does not grant \
                 (a dependency is missing, or there is no such option):{lines}",
                inputs.config.name()
            );
        }
        let dot_config = self.build.join(".config");
        if fs::read_to_string(&dot_config).is_ok_and(|old| old == text) {
            fs::remove_file(&scratch)?;
        } else {
            fs::rename(&scratch, &dot_config)?;
        }
        Ok(())
    }

    /// Throws the tree and this build folder away. Other configurations' build
    /// folders go by themselves when they turn out not to build.
    fn discard(&self) -> Result<()> {
        for path in [&self.build, &self.tree(), &self.top.join("orig")] {
            if path.exists() {
                fs::remove_dir_all(path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        let manifest = self.top.join("manifest.json");
        if manifest.exists() {
            fs::remove_file(manifest)?;
        }
        Ok(())
    }
}

/// `make` in a folder, with all that would make outputs differ pinned down.
pub fn kbuild(dir: &Path) -> Command {
    // A make that outlived us would go on in a folder that the next run uses.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "TERM", "--", "make", "-s"])
        .arg("-C")
        .arg(dir)
        .arg("ARCH=x86_64")
        .env("KBUILD_BUILD_TIMESTAMP", "1970-01-01 00:00:00 UTC")
        .env("KBUILD_BUILD_USER", "bootmark")
        .env("KBUILD_BUILD_HOST", "bootmark")
        .env("KBUILD_BUILD_VERSION", "1")
        .env("LC_ALL", "C");
    for variable in [
        "MAKEFLAGS",
        "MFLAGS",
        "KCONFIG_CONFIG",
        "KCFLAGS",
        "CROSS_COMPILE",
        "LLVM",
        "CC",
        "O",
        "KBUILD_OUTPUT",
    ] {
        command.env_remove(variable);
    }
    command
}

/// Whether the log shows an error in a file that the patch brings or changes,
/// or one that only changed sources can cause.
fn ours_to_blame(inputs: &Inputs, log: &str) -> bool {
    let linking = ["undefined reference", "multiple definition", "Kconfig:"];
    let paths = inputs.patch.paths();
    log.lines().any(|line| {
        linking.iter().any(|text| line.contains(text))
            || (line.contains("error") && paths.iter().any(|path| line.contains(path.as_str())))
    }) || log.is_empty()
}

/// Removes what was written in the last minute before `make` was killed: a file
/// that was cut short then is among it, and kbuild makes them again.
fn remove_youngest(build: &Path) -> Result<()> {
    let files: Vec<(PathBuf, SystemTime)> = WalkDir::new(build)
        .into_iter()
        .filter_map(|entry| {
            let entry = entry.ok().filter(|entry| entry.file_type().is_file())?;
            let time = entry.metadata().ok()?.modified().ok()?;
            Some((entry.into_path(), time))
        })
        .filter(|(path, _)| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !name.starts_with("bootmark-") && name != ".config"
        })
        .collect();
    let Some(newest) = files.iter().map(|(_, time)| *time).max() else {
        return Ok(());
    };
    for (path, time) in files {
        if newest.duration_since(time).unwrap_or_default() < Duration::from_secs(60) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Puts the outputs into `dest`, which appears whole or not at all.
fn publish(build: &Path, dest: &Path, goal: Goal) -> Result<()> {
    let parent = dest.parent().context("a cache entry has a parent")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let scratch = tempfile::Builder::new()
        .prefix("publishing-")
        .tempdir_in(parent)?
        .keep();
    let out = Kernel::at(scratch.clone());
    let outputs = match goal {
        Goal::Image => vec![
            ("arch/x86/boot/bzImage", &out.image),
            (".config", &out.config),
            ("System.map", &out.system_map),
        ],
        Goal::Objects => vec![
            ("kernel/bootmark/built-in.a", &out.image),
            (".config", &out.config),
        ],
    };
    for (from, to) in outputs {
        fs::copy(build.join(from), to)
            .with_context(|| format!("the kernel build made no {from}"))?;
        fs::File::open(to)?.sync_all()?;
    }
    if dest.exists() {
        // Without its image, or we would not be here: damaged.
        fs::remove_dir_all(dest)?;
    }
    fs::rename(&scratch, dest).with_context(|| format!("cannot make {}", dest.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_build_loses_its_last_minute() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("old.o");
        let young = dir.path().join("young.o");
        fs::write(&old, "whole").unwrap();
        fs::write(&young, "cut sh").unwrap();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::options()
            .write(true)
            .open(&old)
            .unwrap()
            .set_modified(hour_ago)
            .unwrap();
        remove_youngest(dir.path()).unwrap();
        assert!(old.exists());
        assert!(!young.exists());
    }
}
