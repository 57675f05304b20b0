//! Programs that want more of the buffers than there is: `svc-limits MODE ...`. All of them know what
//! they tried, so that a trace can be held against it.
//!
//! - `count UID THREADS EVENTS`: as that user, THREADS threads one after the other and then the first
//!   one write EVENTS events `limits:tick` each;
//! - `crowd UID PROCESSES EVENTS`: so many processes, one after the other, write as many each;
//! - `killed EVENTS`: as many, then SIGKILL, before it has come to an end itself.
//!
//! Each writes a line `tried PID TID EVENTS` for each thread, of `crowd` only the sum.

use std::io::{self, Write};
use std::process::{self, ExitCode};
use std::thread;

use initrd::trace::marker;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mode = args.first().map(String::as_str).unwrap_or_default();
    let numbers: Option<Vec<u64>> = args.iter().skip(1).map(|text| text.parse().ok()).collect();
    let result = match (mode, numbers.as_deref()) {
        ("count", Some(&[uid, threads, events])) => become_user(uid).and_then(|()| {
            for _ in 0..threads {
                thread::spawn(move || count(events))
                    .join()
                    .map_err(|_| io::Error::other("a thread panicked"))??;
            }
            count(events)
        }),
        ("crowd", Some(&[uid, processes, events])) => {
            become_user(uid).and_then(|()| crowd(processes, events))
        }
        ("killed", Some(&[events])) => count(events).map(|()| {
            // SAFETY: takes no addresses.
            unsafe { libc::raise(libc::SIGKILL) };
        }),
        _ => {
            eprintln!(
                "usage: svc-limits count UID THREADS EVENTS | crowd UID PROCESSES EVENTS | killed EVENTS"
            );
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("svc-limits: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Root stays root.
fn become_user(uid: u64) -> io::Result<()> {
    // SAFETY: takes no addresses.
    if uid != 0 && unsafe { libc::setuid(uid as libc::uid_t) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn tick(events: u64) {
    for number in 0..events {
        marker!("limits", "tick", number: u64);
    }
}

fn count(events: u64) -> io::Result<()> {
    tick(events);
    // SAFETY: takes no addresses.
    let tid = unsafe { libc::gettid() };
    writeln!(io::stdout(), "tried {} {tid} {events}", process::id())
}

fn crowd(processes: u64, events: u64) -> io::Result<()> {
    for _ in 0..processes {
        // SAFETY: there is one thread, so the child may do anything.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        if pid == 0 {
            tick(events);
            // SAFETY: ends the process; nothing of the parent's is to be flushed.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: the status is ours.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid || status != 0 {
            return Err(io::Error::other(format!(
                "child {pid}: wait status {status}"
            )));
        }
    }
    writeln!(io::stdout(), "tried {}", processes * events)
}
