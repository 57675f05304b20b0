//! `root=`: its forms, and waiting for the device it names.

use crate::blockdev::{self, BlockDevice};
use crate::console::Console;
use crate::failure::Failure;
use crate::superblock::Superblock;
use crate::trace::marker;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, inotify};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::collections::HashMap;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const STEP: &str = "finding the root device";

/// What `root=` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootSpec {
    /// A node: `/dev/vda1`; `vda1` alone means the same.
    Node(PathBuf),
    /// `major:minor`, decimal.
    Number(u32, u32),
    /// `LABEL=`, the file system's.
    Label(String),
    /// `UUID=`, the file system's.
    Uuid(String),
    /// `PARTLABEL=`, from the partition table.
    PartLabel(String),
    /// `PARTUUID=`, from the partition table.
    PartUuid(String),
}

impl RootSpec {
    /// Parses the value of `root=`.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn parse(text: &str) -> Result<RootSpec, String> {
        let tag = |value: &str, what: &str| match unescape(value) {
            v if v.is_empty() => Err(format!("root={text} names no {what}")),
            v => Ok(v),
        };
        if text.is_empty() {
            return Err("root= is empty".into());
        }
        if let Some((key, value)) = text.split_once('=') {
            return match key {
                "LABEL" => Ok(RootSpec::Label(tag(value, "label")?)),
                "UUID" => Ok(RootSpec::Uuid(tag(value, "UUID")?)),
                "PARTLABEL" => Ok(RootSpec::PartLabel(tag(value, "partition name")?)),
                "PARTUUID" if value.contains('/') => {
                    Err(format!("root={text}: PARTNROFF is not known here"))
                }
                "PARTUUID" => Ok(RootSpec::PartUuid(tag(value, "partition UUID")?)),
                _ => Err(format!("root={text}: {key}= is not known here")),
            };
        }
        if matches!(text, "/dev/nfs" | "/dev/cifs" | "/dev/ram") {
            return Err(format!(
                "root={text} is not known here: only block devices are"
            ));
        }
        if let Some((major, minor)) = blockdev::number(text) {
            return Ok(RootSpec::Number(major, minor));
        }
        let path = if text.starts_with('/') {
            PathBuf::from(text)
        } else {
            PathBuf::from("/dev").join(text)
        };
        // It is looked for below /dev, and nowhere above it.
        if !path.starts_with("/dev") || path.components().any(|c| c.as_os_str() == "..") {
            return Err(format!("root={text} is not a device in /dev"));
        }
        Ok(RootSpec::Node(path))
    }

    /// Whether this device is meant, as far as that is known without reading from it.
    fn names(&self, device: &BlockDevice) -> bool {
        match self {
            RootSpec::Node(path) => *path == device.node(),
            RootSpec::Number(major, minor) => (*major, *minor) == device.number,
            RootSpec::PartLabel(name) => device.part_name.as_ref() == Some(name),
            RootSpec::PartUuid(uuid) => device
                .part_uuid()
                .is_some_and(|u| u.eq_ignore_ascii_case(uuid)),
            RootSpec::Label(_) | RootSpec::Uuid(_) => false,
        }
    }

    /// Whether the superblock is the one that is meant.
    fn is_on(&self, superblock: &Superblock) -> bool {
        match self {
            RootSpec::Label(label) => superblock.label.as_ref() == Some(label),
            RootSpec::Uuid(uuid) => superblock
                .uuid
                .as_ref()
                .is_some_and(|u| u.eq_ignore_ascii_case(uuid)),
            _ => false,
        }
    }

    /// Whether superblocks have to be read to find it.
    fn needs_probe(&self) -> bool {
        matches!(self, RootSpec::Label(_) | RootSpec::Uuid(_))
    }
}

impl fmt::Display for RootSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RootSpec::Node(path) => write!(f, "{}", path.display()),
            RootSpec::Number(major, minor) => write!(f, "{major}:{minor}"),
            RootSpec::Label(v) => write!(f, "LABEL={v}"),
            RootSpec::Uuid(v) => write!(f, "UUID={v}"),
            RootSpec::PartLabel(v) => write!(f, "PARTLABEL={v}"),
            RootSpec::PartUuid(v) => write!(f, "PARTUUID={v}"),
        }
    }
}

