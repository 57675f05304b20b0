//! The kernel patch: whole files laid over the tree (`linux/`) and small
//! patches to files of the tree (`patches/`), brought into a kept tree by
//! content, so that `make` rebuilds only what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path};
use std::process::Command;

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use crate::digest::{self, Key};
use crate::process;

/// The patch as it stands in the checkout.
#[derive(Debug, Clone)]
pub struct Patch {
    /// Whole files by their path in the kernel tree.
    overlay: BTreeMap<String, Vec<u8>>,
    /// Patches by file name, in the order they apply.
    patches: Vec<(String, String)>,
}

/// The manifest's name beside the tree.
const MANIFEST: &str = "manifest.json";

/// What has been put into a kept tree: path to digest of the content.
type Manifest = BTreeMap<String, String>;

impl Patch {
    /// Reads `dir/linux` and `dir/patches`.
    ///
    /// # Errors
    /// When a file cannot be read or a patch names a path outside the tree.
    pub fn read(dir: &Path) -> Result<Self> {
        let mut overlay = BTreeMap::new();
        let top = dir.join("linux");
        if top.exists() {
            for entry in WalkDir::new(&top).sort_by_file_name() {
                let entry = entry.with_context(|| format!("cannot walk {}", top.display()))?;
                if entry.file_type().is_file() && !is_editor_leftover(entry.path()) {
                    let name = entry.path().strip_prefix(&top)?.to_string_lossy();
                    let bytes = fs::read(entry.path())
                        .with_context(|| format!("cannot read {}", entry.path().display()))?;
                    overlay.insert(name.into_owned(), bytes);
                }
            }
        }
        let mut patches = Vec::new();
        let folder = dir.join("patches");
        if folder.exists() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.extension().is_some_and(|ext| ext == "patch") {
                    let text = fs::read_to_string(&path)
                        .with_context(|| format!("cannot read {}", path.display()))?;
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    touched(&text).with_context(|| format!("in {}", path.display()))?;
                    patches.push((name.into_owned(), text));
                }
            }
        }
        patches.sort();
        Ok(Self { overlay, patches })
    }

    pub(super) fn add_to(&self, key: &mut Key) {
        for (name, bytes) in &self.overlay {
            key.item(name, bytes);
        }
        for (name, text) in &self.patches {
            key.item(name, text.as_bytes());
        }
    }

    /// The paths in the kernel tree that the patch brings or changes.
    pub fn paths(&self) -> BTreeSet<String> {
        let mut paths: BTreeSet<String> = self.overlay.keys().cloned().collect();
        for (_, text) in &self.patches {
            // Checked when the patch was read.
            paths.extend(touched(text).unwrap_or_default());
        }
        paths
    }

    /// The C files of the overlay that the kernel is built from.
    pub fn sources(&self) -> Vec<String> {
        self.overlay
            .keys()
            .filter(|path| path.ends_with(".c") && !path.starts_with("tools/"))
            .filter(|path| !path.starts_with("samples/"))
            .cloned()
            .collect()
    }

    /// Whether the manifest in `top` can be read (or there is none yet).
    pub(super) fn manifest_is_sound(top: &Path) -> bool {
        read_manifest(&top.join(MANIFEST)).is_ok()
    }

    /// Brings the tree `top/linux` to the base plus this patch, writing only
    /// files whose content differs. What the base had there is kept in `top/orig`.
    ///
    /// Safe against being cut off anywhere: the manifest names a file before it
    /// is touched, and an original is kept before it is replaced.
    ///
    /// # Errors
    /// When a patch does not apply or a file cannot be written.
    pub fn sync(&self, top: &Path) -> Result<()> {
        let tree = top.join("linux");
        let orig = top.join("orig");
        let manifest_path = top.join(MANIFEST);
        let old = read_manifest(&manifest_path)?;
        let base = |path: &str| base_content(top, &old, path);

        let wanted = self.result(&base)?;
        for path in wanted.keys() {
            if !orig.join(path).exists()
                && let Some(bytes) = base(path)?
            {
                write(&orig.join(path), &bytes)?;
            }
        }
        let mut named = old.clone();
        for path in wanted.keys() {
            named.entry(path.clone()).or_default();
        }
        write_manifest(&manifest_path, &named)?;

        for path in old.keys().filter(|path| !wanted.contains_key(*path)) {
            let place = tree.join(path);
            match base(path)? {
                Some(bytes) => write_if_changed(&place, &bytes)?,
                None if place.exists() => fs::remove_file(&place)
                    .with_context(|| format!("cannot remove {}", place.display()))?,
                None => {}
            }
        }
        for (path, bytes) in &wanted {
            write_if_changed(&tree.join(path), bytes)?;
        }
        let new = wanted
            .iter()
            .map(|(path, bytes)| (path.clone(), digest::of_bytes(bytes)))
            .collect();
        write_manifest(&manifest_path, &new)
    }

    /// Every file the patch brings or changes, with its content before and after it.
    /// `top` has a tree that some patch was synced to.
    ///
    /// # Errors
    /// When a patch does not apply.
    pub(super) fn outcome(&self, top: &Path) -> Result<BTreeMap<String, Change>> {
        let manifest = read_manifest(&top.join(MANIFEST))?;
        let base = |path: &str| base_content(top, &manifest, path);
        self.result(&base)?
            .into_iter()
            .map(|(path, after)| {
                let before = base(&path)?;
                Ok((path, Change { before, after }))
            })
            .collect()
    }

    /// Whole files by their path in the kernel tree.
    pub(crate) fn overlay(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.overlay
    }

    /// The patches by file name, in the order they apply.
    pub(super) fn patches(&self) -> &[(String, String)] {
        &self.patches
    }

    /// A part of a patch.
    pub(super) fn part(overlay: BTreeMap<String, Vec<u8>>, patches: Vec<(String, String)>) -> Self {
        Self { overlay, patches }
    }

    /// Every file the patch brings or changes, with its final content.
    fn result(
        &self,
        base: &dyn Fn(&str) -> Result<Option<Vec<u8>>>,
    ) -> Result<BTreeMap<String, Vec<u8>>> {
        let scratch = tempfile::tempdir().context("cannot make a scratch folder")?;
        for path in self.paths() {
            let bytes = match self.overlay.get(&path) {
                Some(bytes) => Some(bytes.clone()),
                None => base(&path)?,
            };
            if let Some(bytes) = bytes {
                write(&scratch.path().join(&path), &bytes)?;
            }
        }
        for (name, text) in &self.patches {
            let file = scratch.path().join(".patch");
            fs::write(&file, text)?;
            process::output(
                Command::new("patch")
                    .args([
                        "-p1",
                        "--batch",
                        "--forward",
                        "--fuzz=1",
                        "--no-backup-if-mismatch",
                        "-d",
                    ])
                    .arg(scratch.path())
                    .arg("-i")
                    .arg(&file),
            )
            .with_context(|| {
                format!("kernel-patch/patches/{name} does not apply to this kernel source")
            })?;
        }
        let mut result = BTreeMap::new();
        for path in self.paths() {
            let place = scratch.path().join(&path);
            if place.exists() {
                result.insert(path, fs::read(place)?);
            }
        }
        Ok(result)
    }
}

