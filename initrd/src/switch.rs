//! From the initramfs to the new root.

use crate::console::Console;
use crate::failure::Failure;
use crate::mounts::is_mount_point;
use crate::trace::{marker, span};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_move, unmount};
use std::fs;
use std::path::Path;

const STEP: &str = "switching to the new root";
const RAMFS_MAGIC: u64 = 0x8584_58f6;
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Folders below this depth stay; an initramfs has no such thing, and a limit keeps PID 1's stack.
const MAX_DEPTH: u32 = 64;

/// Makes the file system at `new_root` the root of everything and removes the initramfs' files, whose
/// memory nobody could free afterwards.
///
/// # Errors
/// Only before files are removed, so that one can try again (mounts that moved are made anew then). A
/// mount that cannot move is no error: it is let go, with a message.
pub fn switch_root(new_root: &Path, console: &Console) -> Result<(), Failure> {
    let mut stage = span!("init", "switch_root", target: str = &*new_root.to_string_lossy());
    let fail = |what: String, e: Errno| {
        Failure::new(STEP, format!("{what}: {e}"), "see the kernel's messages").errno(e)
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let old = rustix::fs::open("/", flags, Mode::empty())
        .map_err(|e| fail("cannot open the initramfs".into(), e))?;
    if !is_mount_point(new_root) {
        stage.fail(Errno::INVAL.raw_os_error());
        return Err(Failure::new(
            STEP,
            format!("nothing is mounted at {}", new_root.display()),
            "mount the root file system there",
        )
        .errno(Errno::INVAL));
    }
    for target in ["/dev", "/proc", "/sys", "/run"] {
        move_mount(target, new_root, console);
    }
    let result = rustix::process::chdir(new_root)
        .map_err(|e| fail(format!("cannot enter {}", new_root.display()), e))
        .and_then(|()| {
            mount_move(".", "/").map_err(|e| fail("cannot move the mount to /".into(), e))
        })
        .and_then(|()| rustix::process::chroot(".").map_err(|e| fail("chroot".into(), e)))
        .and_then(|()| rustix::process::chdir("/").map_err(|e| fail("chdir".into(), e)));
    if let Err(failure) = result {
        stage.fail(failure.errno);
        return Err(failure);
    }
    remove_initramfs(old);
    Ok(())
}

/// Moves one mount into the new root. What the new root has no place for is let go, since the root cannot
/// be switched from under it; the next init mounts what it needs.
fn move_mount(target: &str, new_root: &Path, console: &Console) {
    if !is_mount_point(Path::new(target)) {
        return;
    }
    let mut stage = span!("init", "move_mount", target: str = target);
    let place = new_root.join(target.trim_start_matches('/'));
    // A read-only root may lack it for good, then moving says so.
    let _ = fs::create_dir(&place);
    if let Err(e) = mount_move(target, &place) {
        stage.fail(e.raw_os_error());
        console.alert(&format!(
            "cannot move {target} to {}: {e}; it is unmounted",
            place.display()
        ));
        let _ = unmount(target, UnmountFlags::DETACH);
    }
}

/// Empties the old root, if it is one that lives in memory, and nothing that is mounted on it.
fn remove_initramfs(old: OwnedFd) {
    let Ok(stat) = rustix::fs::fstat(&old) else {
        return;
    };
    let in_memory = rustix::fs::fstatfs(&old)
        .is_ok_and(|fs| matches!(fs.f_type as u64, RAMFS_MAGIC | TMPFS_MAGIC));
    if !in_memory {
        return;
    }
    let _stage = span!("init", "cleanup");
    let files = remove_below(&old, stat.st_dev, 0);
    marker!("init", "cleaned", files: u32);
}

/// Removes what is in a folder as long as it is on the device; says how many names went.
fn remove_below(dir: &OwnedFd, device: u64, depth: u32) -> u32 {
    let Ok(entries) = Dir::read_from(dir) else {
        return 0;
    };
    let mut removed = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        if stat.st_dev != device {
            continue;
        }
        let mut how = AtFlags::empty();
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            how = AtFlags::REMOVEDIR;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if depth < MAX_DEPTH
                && let Ok(inner) = rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty())
            {
                removed += remove_below(&inner, device, depth + 1);
            }
        }
        removed += u32::from(rustix::fs::unlinkat(dir, name, how).is_ok());
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn open(path: &Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn removes_everything_below_but_nothing_behind_links() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("keep"), "x").unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::write(root.join("a/b/file"), "x").unwrap();
        symlink(outside.path(), root.join("link")).unwrap();
        let device = fs::metadata(&root).unwrap().dev();
        assert_eq!(remove_below(&open(&root), device, 0), 5);
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        assert!(outside.path().join("keep").exists());
    }

    #[test]
    fn other_devices_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        let device = fs::metadata(dir.path()).unwrap().dev();
        assert_eq!(remove_below(&open(dir.path()), device + 1, 0), 0);
        assert!(dir.path().join("file").exists());
    }

    #[test]
    fn folders_that_are_too_deep_stay() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("deep")).unwrap();
        fs::write(dir.path().join("deep/file"), "x").unwrap();
        let device = fs::metadata(dir.path()).unwrap().dev();
        assert_eq!(remove_below(&open(dir.path()), device, MAX_DEPTH), 0);
        assert!(dir.path().join("deep/file").exists());
    }
}
