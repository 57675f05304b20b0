//! Starts the processes of a target, replaces those that die, and ends with none left.

use std::io;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::shared::Shared;
use crate::worker::Target;
use crate::{Plan, last_error};

/// How often it is looked at who died.
const PAUSE: Duration = Duration::from_millis(20);
/// How many times slower a machine may be, for as many steps as asked.
const SLOWER: u32 = 20;
/// For all processes to be gone after SIGKILL, on a kernel with all its checks.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the target for the time of the plan and prints what was tried.
pub(crate) fn run(plan: &Plan, target: Target) -> io::Result<()> {
    println!("seed {}", plan.seed);
    let shared = Shared::make()?;
    // Orphans of the target come to this process.
    // SAFETY: numbers.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(last_error("prctl"));
    }
    let mut rng = Rng::with_seed(plan.seed);
    let begin = Instant::now();
    let enough = begin + Duration::from_secs(plan.seconds);
    let until = begin + Duration::from_secs(plan.seconds) * SLOWER;
    let mut workers: Vec<Option<Child>> = (0..plan.processes).map(|_| None).collect();
    let mut started = 0_u64;
    let mut result = Ok(());
    let goes_on = |now| now < until && (now < enough || shared.steps() < plan.steps);
    while goes_on(Instant::now()) && result.is_ok() {
        for (number, worker) in workers.iter_mut().enumerate() {
            let gone = match worker {
                Some(child) => child.try_wait()?.is_some(),
                None => true,
            };
            if !gone {
                continue;
            }
            if let Some(child) = worker {
                // What it left behind has its group.
                end_group(child.id() as i32);
            }
            match start(plan, target, number, rng.u64(..), until) {
                Ok(child) => {
                    shared.set_group(number, child.id() as i32);
                    *worker = Some(child);
                    started += 1;
                }
                Err(error) => result = Err(error),
            }
        }
        reap_orphans(&workers);
        thread::sleep(PAUSE);
    }
    for child in workers.iter().flatten() {
        end_group(child.id() as i32);
    }
    reap_all()?;
    println!("workers {started}");
    for (name, count) in shared.counts() {
        println!("{name} {count}");
    }
    result
}

fn start(
    plan: &Plan,
    target: Target,
    number: usize,
    seed: u64,
    until: Instant,
) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;

    let left = until.saturating_duration_since(Instant::now());
    // Every other one without rights; files are made by root, and used by others.
    let uid = match (target, number % 2) {
        (Target::Scribble, _) | (_, 1) => 65534,
        _ => 0,
    };
    let name = match target {
        Target::Syscalls => "syscalls",
        Target::Elf => "elf",
        Target::Scribble => "scribble",
    };
    Command::new("/proc/self/exe")
        .args(["worker", "--target", name])
        .arg("--seed")
        .arg(seed.to_string())
        .arg("--number")
        .arg(number.to_string())
        .arg("--uid")
        .arg(uid.to_string())
        .arg("--millis")
        .arg(left.as_millis().to_string())
        .arg("--files")
        .arg(&plan.files)
        .process_group(0)
        .spawn()
}

fn end_group(group: i32) {
    // SAFETY: numbers; the group is that of a worker, whose id nobody has been given while it, or
    // anything that it started, is there.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// Waits for those that came here when their parents died; workers are waited for where they are kept.
fn reap_orphans(workers: &[Option<Child>]) {
    let ours: Vec<i32> = workers
        .iter()
        .flatten()
        .map(|child| child.id() as i32)
        .collect();
    loop {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: a structure of ours.
        if unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) } != 0 {
            return;
        }
        // SAFETY: all zeros are a value; the kernel has filled it in if there was a child.
        let pid = unsafe { info.assume_init().si_pid() };
        if pid == 0 || ours.contains(&pid) {
            // Workers show first as long as they are not waited for; the next turn does.
            return;
        }
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }
}

fn reap_all() -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        // SAFETY: no status is asked for.
        let pid = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
        if pid < 0 {
            return Ok(());
        }
        if pid == 0 {
            if Instant::now() > until {
                return Err(io::Error::other("a process does not die of SIGKILL"));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
