//! One boot, described and run: the interface of tests and of `cargo xtask boot`.
//!
//! ```no_run
//! use qemu_tests::guest::Guest;
//!
//! let outcome = Guest::new()
//!     .rules("init:*,kernel:*")
//!     .script("bootmark status")
//!     .boot()?;
//! assert!(outcome.trace().exists());
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! [`Guest::boot`] is for boots that must go well: everything else than a guest that
//! powers off, says `bootmark-outcome: ok` once and draws no kernel warning is an
//! error with the console's tail. [`Guest::run`] is for boots that should fail: it
//! returns what happened.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::image::Layout;
use crate::kernel::Kernel;
use crate::outcome::Outcome;
use crate::progress::Step;
use crate::qemu::{self, Alarm, Machine, Run};
use crate::results::{self, ResultDir};
use crate::{image, kernel, lock, paths, programs};

/// The rules of a boot that names none.
pub const DEFAULT_RULES: &str = "init:*,svc:*,kernel:*";

/// A boot to be.
#[derive(Debug, Clone)]
pub struct Guest {
    out: Option<PathBuf>,
    source: Option<PathBuf>,
    config: String,
    initramfs: Option<Layout>,
    disk: Disk,
    without: Vec<String>,
    adds: Vec<(PathBuf, String)>,
    script: Option<Vec<u8>>,
    root: String,
    pool: String,
    rules: String,
    append: String,
    bootconfig: Option<String>,
    memory: u32,
    cpus: u32,
    counted: bool,
    timeout: Duration,
    reboots: bool,
    tolerated: Vec<Alarm>,
    typing: Vec<(String, String)>,
    extra: Vec<String>,
    alone: bool,
}

#[derive(Debug, Clone)]
enum Disk {
    /// A copy of the project's root image.
    Ours,
    /// This image, written to as it is.
    Image(PathBuf),
    /// No disk.
    None,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            out: None,
            source: None,
            config: kernel::default_config(),
            initramfs: None,
            disk: Disk::Ours,
            without: Vec::new(),
            adds: Vec::new(),
            script: None,
            root: format!("LABEL={}", image::ROOT_LABEL),
            pool: "16M".to_owned(),
            rules: DEFAULT_RULES.to_owned(),
            append: String::new(),
            bootconfig: None,
            memory: 512,
            cpus: 2,
            counted: false,
            timeout: Duration::from_secs(180),
            reboots: false,
            tolerated: Vec::new(),
            typing: Vec::new(),
            extra: Vec::new(),
            alone: true,
        }
    }
}

impl Guest {
    /// The project's own guest with the default rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// A guest about the kernel or the runner rather than about PID 1: an
    /// initramfs whose `/init` is this shell script ([`image::script_initramfs`]), no disk.
    ///
    /// # Errors
    /// When there is no static busybox on the host.
    pub fn with_init_script(script: &str) -> Result<Self> {
        Ok(Self {
            initramfs: Some(image::script_initramfs(script)?),
            disk: Disk::None,
            ..Self::default()
        })
    }

    /// Where results go. By default a folder of `target/guest-tests` named after
    /// the running test.
    pub fn out(mut self, dir: impl Into<PathBuf>) -> Self {
        self.out = Some(dir.into());
        self
    }

    /// The kernel source: a 6.12 tree or tarball instead of Debian's.
    pub fn kernel_source(mut self, source: Option<&Path>) -> Self {
        self.source = source.map(Path::to_owned);
        self
    }

    /// The kernel configuration: `small`, `off`, `debug`; without this call `small`, or what
    /// [`kernel::VARIABLE`] names. Time limit and memory grow by what it [needs](kernel::Needs).
    pub fn kernel(mut self, config: &str) -> Self {
        self.config = config.to_owned();
        self
    }

    /// Another initramfs than the project's.
    pub fn initramfs(mut self, layout: Layout) -> Self {
        self.initramfs = Some(layout);
        self
    }

    /// No disk at all.
    pub fn without_disk(mut self) -> Self {
        self.disk = Disk::None;
        self
    }

