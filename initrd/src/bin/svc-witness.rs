//! Writes events until the machine dies, and testifies in memory that outlives it how many.
//!
//! `svc-witness ADDRESS CPU [FILE]` runs on that CPU. In the page of physical memory at ADDRESS, which
//! the kernel must have been told to leave alone, two 64-bit numbers stand: of events committed as
//! markers, and of lines written to FILE (ftrace's `trace_marker`). Each is raised after its event, so a
//! trace has as many, or one more.

use initrd::trace::marker;
use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Turns of the loop between two events, so that buffers outlast the time until the end.
const PAUSE: u32 = 5_000;

/// Events for each line to FILE: ftrace's text is slow to read where instructions are emulated.
const EVENTS_PER_LINE: u64 = 8;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (address, cpu) = match (
        args.first().and_then(|text| number(text)),
        args.get(1).and_then(|text| number(text)),
    ) {
        (Some(address), Some(cpu @ 0..64)) => (address, cpu),
        _ => {
            eprintln!("usage: svc-witness ADDRESS CPU [FILE]");
            return ExitCode::from(2);
        }
    };
    match run(address, cpu, args.get(2).map(String::as_str)) {
        Ok(never) => match never {},
        Err(e) => {
            eprintln!("svc-witness: {e}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn run(address: u64, cpu: u64, other: Option<&str>) -> io::Result<std::convert::Infallible> {
    let [events, lines] = counters(address)?;
    let mut cpus = CpuSet::new();
    cpus.set(cpu as usize);
    sched_setaffinity(None, &cpus)?;
    let mut other = other
        .map(|path| File::options().write(true).open(path))
        .transpose()?;
    let mut number = 0;
    loop {
        number += 1;
        marker!("svc", "witness", number: u64, cpu: u64);
        events.store(number, Ordering::Release);
        if number.is_multiple_of(EVENTS_PER_LINE)
            && let Some(file) = &mut other
        {
            let line = number / EVENTS_PER_LINE;
            file.write_all(format!("witness {cpu} {line}\n").as_bytes())?;
            lines.store(line, Ordering::Release);
        }
        for turn in 0..PAUSE {
            std::hint::black_box(turn);
        }
    }
}

/// A page of physical memory, mapped for the rest of this process's life.
fn counters(address: u64) -> io::Result<&'static [AtomicU64; 2]> {
    let file = open("/dev/mem", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: a new mapping, which overlaps nothing; nobody else in this process has it.
    let at = unsafe {
        mmap(
            ptr::null_mut(),
            size_of::<[AtomicU64; 2]>(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &file,
            address,
        )?
    };
    // SAFETY: page-aligned, a page is behind it, and it is never unmapped.
    let counters = unsafe { &*at.cast::<[AtomicU64; 2]>() };
    for counter in counters {
        counter.store(0, Ordering::Release);
    }
    Ok(counters)
}
