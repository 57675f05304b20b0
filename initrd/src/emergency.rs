//! Shells on the console, and what follows a failure.

use crate::console::{self, Console};
use crate::failure::Failure;
use crate::newinit::is_executable;
use crate::options::OnFailure;
use crate::power::{self, Stop};
use crate::signals;
use crate::trace::{marker, span};
use rustix::process::{Pid, WaitOptions, wait};
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The shell of both images.
const SHELL: &str = "/bin/sh";

/// Where programs are, in both images.
pub const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Exit status of PID 1 that makes the kernel's panic message say what this is about.
const PANIC_STATUS: i32 = 1;

/// Starts an interactive shell with job control on the console; the caller waits for it.
///
/// # Errors
/// When there is no console or no shell.
pub fn start_shell(prompt: &str) -> io::Result<Pid> {
    let (terminal, path) = console::open_terminal()?;
    if !is_executable(SHELL) {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("there is no {SHELL} in this image"),
        ));
    }
    marker!("init", "shell", terminal: str = &*path.to_string_lossy());
    let (input, output) = (terminal.try_clone()?, terminal.try_clone()?);
    let mut command = Command::new(SHELL);
    command
        .arg0(OsStr::new("-sh"))
        .stdin(input)
        .stdout(output)
        .stderr(terminal)
        .env("PS1", prompt)
        .env("HOME", "/root")
        .env("PATH", PATH);
    // SAFETY: the closure makes system calls and nothing else, which is allowed between fork and
    // exec; descriptor 0 is the terminal by then.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            signals::unblock_all();
            // 1: take it from whoever had it; a dead session leaves it behind now and then.
            if libc::ioctl(0, libc::TIOCSCTTY, 1) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let child = command.spawn()?;
    Ok(Pid::from_child(&child))
}

/// Runs such a shell until it ends, and reaps whatever else ends meanwhile.
///
/// # Errors
/// As [`start_shell`].
pub fn shell(prompt: &str) -> io::Result<()> {
    let _stage = span!("init", "shell_session");
    wait_for(start_shell(prompt)?);
    Ok(())
}

/// Waits for one child and takes the orphans that end before it.
fn wait_for(child: Pid) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, _))) if pid == child => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // No child at all.
            Err(_) => return,
        }
    }
}

/// Tells what failed and does what was asked for such a case. Returns when a shell was used and left,
/// so that the caller can try again.
pub fn handle(failure: &Failure, policy: OnFailure, console: &Console) {
    marker!(
        "init", "failed",
        level = error,
        step: str = failure.step,
        what: str = &failure.what,
        errno: i32 [errno] = -failure.errno,
    );
    console.alert(&failure.to_string());
    match policy {
        OnFailure::Shell => {
            console.alert("a shell follows; leave it with `exit` to try again");
            if let Err(e) = shell("initramfs# ") {
                console.alert(&format!("no shell: {e}"));
                panic_kernel(console);
            }
        }
        OnFailure::Reboot => {
            console.alert("restarting, as rd.onfail=reboot asks");
            power::stop(Stop::Reboot, console);
            panic_kernel(console);
        }
        OnFailure::PowerOff => {
            console.alert("powering off, as rd.onfail=poweroff asks");
            power::stop(Stop::PowerOff, console);
            panic_kernel(console);
        }
        OnFailure::Panic => panic_kernel(console),
    }
}

/// Ends PID 1, so that the kernel panics: it then restarts, dumps or stays as `panic=` says, and its
/// buffers are kept.
pub fn panic_kernel(console: &Console) -> ! {
    console.alert("giving up: the kernel does now what panic= says");
    rustix::fs::sync();
    console.drain();
    std::process::exit(PANIC_STATUS)
}
