//! The guest's images: an initramfs and an ext4 root file system, made from
//! a [`Layout`] without root, loop mounts or device nodes on the host.

mod bootconfig;
mod initramfs;
mod layout;
pub(crate) mod root_image;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use crate::digest::Key;
use crate::programs::Programs;
use crate::{lock, paths, process, setup};

pub use bootconfig::bootconfig_trailer;
pub use layout::{Layout, Node};

/// The label by which the guest finds its root file system.
pub const ROOT_LABEL: &str = "bootmark-root";

/// How long an image that nobody used stays in `target/images`.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// The initramfs of the real thing: the skeleton, `/init`, busybox.
///
/// # Errors
/// When a part is missing on the host.
pub fn initramfs_layout(programs: &Programs) -> Result<Layout> {
    let mut layout = Layout::default();
    layout.tree(&paths::workspace().join("initrd/image/initramfs"), "")?;
    layout.file(&programs.init, "init", 0o755);
    layout.file(&busybox()?, "bin/busybox", 0o755);
    layout.link("busybox", "bin/sh");
    layout.console();
    Ok(layout)
}

/// The root file system of the real thing: the skeleton, the second-stage init,
/// the tool, the services, busybox with a link for each of its applets.
///
/// # Errors
/// When a part is missing on the host.
pub fn root_layout(programs: &Programs) -> Result<Layout> {
    let mut layout = Layout::default();
    busybox_with_applets(&mut layout)?;
    // The skeleton and our programs win over applets of the same name.
    layout.tree(&paths::workspace().join("initrd/image/root"), "")?;
    layout.file(&programs.stage2, "sbin/init", 0o755);
    layout.file(&programs.bootmark, "usr/bin/bootmark", 0o755);
    for service in &programs.services {
        let name = service.file_name().unwrap_or_default().to_string_lossy();
        layout.file(service, &format!("usr/lib/bootmark/services/{name}"), 0o755);
    }
    for dir in [
        "dev",
        "proc",
        "sys",
        "run",
        "tmp",
        "root",
        "var/lib/bootmark",
    ] {
        layout.dir(dir, if dir == "tmp" { 0o1777 } else { 0o755 });
    }
    Ok(layout)
}

/// A tiny initramfs whose `/init` is a shell script run by busybox, with all
/// applets on its PATH and `/proc`, `/sys`, `/dev` mounted: for guests that are
/// about the kernel or the runner rather than about PID 1.
///
/// The script should end with `poweroff -f`.
///
/// # Errors
/// When there is no static busybox on the host.
pub fn script_initramfs(script: &str) -> Result<Layout> {
    let mut layout = Layout::default();
    busybox_with_applets(&mut layout)?;
    for dir in ["proc", "sys", "dev", "tmp", "run"] {
        layout.dir(dir, 0o755);
    }
    layout.console();
    let init = format!(
        "#!/bin/sh\n\
         export PATH=/bin\n\
         mount -t proc proc /proc\n\
         mount -t sysfs sysfs /sys\n\
         mount -t devtmpfs devtmpfs /dev\n\
         {script}\n"
    );
    layout.bytes(init.as_bytes(), "init", 0o755);
    Ok(layout)
}

/// Makes an initramfs of the layout, or gives the cached one. `zstd` says whether
/// the kernel can unpack that; otherwise it stays as it is.
///
/// # Errors
/// When a file of the layout cannot be read or the image cannot be written.
pub fn initramfs(layout: &Layout, zstd: bool) -> Result<PathBuf> {
    let suffix = if zstd { "cpio.zst" } else { "cpio" };
    cached("initramfs", suffix, layout, |scratch| {
        initramfs::write(layout, zstd, scratch)
    })
}

/// Makes an ext4 image of the layout, or gives the cached one; boots get a copy.
///
/// # Errors
/// When a file of the layout cannot be read or `mke2fs` fails.
pub fn root(layout: &Layout) -> Result<PathBuf> {
    cached("root", "ext4", layout, |scratch| {
        root_image::write(layout, scratch)
    })
}

/// Makes an ext4 image of the layout at `path`, past the cache.
///
/// # Errors
/// As [`root`].
pub fn root_at(layout: &Layout, path: &Path) -> Result<()> {
    root_image::write(layout, path)
}

/// An image by the key of its content, made when it is not there yet.
fn cached(
    kind: &str,
    suffix: &str,
    layout: &Layout,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let dir = paths::target().join("images");
    let mut key = Key::new(suffix);
    layout.add_to(&mut key)?;
    let path = dir.join(format!("{kind}-{}.{suffix}", &key.finish()[..16]));
    let _lock = lock::exclusive(&dir.join("lock"), "is making an image")?;
    if path.exists() {
        // Its time says when it was last of use.
        fs::File::options()
            .append(true)
            .open(&path)?
            .set_modified(SystemTime::now())?;
        return Ok(path);
    }
    remove_unused(&dir)?;
    let scratch = dir.join(format!("{kind}.new"));
    make(&scratch)?;
    fs::rename(&scratch, &path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

fn remove_unused(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
        if age > KEPT_FOR && entry.file_name() != "lock" {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// busybox, and a link for each of its applets, in `/bin`.
fn busybox_with_applets(layout: &mut Layout) -> Result<()> {
    let busybox = busybox()?;
    layout.file(&busybox, "bin/busybox", 0o755);
    for applet in process::output(Command::new(&busybox).arg("--list"))?.lines() {
        if applet != "busybox" {
            layout.link("busybox", &format!("bin/{applet}"));
        }
    }
    Ok(())
}

/// Debian's static busybox.
fn busybox() -> Result<PathBuf> {
    let path = setup::find("busybox")
        .context("no busybox on this machine (Debian's package busybox-static has it)")?;
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    // A dynamic one would start in no guest; it names its loader in its first page.
    if bytes[..bytes.len().min(4096)]
        .windows(8)
        .any(|window| window == b"/ld-linu")
    {
        bail!(
            "{} is not statically linked (Debian's package busybox-static is)",
            path.display()
        );
    }
    Ok(path)
}
