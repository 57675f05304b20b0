//! The end: everything written, everybody gone, the machine off.

use crate::console::Console;
use crate::trace::marker;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use rustix::system::{RebootCommand, reboot};
use std::time::{Duration, Instant};

/// How the machine stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Off.
    PowerOff,
    /// Restart.
    Reboot,
    /// Stop, power on.
    Halt,
}

impl Stop {
    fn command(self) -> RebootCommand {
        match self {
            Stop::PowerOff => RebootCommand::PowerOff,
            Stop::Reboot => RebootCommand::Restart,
            Stop::Halt => RebootCommand::Halt,
        }
    }
}

/// Writes everything back and stops the machine; returns only when the kernel refuses.
pub fn stop(how: Stop, console: &Console) {
    marker!("init", "stop", how: u8 [enum "poweroff", "reboot", "halt"] = how as u8);
    rustix::fs::sync();
    console.drain();
    if let Err(e) = reboot(how.command()) {
        console.alert(&format!("the kernel does not stop the machine: {e}"));
    }
}

/// Ends all processes but this one (which has to be PID 1): SIGTERM, SIGHUP and SIGCONT, then after `grace` SIGKILL.
/// Returns how many needed the latter.
pub fn end_processes(grace: Duration) -> u32 {
    if every_process(Signal::TERM) {
        // Interactive shells end with their terminal only; stopped ones have to run to end.
        every_process(Signal::HUP);
        every_process(Signal::CONT);
        let until = Instant::now() + grace;
        while Instant::now() < until && reap_some() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    if !reap_some() || !every_process(Signal::KILL) {
        return 0;
    }
    // SIGKILL needs no agreement, so these waits end, except for what is stuck in the kernel.
    let mut killed = 0;
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => killed += 1,
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => break,
        }
    }
    killed
}

/// Takes the children that are dead; says whether others are left.
fn reap_some() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Signals everybody; says whether there was anybody. `kill(-1)` leaves out PID 1 and the caller.
fn every_process(signal: Signal) -> bool {
    // Never from anything but PID 1: this would end a developer's session.
    if rustix::process::getpid() != Pid::INIT {
        return false;
    }
    // rustix has no -1, by design; see kill(2).
    // SAFETY: kill() takes two numbers.
    unsafe { libc::kill(-1, signal.as_raw()) == 0 }
}

/// Ends one process.
pub fn signal(pid: Pid, signal: Signal) {
    // It may just have ended, which is what is wanted.
    let _ = kill_process(pid, signal);
}
