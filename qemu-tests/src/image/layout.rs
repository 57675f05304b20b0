//! What goes into an image, before there is one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use crate::digest::Key;

/// One thing in an image. Everything belongs to root.
#[derive(Debug, Clone)]
pub enum Node {
    /// A folder with its mode.
    Dir(u32),
    /// A copy of a host file, with its mode.
    File(PathBuf, u32),
    /// A file of these bytes, with its mode.
    Bytes(Vec<u8>, u32),
    /// A symbolic link to this.
    Link(String),
    /// A character device: mode, major, minor. Only an initramfs can have one;
    /// a root image gets its devices from devtmpfs.
    CharDevice(u32, u32, u32),
}

/// The content of an image by path, without the leading `/`. Later entries of
/// the same path win; folders above an entry come by themselves.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    nodes: BTreeMap<String, Node>,
}

impl Layout {
    /// Adds a folder.
    pub fn dir(&mut self, path: &str, mode: u32) {
        self.insert(path, Node::Dir(mode));
    }

    /// Adds a copy of a host file.
    pub fn file(&mut self, host: &Path, path: &str, mode: u32) {
        self.insert(path, Node::File(host.to_owned(), mode));
    }

    /// Adds a file of these bytes.
    pub fn bytes(&mut self, bytes: &[u8], path: &str, mode: u32) {
        self.insert(path, Node::Bytes(bytes.to_vec(), mode));
    }

    /// Adds a symbolic link at `path` that leads to `target`.
    pub fn link(&mut self, target: &str, path: &str) {
        self.insert(path, Node::Link(target.to_owned()));
    }

    /// Adds `/dev/console`, which the kernel gives `/init` as its standard streams.
    pub fn console(&mut self) {
        self.insert("dev/console", Node::CharDevice(0o600, 5, 1));
    }

    /// Adds a host file or folder with all below it at `path`; modes and
    /// symbolic links are kept.
    ///
    /// # Errors
    /// When it is missing or has something that is neither file, folder nor link.
    pub fn tree(&mut self, host: &Path, path: &str) -> Result<()> {
        for entry in WalkDir::new(host).sort_by_file_name() {
            let entry =
                entry.with_context(|| format!("cannot copy {} into the image", host.display()))?;
            let below = entry.path().strip_prefix(host)?;
            let below = below
                .to_str()
                .with_context(|| format!("{}: the name is not UTF-8", entry.path().display()))?;
            let place = [path, below]
                .iter()
                .filter(|part| !part.is_empty())
                .copied()
                .collect::<Vec<_>>()
                .join("/");
            let mode = entry.metadata()?.permissions().mode() & 0o7777;
            let kind = entry.file_type();
            if kind.is_dir() {
                if !place.is_empty() {
                    self.dir(&place, mode);
                }
            } else if kind.is_file() {
                self.file(entry.path(), &place, mode);
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path())?;
                self.link(&target.to_string_lossy(), &place);
            } else {
                bail!(
                    "{} is neither file, folder nor link: it cannot go into an image",
                    entry.path().display()
                );
            }
        }
        Ok(())
    }

    /// Removes an entry and all below it.
    pub fn remove(&mut self, path: &str) {
        let path = path.trim_matches('/');
        let below = format!("{path}/");
        self.nodes
            .retain(|name, _| name != path && !name.starts_with(&below));
    }

    /// All entries; a folder comes before what is in it.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// The content's size in bytes.
    ///
    /// # Errors
    /// When a host file is missing.
    pub fn size(&self) -> Result<u64> {
        self.nodes.values().try_fold(0, |sum, node| {
            Ok(sum
                + match node {
                    Node::File(host, _) => fs::metadata(host)
                        .with_context(|| format!("cannot read {}", host.display()))?
                        .len(),
                    Node::Bytes(bytes, _) => bytes.len() as u64,
                    _ => 0,
                })
        })
    }

    pub(super) fn add_to(&self, key: &mut Key) -> Result<()> {
        for (path, node) in &self.nodes {
            match node {
                Node::Dir(mode) => key.item(path, &mode.to_le_bytes()),
                Node::File(host, mode) => {
                    key.file(path, host)?;
                    key.item(path, &mode.to_le_bytes());
                }
                Node::Bytes(bytes, mode) => {
                    key.item(path, bytes);
                    key.item(path, &mode.to_le_bytes());
                }
                Node::Link(target) => key.item(path, target.as_bytes()),
                Node::CharDevice(mode, major, minor) => {
                    key.item(path, format!("{mode} {major} {minor}").as_bytes());
                }
            }
        }
        Ok(())
    }

    fn insert(&mut self, path: &str, node: Node) {
        let path = path.trim_matches('/').to_owned();
        for (end, _) in path.match_indices('/') {
            self.nodes
                .entry(path[..end].to_owned())
                .or_insert(Node::Dir(0o755));
        }
        self.nodes.insert(path, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_first_and_the_last_entry_wins() {
        let mut layout = Layout::default();
        layout.bytes(b"one", "/etc/deep/file", 0o644);
        layout.bytes(b"two", "etc/deep/file", 0o600);
        let paths: Vec<&str> = layout.nodes().map(|(path, _)| path).collect();
        assert_eq!(paths, ["etc", "etc/deep", "etc/deep/file"]);
        assert_eq!(layout.size().unwrap(), 3);
        let last = layout.nodes().last().unwrap().1.clone();
        assert!(matches!(last, Node::Bytes(bytes, 0o600) if bytes == b"two"));
    }

    #[test]
    fn a_tree_keeps_modes_and_links() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        let file = dir.path().join("sub/run");
        fs::write(&file, "x").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
        std::os::unix::fs::symlink("run", dir.path().join("sub/link")).unwrap();
        let mut layout = Layout::default();
        layout.tree(dir.path(), "opt").unwrap();
        let has = |path: &str| layout.nodes().find(|(p, _)| *p == path).unwrap().1.clone();
        assert!(matches!(has("opt/sub/run"), Node::File(_, 0o750)));
        assert!(matches!(has("opt/sub/link"), Node::Link(to) if to == "run"));
        let error = layout.tree(Path::new("/no/such"), "x").unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
    }
}