/// What a patch makes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// What the base has there, if anything.
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
}

/// What the base has at a path, in a tree that a patch was synced to.
fn base_content(top: &Path, manifest: &Manifest, path: &str) -> Result<Option<Vec<u8>>> {
    let kept = top.join("orig").join(path);
    let from = if kept.exists() {
        kept
    } else if manifest.contains_key(path) {
        return Ok(None);
    } else {
        top.join("linux").join(path)
    };
    match fs::read(&from) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("cannot read {}", from.display())),
    }
}

/// The files a patch touches, by its `+++` lines.
fn touched(patch: &str) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for line in patch.lines() {
        if let Some(name) = line.strip_prefix("+++ ") {
            let name = name.split('\t').next().unwrap_or(name).trim_end();
            let Some((_, path)) = name.split_once('/').filter(|_| name != "/dev/null") else {
                bail!("`{line}` names no file below the kernel tree (expected `+++ b/path`)");
            };
            if !Path::new(path)
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
            {
                bail!("`{line}` names a file outside the kernel tree");
            }
            paths.push(path.to_owned());
        }
    }
    if paths.is_empty() {
        bail!("it changes no file: not a unified diff");
    }
    Ok(paths)
}

fn is_editor_leftover(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["~", ".orig", ".rej", ".swp"]
        .iter()
        .any(|end| name.ends_with(end))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    match fs::read(path) {
        Ok(old) if old == bytes => Ok(()),
        _ => write(path, bytes),
    }
}

