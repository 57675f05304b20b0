//! The kernel source that everything starts from: a tarball or a folder, and
//! its unpacked copy in the cache.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use walkdir::WalkDir;

use super::check_version;
use crate::digest::{self, Key};
use crate::progress::Step;
use crate::{lock, paths, process};

/// What Debian's package `linux-source-6.12` installs.
pub const DEFAULT_SOURCE: &str = "/usr/src/linux-source-6.12.tar.xz";

/// A kernel source with its identity.
#[derive(Debug, Clone)]
pub struct Base {
    path: PathBuf,
    id: String,
}

impl Base {
    /// Finds out which source this is, without unpacking it.
    ///
    /// # Errors
    /// When it is missing, or a folder that is not Linux 6.12.
    pub fn identify(source: Option<&Path>) -> Result<Self> {
        let path = source.unwrap_or(Path::new(DEFAULT_SOURCE));
        let path = path.canonicalize().with_context(|| {
            format!(
                "no kernel source at {} (Debian's package linux-source-6.12 has it; \
                 --kernel-source names another tree or tarball)",
                path.display()
            )
        })?;
        let id = if path.is_dir() {
            check_version(&path.join("Makefile"))?;
            folder_id(&path)?
        } else {
            tarball_id(&path)?
        };
        Ok(Self { path, id })
    }

    /// The identity: 16 hex digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Puts a fresh, untouched copy at `tree`, which must not exist.
    ///
    /// # Errors
    /// When it cannot be unpacked or copied, or turns out not to be 6.12.
    pub fn unpack(&self, tree: &Path) -> Result<()> {
        let parent = tree.parent().context("a tree has a parent folder")?;
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        // A rename at the end: an unpacking that was cut off is not taken for a tree.
        let scratch = tempfile::Builder::new()
            .prefix("unpacking-")
            .tempdir_in(parent)
            .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
        let step = Step::start("unpacking the kernel source");
        step.detail(&self.path.display().to_string());
        let fresh = scratch.path().join("linux");
        if self.path.is_dir() {
            process::output(
                Command::new("rsync")
                    .args(["-a", "--exclude=/.git"])
                    .arg(format!("{}/", self.path.display()))
                    .arg(&fresh),
            )?;
            // A tree that was built in refuses to be built out of.
            process::output(
                Command::new("make")
                    .args(["-s", "ARCH=x86_64", "mrproper", "-C"])
                    .arg(&fresh),
            )?;
        } else {
            fs::create_dir(&fresh)?;
            process::output(
                Command::new("tar")
                    .args(["--strip-components=1", "-xf"])
                    .arg(&self.path)
                    .arg("-C")
                    .arg(&fresh),
            )?;
        }
        check_version(&fresh.join("Makefile"))?;
        fs::rename(&fresh, tree).with_context(|| format!("cannot make {}", tree.display()))?;
        step.done(&self.path.display().to_string());
        Ok(())
    }
}

/// The digest of a tarball, remembered by the file's stamp: reading 150 MB in
/// every run would be a good part of a warm run.
fn tarball_id(path: &Path) -> Result<String> {
    let cache = paths::cache()?;
    let memo_path = cache.join("sources.json");
    let stamp = digest::stamp(path)?;
    let _lock = lock::exclusive(&cache.join("source.lock"), "looks at the kernel source")?;
    // Anything wrong with the memo only costs reading the tarball again.
    let mut memo: BTreeMap<String, String> = fs::read(&memo_path)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    if let Some(id) = memo.get(&stamp) {
        return Ok(id.clone());
    }
    let step = Step::start("reading the kernel source's tarball");
    let id = digest::of_file(path)?[..16].to_owned();
    step.clear();
    memo.insert(stamp, id.clone());
    let scratch = memo_path.with_extension("new");
    fs::write(&scratch, serde_json::to_vec_pretty(&memo)?)
        .and_then(|()| fs::rename(&scratch, &memo_path))
        .with_context(|| format!("cannot write {}", memo_path.display()))?;
    Ok(id)
}

/// The identity of a source folder: the stamps of all its files. Reading 1.5 GB would be
/// surer and far too slow.
fn folder_id(dir: &Path) -> Result<String> {
    let mut key = Key::new("source folder");
    let walk = WalkDir::new(dir)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| entry.file_name() != ".git");
    for entry in walk {
        let entry = entry.with_context(|| format!("cannot walk {}", dir.display()))?;
        if entry.file_type().is_file() {
            key.item("file", digest::stamp(entry.path())?.as_bytes());
        }
    }
    Ok(key.finish()[..16].to_owned())
}
