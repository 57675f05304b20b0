//! Locks between runs: advisory locks on files, released by the kernel when
//! the holder ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

use crate::progress::Step;

/// A held lock; dropping it releases it.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Closing would not do: a program that another thread is just starting has a copy of the
    /// descriptor until its exec, and the lock lasts as long as any copy.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl Lock {
    /// Takes the lock `path` when nobody holds it.
    ///
    /// # Errors
    /// As [`exclusive`].
    pub fn try_exclusive(path: &Path) -> Result<Option<Self>> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => {
                Err(e).with_context(|| format!("cannot take the lock {}", path.display()))
            }
        }
    }
}

/// Takes the lock `path`, waiting for another holder as long as it takes.
///
/// `what` completes "waiting for another run that ...", which is shown only
/// when there is one.
///
/// # Errors
/// When the file cannot be made or the file system has no locks.
pub fn exclusive(path: &Path, what: &str) -> Result<Lock> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let step = Step::start(&format!("waiting for another run that {what}"));
            file.lock()
                .with_context(|| format!("cannot take the lock {}", path.display()))?;
            step.clear();
        }
        Err(TryLockError::Error(e)) => {
            return Err(e).with_context(|| format!("cannot take the lock {}", path.display()));
        }
    }
    Ok(Lock { file })
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(|| format!("cannot open the lock file {}", path.display()))
}
