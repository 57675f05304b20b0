//! Writes events for tests of filters, and says how many of them a filter is to let through. Not
//! started by the demo image.
//!
//! Each argument says what to do, or is the tag of plain events; what is done prints `expected TAG COUNT` for the events with that tag whose
//! `n` is even.

use std::env;
use std::ffi::c_int;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use initrd::trace::{marker, span};

const GO: &str = "/run/bootmark/svc-filter.go";
const FEW: u32 = 200;
const MANY: u32 = 200_000;
/// More than the library keeps until their end.
const NESTED: u32 = 80;

fn main() {
    for mode in env::args().skip(1) {
        match mode.as_str() {
            "spans" => spans(),
            "nested" => nested(NESTED),
            "quiet" => quiet(),
            "signals" => signals(),
            "forks" => forks(),
            "threads" => threads(),
            "wait" => wait(),
            tag => items(tag, 0..FEW),
        }
    }
}

fn item(tag: &str, n: u32) {
    marker!(
        "flt", "item",
        tag: str,
        n: u32,
        third: f64 = f64::from(n) / 3.0,
        even: bool = n & 1 == 0,
        kind: u8 [enum "plain", "round"] = u8::from(n.is_multiple_of(10)),
        raw: bytes = tag.as_bytes(),
    );
}

fn items(tag: &str, numbers: std::ops::Range<u32>) {
    let even = numbers.clone().filter(|n| n & 1 == 0).count();
    numbers.for_each(|n| item(tag, n));
    println!("expected {tag} {even}");
}

/// Events before and after somebody changed the rules, who then makes a file.
fn wait() {
    items("before", 0..10);
    while !Path::new(GO).exists() {
        thread::sleep(Duration::from_millis(20));
    }
    items("after", 0..10);
}

/// One in ten fails, one in ten takes 20 ms.
fn spans() {
    for n in 0..50_u32 {
        let mut span = span!("flt", "job", tag: str = "spans", n: u32);
        match n % 10 {
            3 => span.fail(libc::EIO),
            5 => thread::sleep(Duration::from_millis(20)),
            _ => {}
        }
    }
}

fn nested(levels: u32) {
    if levels > 0 {
        let _span = span!("flt", "job", tag: str = "nested", n: u32 = levels);
        nested(levels - 1);
    }
}

/// Many events while every system call is fatal: a rejected event must not enter the kernel.
fn quiet() {
    const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
    const PR_SYS_DISPATCH_ON: c_int = 1;
    static SELECTOR: AtomicU32 = AtomicU32::new(0);

    // Has the text fetched and compiled, and a chunk if the filter needs one.
    item("quiet", 1);
    // SAFETY: the selector is a static; there is no code outside of which calls are let through.
    let result = unsafe {
        libc::prctl(
            PR_SET_SYSCALL_USER_DISPATCH,
            PR_SYS_DISPATCH_ON,
            0,
            0,
            SELECTOR.as_ptr(),
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    // Outside, as reading the time may be a call.
    let start = Instant::now();
    // The low octet: from here on a call is SIGSYS.
    SELECTOR.store(1, Ordering::SeqCst);
    for n in 0..MANY {
        item("quiet", black_box(2 * n + 1));
    }
    SELECTOR.store(0, Ordering::SeqCst);
    let took = start.elapsed();
    println!("expected quiet 0");
    println!("quiet {} ns", took.as_nanos() / u128::from(MANY));
}

static TICKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn tick(_: c_int) {
    item("ticks", TICKS.fetch_add(1, Ordering::Relaxed));
}

/// A handler interrupts the filter everywhere, the compiler included: it runs first.
fn signals() {
    let handler = tick as extern "C" fn(c_int);
    let interval = libc::timeval {
        tv_sec: 0,
        tv_usec: 200,
    };
    let timer = |interval| {
        let timer = libc::itimerval {
            it_interval: interval,
            it_value: interval,
        };
        // SAFETY: the structure is valid for the call; the old value is not asked for.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) }
    };
    // SAFETY: the handler makes no call that is not safe in one.
    unsafe { libc::signal(libc::SIGALRM, handler as libc::sighandler_t) };
    timer(interval);
    let start = Instant::now();
    let mut n = 0;
    while start.elapsed() < Duration::from_millis(500) {
        item("signals", n);
        // Few enough for the buffers.
        thread::sleep(Duration::from_micros(100));
        n += 1;
    }
    timer(libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    });
    println!("expected signals {}", n.div_ceil(2));
    println!(
        "expected ticks {}",
        TICKS.load(Ordering::Relaxed).div_ceil(2)
    );
}

/// Children that were made between a span's begin and its end, and write events of their own.
fn forks() {
    item("forks", 0);
    for child in 1..=8 {
        let mut span = span!("flt", "job", tag: str = "forks", n: u32 = child);
        span.fail(libc::EIO);
        // SAFETY: the process has one thread, so the child may do what this one may.
        match unsafe { libc::fork() } {
            0 => {
                // The parent's to end.
                std::mem::forget(span);
                (0..10).for_each(|n| item("forks", n));
                // SAFETY: ends the child without what the parent registered.
                unsafe { libc::_exit(0) };
            }
            pid => {
                assert!(pid > 0, "{}", std::io::Error::last_os_error());
                let mut status = 0;
                // SAFETY: the address is valid for the call.
                unsafe { libc::waitpid(pid, &mut status, 0) };
                assert_eq!(status, 0);
            }
        }
    }
    println!("expected forks {}", 1 + 8 * 5);
}

/// Threads that meet the filter at the same moment.
fn threads() {
    let barrier = std::sync::Barrier::new(4);
    thread::scope(|scope| {
        for first in 0..4 {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for n in 0..FEW {
                    item("threads", n);
                    let mut span = span!("flt", "job", tag: str = "threads", n: u32);
                    if n % 20 == first {
                        span.fail(libc::EIO);
                    }
                }
            });
        }
    });
    println!("expected threads {}", 4 * FEW / 2);
}