    /// This disk image instead of a copy of the project's root image; the guest
    /// writes to it. An [`Outcome::disk`] can be booted from again like this.
    pub fn disk(mut self, image: impl Into<PathBuf>) -> Self {
        self.disk = Disk::Image(image.into());
        self
    }

    /// Leaves a path out of the project's root image.
    pub fn without(mut self, path: &str) -> Self {
        self.without.push(path.to_owned());
        self
    }

    /// Copies a host file or folder into the root image at an absolute path.
    pub fn add(mut self, host: impl Into<PathBuf>, guest: &str) -> Self {
        self.adds.push((host.into(), guest.to_owned()));
        self
    }

    /// A script that the guest runs as root once its services are up, before
    /// the extractor. Without a `#!` line it is one for `/bin/sh`.
    pub fn script(mut self, text: impl Into<Vec<u8>>) -> Self {
        let text = text.into();
        self.script = Some(if text.starts_with(b"#!") {
            text
        } else {
            [b"#!/bin/sh\n".as_slice(), &text].concat()
        });
        self
    }

    /// What `root=` says (`LABEL=bootmark-root`).
    pub fn root(mut self, root: &str) -> Self {
        self.root = root.to_owned();
        self
    }

    /// What `bootbuf=` says (`16M`).
    pub fn pool(mut self, size: &str) -> Self {
        self.pool = size.to_owned();
        self
    }

    /// What `bootmark=` says; nothing for no rules at all.
    pub fn rules(mut self, rules: &str) -> Self {
        self.rules = rules.to_owned();
        self
    }

    /// Adds to the kernel command line.
    pub fn append(mut self, text: &str) -> Self {
        self.append = format!("{} {text}", self.append).trim().to_owned();
        self
    }

    /// A boot configuration behind the initramfs, and the parameter that makes the kernel read it.
    pub fn bootconfig(mut self, text: &str) -> Self {
        self.bootconfig = Some(text.to_owned());
        self.append("bootconfig")
    }

    /// Guest memory in MiB (512).
    pub fn memory(mut self, mib: u32) -> Self {
        self.memory = mib;
        self
    }

    /// Virtual CPUs (2).
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// Lets time in the guest be the number of instructions that it has executed, a nanosecond each.
    pub fn counted(mut self) -> Self {
        self.counted = true;
        self
    }

    /// The time limit of the run (180 s).
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Lets the guest reboot (its memory survives) instead of ending the run at a reset.
    pub fn reboots(mut self) -> Self {
        self.reboots = true;
        self
    }

    /// An alarm that is expected and does not end the run.
    pub fn tolerate(mut self, alarm: Alarm) -> Self {
        self.tolerated.push(alarm);
        self
    }

    /// Types `text` on the console once `seen` shows up there. Several of them
    /// happen in order.
    pub fn type_after(mut self, seen: &str, text: &str) -> Self {
        self.typing.push((seen.to_owned(), text.to_owned()));
        self
    }

    /// One more argument for QEMU.
    pub fn qemu_arg(mut self, arg: &str) -> Self {
        self.extra.push(arg.to_owned());
        self
    }

    /// Does not wait for other guests to end first. Tests do, since what they
    /// time is spoiled by another machine on the same processors.
    pub fn beside_others(mut self) -> Self {
        self.alone = false;
        self
    }

    /// The kernel command line.
    ///
    /// # Errors
    /// When the rules cannot be written on one.
    pub fn command_line(&self) -> Result<String> {
        let mut words = vec![
            "console=ttyS0".to_owned(),
            format!("root={}", self.root),
            // The kernel's check of the timer interrupt takes a busy host for
            // broken hardware, and panics.
            "rootwait rw tsc=reliable no_timer_check panic=-1".to_owned(),
        ];
        if !self.pool.is_empty() {
            words.push(format!("bootbuf={}", self.pool));
        }
        if !self.rules.is_empty() {
            if self.rules.contains(['"', '\n']) {
                bail!(
                    "the rules `{}` have a quote or line end in them: the kernel command line \
                     cannot carry that",
                    self.rules
                );
            }
            words.push(if self.rules.contains(char::is_whitespace) {
                format!("bootmark=\"{}\"", self.rules)
            } else {
                format!("bootmark={}", self.rules)
            });
        }
        words.push(self.append.clone());
        Ok(words.join(" ").trim().to_owned())
    }

