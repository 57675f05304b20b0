//! The parameters that `bootmark-init` obeys; the table is in docs/boot.md.

use crate::cmdline::Param;
use std::time::Duration;

/// How long to wait for the root device when the command line does not say.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// A place at which `rd.break` gives a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The root device is there, nothing is mounted.
    PreMount,
    /// The root file system is mounted at `/sysroot`.
    PostMount,
    /// All is ready; next, the root is switched.
    PreSwitch,
}

impl Break {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Break::PreMount => "pre-mount",
            Break::PostMount => "post-mount",
            Break::PreSwitch => "pre-switch",
        }
    }
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// A shell on the console; leaving it tries again.
    Shell,
    /// Restart the machine.
    Reboot,
    /// Power off.
    PowerOff,
    /// PID 1 ends, so that the kernel panics and does what `panic=` says.
    Panic,
}

/// The command line as far as it concerns the initramfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `root=`, unparsed.
    pub root: Option<String>,
    /// `rootfstype=`: types to try, in order.
    pub fstypes: Vec<String>,
    /// `rootflags=`.
    pub rootflags: String,
    /// `ro` or `rw`, the last one wins; the kernel's default is `ro`.
    pub read_only: bool,
    /// How long to wait for the root device; `None` is for ever.
    pub wait: Option<Duration>,
    /// `rootdelay=`: wait before the first look at devices.
    pub delay: Duration,
    /// `init=`.
    pub init: Option<String>,
    /// `rd.break`, any number of them.
    pub breaks: Vec<Break>,
    /// `rd.onfail=`, `rd.shell`, `panic=`.
    pub on_failure: OnFailure,
    /// `quiet`: only failures are told.
    pub quiet: bool,
    /// `bootmark.panic_after=`: the kernel is to panic so long after PID 1's start.
    pub panic_after: Option<Duration>,
    /// What could not be understood, in words for the console.
    pub warnings: Vec<String>,
}

impl Options {
    /// Reads the options; what is not understood is ignored with a warning, since a machine that
    /// boots is worth more than a command line without mistakes.
    pub fn parse(params: &[Param]) -> Options {
        let mut o = Options {
            root: None,
            fstypes: Vec::new(),
            rootflags: String::new(),
            read_only: true,
            wait: Some(DEFAULT_WAIT),
            delay: Duration::ZERO,
            init: None,
            breaks: Vec::new(),
            on_failure: OnFailure::Shell,
            quiet: false,
            panic_after: None,
            warnings: Vec::new(),
        };
        let mut onfail = None;
        let mut shell = None;
        let mut panic_set = false;
        for p in params {
            let value = p.value.as_deref();
            if p.is("root") {
                o.root = value.map(str::to_owned);
            } else if p.is("rootfstype") {
                o.fstypes = list(value);
            } else if p.is("rootflags") {
                o.rootflags = value.unwrap_or_default().to_owned();
            } else if p.is("ro") && value.is_none() {
                o.read_only = true;
            } else if p.is("rw") && value.is_none() {
                o.read_only = false;
            } else if p.is("rootwait") {
                match value.map(seconds) {
                    None => o.wait = None,
                    Some(Some(limit)) => o.wait = Some(limit),
                    Some(None) => o.warn(p, "a number of seconds, or no value to wait for ever"),
                }
            } else if p.is("rootdelay") {
                match value.and_then(seconds) {
                    Some(delay) => o.delay = delay,
                    None => o.warn(p, "a number of seconds"),
                }
            } else if p.is("init") {
                o.init = value.filter(|v| !v.is_empty()).map(str::to_owned);
            } else if p.is("rd.break") {
                match value {
                    None | Some("") | Some("pre-switch") => o.breaks.push(Break::PreSwitch),
                    Some("pre-mount") => o.breaks.push(Break::PreMount),
                    Some("post-mount") => o.breaks.push(Break::PostMount),
                    Some(_) => o.warn(p, "pre-mount, post-mount or pre-switch"),
                }
            } else if p.is("rd.onfail") {
                match value {
                    Some("shell") => onfail = Some(OnFailure::Shell),
                    Some("reboot") => onfail = Some(OnFailure::Reboot),
                    Some("poweroff") => onfail = Some(OnFailure::PowerOff),
                    Some("panic") => onfail = Some(OnFailure::Panic),
                    _ => o.warn(p, "shell, reboot, poweroff or panic"),
                }
            } else if p.is("rd.shell") {
                match value {
                    None | Some("" | "1" | "yes" | "on") => shell = Some(true),
                    Some("0" | "no" | "off") => shell = Some(false),
                    Some(_) => o.warn(p, "yes or no"),
                }
            } else if p.is("panic") {
                panic_set = value
                    .and_then(|v| v.parse::<i32>().ok())
                    .is_some_and(|v| v != 0);
            } else if p.is("quiet") {
                o.quiet = true;
            } else if p.is("bootmark.panic_after") {
                match value.and_then(|text| text.parse().ok()) {
                    Some(ms) => o.panic_after = Some(Duration::from_millis(ms)),
                    None => o.warn(p, "a number of milliseconds"),
                }
            }
        }
        // Whoever sets panic= wants a machine that restarts on its own, not one that asks.
        o.on_failure = match (onfail, shell) {
            (Some(policy), _) => policy,
            (None, Some(true)) => OnFailure::Shell,
            (None, Some(false)) => OnFailure::Panic,
            (None, None) if panic_set => OnFailure::Panic,
            (None, None) => OnFailure::Shell,
        };
        o
    }

