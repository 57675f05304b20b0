//! Kills processes in the middle of writing events, many of them, and testifies what each had committed.
//!
//! `svc-mortal kill COUNT SEED LOG` starts COUNT writers one after the other and ends each at a random
//! instant in a random way, while `bootmark extract` takes the trace every now and then. LOG gets a
//! line of JSON for each: its number, how it was ended, its process id and wait status, and for each of
//! its threads the id, how many events it had begun and how many of those it had committed.
//!
//! The numbers stand in memory that both share. A thread raises `begun` before each event and
//! `committed` after it, so a trace must have all that were committed, and may have the one that was begun.

use initrd::trace::marker;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, setrlimit, waitpid,
};
use rustix::thread::gettid;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: svc-mortal kill COUNT SEED LOG";
/// Threads of a writer, the first one included.
const THREADS: usize = 3;
/// What a writer that calls exec becomes: a program that writes a few events and crashes.
const NEXT: &str = "/usr/lib/bootmark/services/svc-killed";
/// Events that it writes.
const NEXT_EVENTS: &str = "5";
/// Where writers that are to run out of memory live.
const CGROUP: &str = "/run/bootmark/mortal-cgroup";
const CGROUP_LIMIT: &str = "8M";
/// Events after which a writer takes its time, so that a trace of all lives can be gone through when the
/// machine is busy and the end of one comes late ...
const MANY: u64 = 100;
/// ... namely so many turns of the loop.
const LONG_PAUSE: u32 = 200_000;
/// Extractions on the way.
const EXTRACTIONS: u32 = 4;

/// What both processes see.
#[repr(C)]
struct Shared {
    /// Not 0 once the first thread has written an event.
    ready: AtomicU32,
    /// What is to be done, [`Order`], and by which thread in the bits from 8 on; 0 for nothing yet.
    order: AtomicU32,
    /// Turns of the loop between two events.
    pause: AtomicU32,
    threads: [Slot; THREADS],
}

#[repr(C)]
struct Slot {
    tid: AtomicU64,
    begun: AtomicU64,
    committed: AtomicU64,
}

/// How a writer is ended; all but the first by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Order {
    Kill = 1,
    Segv,
    Abort,
    Exit,
    Exec,
    Memory,
}

impl Order {
    /// One in a hundred draws each of these, the others are killed.
    const RARE: [(Self, u64); 5] = [
        (Self::Segv, 8),
        (Self::Abort, 6),
        (Self::Exit, 6),
        (Self::Exec, 8),
        (Self::Memory, 2),
    ];

    fn draw(random: &mut Random) -> Self {
        let mut draw = random.below(100);
        for (order, share) in Self::RARE {
            if draw < share {
                return order;
            }
            draw -= share;
        }
        Self::Kill
    }

    fn from_number(number: u32) -> Option<Self> {
        let all = [
            Self::Segv,
            Self::Abort,
            Self::Exit,
            Self::Exec,
            Self::Memory,
        ];
        all.into_iter().find(|order| *order as u32 == number)
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["kill", count, seed, log] => match (count.parse(), seed.parse()) {
            (Ok(count), Ok(seed)) => kill_many(count, Random(seed), Path::new(log)),
            _ => Err(io::Error::other(USAGE)),
        },
        ["write", fd, round] => match (fd.parse(), round.parse()) {
            (Ok(fd), Ok(round)) => write(fd, round),
            _ => Err(io::Error::other(USAGE)),
        },
        _ => Err(io::Error::other(USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("svc-mortal: {e}");
            ExitCode::FAILURE
        }
    }
}

/// A small generator of numbers (SplitMix64): instants need no better one.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn map(fd: BorrowedFd<'_>) -> io::Result<&'static Shared> {
    // SAFETY: a new mapping, which overlaps nothing; nobody else in this process has it.
    let at = unsafe {
        mmap(
            ptr::null_mut(),
            size_of::<Shared>(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            fd,
            0,
        )?
    };
    // SAFETY: page-aligned, a page of the file is behind it, it is never unmapped, and holds only atomics.
    Ok(unsafe { &*at.cast::<Shared>() })
}

// ---- The one who kills ---------------------------------------------------------------------------

fn kill_many(count: u32, mut random: Random, log: &Path) -> io::Result<()> {
    let named = CString::new("mortal").map_err(io::Error::other)?;
    // Inherited by the writers, so not closed at exec.
    let fd = memfd_create(&named, MemfdFlags::empty())?;
    ftruncate(&fd, size_of::<Shared>() as u64)?;
    let shared = map(rustix::fd::AsFd::as_fd(&fd))?;
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)?;
    make_cgroup().map_err(|e| io::Error::other(format!("memory cgroup at {CGROUP}: {e}")))?;
    let mut log = File::create(log)?;
    let mut extraction: Option<Child> = None;
    for round in 1..=count {
        let line = kill_one(fd.as_raw_fd(), shared, round, &mut random)?;
        log.write_all(line.as_bytes())?;
        if round % (count / EXTRACTIONS).max(1) == 0 {
            finish(extraction.take())?;
            extraction = Some(extract()?);
        }
    }
    finish(extraction)?;
    log.sync_all()
}

