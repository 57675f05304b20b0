//! A process to be looked at: `svc-target MODE`, with a marker `target:beat` every few milliseconds
//! where the mode lets it run. It prints `pid NUMBER` first.
//!
//! - `beat`: goes on until it is killed;
//! - `read`: blocks in read(2) of its standard input between two markers;
//! - `traced`: its child, whose number it prints, is stopped under ptrace;
//! - `zombie`: its child, whose number it prints, has ended and is not waited for.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use initrd::trace::{marker, span};

fn main() -> ExitCode {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let result = match mode.as_str() {
        "beat" => say(std::process::id()).map(|()| beat()),
        "read" => say(std::process::id()).and_then(|()| read()),
        "traced" => child(true),
        "zombie" => child(false),
        _ => {
            eprintln!("usage: svc-target beat|read|traced|zombie");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("svc-target: {error}");
            ExitCode::FAILURE
        }
    }
}

fn say(pid: u32) -> io::Result<()> {
    println!("pid {pid}");
    io::stdout().flush()
}

fn beat() {
    for number in 0_u64.. {
        let _span = span!("target", "turn", number: u64);
        marker!("target", "beat", level = notice, number: u64);
        thread::sleep(Duration::from_millis(5));
    }
}

/// Says how the read went: an interrupted one would be EINTR.
fn read() -> io::Result<()> {
    marker!("target", "before");
    let mut octet = [0];
    let read = io::stdin().read(&mut octet);
    marker!("target", "after", ret: i32 [errno] = match &read {
        Ok(_) => 0,
        Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
    });
    read.map(drop)
}

fn child(traced: bool) -> io::Result<()> {
    // SAFETY: there is one thread, so the child may do anything.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 {
        if traced {
            // SAFETY: takes no addresses.
            unsafe {
                libc::ptrace(libc::PTRACE_TRACEME);
                libc::raise(libc::SIGSTOP);
            }
            beat();
        }
        return Ok(());
    }
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let what = if traced {
        libc::WSTOPPED | libc::WNOWAIT
    } else {
        libc::WEXITED | libc::WNOWAIT
    };
    // SAFETY: the structure is ours.
    if unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, info.as_mut_ptr(), what) } != 0 {
        return Err(io::Error::last_os_error());
    }
    say(pid as u32)?;
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}
