//! A root file system: ext4 filled by `mke2fs -d`, which needs neither root nor
//! a loop device.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Layout, Node, ROOT_LABEL};
use crate::{process, setup};

/// Room for what the guest writes: traces, logs (bytes). The file is sparse.
const FREE: u64 = 256 << 20;

pub(super) fn write(layout: &Layout, path: &Path) -> Result<()> {
    let staging = tempfile::tempdir().context("cannot make a scratch folder")?;
    stage(layout, staging.path())?;
    let kib = (layout.size()? * 5 / 4 + FREE) / 1024;
    if path.exists() {
        fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))?;
    }
    process::output(
        Command::new(program("mke2fs")?)
            .args(["-q", "-t", "ext4", "-L", ROOT_LABEL, "-m", "0"])
            .args(["-E", "root_owner=0:0,lazy_itable_init=0", "-d"])
            .arg(staging.path())
            .arg(path)
            .arg(format!("{kib}k")),
    )?;
    // mke2fs copies the owners it finds, which are the caller's.
    let meta = fs::metadata(staging.path())?;
    if (meta.uid(), meta.gid()) != (0, 0) {
        own_by_root(layout, path)?;
    }
    Ok(())
}

/// Lays the content out in a folder, as `mke2fs -d` wants it.
fn stage(layout: &Layout, dir: &Path) -> Result<()> {
    let mut modes = Vec::new();
    for (name, node) in layout.nodes() {
        let place = dir.join(name);
        let failed = || format!("cannot put /{name} into the root image");
        let mode = match node {
            Node::Dir(mode) => {
                fs::create_dir_all(&place).with_context(failed)?;
                Some(*mode)
            }
            Node::File(host, mode) => {
                fs::copy(host, &place)
                    .with_context(|| format!("cannot copy {} into the image", host.display()))?;
                Some(*mode)
            }
            Node::Bytes(bytes, mode) => {
                fs::write(&place, bytes).with_context(failed)?;
                Some(*mode)
            }
            Node::Link(target) => {
                std::os::unix::fs::symlink(target, &place).with_context(failed)?;
                None
            }
            Node::CharDevice(..) => bail!("/{name}: a root image takes its devices from devtmpfs"),
        };
        modes.extend(mode.map(|mode| (place, mode)));
    }
    // Last, and the deepest first: a folder may end up closed to its owner.
    for (place, mode) in modes.iter().rev() {
        fs::set_permissions(place, fs::Permissions::from_mode(*mode))
            .with_context(|| format!("cannot set the mode of {}", place.display()))?;
    }
    Ok(())
}

/// Gives everything in the image to root, by editing its inodes.
fn own_by_root(layout: &Layout, image: &Path) -> Result<()> {
    let mut commands = String::new();
    for (name, _) in layout.nodes() {
        if name.contains('"') || name.contains('\n') {
            bail!("/{name}: the name cannot be written to an image by a user other than root");
        }
        writeln!(commands, "sif \"/{name}\" uid 0\nsif \"/{name}\" gid 0")?;
    }
    let script = tempfile::NamedTempFile::new()?;
    fs::write(script.path(), commands)?;
    process::output(
        Command::new(program("debugfs")?)
            .args(["-w", "-f"])
            .arg(script.path())
            .arg(image),
    )?;
    Ok(())
}

/// A program of e2fsprogs, which users other than root have not on their PATH.
pub(crate) fn program(name: &str) -> Result<std::path::PathBuf> {
    setup::find(name)
        .with_context(|| format!("no {name} on this machine (Debian's package e2fsprogs has it)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_belongs_to_root_whoever_makes_the_image() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("root.ext4");
        let mut layout = Layout::default();
        layout.bytes(b"#!/bin/sh\n", "etc/bootmark/script", 0o755);
        layout.link("busybox", "bin/sh");
        layout.dir("tmp", 0o1777);
        write(&layout, &image).unwrap();
        // What a user other than root leaves, and what is done about it.
        let debugfs = |request: &str, write: bool| {
            let mut command = Command::new(program("debugfs").unwrap());
            if write {
                command.arg("-w");
            }
            process::output(command.args(["-R", request]).arg(&image)).unwrap()
        };
        debugfs("sif /etc/bootmark/script uid 1000", true);
        assert!(debugfs("stat /etc/bootmark/script", false).contains("User:  1000"));
        own_by_root(&layout, &image).unwrap();
        for path in ["/etc/bootmark/script", "/bin/sh", "/tmp"] {
            let stat = debugfs(&format!("stat {path}"), false);
            assert!(
                stat.contains("User:     0   Group:     0"),
                "{path}: {stat}"
            );
        }
        assert!(debugfs("stat /etc/bootmark/script", false).contains("Mode:  0755"));
        assert!(debugfs("stat /tmp", false).contains("Mode:  01777"));
        assert!(debugfs("show_super_stats -h", false).contains(ROOT_LABEL));
    }
}
