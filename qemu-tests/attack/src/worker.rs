//! One process of a target: threads that do something at random, again and again.

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use fastrand::Rng;
use markers::{marker, span};

use crate::arena::Arena;
use crate::shared::{Count, Shared};
use crate::{calls, elf, files, last_error, life, memory, scribble};

/// What is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    Syscalls,
    Elf,
    Scribble,
}

/// A process of the many.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// The target.
    #[arg(long)]
    pub target: Target,
    /// All that it decides follows from this.
    #[arg(long)]
    pub seed: u64,
    /// Its number among the workers.
    #[arg(long)]
    pub number: usize,
    /// Its user.
    #[arg(long)]
    pub uid: u32,
    /// Milliseconds until it ends by itself.
    #[arg(long)]
    pub millis: u64,
    /// Where the files are that `elf` makes its own from.
    #[arg(long)]
    pub files: PathBuf,
}

/// How long a process may be stuck in one step before it is replaced.
const STUCK: Duration = Duration::from_secs(3);

/// Descriptors of readers, and of `/proc/PID/bootmark`.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    pub fd: i32,
    /// Acknowledging what was read from it frees something.
    pub frees: bool,
}

/// A thread of a worker.
pub(crate) struct Actor {
    pub rng: Rng,
    pub arena: Arena,
    pub shared: &'static Shared,
    pub until: Instant,
    pub number: usize,
    pub uid: u32,
    pub open: Vec<Open>,
    /// Chunks that the kernel named, whether still there or not.
    pub chunks: Vec<u64>,
    /// How many forks away from the worker.
    pub depth: u8,
}

impl Actor {
    pub(crate) fn new(part: &Part, shared: &'static Shared, seed: u64) -> io::Result<Self> {
        Ok(Self {
            rng: Rng::with_seed(seed),
            arena: Arena::new()?,
            shared,
            until: Instant::now() + Duration::from_millis(part.millis),
            number: part.number,
            uid: part.uid,
            open: Vec::new(),
            chunks: Vec::new(),
            depth: 0,
        })
    }

    /// A system call with any arguments at all.
    ///
    /// What the kernel writes, it writes to addresses that the fuzzer made up: the arena, windows, or
    /// nobody's. Were one of them part of this program's own memory, the program might break; it is there to be
    /// broken, shares nothing but counters with others, and is replaced.
    pub(crate) fn call(&self, nr: usize, args: [usize; 6]) -> isize {
        // SAFETY: see above: no address of anything that Rust knows of is ever among the arguments.
        let result = unsafe {
            libc::syscall(
                nr as libc::c_long,
                args[0],
                args[1],
                args[2],
                args[3],
                args[4],
                args[5],
            )
        } as isize;
        self.shared.count(if result < 0 {
            Count::Refused
        } else {
            Count::Good
        });
        result
    }

    /// A process of the target, or one that is none of it.
    pub(crate) fn some_pid(&mut self) -> i32 {
        match self.rng.u8(0..8) {
            0 => 1,
            1 => self.rng.i32(2..400),
            2 => std::process::id() as i32,
            _ => self.shared.any(self.rng.usize(..)),
        }
    }

    /// One thing at random.
    fn step(&mut self) {
        self.shared.count(Count::Steps);
        match self.rng.u8(0..100) {
            0..22 => calls::marker_ctl(self),
            22..42 => calls::reserve(self),
            42..58 => calls::reader(self),
            58..70 => files::proc(self),
            70..82 => memory::change(self),
            82..92 => events(&mut self.rng),
            _ => life::change(self),
        }
    }

    /// Until the time is up.
    pub(crate) fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            if Instant::now() >= self.until {
                break;
            }
            watchdog(STUCK);
            self.step();
        }
    }
}

/// Ends the process by SIGALRM if it takes longer than this.
pub(crate) fn watchdog(limit: Duration) {
    let timer = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: limit.as_secs() as i64,
            tv_usec: limit.subsec_micros().into(),
        },
    };
    // SAFETY: a structure of ours, and none for the old one.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}

/// Events through the library: plain, with a text, and spans.
pub(crate) fn events(rng: &mut Rng) {
    const NAMES: [&str; 4] = ["x", "a, b", "", "a name that is longer than sixteen octets"];
    for _ in 0..rng.u32(1..40) {
        let number = rng.u32(0..100);
        let name = NAMES[rng.usize(0..4)];
        marker!("fuzzed", "plain", number: u32);
        marker!("fuzzed", "text", number: u32, name: str = name);
        if number < 10 {
            let _span = span!("fuzzed", "work", number: u32);
            marker!("fuzzed", "inner", level = debug, name: str = name);
        }
    }
}

/// What others execute.
pub(crate) fn leaf() {
    watchdog(STUCK);
    events(&mut Rng::with_seed(1));
}

/// Limits, so that the machine outlasts the attack, then another user.
fn settle(part: &Part) -> io::Result<()> {
    let limit = |what, value| {
        let limit = libc::rlimit {
            rlim_cur: value,
            rlim_max: value,
        };
        // SAFETY: a number and a structure of ours.
        unsafe { libc::setrlimit(what, &limit) }
    };
    limit(libc::RLIMIT_AS, 1 << 30);
    limit(libc::RLIMIT_CORE, 0);
    limit(libc::RLIMIT_NPROC, 60);
    limit(libc::RLIMIT_FSIZE, 16 << 20);
    // Whoever wants memory gets it from here first. Not there without procfs, and then nobody is.
    let _ = std::fs::write("/proc/self/oom_score_adj", "900");
    if part.uid != 0 {
        // SAFETY: numbers; one thread so far.
        let failed = unsafe {
            libc::setgroups(0, std::ptr::null()) != 0
                || libc::setresgid(part.uid, part.uid, part.uid) != 0
                || libc::setresuid(part.uid, part.uid, part.uid) != 0
        };
        if failed {
            return Err(last_error("setresuid"));
        }
        // Another user's process cannot be traced, not even by itself, until it says so again.
        // SAFETY: numbers.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    }
    Ok(())
}

pub(crate) fn run(part: &Part) -> io::Result<()> {
    let shared = Shared::open()?;
    settle(part)?;
    shared.enlist(part.number);
    let mut rng = Rng::with_seed(part.seed);
    match part.target {
        Target::Syscalls => {
            // Threads of one process, each with its own dice.
            for _ in 0..rng.u8(0..3) {
                let mut actor = Actor::new(part, shared, rng.u64(..))?;
                thread::spawn(move || actor.run(usize::MAX));
            }
            Actor::new(part, shared, rng.u64(..))?.run(usize::MAX);
            Ok(())
        }
        Target::Elf => elf::run(part, shared),
        Target::Scribble => scribble::run(part, shared),
    }
}