    /// Boots, and expects it to go well.
    ///
    /// # Errors
    /// When something cannot be built or started, or the boot does not go well:
    /// see [`Outcome::check`].
    pub fn boot(self) -> Result<Outcome> {
        let outcome = self.run()?;
        outcome.check()?;
        Ok(outcome)
    }

    /// Boots, and returns what happened, good or bad.
    ///
    /// # Errors
    /// When something cannot be built or started, or the kernel's own checks have something to
    /// report ([`Outcome::unreported`]): no boot is meant to fail like that.
    pub fn run(self) -> Result<Outcome> {
        let prepared = self.prepare()?;
        let _turn = self
            .alone
            .then(|| lock::exclusive(&paths::target().join("guest-turn"), "is running a guest"))
            .transpose()?;
        let accel = qemu::accelerator(&prepared.machine.kernel)?;
        let step = Step::start("running the guest");
        let run = qemu::run(&prepared.machine, accel, &step)?;
        step.clear();
        let outcome = prepared.finish(run)?;
        outcome.unreported()?;
        Ok(outcome)
    }

    /// Boots with the console on this terminal, until the guest powers off.
    ///
    /// # Errors
    /// When something cannot be built or started.
    pub fn run_interactive(self) -> Result<Outcome> {
        let prepared = self.prepare()?;
        let accel = qemu::accelerator(&prepared.machine.kernel)?;
        let run = qemu::run_interactive(&prepared.machine, accel)?;
        prepared.finish(run)
    }

    /// Builds all that is needed and lays it out in the result directory.
    fn prepare(&self) -> Result<Prepared> {
        let command_line = self.command_line()?;
        let out = match &self.out {
            Some(out) => out.clone(),
            None => default_out(),
        };
        let dir = ResultDir::claim(&out)?;
        let kernel = kernel::kernel(self.source.as_deref(), &self.config)?;
        let mut machine = Machine::new(&kernel.image, &dir.join("console.log"));
        machine.command_line = command_line;
        let needs = kernel::Needs::of(&self.config);
        machine.memory = self.memory * needs.memory;
        machine.cpus = self.cpus;
        machine.counted = self.counted;
        machine.reboots = self.reboots;
        machine.tolerated.clone_from(&self.tolerated);
        machine.timeout = self.timeout * needs.time;
        machine.extra.clone_from(&self.extra);
        machine.typing.clone_from(&self.typing);
        machine.initramfs = Some(self.make_initramfs(&kernel, &dir)?);
        machine.disk = match &self.disk {
            Disk::None => None,
            Disk::Image(path) => Some(path.clone()),
            Disk::Ours => Some(self.make_disk(&dir)?),
        };
        Ok(Prepared { dir, machine })
    }

    fn make_initramfs(&self, kernel: &Kernel, dir: &ResultDir) -> Result<PathBuf> {
        let layout = match &self.initramfs {
            Some(layout) => layout.clone(),
            None => image::initramfs_layout(&programs::build()?)?,
        };
        let image = image::initramfs(&layout, kernel.has("CONFIG_RD_ZSTD")?)?;
        let copy = dir.join("initramfs");
        let cannot = || format!("cannot write {}", copy.display());
        fs::copy(&image, &copy).with_context(cannot)?;
        if let Some(text) = &self.bootconfig {
            let len = fs::metadata(&copy).with_context(cannot)?.len();
            let trailer = image::bootconfig_trailer(text, len);
            let mut file = fs::OpenOptions::new()
                .append(true)
                .open(&copy)
                .with_context(cannot)?;
            file.write_all(&trailer).with_context(cannot)?;
        }
        Ok(copy)
    }

