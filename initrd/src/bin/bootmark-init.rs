//! PID 1 of the initramfs: from the first instruction to the exec of the real init. See docs/boot.md.
#![no_main]

use initrd::blockdev::describe_all;
use initrd::cmdline;
use initrd::console::{self, Console};
use initrd::emergency;
use initrd::failure::Failure;
use initrd::mounts::{EARLY, is_mount_point};
use initrd::newinit;
use initrd::options::{Break, Options};
use initrd::panic_after;
use initrd::rootdev::{self, RootSpec};
use initrd::rootfs;
use initrd::switch::switch_root;
use initrd::trace::{marker, span};
use rustix::io::Errno;
use rustix::process::Pid;
use std::ffi::{OsString, c_char, c_int};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Where the root file system is mounted before the switch.
const SYSROOT: &str = "/sysroot";

/// Instead of Rust's own start-up code, which aborts when the kernel found no console to open (it
/// insists on open descriptors 0 to 2, and there is no `/dev/null` yet) and which would run before the
/// first marker.
// SAFETY: the C library's start-up code calls this one `main`, once, with these arguments.
#[unsafe(no_mangle)]
pub extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    marker!("init", "start", stage: u8 [enum "none", "initramfs", "root"] = 1);
    let started = Instant::now();
    let mut console = Console::new("bootmark-init");
    if rustix::process::getpid() != Pid::INIT {
        console.alert("this is PID 1 of an initramfs; it does nothing when it is not");
        return 2;
    }
    let mut plan = Plan {
        options: Options::parse(&[]),
        broke: Vec::new(),
        started,
    };
    let path = loop {
        match plan.reach_root(&mut console) {
            Ok(path) => break path,
            Err(failure) => emergency::handle(&failure, plan.options.on_failure, &console),
        }
    };
    loop {
        // Comes back when the kernel refuses.
        let failure = exec(&path);
        emergency::handle(&failure, plan.options.on_failure, &console);
    }
}

/// What is to be done, kept over attempts.
struct Plan {
    options: Options,
    /// The stops that were made already: a second attempt does not stop there again.
    broke: Vec<Break>,
    /// When this process began.
    started: Instant,
}

impl Plan {
    /// Everything up to the switch; gives the path of the init to execute.
    fn reach_root(&mut self, console: &mut Console) -> Result<String, Failure> {
        let _whole = span!("init", "initramfs");
        let mounted = mounts();
        // Without /proc the defaults stay; with it the failure policy is known from here on.
        if let Some(options) = command_line() {
            self.options = options;
            console.set_quiet(self.options.quiet);
            for warning in &self.options.warnings {
                console.alert(warning);
            }
        }
        mounted?;
        if let Some(after) = self.options.panic_after.take() {
            panic_after::arm(after.saturating_sub(self.started.elapsed()), console);
        }
        let sysroot = Path::new(SYSROOT);
        // Somebody may have mounted it in the shell of a failed attempt.
        if !is_mount_point(sysroot) {
            self.mount(sysroot, console)?;
        }
        self.stop_at(Break::PostMount, console);
        let path = newinit::find(sysroot, self.options.init.as_deref())?;
        self.stop_at(Break::PreSwitch, console);
        switch_root(sysroot, console)?;
        Ok(path)
    }

    fn mount(&mut self, sysroot: &Path, console: &Console) -> Result<(), Failure> {
        let spec = self.root()?;
        let device = {
            let mut stage = span!("init", "wait_root", root: str = &spec.to_string());
            if !self.options.delay.is_zero() {
                let _delay = span!(
                    "init", "rootdelay",
                    seconds: u64 = self.options.delay.as_secs(),
                );
                std::thread::sleep(self.options.delay);
            }
            rootdev::wait(&spec, self.options.wait, console)
                .inspect_err(|failure| stage.fail(failure.errno))?
        };
        self.stop_at(Break::PreMount, console);
        console.say(&format!("the root device is {}", device.describe()));
        rootfs::mount_root(&device, &self.options, sysroot, console)
    }

    fn root(&self) -> Result<RootSpec, Failure> {
        const STEP: &str = "reading the command line";
        let advice = "set root=/dev/NAME, root=LABEL=NAME or root=UUID=NUMBER on the kernel \
                      command line";
        let what = match &self.options.root {
            None => "no root= on the kernel command line".to_owned(),
            Some(text) => match RootSpec::parse(text) {
                Ok(spec) => return Ok(spec),
                Err(why) => why,
            },
        };
        Err(Failure::new(STEP, what, advice)
            .found(describe_all())
            .errno(Errno::INVAL))
    }

    /// `rd.break`: a shell, once.
    fn stop_at(&mut self, place: Break, console: &Console) {
        if !self.options.breaks.contains(&place) || self.broke.contains(&place) {
            return;
        }
        self.broke.push(place);
        marker!("init", "break", place: str = place.name());
        console.alert(&format!(
            "stopped, as rd.break={} asks; leave the shell with `exit` to go on",
            place.name()
        ));
        if let Err(e) = emergency::shell("initramfs# ") {
            console.alert(&format!("no shell: {e}; going on"));
        }
    }
}

/// All of the mount table, so that as much as possible is there for whoever repairs the first failure.
fn mounts() -> Result<(), Failure> {
    let mut stage = span!("init", "mounts", count: u32 = EARLY.len() as u32);
    let mut first = Ok(());
    for mount in EARLY {
        let result = mount.make();
        if mount.target == "/dev" {
            // Nobody to tell if it fails; the kernel log has the rest then.
            let _ = console::ensure_standard_streams();
        }
        if let Err(failure) = result {
            stage.fail(failure.errno);
            first = first.and(Err(failure));
        }
    }
    first
}

fn command_line() -> Option<Options> {
    let mut stage = span!("init", "cmdline");
    let line = stage.result(cmdline::read()).ok()?;
    let params = cmdline::split(&line);
    marker!(
        "init", "cmdline_read",
        params: u32 = u32::try_from(params.len()).unwrap_or(u32::MAX),
        line: str = line.trim_end(),
    );
    Some(Options::parse(&params))
}

/// Becomes the real init, with the arguments and the environment that the kernel gave to this one.
fn exec(path: &str) -> Failure {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    marker!("init", "exec", path: str = path, args: u32 = args.len() as u32);
    let error = Command::new(path).args(args).exec();
    Failure::new(
        "starting the real init",
        format!("{path}: {error}"),
        "the program or its interpreter does not fit this kernel; boot with init=/bin/sh",
    )
    .errno(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
