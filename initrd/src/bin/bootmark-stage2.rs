//! `/sbin/init` of the demo image: the same PID 1 and the same trace as in the initramfs, now with
//! services, then the extractor, then the end. See docs/boot.md.
#![no_main]

use initrd::cmdline::{self, Param};
use initrd::console::{self, Console};
use initrd::emergency;
use initrd::leaks;
use initrd::mounts::{EARLY, LATE};
use initrd::newinit::is_executable;
use initrd::power::{self, Stop};
use initrd::service::supervisor::Supervisor;
use initrd::service::table::{self, Output};
use initrd::signals::Signals;
use initrd::trace::{marker, span};
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use rustix::process::Pid;
use rustix::system::{RebootCommand, reboot, sethostname};
use std::ffi::{c_char, c_int};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Where results go; the host fetches them from here.
const RESULTS: &str = "/var/lib/bootmark";
/// What the host wants run once the services are up.
const SCRIPT: &str = "/etc/bootmark/script";
const EXTRACTOR: &str = "/usr/bin/bootmark";
/// Longer than any extraction; an extractor that hangs must not hang the machine.
const EXTRACT_LIMIT: Duration = Duration::from_secs(600);
/// For services to end by themselves when the machine stops.
const GRACE: Duration = Duration::from_secs(2);

/// As in `bootmark-init`: instead of Rust's own start-up code.
// SAFETY: the C library's start-up code calls this one `main`, once, with these arguments.
#[unsafe(no_mangle)]
pub extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    marker!("init", "start", stage: u8 [enum "none", "initramfs", "root"] = 2);
    let mut console = Console::new("bootmark-stage2");
    if rustix::process::getpid() != Pid::INIT {
        console.alert("this is PID 1 of Bootmark's demo image; it does nothing when it is not");
        return 2;
    }
    let signals = Signals::block();
    // Ctrl-Alt-Del becomes SIGINT to us instead of an immediate restart.
    let _ = reboot(RebootCommand::CadOff);
    let _ = console::ensure_standard_streams();
    let mut problems = set_up(&mut console);
    let how = run(&signals, &console, &mut problems);
    finish(how, problems, &console)
}

/// What the command line wants of this image.
#[derive(Debug)]
struct Wishes {
    shell: bool,
    extract: bool,
    services: bool,
    quiet: bool,
}

impl Wishes {
    fn parse(params: &[Param]) -> Wishes {
        // As everywhere on the command line, the last one counts.
        let of = |name: &str, default| {
            params
                .iter()
                .rev()
                .find(|p| p.is(name))
                .map_or(default, |p| {
                    !matches!(p.value.as_deref(), Some("no" | "off" | "0"))
                })
        };
        Wishes {
            shell: of("bootmark.shell", false),
            extract: of("bootmark.extract", true),
            services: of("bootmark.services", true),
            quiet: of("quiet", false),
        }
    }
}

/// Makes the root file system usable; gives what went wrong and matters.
fn set_up(console: &mut Console) -> Vec<String> {
    let mut problems = Vec::new();
    {
        let _stage = span!("init", "mounts", count: u32 = (EARLY.len() + LATE.len()) as u32);
        // The first ones are there when an initramfs was there; the others are nice to have.
        for mount in EARLY {
            if let Err(failure) = mount.make() {
                problems.push(failure.what);
            }
        }
        for mount in LATE {
            // Somebody put files there for us, which a mount would hide.
            if mount.target == "/tmp" && has_entries("/tmp") {
                continue;
            }
            if let Err(failure) = mount.make() {
                console.say(&format!("goes without: {}", failure.what));
            }
        }
    }
    if let Err(e) = remount_writable() {
        problems.push(format!("the root file system stays read-only: {e}"));
    }
    let mut stage = span!("init", "hostname");
    if let Ok(name) = fs::read_to_string("/etc/hostname")
        && let Err(e) = sethostname(name.trim().as_bytes())
    {
        stage.fail(e.raw_os_error());
        console.say(&format!("cannot set the host name: {e}"));
    }
    for dir in ["/run/bootmark", RESULTS] {
        if let Err(e) = fs::create_dir_all(dir) {
            problems.push(format!("cannot make {dir}: {e}"));
        }
    }
    problems
}

fn has_entries(dir: &str) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

fn remount_writable() -> Result<(), Errno> {
    let now = rustix::fs::statvfs("/")?.f_flag;
    if !now.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    let mut stage = span!("init", "remount");
    // A remount sets all flags anew, so those that are set are named again.
    let kept = [
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::SYNCHRONOUS, MountFlags::SYNCHRONOUS),
    ];
    let flags = kept
        .into_iter()
        .filter(|(from, _)| now.contains(*from))
        .fold(MountFlags::empty(), |all, (_, to)| all | to);
    mount_remount("/", flags, c"").inspect_err(|e| stage.fail(e.raw_os_error()))
}