    fn make_disk(&self, dir: &ResultDir) -> Result<PathBuf> {
        let mut layout = image::root_layout(&programs::build()?)?;
        let disk = dir.join("disk.ext4");
        if self.adds.is_empty() && self.script.is_none() && self.without.is_empty() {
            results::copy_sparse(&image::root(&layout)?, &disk)?;
            return Ok(disk);
        }
        for (host, guest) in &self.adds {
            if !guest.starts_with('/') || guest.split('/').any(|part| part == "..") {
                bail!("`{guest}` is no absolute path in the guest");
            }
            let guest = match guest.strip_suffix('/') {
                // As with cp: into the folder, under its own name.
                Some(folder) => {
                    let name = host.file_name().unwrap_or_default().to_string_lossy();
                    format!("{folder}/{name}")
                }
                None => guest.clone(),
            };
            layout.tree(host, guest.trim_start_matches('/'))?;
        }
        if let Some(script) = &self.script {
            layout.bytes(script, "etc/bootmark/script", 0o755);
        }
        for path in &self.without {
            layout.remove(path);
        }
        image::root_at(&layout, &disk)?;
        Ok(disk)
    }
}

struct Prepared {
    dir: ResultDir,
    machine: Machine,
}

impl Prepared {
    fn finish(self, run: Run) -> Result<Outcome> {
        let unfetched = self
            .machine
            .disk
            .as_ref()
            .and_then(|disk| self.dir.fetch(disk).err())
            .map(|error| format!("{error:#}"));
        let script_status = match fs::read_to_string(self.dir.join("script.status")) {
            Ok(text) => Some(text.trim().parse().with_context(|| {
                format!("the guest's script.status is `{}`, no number", text.trim())
            })?),
            Err(_) => None,
        };
        Ok(Outcome {
            script_log: fs::read(self.dir.join("script.log"))
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .unwrap_or_default(),
            script_status,
            dir: self.dir.path().to_owned(),
            console: run.console,
            ending: run.ending,
            took: run.took,
            unfetched,
        })
    }
}

/// A result directory named after the running test; a second guest of the same
/// test gets one of its own.
fn default_out() -> PathBuf {
    static COUNTS: Mutex<Option<HashMap<String, u32>>> = Mutex::new(None);

    let program = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .unwrap_or_default();
    // Cargo names a test's program with a hash, which changes with every build.
    let program = program
        .rsplit_once('-')
        .map_or(program.as_str(), |(p, _)| p);
    let test = std::thread::current()
        .name()
        .unwrap_or("guest")
        .replace("::", "-");
    let name = format!("{program}-{test}");
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let count = counts
        .get_or_insert_with(HashMap::new)
        .entry(name.clone())
        .or_insert(0);
    *count += 1;
    let name = match *count {
        1 => name,
        n => format!("{name}-{n}"),
    };
    paths::target().join("guest-tests").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_as_documented() {
        assert_eq!(
            Guest::new().command_line().unwrap(),
            "console=ttyS0 root=LABEL=bootmark-root rootwait rw tsc=reliable no_timer_check panic=-1 \
             bootbuf=16M bootmark=init:*,svc:*,kernel:*"
        );
        assert_eq!(
            Guest::new()
                .rules("")
                .append("init=/bin/sh")
                .append("quiet")
                .command_line()
                .unwrap(),
            "console=ttyS0 root=LABEL=bootmark-root rootwait rw tsc=reliable no_timer_check panic=-1 \
             bootbuf=16M init=/bin/sh quiet"
        );
        let quoted = Guest::new().rules("a:b if x > 1").command_line().unwrap();
        assert!(quoted.ends_with("bootmark=\"a:b if x > 1\""), "{quoted}");
        assert!(Guest::new().rules("a\"b").command_line().is_err());
    }

    #[test]
    fn two_guests_of_a_test_do_not_share_a_directory() {
        assert_ne!(default_out(), default_out());
    }
}
