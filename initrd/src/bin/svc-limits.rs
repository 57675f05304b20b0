//! Programs that want more of the buffers than there is: `svc-limits MODE ...`. All of them know what
//! they tried, so that a trace can be held against it.
//!
//! - `count UID THREADS EVENTS`: as that user, THREADS threads one after the other and then the first
//!   one write EVENTS events `limits:tick` each;
//! - `crowd UID PROCESSES EVENTS`: so many processes, one after the other, write as many each;
//! - `killed EVENTS`: as many, then SIGKILL, before it has come to an end itself;
//! - `steady UID MS`: as that user, an event about every millisecond, for so long;
//! - `hog UID MS`: as that user, processes that write and fork as fast as they can, for so long;
//! - `ask UID`: the numbers of the errors that the user gets for wanting a chunk, and for turning on a
//!   marker of its own, 0 for none;
//! - `fleet PROCESSES`: so many at once, each of which writes an event for each line on standard input, and
//!   all of which end with it.
//!
//! Each writes a line `tried PID TID EVENTS` for each thread; `crowd` and `hog` only the sum, `fleet` a line
//! `turn NUMBER` when all have written.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::process::{self, ExitCode};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use initrd::trace::marker;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::pipe::pipe;

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
        ("steady", Some(&[uid, ms])) => {
            become_user(uid).and_then(|()| steady(Duration::from_millis(ms)))
        }
        ("hog", Some(&[uid, ms])) => hog(uid, Duration::from_millis(ms)),
        ("ask", Some(&[uid])) => become_user(uid).and_then(|()| ask()),
        ("fleet", Some(&[processes])) => fleet(processes),
        _ => {
            eprintln!("usage: svc-limits count|crowd|killed|steady|hog|ask|fleet NUMBERS");
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
    check(uid == 0 || unsafe { libc::setuid(uid as libc::uid_t) } == 0)
}

fn check(well: bool) -> io::Result<()> {
    if well {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A child of a process with one thread, which may do anything. 0 in the child.
fn fork() -> io::Result<libc::pid_t> {
    // SAFETY: there is one thread.
    let pid = unsafe { libc::fork() };
    check(pid >= 0).map(|()| pid)
}

fn end() -> ! {
    // SAFETY: ends the process; nothing of the parent's is to be flushed.
    unsafe { libc::_exit(0) }
}

/// Waits for a child, any when 0: its number, none when there is none that has ended.
fn reap(pid: libc::pid_t, options: libc::c_int) -> io::Result<Option<libc::pid_t>> {
    let mut status = 0;
    // SAFETY: the status is ours.
    let ended = unsafe { libc::waitpid(if pid == 0 { -1 } else { pid }, &raw mut status, options) };
    match ended {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            error => Err(error),
        },
        ended if status != 0 => Err(io::Error::other(format!("{ended}: wait status {status}"))),
        ended => Ok(Some(ended)),
    }
}

fn tick(number: u64) {
    marker!("limits", "tick", number: u64);
}

fn tried(events: u64) -> io::Result<()> {
    // SAFETY: takes no addresses.
    let tid = unsafe { libc::gettid() };
    writeln!(io::stdout(), "tried {} {tid} {events}", process::id())
}

fn count(events: u64) -> io::Result<()> {
    (0..events).for_each(tick);
    tried(events)
}

fn crowd(processes: u64, events: u64) -> io::Result<()> {
    for _ in 0..processes {
        let pid = fork()?;
        if pid == 0 {
            (0..events).for_each(tick);
            end();
        }
        reap(pid, 0)?;
    }
    writeln!(io::stdout(), "tried {}", processes * events)
}

fn steady(time: Duration) -> io::Result<()> {
    let begin = Instant::now();
    let mut number = 0;
    while begin.elapsed() < time {
        tick(number);
        number += 1;
        thread::sleep(Duration::from_millis(1));
    }
    tried(number)
}

/// What the processes of a hog or a fleet share.
struct Shared {
    stop: AtomicU64,
    events: AtomicU64,
    processes: AtomicU64,
}

fn shared() -> io::Result<&'static Shared> {
    let (len, flags) = (size_of::<Shared>(), MapFlags::SHARED);
    // SAFETY: a new mapping, which overlaps nothing.
    let at = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
        )?
    };
    // SAFETY: page-aligned, zero, never unmapped; any octets are atomics.
    Ok(unsafe { &*at.cast::<Shared>() })
}

