//! Mounting the root file system.

use crate::blockdev::BlockDevice;
use crate::console::Console;
use crate::failure::Failure;
use crate::options::Options;
use crate::trace::{marker, span};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use std::ffi::CString;
use std::fs;
use std::path::Path;

const STEP: &str = "mounting the root file system";

/// Mounts the device at `target`.
///
/// Types are those of `rootfstype=`, else what the superblock says, else all that the kernel has for
/// block devices. A device that cannot be written to is mounted read-only with a warning.
///
/// # Errors
/// With every type that was tried and the kernel's answer to each.
pub fn mount_root(
    device: &BlockDevice,
    options: &Options,
    target: &Path,
    console: &Console,
) -> Result<(), Failure> {
    let node = device.node();
    let (mut flags, data) = split_flags(&options.rootflags);
    if options.read_only {
        flags |= MountFlags::RDONLY;
    }
    let data = CString::new(data).map_err(|_| {
        Failure::new(
            STEP,
            "rootflags= has a NUL in it",
            "correct the command line",
        )
    })?;
    fs::create_dir_all(target).map_err(|e| {
        Failure::new(
            STEP,
            format!("cannot make {}: {e}", target.display()),
            "the initramfs has to be writable; is it one?",
        )
    })?;
    let known = known_types();
    let types = candidates(device, options, &known)?;
    let mut stage = span!(
        "init", "mount_root",
        device: str = &device.name,
        types: str = &types.join(","),
        read_only: bool = flags.contains(MountFlags::RDONLY),
        flags: str = &options.rootflags,
    );
    let mut answers = Vec::new();
    let mut last = Errno::INVAL;
    for fstype in &types {
        let mut result = mount(&node, target, fstype.as_str(), flags, data.as_c_str());
        if matches!(result, Err(Errno::ROFS | Errno::ACCESS)) && !flags.contains(MountFlags::RDONLY)
        {
            let read_only = flags | MountFlags::RDONLY;
            result = mount(&node, target, fstype.as_str(), read_only, data.as_c_str());
            if result.is_ok() {
                console.alert(&format!(
                    "{} cannot be written to: the root file system is mounted read-only",
                    node.display()
                ));
            }
        }
        match result {
            Ok(()) => {
                marker!("init", "root_mounted", device: str = &device.name, fstype: str = fstype);
                return Ok(());
            }
            Err(e) => {
                answers.push(format!("{fstype}: {}", reason(e, fstype, &known)));
                last = e;
            }
        }
    }
    stage.fail(last.raw_os_error());
    Err(Failure::new(
        STEP,
        format!(
            "{} on {}: {}",
            node.display(),
            target.display(),
            answers.join("; ")
        ),
        "check rootfstype= and rootflags= on the kernel command line; the kernel's messages above \
         may say more",
    )
    .found(device.describe())
    .errno(last))
}

/// The types to try, in order.
fn candidates(
    device: &BlockDevice,
    options: &Options,
    known: &[String],
) -> Result<Vec<String>, Failure> {
    if !options.fstypes.is_empty() {
        return Ok(options.fstypes.clone());
    }
    match device.probe() {
        Ok(Some(sb)) if !sb.mountable => Err(Failure::new(
            STEP,
            format!(
                "{} holds {}, which cannot be mounted",
                device.node().display(),
                sb.fstype
            ),
            "root= has to name a device with a file system; encrypted volumes are not known here",
        )),
        Ok(Some(sb)) => Ok(vec![sb.fstype.to_owned()]),
        Ok(None) if known.is_empty() => Err(Failure::new(
            STEP,
            "this kernel has no file system for block devices",
            "build one into the kernel, CONFIG_EXT4_FS for example",
        )),
        Ok(None) => Ok(known.to_vec()),
        Err(e) => Err(Failure::new(
            STEP,
            format!("cannot read {}: {e}", device.node().display()),
            "the disk or its driver fails; the kernel's messages above may say more",
        )
        .errno(Errno::from_io_error(&e).unwrap_or(Errno::IO))),
    }
}

/// The kernel's answer in words that fit mount(2) better than the general ones.
fn reason(e: Errno, fstype: &str, known: &[String]) -> String {
    match e {
        Errno::NODEV if known.iter().any(|k| k == fstype) => e.to_string(),
        Errno::NODEV => format!(
            "this kernel does not know the type (it knows {})",
            if known.is_empty() {
                "none".into()
            } else {
                known.join(", ")
            }
        ),
        Errno::INVAL => format!("{e}: no such file system there, or an option it does not know"),
        _ => e.to_string(),
    }
}

/// What the kernel has for block devices.
fn known_types() -> Vec<String> {
    block_types(&fs::read_to_string("/proc/filesystems").unwrap_or_default())
}

fn block_types(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix('\t'))
        .map(str::to_owned)
        .collect()
}

/// Splits mount options into those that every file system has and the rest, as mount(8) does.
pub fn split_flags(options: &str) -> (MountFlags, String) {
    let mut flags = MountFlags::empty();
    let mut data = Vec::new();
    for option in options.split(',').filter(|o| !o.is_empty()) {
        let (set, clear) = match option {
            "ro" => (MountFlags::RDONLY, MountFlags::empty()),
            "rw" => (MountFlags::empty(), MountFlags::RDONLY),
            "nosuid" => (MountFlags::NOSUID, MountFlags::empty()),
            "suid" => (MountFlags::empty(), MountFlags::NOSUID),
            "nodev" => (MountFlags::NODEV, MountFlags::empty()),
            "dev" => (MountFlags::empty(), MountFlags::NODEV),
            "noexec" => (MountFlags::NOEXEC, MountFlags::empty()),
            "exec" => (MountFlags::empty(), MountFlags::NOEXEC),
            "noatime" => (MountFlags::NOATIME, MountFlags::empty()),
            "atime" => (MountFlags::empty(), MountFlags::NOATIME),
            "nodiratime" => (MountFlags::NODIRATIME, MountFlags::empty()),
            "relatime" => (MountFlags::RELATIME, MountFlags::empty()),
            "strictatime" => (MountFlags::STRICTATIME, MountFlags::empty()),
            "lazytime" => (MountFlags::LAZYTIME, MountFlags::empty()),
            "sync" => (MountFlags::SYNCHRONOUS, MountFlags::empty()),
            "dirsync" => (MountFlags::DIRSYNC, MountFlags::empty()),
            "defaults" => (MountFlags::empty(), MountFlags::empty()),
            other => {
                data.push(other);
                continue;
            }
        };
        flags = (flags | set) - clear;
    }
    (flags, data.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_flags_are_taken_out() {
        let (flags, data) = split_flags("noatime,data=ordered,,nodev,errors=remount-ro");
        assert_eq!(flags, MountFlags::NOATIME | MountFlags::NODEV);
        assert_eq!(data, "data=ordered,errors=remount-ro");
        assert_eq!(split_flags("nosuid,suid,ro,rw").0, MountFlags::empty());
        assert_eq!(split_flags(""), (MountFlags::empty(), String::new()));
    }

    #[test]
    fn types_for_block_devices() {
        assert_eq!(
            block_types("nodev\tsysfs\nnodev\ttmpfs\n\text4\n\tvfat\n"),
            ["ext4", "vfat"]
        );
    }
}
