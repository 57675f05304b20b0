//! An initramfs: a newc cpio archive, compressed when the kernel can take it.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use cpio::newc::{Builder, trailer};

use super::{Layout, Node};
use crate::process;

const S_IFCHR: u32 = 0o020_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;

pub(super) fn write(layout: &Layout, zstd: bool, path: &Path) -> Result<()> {
    if !zstd {
        return archive(layout, path);
    }
    let plain = path.with_extension("cpio.plain");
    archive(layout, &plain)?;
    process::output(
        Command::new("zstd")
            .args(["-q", "-f", "-9", "--rm"])
            .arg(&plain)
            .arg("-o")
            .arg(path),
    )?;
    Ok(())
}

fn archive(layout: &Layout, path: &Path) -> Result<()> {
    let mut out = Vec::new();
    for (inode, (name, node)) in (1..).zip(layout.nodes()) {
        let entry = Builder::new(name).ino(inode).nlink(1);
        let (entry, content) = match node {
            Node::Dir(mode) => (entry.mode(S_IFDIR | mode).nlink(2), Vec::new()),
            Node::File(host, mode) => {
                let bytes =
                    fs::read(host).with_context(|| format!("cannot read {}", host.display()))?;
                (entry.mode(S_IFREG | mode), bytes)
            }
            Node::Bytes(bytes, mode) => (entry.mode(S_IFREG | mode), bytes.clone()),
            Node::Link(target) => (entry.mode(S_IFLNK | 0o777), target.clone().into_bytes()),
            Node::CharDevice(mode, major, minor) => (
                entry
                    .mode(S_IFCHR | mode)
                    .rdev_major(*major)
                    .rdev_minor(*minor),
                Vec::new(),
            ),
        };
        let size = u32::try_from(content.len())
            .with_context(|| format!("{name} is too large for an initramfs"))?;
        let mut writer = entry.write(out, size);
        writer.write_all(&content)?;
        out = writer.finish()?;
    }
    let out = trailer(out)?;
    File::create(path)
        .and_then(|mut file| file.write_all(&out))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpio_lists_what_went_in() {
        let dir = tempfile::tempdir().unwrap();
        let mut layout = Layout::default();
        layout.bytes(b"hello", "etc/motd", 0o644);
        layout.link("busybox", "bin/sh");
        layout.console();
        let path = dir.path().join("image.cpio");
        write(&layout, false, &path).unwrap();
        let list = std::process::Command::new("cpio")
            .args(["-tv", "--quiet"])
            .stdin(File::open(&path).unwrap())
            .output()
            .unwrap();
        let text = String::from_utf8(list.stdout).unwrap();
        assert!(list.status.success(), "{text}");
        for wanted in ["bin/sh -> busybox", "etc/motd", "5,   1", "-rw-r--r--"] {
            assert!(text.contains(wanted), "no {wanted} in:\n{text}");
        }
    }
}