    fn warn(&mut self, p: &Param, wanted: &str) {
        let value = p.value.as_deref().unwrap_or_default();
        self.warnings.push(format!(
            "{}={value} on the command line is ignored: it takes {wanted}",
            p.name
        ));
    }
}

/// A whole number of seconds; a day is more than anybody waits for a disk, and adds up safely.
fn seconds(text: &str) -> Option<Duration> {
    let n: u64 = text.parse().ok()?;
    Some(Duration::from_secs(n.min(24 * 60 * 60)))
}

fn list(value: Option<&str>) -> Vec<String> {
    value
        .unwrap_or_default()
        .split(',')
        .filter(|t| !t.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmdline::split;
    use proptest::prelude::*;

    fn parse(line: &str) -> Options {
        Options::parse(&split(line))
    }

    #[test]
    fn defaults() {
        let o = parse("console=ttyS0");
        assert!(o.read_only && o.root.is_none() && o.init.is_none() && !o.quiet);
        assert_eq!(o.wait, Some(DEFAULT_WAIT));
        assert_eq!(o.on_failure, OnFailure::Shell);
        assert_eq!(o.warnings, [""; 0]);
    }

    #[test]
    fn everything_at_once() {
        let o = parse(
            "root=LABEL=x rootfstype=ext4,btrfs rootflags=noatime,data=ordered rw rootwait \
             rootdelay=2 init=/bin/sh rd.break=post-mount rd.break quiet bootmark.panic_after=250 \
             -- root=/dev/no",
        );
        assert_eq!(o.panic_after, Some(Duration::from_millis(250)));
        assert_eq!(o.root.as_deref(), Some("LABEL=x"));
        assert_eq!(o.fstypes, ["ext4", "btrfs"]);
        assert_eq!(o.rootflags, "noatime,data=ordered");
        assert!(!o.read_only && o.quiet);
        assert_eq!(o.wait, None);
        assert_eq!(o.delay, Duration::from_secs(2));
        assert_eq!(o.init.as_deref(), Some("/bin/sh"));
        assert_eq!(o.breaks, [Break::PostMount, Break::PreSwitch]);
    }

    #[test]
    fn the_last_one_wins() {
        let o = parse("root=/dev/vda rw rootwait root=/dev/vdb ro rootwait=3");
        assert_eq!(o.root.as_deref(), Some("/dev/vdb"));
        assert!(o.read_only);
        assert_eq!(o.wait, Some(Duration::from_secs(3)));
    }

    #[test]
    fn failure_policy() {
        assert_eq!(parse("panic=-1").on_failure, OnFailure::Panic);
        assert_eq!(parse("panic=0").on_failure, OnFailure::Shell);
        assert_eq!(parse("panic=-1 rd.shell").on_failure, OnFailure::Shell);
        assert_eq!(parse("rd.shell=0").on_failure, OnFailure::Panic);
        assert_eq!(
            parse("rd.shell rd.onfail=poweroff panic=5").on_failure,
            OnFailure::PowerOff
        );
    }

    #[test]
    fn mistakes_are_told() {
        let o = parse(
            "rootwait=soon rootdelay=-1 rd.break=never rd.onfail=cry rd.shell=perhaps \
             bootmark.panic_after=-1",
        );
        assert_eq!(o.warnings.len(), 6, "{:?}", o.warnings);
        assert_eq!(o.wait, Some(DEFAULT_WAIT));
        assert!(o.warnings[0].contains("rootwait=soon"));
    }

    proptest! {
        #[test]
        fn any_line_is_understood_or_warned_about(line in "\\PC*") {
            let _ = parse(&line);
        }

        #[test]
        fn any_number_of_seconds(n in any::<u64>()) {
            let wait = parse(&format!("rootwait={n}")).wait;
            prop_assert!(wait.unwrap() <= Duration::from_secs(86_400));
        }
    }
}