fn make_cgroup() -> io::Result<()> {
    fs::create_dir_all(CGROUP)?;
    let none = rustix::mount::MountFlags::empty();
    rustix::mount::mount("cgroup2", CGROUP, "cgroup2", none, None)?;
    fs::write(format!("{CGROUP}/cgroup.subtree_control"), "+memory")?;
    fs::create_dir(format!("{CGROUP}/mortal"))?;
    fs::write(format!("{CGROUP}/mortal/memory.max"), CGROUP_LIMIT)
}

fn extract() -> io::Result<Child> {
    Command::new("bootmark")
        .args(["extract", "--timeout", "10", "--output"])
        .arg("/var/lib/bootmark/trace")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
}

fn finish(extraction: Option<Child>) -> io::Result<()> {
    let Some(mut child) = extraction else {
        return Ok(());
    };
    let status = child.wait()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("bootmark extract: {status}")))
    }
}

/// One life; returns its line of the log.
fn kill_one(
    fd: RawFd,
    shared: &'static Shared,
    round: u32,
    random: &mut Random,
) -> io::Result<String> {
    let order = Order::draw(random);
    let by = random.below(2) as u32;
    // The faster it writes the sooner it ends, so that the pool has room for all.
    let (pause, within_us) =
        [(0, 300), (0, 300), (300, 1_000), (10_000, 6_000)][random.below(4) as usize];
    for slot in &shared.threads {
        slot.tid.store(0, Ordering::Relaxed);
        slot.begun.store(0, Ordering::Relaxed);
        slot.committed.store(0, Ordering::Relaxed);
    }
    shared.ready.store(0, Ordering::Relaxed);
    shared.order.store(0, Ordering::Relaxed);
    shared.pause.store(pause, Ordering::Relaxed);
    let writer = if random.below(4) == 0 {
        started(fd, round)?
    } else {
        forked(shared, round)?
    };
    if order == Order::Memory {
        let processes = format!("{CGROUP}/mortal/cgroup.procs");
        fs::write(processes, writer.as_raw_nonzero().to_string())?;
    }
    // Some die before they have come to write anything.
    if random.below(4) != 0 {
        wait_until_ready(shared)?;
    }
    if pause == 0 {
        // Who writes all the time is met in the middle of an event, if whoever meets it is awake.
        wait_for_event(shared, random);
    } else {
        thread::sleep(Duration::from_micros(random.below(within_us)));
    }
    if order == Order::Kill {
        kill_process(writer, Signal::KILL)?;
    } else {
        shared
            .order
            .store(order as u32 | by << 8, Ordering::Release);
    }
    let Some((_, status)) = waitpid(Some(writer), WaitOptions::empty())? else {
        return Err(io::Error::other("a writer that is nobody's child"));
    };
    let threads: Vec<String> = shared
        .threads
        .iter()
        .map(|slot| {
            let [tid, begun, committed] = [&slot.tid, &slot.begun, &slot.committed]
                .map(|number| number.load(Ordering::Acquire));
            format!(r#"{{"tid":{tid},"begun":{begun},"committed":{committed}}}"#)
        })
        .collect();
    Ok(format!(
        "{{\"round\":{round},\"order\":\"{order:?}\",\"pid\":{},\"status\":{},\"threads\":[{}]}}\n",
        writer.as_raw_nonzero(),
        status.as_raw(),
        threads.join(",")
    ))
}

/// A writer with a program of its own, which is this one again.
fn started(fd: RawFd, round: u32) -> io::Result<Pid> {
    let child = Command::new(std::env::current_exe()?)
        .args(["write", &fd.to_string(), &round.to_string()])
        .stdin(Stdio::null())
        .spawn()?;
    Ok(Pid::from_child(&child))
}

/// A writer that is a copy of this process.
fn forked(shared: &'static Shared, round: u32) -> io::Result<Pid> {
    // SAFETY: this process has one thread, so its copy may do what this one may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => write_in_threads(shared, round),
        pid => Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork() returned nobody")),
    }
}