/// Undoes the `\x20` by which labels with spaces are written where quotes are in the way.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\\x") {
        let code = rest
            .get(at + 2..at + 4)
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.extend_from_slice(&rest.as_bytes()[..at]);
        match code {
            Some(octet) => {
                out.push(octet);
                rest = &rest[at + 4..];
            }
            None => {
                out.extend_from_slice(b"\\x");
                rest = &rest[at + 2..];
            }
        }
    }
    out.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

/// Waits until the device is there.
///
/// Looks again whenever something appears in `/dev`, and at growing intervals besides, since a label can
/// appear on a device that has been there all along. Says every few seconds what it waits for.
///
/// # Errors
/// When `limit` is over (`None` waits for ever), with what there is instead.
pub fn wait(
    spec: &RootSpec,
    limit: Option<Duration>,
    console: &Console,
) -> Result<BlockDevice, Failure> {
    let started = Instant::now();
    let watch = watch_dev();
    let mut seen = Seen::default();
    let mut pause = Duration::from_millis(10);
    let mut tell_at = Duration::from_secs(3);
    let mut tell_gap = tell_at;
    loop {
        if let Some(device) = look(spec, &mut seen) {
            let waited = started.elapsed();
            marker!(
                "init", "root_found",
                device: str = &device.name,
                major: u32 = device.number.0,
                minor: u32 = device.number.1,
                waited: u64 [ns] = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX),
            );
            return Ok(device);
        }
        let waited = started.elapsed();
        if limit.is_some_and(|limit| waited >= limit) {
            return Err(Failure::new(
                STEP,
                format!("{spec} did not appear in {} s", waited.as_secs()),
                "check root= on the kernel command line; if the device is slow, add rootwait, or \
                 rootwait=SECONDS",
            )
            .found(blockdev::describe_all())
            .errno(Errno::NXIO));
        }
        if waited >= tell_at {
            tell_at = waited + tell_gap;
            tell_gap = (tell_gap * 2).min(Duration::from_secs(60));
            let limit = limit.map_or("no limit".into(), |l| format!("at most {} s", l.as_secs()));
            console.say(&format!(
                "waiting for the root device {spec} for {} s now ({limit}); there is: {}",
                waited.as_secs(),
                blockdev::describe_all()
            ));
            marker!("init", "root_wait", waited_s: u64 = waited.as_secs());
        }
        let left = limit.map_or(pause, |limit| limit.saturating_sub(waited).min(pause));
        sleep_or_event(watch.as_ref(), left);
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

/// Superblocks of devices that did not change are not read again at every look.
#[derive(Default)]
struct Seen(HashMap<String, (u64, u32)>);

impl Seen {
    /// How often an unchanged device is looked at nevertheless: somebody may be making a file system.
    const AGAIN: u32 = 8;

    /// Whether this one can be passed over; if not, it is to be read now.
    fn skip(&mut self, device: &BlockDevice) -> bool {
        match self.0.get_mut(&device.name) {
            Some((bytes, looks)) if *bytes == device.bytes && *looks < Self::AGAIN => {
                *looks += 1;
                true
            }
            _ => false,
        }
    }

    /// It was read, and was not what is wanted. One that could not be read (its node comes a moment
    /// after its entry in sysfs) is not noted, hence tried at the next look.
    fn note(&mut self, device: &BlockDevice) {
        self.0.insert(device.name.clone(), (device.bytes, 0));
    }
}

fn look(spec: &RootSpec, seen: &mut Seen) -> Option<BlockDevice> {
    let devices = blockdev::list().unwrap_or_default();
    let found = if spec.needs_probe() {
        devices.into_iter().find(|device| {
            if seen.skip(device) {
                return false;
            }
            match device.probe() {
                Ok(Some(sb)) if sb.mountable && spec.is_on(&sb) => true,
                Ok(_) => {
                    seen.note(device);
                    false
                }
                Err(_) => false,
            }
        })
    } else {
        devices
            .into_iter()
            .find(|device| spec.names(device))
            .or_else(|| by_link(spec))
    };
    // The node comes a moment after the entry in sysfs.
    found.filter(|device| device.node().exists())
}

/// A node that is a link or a second name of a device: what counts is its number.
fn by_link(spec: &RootSpec) -> Option<BlockDevice> {
    let RootSpec::Node(path) = spec else {
        return None;
    };
    let stat = rustix::fs::stat(path).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return None;
    }
    let number = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    blockdev::list()
        .ok()?
        .into_iter()
        .find(|device| device.number == number)
}

