//! Keys of build outputs: a SHA-256 over everything that goes in.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use walkdir::WalkDir;

/// Collects the inputs of one build output.
///
/// Every item is hashed with its label and length, so that moving a byte from
/// one item to its neighbour changes the key.
#[derive(Debug, Clone, Default)]
pub struct Key {
    hash: Sha256,
}

impl Key {
    /// Starts a key for outputs of the given kind; change the kind when the
    /// builder changes what it makes of the same inputs.
    pub fn new(kind: &str) -> Self {
        let mut key = Self::default();
        key.item("kind", kind.as_bytes());
        key
    }

    /// Adds one input.
    pub fn item(&mut self, label: &str, bytes: &[u8]) {
        for part in [label.as_bytes(), bytes] {
            self.hash.update((part.len() as u64).to_le_bytes());
            self.hash.update(part);
        }
    }

    /// Adds a file's content and whether it is executable.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn file(&mut self, label: &str, path: &Path) -> Result<()> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mode = fs::metadata(path)?.permissions().mode() & 0o111;
        self.item(label, &bytes);
        self.item("mode", &mode.to_le_bytes());
        Ok(())
    }

    /// Adds every file, folder and symbolic link below `dir`, in name order.
    /// A folder that does not exist counts as an empty one.
    ///
    /// # Errors
    /// When something below cannot be read.
    pub fn tree(&mut self, label: &str, dir: &Path) -> Result<()> {
        self.item("tree", label.as_bytes());
        if !dir.exists() {
            return Ok(());
        }
        for entry in WalkDir::new(dir).sort_by_file_name() {
            let entry = entry.with_context(|| format!("cannot walk {}", dir.display()))?;
            let name = entry.path().strip_prefix(dir).unwrap_or(entry.path());
            let name = name.to_string_lossy();
            if entry.file_type().is_file() {
                self.file(&name, entry.path())?;
            } else if entry.file_type().is_symlink() {
                let to = fs::read_link(entry.path())?;
                self.item(&name, to.as_os_str().as_encoded_bytes());
            } else {
                self.item(&name, b"dir");
            }
        }
        Ok(())
    }

    /// The key as 64 hex digits.
    pub fn finish(self) -> String {
        hex(&self.hash.finalize())
    }
}

/// The SHA-256 of some bytes, as hex.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The SHA-256 of a file, as hex.
///
/// # Errors
/// When the file cannot be read.
pub fn of_file(path: &Path) -> Result<String> {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hex(&hash.finalize())),
                n => hash.update(&buffer[..n]),
            }
        }
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

/// What tells a file that was changed or replaced from the same file as
/// before, without reading it: place, size, times and inode.
///
/// # Errors
/// When the file is not there.
pub fn stamp(path: &Path) -> Result<String> {
    let meta = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(format!(
        "{}:{}:{}:{}.{}:{}.{}",
        path.display(),
        meta.len(),
        meta.ino(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    ))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;

    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_byte_changes_the_key() {
        let mut one = Key::new("test");
        one.item("a", b"xy");
        one.item("b", b"z");
        let mut two = Key::new("test");
        two.item("a", b"x");
        two.item("b", b"yz");
        assert_ne!(one.finish(), two.finish());
    }

    #[test]
    fn a_tree_key_sees_content_names_and_modes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let key = || {
            let mut key = Key::new("test");
            key.tree("t", dir.path()).unwrap();
            key.finish()
        };
        fs::write(&file, "one").unwrap();
        let first = key();
        assert_eq!(first, key());
        fs::write(&file, "two").unwrap();
        let second = key();
        assert_ne!(first, second);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let third = key();
        assert_ne!(second, third);
        fs::rename(&file, dir.path().join("other")).unwrap();
        assert_ne!(third, key());
    }

    #[test]
    fn known_digest() {
        assert_eq!(
            of_bytes(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
