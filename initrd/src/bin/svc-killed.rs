//! A service that dies in the middle of writing events, so that one can see what is left of them.
//!
//! `svc-killed FILE` writes until somebody kills it; `svc-killed FILE COUNT` writes that many and then
//! takes a bad address. How many were committed stands in FILE as a little-endian 64-bit number: shared memory, so that it
//! outlives the process. It is raised after each event, so at death the trace has as many, or one more.

use initrd::trace::marker;
use rustix::fs::{Mode, OFlags, ftruncate, open};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::io;
use std::process::ExitCode;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Turns of the loop between two events (some 10 us), so that the pool outlasts the time until the kill.
const PAUSE: u32 = 50_000;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(path), limit) = (args.next(), args.next()) else {
        eprintln!("usage: svc-killed FILE [COUNT]");
        return ExitCode::from(2);
    };
    let limit = match limit.as_deref().map(str::parse) {
        None => u64::MAX,
        Some(Ok(limit)) => limit,
        Some(Err(e)) => {
            eprintln!("svc-killed: COUNT: {e}");
            return ExitCode::from(2);
        }
    };
    let committed = match shared_counter(&path) {
        Ok(counter) => counter,
        Err(e) => {
            eprintln!("svc-killed: {path}: {e}");
            return ExitCode::FAILURE;
        }
    };
    for number in 1..=limit {
        marker!("svc", "doomed", number: u64, file: str = &path);
        committed.store(number, Ordering::Release);
        // Not the processor's own pause, which takes milliseconds under emulation.
        for turn in 0..PAUSE {
            std::hint::black_box(turn);
        }
    }
    crash()
}

/// Eight octets of a file, mapped for the rest of this process's life.
fn shared_counter(path: &str) -> io::Result<&'static AtomicU64> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::from_raw_mode(0o644))?;
    ftruncate(&file, 8)?;
    // SAFETY: a new mapping, which overlaps nothing; nobody else in this process has it.
    let at = unsafe {
        mmap(
            ptr::null_mut(),
            size_of::<AtomicU64>(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &file,
            0,
        )?
    };
    // SAFETY: page-aligned, eight octets of the file are behind it, and it is never unmapped.
    Ok(unsafe { &*at.cast::<AtomicU64>() })
}

/// What a program with a bad pointer does.
fn crash() -> ! {
    let bad = std::hint::black_box(ptr::without_provenance_mut::<u8>(8));
    // SAFETY: deliberately none: the first page is never mapped, so this raises SIGSEGV, which is what
    // this service is there for.
    unsafe { bad.write_volatile(1) };
    std::process::abort()
}
