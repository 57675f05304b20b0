//! The block devices that the kernel has found, with what is on them.

use crate::partition;
use crate::superblock::{self, Superblock};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// One disk or partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// The kernel's name, without `/dev/`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// Size in octets.
    pub bytes: u64,
    /// Where its partition table is, when it is a partition.
    pub table: Option<Table>,
    /// The partition table's UUID of this partition, if the kernel tells it (Linux 6.13 and newer).
    pub kernel_part_uuid: Option<String>,
    /// The partition table's name of this partition.
    pub part_name: Option<String>,
    /// Whether the kernel refuses writes to it.
    pub read_only: bool,
}

/// The place of a partition in the table of its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The disk's name.
    pub disk: String,
    /// Its logical blocks' size in octets.
    pub block: u64,
    /// The partition's number, from 1.
    pub number: u32,
}

impl BlockDevice {
    /// The partition table's UUID of this partition: the kernel's word, or the table's.
    pub fn part_uuid(&self) -> Option<String> {
        if self.kernel_part_uuid.is_some() {
            return self.kernel_part_uuid.clone();
        }
        let table = self.table.as_ref()?;
        let file = File::open(node(&table.disk)).ok()?;
        let read = |at, buf: &mut [u8]| read_full_at(&file, buf, at);
        partition::uuid(read, table.block, table.number).ok()?
    }

    /// The node in `/dev`; names with a slash have `!` in sysfs (`cciss!c0d0`).
    pub fn node(&self) -> PathBuf {
        node(&self.name)
    }

    /// Looks at the superblock.
    ///
    /// # Errors
    /// Those of opening and reading the device.
    pub fn probe(&self) -> io::Result<Option<Superblock>> {
        let file = File::open(self.node())?;
        superblock::probe(|at, buf| read_full_at(&file, buf, at))
    }

    /// One line for people: `vda (ext4 LABEL=root UUID=..., 256 MiB)`.
    pub fn describe(&self) -> String {
        let mut out = format!("{} (", self.name);
        match self.probe() {
            Ok(Some(sb)) => {
                out += sb.fstype;
                if let Some(label) = &sb.label {
                    let _ = write!(out, " LABEL={label}");
                }
                if let Some(uuid) = &sb.uuid {
                    let _ = write!(out, " UUID={uuid}");
                }
            }
            Ok(None) => out += "no known file system",
            Err(e) => {
                let _ = write!(out, "unreadable: {e}");
            }
        }
        if let Some(name) = &self.part_name {
            let _ = write!(out, " PARTLABEL={name}");
        }
        if let Some(uuid) = self.part_uuid() {
            let _ = write!(out, " PARTUUID={uuid}");
        }
        let _ = write!(out, ", {} MiB)", self.bytes >> 20);
        out
    }
}

/// Every block device with a size, sorted by name; empty loop devices and the like are no help to
/// anybody.
///
/// # Errors
/// Reading `/sys/class/block`; single devices that vanish meanwhile are left out.
pub fn list() -> io::Result<Vec<BlockDevice>> {
    list_in(Path::new("/sys/class/block"))
}

fn list_in(class: &Path) -> io::Result<Vec<BlockDevice>> {
    let mut devices = Vec::new();
    for entry in fs::read_dir(class)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        devices.extend(read_one(&entry.path(), name));
    }
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(devices)
}

/// All of them in one line, for people.
pub fn describe_all() -> String {
    match list() {
        Ok(devices) if devices.is_empty() => "no block device at all (is the disk's driver in the \
                                              kernel?)"
            .to_owned(),
        Ok(devices) => {
            let all: Vec<_> = devices.iter().map(BlockDevice::describe).collect();
            all.join(", ")
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            "no block device, since this kernel knows none (CONFIG_BLOCK)".to_owned()
        }
        Err(e) => format!("no list of block devices: /sys/class/block: {e}"),
    }
}

fn read_one(dir: &Path, name: String) -> Option<BlockDevice> {
    let attribute = |file| fs::read_to_string(dir.join(file)).ok();
    // The kernel counts sectors of 512 octets here, whatever the device's own are.
    let sectors: u64 = attribute("size")?.trim().parse().ok()?;
    if sectors == 0 {
        return None;
    }
    let uevent = attribute("uevent").unwrap_or_default();
    let of_uevent = |key: &str| {
        uevent.lines().find_map(|line| {
            let value = line.strip_prefix(key)?.strip_prefix('=')?;
            (!value.is_empty()).then(|| value.to_owned())
        })
    };
    Some(BlockDevice {
        number: number(attribute("dev")?.trim())?,
        bytes: sectors.saturating_mul(512),
        table: table(dir),
        kernel_part_uuid: of_uevent("PARTUUID"),
        part_name: of_uevent("PARTNAME"),
        read_only: attribute("ro").is_some_and(|ro| ro.trim() == "1"),
        name,
    })
}

/// The device's folder in sysfs lies in its disk's when it is a partition; only then it has a number.
fn table(dir: &Path) -> Option<Table> {
    let attribute = |file| fs::read_to_string(dir.join(file)).ok();
    let uevent = attribute("../uevent")?;
    Some(Table {
        number: attribute("partition")?.trim().parse().ok()?,
        block: attribute("../queue/logical_block_size")?
            .trim()
            .parse()
            .ok()?,
        disk: uevent
            .lines()
            .find_map(|l| l.strip_prefix("DEVNAME="))?
            .to_owned(),
    })
}

/// The node of a device by its name in sysfs or in an event.
fn node(name: &str) -> PathBuf {
    Path::new("/dev").join(name.replace('!', "/"))
}

/// Parses `major:minor`, both decimal.
pub fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Reads until the buffer is full or the device ends.
fn read_full_at(file: &File, buf: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], at + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(dir: &Path, name: &str, files: &[(&str, &str)]) {
        let device = dir.join(name);
        fs::create_dir(&device).unwrap();
        for (file, text) in files {
            fs::write(device.join(file), text).unwrap();
        }
    }

    #[test]
    fn reads_what_sysfs_says() {
        let dir = tempfile::tempdir().unwrap();
        fake(
            dir.path(),
            "vdb1",
            &[
                ("size", "2048\n"),
                ("dev", "254:17\n"),
                ("ro", "1\n"),
                ("uevent", "MAJOR=254\nPARTNAME=my root\nPARTUUID=ab-01\n"),
            ],
        );
        fake(
            dir.path(),
            "cciss!c0d0",
            &[("size", "4096"), ("dev", "104:0")],
        );
        fake(dir.path(), "loop0", &[("size", "0"), ("dev", "7:0")]);
        fake(dir.path(), "broken", &[("size", "x"), ("dev", "7:1")]);
        let all = list_in(dir.path()).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].node(), Path::new("/dev/cciss/c0d0"));
        let part = &all[1];
        assert_eq!((part.number, part.bytes), ((254, 17), 1 << 20));
        assert_eq!(part.part_name.as_deref(), Some("my root"));
        assert_eq!(part.part_uuid().as_deref(), Some("ab-01"));
        assert!(part.read_only);
    }

    #[test]
    fn device_numbers() {
        assert_eq!(number("8:1"), Some((8, 1)));
        for bad in ["8", "8:", ":1", "a:1", "8:1:2", "-1:2"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }
}