/// Events of one process of a hog, and how many it has at once.
const HOG_EVENTS: u64 = 5000;
const HOG_PROCESSES: u64 = 48;

fn hog(uid: u64, time: Duration) -> io::Result<()> {
    let shared = shared()?;
    // SAFETY: takes no addresses.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } == 0)?;
    if fork()? == 0 {
        let limit = libc::rlimit {
            rlim_cur: HOG_PROCESSES,
            rlim_max: HOG_PROCESSES,
        };
        // SAFETY: the limit is ours.
        let limited = check(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) } == 0);
        if limited.and_then(|()| become_user(uid)).is_ok() {
            swarm(shared, true);
        }
        end();
    }
    let begin = Instant::now();
    while begin.elapsed() < time {
        // Those whose parent has ended before them.
        while reap(0, libc::WNOHANG)?.is_some() {}
        thread::sleep(Duration::from_millis(10));
    }
    shared.stop.store(1, Ordering::Relaxed);
    while reap(0, 0)?.is_some() {}
    let all = |count: &AtomicU64| count.load(Ordering::Relaxed);
    writeln!(io::stdout(), "hogs {}", all(&shared.processes))?;
    writeln!(io::stdout(), "tried {}", all(&shared.events))
}

/// A process of the hog, and all its children: there are always as many as there may be. The first
/// goes on to the end, the others end before it.
fn swarm(shared: &Shared, first: bool) {
    shared.processes.fetch_add(1, Ordering::Relaxed);
    let mut number = 0;
    while shared.stop.load(Ordering::Relaxed) == 0 {
        if number >= HOG_EVENTS && !first {
            break;
        }
        for _ in 0..100 {
            shared.events.fetch_add(1, Ordering::Relaxed);
            tick(number);
            number += 1;
        }
        while matches!(reap(0, libc::WNOHANG), Ok(Some(_))) {}
        if matches!(fork(), Ok(0)) {
            swarm(shared, false);
            end();
        }
    }
}

fn ask() -> io::Result<()> {
    let errno = |result: io::Result<()>| match result {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    };
    let mut args = bootbuf::abi::ReserveArgs::default();
    // SAFETY: bootbuf_reserve() reads and writes the structure, whose size it is told.
    let answer = unsafe {
        libc::syscall(
            bootbuf::abi::NR_BOOTBUF_RESERVE as libc::c_long,
            &raw mut args,
            size_of_val(&args),
        )
    };
    let chunk = errno(check(answer == 0));
    // Who has become another user may not look into itself before.
    // SAFETY: takes no addresses.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) } == 0)?;
    let own = File::options().write(true).open("/proc/self/bootmark");
    let marker = errno(own.and_then(|mut file| file.write_all(b"enable limits:asked\n")));
    marker!("limits", "asked");
    writeln!(io::stdout(), "asked {} {chunk} {marker}", process::id())
}

fn fleet(processes: u64) -> io::Result<()> {
    let shared = shared()?;
    // And one for the end.
    let lines: Vec<_> = (0..=TURNS).map(|_| pipe()).collect::<Result<_, _>>()?;
    for number in 0..processes {
        if fork()? == 0 {
            let lines = lines.into_iter().map(|(read, _)| File::from(read));
            sail(shared, lines.collect(), number);
            end();
        }
    }
    writeln!(io::stdout(), "afloat")?;
    let mut input = io::stdin().lock();
    let mut line = String::new();
    for (turn, (_, write)) in lines.into_iter().enumerate() {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            // All pipes close, and all end.
            break;
        }
        File::from(write).write_all(&vec![0; processes as usize])?;
        let all = processes * (turn as u64 + 1);
        while shared.events.load(Ordering::Relaxed) != all {
            thread::sleep(Duration::from_millis(10));
        }
        writeln!(io::stdout(), "turn {turn}")?;
    }
    Ok(())
}

/// Lines that a fleet is sent.
const TURNS: u64 = 3;

/// A process of the fleet. It ends when the first process does, which has the other end of all pipes.
fn sail(shared: &Shared, lines: Vec<File>, number: u64) {
    for (turn, mut line) in lines.into_iter().enumerate() {
        // Each reads one octet of each pipe.
        if !matches!(line.read(&mut [0]), Ok(1)) {
            break;
        }
        let turn = turn as u64;
        marker!("limits", "sail", number: u64, turn: u64);
        shared.events.fetch_add(1, Ordering::Relaxed);
    }
}