/// Services, then the script, then the shell, then the extractor.
fn run(signals: &Signals, console: &Console, problems: &mut Vec<String>) -> Stop {
    let params = cmdline::read().map(|line| cmdline::split(&line));
    let wishes = Wishes::parse(&params.unwrap_or_default());
    let services = if wishes.services {
        let (services, errors) = table::load(Path::new(table::DIR));
        problems.extend(errors.iter().map(|e| format!("service file {e}")));
        services
    } else {
        Vec::new()
    };
    if !wishes.quiet {
        console.say(&format!("starting {} services", services.len()));
    }
    let mut supervisor = Supervisor::new(services, signals, console);
    {
        let _stage = span!("init", "services");
        supervisor.run_services();
    }
    if !wishes.quiet {
        console.say(&supervisor.summary());
    }
    problems.extend(supervisor.fatal_failures());
    if supervisor.stop_asked().is_none() {
        if Path::new(SCRIPT).exists() {
            problems.extend(script(&mut supervisor).err());
        }
        if wishes.shell && supervisor.stop_asked().is_none() {
            shell(&mut supervisor, console);
        }
    }
    if wishes.extract {
        problems.extend(extract(&mut supervisor).err());
    }
    supervisor.stop_asked().unwrap_or(Stop::PowerOff)
}

fn shell(supervisor: &mut Supervisor<'_>, console: &Console) {
    let _stage = span!("init", "shell_session");
    console.alert("a shell on the console; `exit` extracts the trace and powers off");
    match emergency::start_shell("bootmark# ") {
        Ok(pid) => {
            supervisor.adopt(pid, None);
            // How it ends is the user's affair.
            let _ = supervisor.wait_task(pid);
        }
        Err(e) => console.alert(&format!("no shell: {e}")),
    }
}

/// Runs the host's script and leaves its exit status for the host.
fn script(supervisor: &mut Supervisor<'_>) -> Result<(), String> {
    let _stage = span!("init", "script");
    let output = Output::File(format!("{RESULTS}/script.log").into());
    let starts_itself = fs::read(SCRIPT).is_ok_and(|head| head.starts_with(b"#!"));
    let argv: Vec<String> = if starts_itself && is_executable(SCRIPT) {
        vec![SCRIPT.into()]
    } else {
        vec!["/bin/sh".into(), SCRIPT.into()]
    };
    let ending = supervisor
        .run_task(&argv, &output, None)
        .map_err(|e| format!("script: {e}"))?;
    marker!("init", "script_exit", status: i32 = ending.status, signal: i32 = ending.signal);
    fs::write(
        format!("{RESULTS}/script.status"),
        format!("{}\n", ending.shell_status()),
    )
    .map_err(|e| format!("cannot write {RESULTS}/script.status: {e}"))
}

/// The service that ends the trace: everything else is up, and storage can be written to.
fn extract(supervisor: &mut Supervisor<'_>) -> Result<(), String> {
    if !Path::new(EXTRACTOR).exists() {
        return Err(format!("no extractor: {EXTRACTOR} does not exist"));
    }
    let argv = [
        EXTRACTOR,
        "extract",
        "--output",
        &format!("{RESULTS}/trace"),
    ]
    .map(str::to_owned);
    marker!("init", "extract");
    let ending = supervisor
        .run_task(&argv, &Output::Console, Some(EXTRACT_LIMIT))
        .map_err(|e| format!("extraction: {e}"))?;
    if ending.is_good() {
        Ok(())
    } else {
        Err(format!("extraction: {ending}"))
    }
}

/// Ends everybody, secures the disk, says how it went (once) and stops the machine.
fn finish(how: Stop, mut problems: Vec<String>, console: &Console) -> ! {
    let killed = power::end_processes(GRACE);
    if killed > 0 {
        console.say(&format!("{killed} processes had to be killed"));
    }
    // Whatever a process keeps is no leak, so this comes when they are gone.
    problems.extend(leaks::report(console));
    rustix::fs::sync();
    if let Err(e) = mount_remount("/", MountFlags::RDONLY, c"") {
        problems.push(format!(
            "the root file system cannot be made read-only: {e}"
        ));
    }
    let outcome = if problems.is_empty() {
        "ok".to_owned()
    } else {
        format!("failed: {}", one_line(&problems.join("; ")))
    };
    // The host waits for this line, alone on it.
    let written = fs::File::options()
        .write(true)
        .open("/dev/console")
        .and_then(|mut tty| {
            tty.write_all(format!("\nbootmark-outcome: {outcome}\n").as_bytes())?;
            // The machine must not be off before the last word is out.
            Ok(rustix::termios::tcdrain(&tty)?)
        });
    if let Err(e) = written {
        let _ = writeln!(io::stderr(), "no console for the outcome ({outcome}): {e}");
    }
    power::stop(how, console);
    emergency::panic_kernel(console)
}

fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
