//! The directory of a run's results, and what the guest left on its disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::image::root_image::program;
use crate::lock::Lock;
use crate::process;

/// Marks a directory as one of ours, and is locked while a run uses it.
const MARKER: &str = ".bootmark-boot";

/// What a run puts into its directory, and the next one replaces.
const OURS: &[&str] = &[
    "console.log",
    "disk.ext4",
    "fetched",
    "initramfs",
    "previous",
    "script.log",
    "script.status",
    "summary.txt",
    "trace",
];

/// The folder in the guest that results are fetched from.
const GUEST_DIR: &str = "/var/lib/bootmark";

/// A directory for the results of one run.
#[derive(Debug)]
pub struct ResultDir {
    path: PathBuf,
    _lock: Lock,
}

impl ResultDir {
    /// Makes or takes over the directory `path` and removes an earlier run's results.
    ///
    /// # Errors
    /// When it holds something that no run put there, or another run is using it.
    pub fn claim(path: &Path) -> Result<Self> {
        fs::create_dir_all(path)
            .with_context(|| format!("cannot make the directory {}", path.display()))?;
        let path = path.canonicalize()?;
        let marker = path.join(MARKER);
        if !marker.exists() && fs::read_dir(&path)?.next().is_some() {
            bail!(
                "{} is not empty and holds no earlier results of a boot: name another --out",
                path.display()
            );
        }
        let lock = Lock::try_exclusive(&marker)?.with_context(|| {
            format!(
                "another boot is writing to {}: name another --out",
                path.display()
            )
        })?;
        for name in OURS {
            remove(&path.join(name))?;
        }
        Ok(Self { path, _lock: lock })
    }

    /// The directory, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file or folder in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Fetches the guest's `/var/lib/bootmark` from the disk image: its `trace`, `previous`,
    /// `script.log` and `script.status` come to the top of the directory, anything else
    /// to `fetched/`.
    ///
    /// # Errors
    /// When the image has no readable file system.
    pub fn fetch(&self, disk: &Path) -> Result<()> {
        check_file_system(disk)?;
        let scratch = self.join("fetched");
        fs::create_dir_all(&scratch)?;
        // Relative to the directory: a request is parsed like a command line,
        // and the directory's name may have anything in it.
        process::output(
            Command::new(program("debugfs")?)
                .current_dir(&self.path)
                .args(["-R", &format!("rdump {GUEST_DIR} fetched")])
                .arg(disk),
        )?;
        let dumped = scratch.join("bootmark");
        if dumped.exists() {
            for name in ["trace", "previous", "script.log", "script.status"] {
                if dumped.join(name).exists() {
                    fs::rename(dumped.join(name), self.join(name))?;
                }
            }
            for entry in fs::read_dir(&dumped)? {
                let entry = entry?;
                fs::rename(entry.path(), scratch.join(entry.file_name()))?;
            }
            fs::remove_dir(&dumped)?;
        }
        if fs::read_dir(&scratch)?.next().is_none() {
            fs::remove_dir(&scratch)?;
        }
        Ok(())
    }
}

/// Replays the journal and repairs what a guest that was cut off left undone:
/// debugfs reads the blocks as they are.
fn check_file_system(disk: &Path) -> Result<()> {
    let out = Command::new(program("e2fsck")?)
        .args(["-f", "-y"])
        .arg(disk)
        .output()
        .context("cannot run e2fsck")?;
    // 0: clean, 1: repaired; anything else is not to be read from.
    match out.status.code() {
        Some(0 | 1) => Ok(()),
        _ => bail!(
            "the guest left no readable file system in {} (e2fsck: {}):\n{}",
            disk.display(),
            out.status,
            process::tail(&String::from_utf8_lossy(&out.stdout), 10)
        ),
    }
}