fn wait_until_ready(shared: &Shared) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while shared.ready.load(Ordering::Acquire) == 0 {
        if Instant::now() > deadline {
            return Err(io::Error::other("a writer wrote nothing for a minute"));
        }
        thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Until some thread has begun some event; not for long.
fn wait_for_event(shared: &Shared, random: &mut Random) {
    let slot = &shared.threads[random.below(THREADS as u64) as usize];
    let number = random.below(MANY);
    let deadline = Instant::now() + Duration::from_millis(5);
    while slot.begun.load(Ordering::Acquire) < number && Instant::now() < deadline {
        // Not the processor's own pause, as below.
        std::hint::black_box(number);
    }
}

// ---- The one who is killed -----------------------------------------------------------------------

fn write(fd: RawFd, round: u32) -> io::Result<()> {
    // SAFETY: the descriptor was handed down for this, and nobody closes it.
    let shared = map(unsafe { BorrowedFd::borrow_raw(fd) })?;
    write_in_threads(shared, round)
}

fn write_in_threads(shared: &'static Shared, round: u32) -> ! {
    for number in 1..THREADS {
        // Another thread may have been told to use up the memory already: then there are fewer.
        let _ = thread::Builder::new().spawn(move || write_forever(shared, round, number));
    }
    write_forever(shared, round, 0)
}

fn write_forever(shared: &'static Shared, round: u32, thread: usize) -> ! {
    let slot = &shared.threads[thread];
    let pause = shared.pause.load(Ordering::Relaxed);
    slot.tid
        .store(gettid().as_raw_nonzero().get() as u64, Ordering::Release);
    let thread = thread as u32;
    let mut number = 0_u64;
    loop {
        number += 1;
        slot.begun.store(number, Ordering::Release);
        marker!("svc", "mortal", round: u32, thread: u32, number: u64, text: str = text(number));
        slot.committed.store(number, Ordering::Release);
        shared.ready.store(1, Ordering::Release);
        let order = shared.order.load(Ordering::Acquire);
        if order != 0 && order >> 8 == thread {
            obey(order & 0xff);
        }
        // Not the processor's own pause, which takes milliseconds under emulation.
        let turns = if number < MANY {
            pause
        } else {
            pause.max(LONG_PAUSE)
        };
        for turn in 0..turns {
            std::hint::black_box(turn);
        }
    }
}

/// What the event of this number says: mostly little, so that chunks hold many, sometimes much.
fn text(number: u64) -> &'static str {
    const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
    const LONG: &str = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\
                        abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\
                        abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
    let start = (number % LETTERS.len() as u64) as usize;
    let len = if number.is_multiple_of(8) {
        200
    } else {
        number % 24
    };
    &LONG[start..start + len as usize]
}

fn obey(order: u32) {
    match Order::from_number(order) {
        Some(Order::Segv) => {
            let bad = std::hint::black_box(ptr::without_provenance_mut::<u8>(8));
            // SAFETY: deliberately none: the first page is never mapped, so this raises SIGSEGV, which
            // is the order.
            unsafe { bad.write_volatile(1) };
        }
        Some(Order::Abort) => std::process::abort(),
        // SAFETY: ends the process and touches no memory.
        Some(Order::Exit) => unsafe { libc::_exit(17) },
        Some(Order::Exec) => {
            let error = Command::new(NEXT)
                .args(["/run/bootmark/mortal-next.count", NEXT_EVENTS])
                .exec();
            eprintln!("svc-mortal: {NEXT}: {error}");
        }
        Some(Order::Memory) => {
            let mut hoard: Vec<Vec<u8>> = Vec::new();
            loop {
                hoard.push(vec![1; 64 << 10]);
                std::hint::black_box(&hoard);
            }
        }
        Some(Order::Kill) | None => {}
    }
}
