//! Measures what the kernel takes for system calls that it looks for markers in, in a program that has none:
//! one line of JSON a round, in microseconds a call.
//!
//! `cargo xtask bench --guest` runs it on a kernel with Bootmark and on one without, where a nanosecond of the
//! clock is an instruction. `exec` is a process that
//! is started and ends at once, `fork` one that ends without exec, `mmap` a file mapped and unmapped.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, ExitCode};
use std::ptr;

use clap::Parser;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};

/// Measure exec, fork and mmap.
#[derive(Debug, Parser)]
struct Args {
    /// Rounds.
    #[arg(long)]
    rounds: u32,

    /// Batches a round; the fastest counts, as what slows one down is other programs.
    #[arg(long, default_value_t = 5)]
    batches: u32,

    /// What stands as `name` in the lines.
    #[arg(long)]
    name: String,
}

/// Calls of a batch.
const EXECS: u32 = 40;
const FORKS: u32 = 40;
const MAPS: u32 = 2000;

/// Octets that are mapped.
const LENGTH: usize = 4096;

/// Where the program that is executed is put.
const PROGRAM: &str = "/tmp/bootmark-calls-exit";

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bootmark-calls: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> io::Result<()> {
    fs::write(PROGRAM, program())?;
    fs::set_permissions(PROGRAM, Permissions::from_mode(0o755))?;
    let file = File::open(PROGRAM)?;
    for _ in 0..args.rounds {
        let mut best = [f64::INFINITY; 3];
        for _ in 0..args.batches {
            let times = [
                time(EXECS, exec)?,
                time(FORKS, fork)?,
                time(MAPS, || map(&file))?,
            ];
            for (best, time) in best.iter_mut().zip(times) {
                *best = time.min(*best);
            }
        }
        let [exec, fork, mmap] = best;
        println!(
            "{{\"name\":\"{}\",\"exec\":{exec:.3},\"fork\":{fork:.3},\"mmap\":{mmap:.3}}}",
            args.name
        );
    }
    Ok(())
}

/// Microseconds a call.
fn time(calls: u32, mut call: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let now = || {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
    };
    let start = now();
    for _ in 0..calls {
        call()?;
    }
    Ok((now() - start) / f64::from(calls))
}

fn exec() -> io::Result<()> {
    let status = Command::new(PROGRAM).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{PROGRAM}: {status}")))
    }
}

fn fork() -> io::Result<()> {
    // SAFETY: this process has one thread, and the child does nothing but end.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: ends the child without running what the parent has registered for its end.
        0 => unsafe { libc::_exit(0) },
        child => {
            // SAFETY: no status is asked for, so there is no pointer.
            let waited = unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
            if waited == child {
                Ok(())
            } else {
                Err(io::Error::last_os_error())
            }
        }
    }
}

fn map(file: &File) -> io::Result<()> {
    // SAFETY: a new mapping, which overlaps nothing; it is not looked at.
    let at = unsafe {
        mmap(
            ptr::null_mut(),
            LENGTH,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
            file,
            0,
        )?
    };
    // SAFETY: what was just mapped, to which there is no reference.
    unsafe { munmap(at, LENGTH)? };
    Ok(())
}

/// The smallest program there is: an ELF file with one segment, which calls exit(0). So the rest of an exec
/// takes as little time as it can.
fn program() -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const CODE: &[u8] = &[0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
    const HEADERS: u64 = 64 + 56;
    let size = HEADERS + CODE.len() as u64;
    let mut octets = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // ET_EXEC, EM_X86_64, version.
    octets.extend([2u16, 62].map(u16::to_le_bytes).concat());
    octets.extend(1u32.to_le_bytes());
    // Entry, program headers, no section headers, no flags.
    octets.extend([BASE + HEADERS, 64, 0].map(u64::to_le_bytes).concat());
    octets.extend(0u32.to_le_bytes());
    octets.extend([64u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
    // PT_LOAD, read and execute: offset, addresses, sizes, alignment.
    octets.extend([1u32, 5].map(u32::to_le_bytes).concat());
    octets.extend(
        [0, BASE, BASE, size, size, 4096]
            .map(u64::to_le_bytes)
            .concat(),
    );
    octets.extend(CODE);
    octets
}