/// What the guest says came of the boot, in the one line of its console that
/// starts with `bootmark-outcome:`.
///
/// # Errors
/// When there is no such line, or more than one, or it says something else than
/// `ok` or `failed: <reason>`.
pub fn outcome_line(console: &str) -> Result<Result<(), String>> {
    const START: &str = "bootmark-outcome: ";
    // Anywhere in a line: one from the kernel's log has a time-stamp before it.
    let mut lines = console
        .lines()
        .filter_map(|line| line.split_once(START).map(|(_, rest)| rest.trim_end()));
    let Some(first) = lines.next() else {
        bail!("the guest powered off without saying what came of it (no `{START}` line)");
    };
    if let Some(second) = lines.next() {
        bail!("the guest says twice what came of it: `{first}` and `{second}`");
    }
    if first == "ok" {
        Ok(Ok(()))
    } else if let Some(reason) = first.strip_prefix("failed: ") {
        Ok(Err(reason.to_owned()))
    } else {
        bail!("the guest's outcome is `{first}`: it must be `ok` or `failed: <reason>`");
    }
}

/// Copies a file without writing out its holes.
///
/// # Errors
/// When the source cannot be read or the copy not be written.
pub fn copy_sparse(from: &Path, to: &Path) -> Result<()> {
    process::output(
        Command::new("cp")
            .args(["--sparse=always", "--reflink=auto"])
            .args([from, to]),
    )?;
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => return Ok(()),
    }
    .with_context(|| format!("cannot remove the earlier {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{self, Layout};

    #[test]
    fn exactly_one_outcome_is_taken() {
        assert_eq!(outcome_line("x\nbootmark-outcome: ok\n").unwrap(), Ok(()));
        assert_eq!(
            outcome_line("[    1.0] bootmark-outcome: failed: no disk\n").unwrap(),
            Err("no disk".to_owned())
        );
        for bad in [
            "nothing",
            "bootmark-outcome: ok\nbootmark-outcome: ok\n",
            "bootmark-outcome: fine\n",
        ] {
            assert!(outcome_line(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_directory_of_somebody_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.txt"), "x").unwrap();
        let error = ResultDir::claim(dir.path()).unwrap_err();
        assert!(error.to_string().contains("not empty"), "{error}");
        assert!(dir.path().join("thesis.txt").exists());
    }

    #[test]
    fn our_own_directory_is_taken_over_but_not_from_a_running_boot() {
        let dir = tempfile::tempdir().unwrap();
        let first = ResultDir::claim(dir.path()).unwrap();
        fs::create_dir(first.join("trace")).unwrap();
        fs::write(first.join("notes.txt"), "mine").unwrap();
        let error = ResultDir::claim(dir.path()).unwrap_err();
        assert!(error.to_string().contains("another boot"), "{error}");
        drop(first);
        let second = ResultDir::claim(dir.path()).unwrap();
        assert!(!second.join("trace").exists());
        assert!(second.join("notes.txt").exists());
    }

    #[test]
    fn results_come_from_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        // A name that a careless command line would trip over.
        let results = ResultDir::claim(&dir.path().join("a b, \"c\"")).unwrap();
        let disk = results.join("disk.ext4");
        let mut layout = Layout::default();
        layout.bytes(b"events", "var/lib/bootmark/trace/stream_0", 0o644);
        layout.bytes(b"hello\n", "var/lib/bootmark/script.log", 0o644);
        layout.bytes(b"3\n", "var/lib/bootmark/script.status", 0o644);
        layout.bytes(b"x", "var/lib/bootmark/other", 0o644);
        image::root_at(&layout, &disk).unwrap();
        results.fetch(&disk).unwrap();
        let read = |name: &str| fs::read_to_string(results.join(name)).unwrap();
        assert_eq!(read("trace/stream_0"), "events");
        assert_eq!(read("script.log"), "hello\n");
        assert_eq!(read("script.status"), "3\n");
        assert_eq!(read("fetched/other"), "x");
    }

    #[test]
    fn a_disk_without_a_file_system_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let results = ResultDir::claim(dir.path()).unwrap();
        let disk = results.join("disk.ext4");
        fs::write(&disk, vec![0; 1 << 20]).unwrap();
        let error = results.fetch(&disk).unwrap_err();
        assert!(
            error.to_string().contains("no readable file system"),
            "{error}"
        );
    }
}
