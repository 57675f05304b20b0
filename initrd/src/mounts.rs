//! The file systems that the kernel itself provides.

use crate::failure::Failure;
use crate::trace::span;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// One line of the mount table.
#[derive(Clone, Copy, Debug)]
pub struct Mount {
    /// Type, and the source's name in `/proc/mounts`.
    pub fstype: &'static str,
    /// Where.
    pub target: &'static str,
    /// How.
    pub flags: MountFlags,
    /// Options of the file system itself.
    pub data: &'static CStr,
}

const SAFE: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NODEV);

/// What the initramfs mounts, in order; the new root gets them with the switch.
pub const EARLY: [Mount; 4] = [
    Mount {
        fstype: "devtmpfs",
        target: "/dev",
        flags: MountFlags::NOSUID.union(MountFlags::NOEXEC),
        data: c"mode=0755",
    },
    Mount {
        fstype: "proc",
        target: "/proc",
        flags: SAFE,
        data: c"",
    },
    Mount {
        fstype: "sysfs",
        target: "/sys",
        flags: SAFE,
        data: c"",
    },
    Mount {
        fstype: "tmpfs",
        target: "/run",
        flags: MountFlags::NOSUID.union(MountFlags::NODEV),
        data: c"mode=0755",
    },
];

/// What the second stage adds.
pub const LATE: [Mount; 4] = [
    Mount {
        fstype: "devpts",
        target: "/dev/pts",
        flags: MountFlags::NOSUID.union(MountFlags::NOEXEC),
        data: c"mode=0620,gid=5,ptmxmode=0666",
    },
    Mount {
        fstype: "tmpfs",
        target: "/dev/shm",
        flags: MountFlags::NOSUID.union(MountFlags::NODEV),
        data: c"mode=1777",
    },
    Mount {
        fstype: "tmpfs",
        target: "/tmp",
        flags: MountFlags::NOSUID.union(MountFlags::NODEV),
        data: c"mode=1777",
    },
    Mount {
        fstype: "tracefs",
        target: "/sys/kernel/tracing",
        flags: SAFE,
        data: c"",
    },
];

impl Mount {
    /// Mounts it, making the folder when it can; what is a mount point already stays as it is.
    ///
    /// # Errors
    /// With the kernel's reason.
    pub fn make(&self) -> Result<(), Failure> {
        if is_mount_point(Path::new(self.target)) {
            return Ok(());
        }
        let mut stage = span!(
            "init", "mount",
            target: str = self.target,
            fstype: str = self.fstype,
            flags: u32 [hex] = self.flags.bits(),
        );
        // On a read-only root this fails; then the folder is there already or mount() says so.
        let _ = fs::create_dir_all(self.target);
        mount(self.fstype, self.target, self.fstype, self.flags, self.data).map_err(|e| {
            stage.fail(e.raw_os_error());
            let advice = match e {
                Errno::NODEV => format!("build the kernel with {} in it", self.fstype),
                Errno::NOENT => format!("the image needs a folder {}", self.target),
                _ => "see the kernel's messages".to_owned(),
            };
            Failure::new(
                "mounting the kernel's file systems",
                format!("{} on {}: {e}", self.fstype, self.target),
                advice,
            )
            .errno(e)
        })
    }
}

/// Whether another file system begins at this folder.
pub fn is_mount_point(path: &Path) -> bool {
    let Some(parent) = path.parent() else {
        return true;
    };
    match (fs::symlink_metadata(path), fs::metadata(parent)) {
        (Ok(here), Ok(above)) => here.is_dir() && here.dev() != above.dev(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points() {
        assert!(is_mount_point(Path::new("/")));
        assert!(is_mount_point(Path::new("/proc")));
        assert!(!is_mount_point(Path::new("/proc/self")));
        assert!(!is_mount_point(Path::new("/no/such/place")));
    }
}