/// No manifest is an empty one: nothing has been put into the tree yet.
fn read_manifest(path: &Path) -> Result<Manifest> {
    match fs::read(path) {
        Ok(text) => {
            serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Manifest::new()),
        Err(e) => Err(e).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn write_manifest(path: &Path, manifest: &Manifest) -> Result<()> {
    let scratch = path.with_extension("new");
    fs::write(&scratch, serde_json::to_vec_pretty(manifest)?)
        .and_then(|()| fs::rename(&scratch, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const DIFF: &str =
        "--- a/kernel/fork.c\n+++ b/kernel/fork.c\n@@ -1,2 +1,3 @@\n one\n+hook\n two\n";

    fn patch(overlay: &[(&str, &str)], patches: &[&str]) -> Patch {
        Patch {
            overlay: overlay
                .iter()
                .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
                .collect(),
            patches: patches
                .iter()
                .enumerate()
                .map(|(i, text)| (format!("{i}.patch"), (*text).to_owned()))
                .collect(),
        }
    }

    fn tree() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        write(&top.path().join("linux/kernel/fork.c"), b"one\ntwo\n").unwrap();
        write(&top.path().join("linux/kernel/exit.c"), b"exit\n").unwrap();
        top
    }

    fn read(top: &tempfile::TempDir, path: &str) -> Option<String> {
        fs::read_to_string(top.path().join("linux").join(path)).ok()
    }

    fn mtime(top: &tempfile::TempDir, path: &str) -> SystemTime {
        let meta = fs::metadata(top.path().join("linux").join(path)).unwrap();
        meta.modified().unwrap()
    }

    #[test]
    fn files_and_patches_come_and_go() {
        let top = tree();
        let full = patch(
            &[("kernel/new.c", "new\n"), ("kernel/exit.c", "ours\n")],
            &[DIFF],
        );
        full.sync(top.path()).unwrap();
        assert_eq!(read(&top, "kernel/fork.c").unwrap(), "one\nhook\ntwo\n");
        assert_eq!(read(&top, "kernel/exit.c").unwrap(), "ours\n");
        assert_eq!(read(&top, "kernel/new.c").unwrap(), "new\n");

        patch(&[], &[]).sync(top.path()).unwrap();
        assert_eq!(read(&top, "kernel/fork.c").unwrap(), "one\ntwo\n");
        assert_eq!(read(&top, "kernel/exit.c").unwrap(), "exit\n");
        assert_eq!(read(&top, "kernel/new.c"), None);

        full.sync(top.path()).unwrap();
        assert_eq!(read(&top, "kernel/fork.c").unwrap(), "one\nhook\ntwo\n");
    }

    #[test]
    fn an_unchanged_file_keeps_its_time() {
        let top = tree();
        patch(&[("a.c", "a"), ("b.c", "b")], &[DIFF])
            .sync(top.path())
            .unwrap();
        let before = (mtime(&top, "kernel/fork.c"), mtime(&top, "a.c"));
        patch(&[("a.c", "a"), ("b.c", "B")], &[DIFF])
            .sync(top.path())
            .unwrap();
        assert_eq!(before, (mtime(&top, "kernel/fork.c"), mtime(&top, "a.c")));
        assert_eq!(read(&top, "b.c").unwrap(), "B");
    }

    #[test]
    fn a_patch_that_does_not_apply_is_named_and_changes_nothing() {
        let top = tree();
        let wrong = DIFF.replace(" two", "-three");
        let error = patch(&[("a.c", "a")], &[&wrong])
            .sync(top.path())
            .unwrap_err();
        assert!(
            format!("{error:#}").contains("0.patch does not apply"),
            "{error:#}"
        );
        assert_eq!(read(&top, "kernel/fork.c").unwrap(), "one\ntwo\n");
        assert_eq!(read(&top, "a.c"), None);
    }

    #[test]
    fn a_patch_cannot_leave_the_tree() {
        assert!(touched("+++ b/../../etc/passwd\n").is_err());
        assert!(touched("nothing here\n").is_err());
        assert_eq!(touched(DIFF).unwrap(), ["kernel/fork.c"]);
    }
}
