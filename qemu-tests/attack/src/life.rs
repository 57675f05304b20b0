//! What a process can do with itself and others: fork, execute, end, become another user, kill.

use std::ffi::CString;
use std::ptr;
use std::time::Duration;

use crate::shared::Count;
use crate::values::number;
use crate::worker::{Actor, events, watchdog};

/// Generations of processes below a worker.
const DEPTH: u8 = 3;

pub(crate) fn change(actor: &mut Actor) {
    match actor.rng.u8(0..24) {
        0..8 if actor.depth < DEPTH => fork(actor),
        8..11 if actor.depth < DEPTH => vfork(actor),
        11..14 => {
            let signals = [
                libc::SIGKILL,
                libc::SIGKILL,
                libc::SIGSEGV,
                libc::SIGABRT,
                libc::SIGTERM,
                libc::SIGSTOP,
                libc::SIGCONT,
            ];
            let signal = actor.rng.choice(signals).unwrap_or(libc::SIGKILL);
            let pid = actor.shared.any(actor.rng.usize(..));
            actor.shared.kill(pid, signal);
        }
        14 => name(actor),
        15 => {
            let user = || [0, 1000, 65534, u32::MAX];
            let mut id = || actor.rng.choice(user()).unwrap_or(0);
            let (real, effective, saved) = (id(), id(), id());
            // SAFETY: numbers.
            unsafe { libc::setresuid(real, effective, saved) };
        }
        16 => {
            let what = [
                libc::CLONE_NEWUSER,
                libc::CLONE_NEWPID,
                libc::CLONE_NEWNS,
                libc::CLONE_FILES,
                libc::CLONE_FS,
                libc::CLONE_NEWUSER | libc::CLONE_NEWPID,
            ];
            // SAFETY: numbers.
            unsafe { libc::unshare(actor.rng.choice(what).unwrap_or(0)) };
        }
        17 => {
            actor.open.clear();
            // Behind the page of counters, which what is executed needs.
            // SAFETY: whatever is open there is the fuzzer's.
            unsafe { libc::syscall(libc::SYS_close_range, 3, crate::shared::FD - 1, 0) };
        }
        18 => {
            let limit = libc::rlimit {
                rlim_cur: (1 << 24) + number(&mut actor.rng) % (1 << 30),
                rlim_max: 1 << 30,
            };
            // SAFETY: a structure of ours.
            unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
        }
        19 => {
            let dumpable = actor.rng.usize(0..3);
            // SAFETY: numbers.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, dumpable, 0, 0, 0) };
        }
        20 if actor.depth > 0 => end(actor),
        21 => {
            execute(actor);
        }
        _ => std::thread::yield_now(),
    }
}

fn name(actor: &mut Actor) {
    let octets: Vec<u8> = (0..actor.rng.usize(0..20))
        .map(|_| actor.rng.u8(1..))
        .collect();
    if let Ok(name) = CString::new(octets) {
        // SAFETY: a string that outlives the call.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
    }
}

/// A child that goes on for a while, and ends in one way or another.
fn fork(actor: &mut Actor) {
    let flags = match actor.rng.u8(0..6) {
        0 => libc::CLONE_FILES,
        1 => libc::CLONE_FS,
        2 => libc::CLONE_NEWPID,
        3 => libc::CLONE_NEWUSER,
        _ => 0,
    };
    actor.shared.count(Count::Forks);
    // SAFETY: without a stack and without CLONE_VM this is fork: the child has all to itself. The C
    // library's locks may be held by threads that it does not have; then the watchdog ends it.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, 0, 0, 0, 0) };
    if pid < 0 {
        return;
    }
    if pid == 0 {
        // Timers are not inherited.
        watchdog(Duration::from_secs(3));
        actor.depth += 1;
        actor.shared.enlist(actor.rng.usize(..));
        // Else it would do what its parent does.
        actor.rng = fastrand::Rng::with_seed(actor.rng.u64(..) ^ u64::from(std::process::id()));
        let steps = actor.rng.usize(1..40);
        actor.run(steps);
        end(actor);
        // SAFETY: takes a number; nothing of the parent's is to run at the end.
        unsafe { libc::_exit(0) };
    }
    wait(actor, pid as i32);
}

/// Waits in most cases; some stay zombies until their parent ends.
fn wait(actor: &mut Actor, pid: i32) {
    let flags = if actor.rng.u8(0..3) == 0 {
        libc::WNOHANG
    } else {
        0
    };
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(pid, ptr::null_mut(), flags) };
}

/// A child in its parent's memory, until it executes something.
fn vfork(actor: &mut Actor) {
    actor.shared.count(Count::Forks);
    let write = actor.rng.bool();
    let command = command(actor);
    // SAFETY: the parent waits until the child is done, and what the child does to its parent's
    // memory is what the library does in a vfork child: that is what is tried here.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone,
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            0,
            0,
            0,
            0,
        )
    };
    if pid == 0 {
        if write {
            events(&mut actor.rng);
        }
        command.execute();
        // SAFETY: takes a number.
        unsafe { libc::_exit(3) };
    }
    if pid > 0 {
        wait(actor, pid as i32);
    }
}

/// A program and its arguments, ready before a fork.
struct Command {
    argv: Vec<CString>,
}

impl Command {
    fn execute(&self) {
        let mut argv: Vec<*const libc::c_char> = self.argv.iter().map(|arg| arg.as_ptr()).collect();
        argv.push(ptr::null());
        // SAFETY: an array of strings with a null behind them; all outlive the call.
        unsafe { libc::execv(argv[0], argv.as_ptr()) };
    }
}

/// This program again: as the leaf in most cases, sometimes as one more worker.
fn command(actor: &mut Actor) -> Command {
    let mut words = vec!["/usr/bin/bootmark-attack".to_owned()];
    let left = actor
        .until
        .saturating_duration_since(std::time::Instant::now());
    if actor.rng.u8(0..4) == 0 {
        words.push("worker".to_owned());
        for (name, value) in [
            ("--target", "syscalls".to_owned()),
            ("--seed", actor.rng.u64(..).to_string()),
            ("--number", actor.number.to_string()),
            ("--uid", actor.uid.to_string()),
            ("--millis", left.as_millis().min(300).to_string()),
            ("--files", "/".to_owned()),
        ] {
            words.extend([name.to_owned(), value]);
        }
    } else {
        words.push("leaf".to_owned());
    }
    Command {
        argv: words
            .into_iter()
            .filter_map(|word| CString::new(word).ok())
            .collect(),
    }
}

fn execute(actor: &mut Actor) {
    actor.shared.count(Count::Execs);
    command(actor).execute();
}

/// Does not return in most cases.
fn end(actor: &mut Actor) {
    match actor.rng.u8(0..6) {
        0 => execute(actor),
        1 => {
            // SAFETY: a number.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        2 => std::process::abort(),
        3 => {
            // This thread only.
            // SAFETY: a number; nothing of this thread is used by others.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        _ => {
            // SAFETY: takes a number.
            unsafe { libc::_exit(actor.rng.i32(0..256)) };
        }
    }
}