/// Tells when something is made in `/dev`. Without it, looking now and then is enough.
fn watch_dev() -> Option<OwnedFd> {
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let watch = inotify::init(flags).ok()?;
    let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::ATTRIB;
    inotify::add_watch(&watch, "/dev", events).ok()?;
    Some(watch)
}

fn sleep_or_event(watch: Option<&OwnedFd>, timeout: Duration) {
    let Some(watch) = watch else {
        std::thread::sleep(timeout);
        return;
    };
    let timeout = Timespec::try_from(timeout).unwrap_or_default();
    let mut fds = [PollFd::new(watch, PollFlags::IN)];
    if poll(&mut fds, Some(&timeout)).is_ok_and(|n| n > 0) {
        // What it says does not matter, only that it is empty afterwards.
        let mut events = [0_u8; 4096];
        while rustix::io::read(watch.as_fd(), &mut events).is_ok_and(|n| n > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn device() -> BlockDevice {
        BlockDevice {
            name: "vda1".into(),
            number: (254, 1),
            bytes: 1 << 20,
            table: None,
            kernel_part_uuid: Some("AB-01".into()),
            part_name: Some("my root".into()),
            read_only: false,
        }
    }

    #[test]
    fn forms() {
        let parse = |text| RootSpec::parse(text).unwrap();
        assert_eq!(parse("/dev/vda1"), RootSpec::Node("/dev/vda1".into()));
        assert_eq!(parse("vda1"), RootSpec::Node("/dev/vda1".into()));
        assert_eq!(parse("254:1"), RootSpec::Number(254, 1));
        assert_eq!(parse("LABEL=a=b"), RootSpec::Label("a=b".into()));
        assert_eq!(parse("LABEL=a\\x20b"), RootSpec::Label("a b".into()));
        assert_eq!(parse("UUID=0A"), RootSpec::Uuid("0A".into()));
        assert_eq!(parse("PARTLABEL=x"), RootSpec::PartLabel("x".into()));
        assert_eq!(parse("PARTUUID=y"), RootSpec::PartUuid("y".into()));
    }

    #[test]
    fn what_is_refused_says_why() {
        for bad in [
            "",
            "LABEL=",
            "UUID=",
            "/dev/nfs",
            "ID=x",
            "PARTUUID=a/PARTNROFF=1",
            "/etc/passwd",
            "/dev/../etc/passwd",
            "/devious",
        ] {
            let why = RootSpec::parse(bad).expect_err(bad);
            assert!(why.starts_with("root="), "{why}");
        }
    }

    #[test]
    fn devices_that_are_meant() {
        let names = |text: &str| RootSpec::parse(text).unwrap().names(&device());
        assert!(names("/dev/vda1") && names("254:1"));
        assert!(names("PARTUUID=ab-01") && names("PARTLABEL=my\\x20root"));
        assert!(!names("vda") && !names("PARTLABEL=MY ROOT") && !names("LABEL=vda1"));
    }

    #[test]
    fn superblocks_that_are_meant() {
        let sb = Superblock {
            fstype: "ext4",
            mountable: true,
            label: Some("root".into()),
            uuid: Some("0a-0b".into()),
        };
        let is_on = |text: &str| RootSpec::parse(text).unwrap().is_on(&sb);
        assert!(is_on("LABEL=root") && is_on("UUID=0A-0B"));
        assert!(!is_on("LABEL=ROOT") && !is_on("UUID=0a-0") && !is_on("/dev/vda"));
    }

    #[test]
    fn shown_as_written() {
        for text in ["/dev/vda1", "8:1", "LABEL=x", "UUID=y", "PARTUUID=z"] {
            assert_eq!(RootSpec::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn unescape_leaves_the_rest() {
        assert_eq!(unescape("a\\x2fb\\xzz\\x"), "a/b\\xzz\\x");
        assert_eq!(unescape("\\x4"), "\\x4");
        assert_eq!(unescape("\\x\u{e9}1"), "\\x\u{e9}1");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC*") {
            let _ = RootSpec::parse(&text);
        }
    }
}
