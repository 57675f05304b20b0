//! A program that watches itself: call-backs at its own markers, under everything that may come between.
//! It checks what it sees and prints a line `ok NAME` for each scenario; `svc-handlers NAME...` runs
//! some of them.

use std::cell::RefCell;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use initrd::trace::{marker, span};
use markers::decode::Kind;
use markers::handler::{self, Event, Handler, RegisterError};
use rustix::process::{WaitOptions, waitpid};

type Outcome = Result<(), String>;
/// Its name, and what runs it.
type Scenario = (&'static str, fn() -> Outcome);

const SCENARIOS: [Scenario; 9] = [
    ("fields", fields),
    ("spans", spans),
    ("removal", removal),
    ("nested", nested),
    ("itself", itself),
    ("signals", signals),
    ("forks", forks),
    ("refusals", refusals),
    ("exec", exec),
];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.first().is_some_and(|first| first == AFTER_EXEC) {
        return after_exec();
    }
    let mut failed = 0;
    for (name, run) in SCENARIOS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        match run() {
            Ok(()) => println!("ok {name}"),
            Err(why) => {
                println!("failed {name}: {why}");
                failed += 1;
            }
        }
    }
    ExitCode::from(failed)
}

fn register<F: Fn(&Event<'_>) + Sync>(
    pattern: &str,
    function: &'static F,
) -> Result<Handler, String> {
    handler::register(pattern, function).map_err(|error| format!("{pattern}: {error}"))
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Outcome {
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{what}: {found:?} instead of {wanted:?}"))
    }
}

/// How often `tick` is called, and the number that it had last.
static TICKS: AtomicU32 = AtomicU32::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);

fn on_tick(event: &Event<'_>) {
    TICKS.fetch_add(1, Ordering::SeqCst);
    LAST.store(
        event.unsigned("number").unwrap_or(u64::MAX),
        Ordering::SeqCst,
    );
}

/// Returns whether the value of the field was asked for.
fn tick(number: u64) -> bool {
    let mut evaluated = false;
    marker!("handlers", "tick", number: u64 = {
        evaluated = true;
        number
    });
    evaluated
}

/// Each type of field arrives, and nothing is called, nor evaluated, before and after.
fn fields() -> Outcome {
    static SEEN: AtomicU32 = AtomicU32::new(0);
    fn on_all(event: &Event<'_>) {
        let right = event.provider() == "handlers"
            && event.name() == "all"
            && event.kind() == Kind::Instant
            && event.level() == 5
            && event.timestamp() != 0
            && event.unsigned("small") == Some(200)
            && event.signed("minus") == Some(-7)
            && event.float("half") == Some(0.5)
            && event.unsigned("yes") == Some(1)
            && event.str("text") == Some("a text")
            && event.octets("octets") == Some(b"\0\xff")
            && event.value("none").is_none()
            && event.fields().count() == 6;
        SEEN.fetch_add(if right { 1 } else { 1000 }, Ordering::SeqCst);
    }
    fn all() {
        marker!(
            "handlers", "all", level = notice,
            small: u8 = 200,
            minus: i32 = -7,
            half: f64 = 0.5,
            yes: bool = true,
            text: str = "a text",
            octets: bytes = b"\0\xff",
        );
    }

    all();
    let one = register("handlers:all", &on_all)?;
    all();
    expect("calls", SEEN.load(Ordering::SeqCst), 1)?;
    let other = register("hand*:[a-b]ll", &on_all)?;
    all();
    expect("calls of both", SEEN.load(Ordering::SeqCst), 3)?;
    drop(one);
    all();
    expect("calls of one", SEEN.load(Ordering::SeqCst), 4)?;
    drop(other);
    all();
    expect("calls of none", SEEN.load(Ordering::SeqCst), 4)?;

    let guard = register("handlers:tick", &on_tick)?;
    expect("evaluated", tick(5), true)?;
    expect("number", LAST.load(Ordering::SeqCst), 5)?;
    drop(guard);
    TICKS.store(0, Ordering::SeqCst);
    tick(6);
    expect("ticks without a call-back", TICKS.load(Ordering::SeqCst), 0)
}

/// The end of a span knows how long it took and what came of it.
fn spans() -> Outcome {
    static BEGINS: AtomicU32 = AtomicU32::new(0);
    static NANOS: AtomicU64 = AtomicU64::new(0);
    static RET: AtomicU64 = AtomicU64::new(0);
    fn on_span(event: &Event<'_>) {
        match event.kind() {
            Kind::SpanBegin => {
                let part = event.unsigned("part").unwrap_or(0);
                BEGINS.fetch_add(part as u32, Ordering::SeqCst);
            }
            Kind::SpanEnd => {
                let taken = event.duration().unwrap_or_default();
                NANOS.store(taken.as_nanos() as u64, Ordering::SeqCst);
                RET.store(event.signed("ret").unwrap_or(0) as u64, Ordering::SeqCst);
            }
            _ => {}
        }
    }

    let _guard = register("handlers:work", &on_span)?;
    let mut work = span!("handlers", "work", part: u32 = 3);
    thread::sleep(Duration::from_millis(20));
    work.fail(5);
    drop(work);
    expect("part", BEGINS.load(Ordering::SeqCst), 3)?;
    expect("ret", RET.load(Ordering::SeqCst) as i64, -5)?;
    let nanos = NANOS.load(Ordering::SeqCst);
    if !(20_000_000..10_000_000_000).contains(&nanos) {
        return Err(format!("20 ms took {nanos} ns"));
    }
    Ok(())
}

/// Under load, nobody is inside when a removal returns, nor comes later.
fn removal() -> Outcome {
    static ALIVE: AtomicBool = AtomicBool::new(false);
    static INSIDE: AtomicU32 = AtomicU32::new(0);
    static CALLS: AtomicU32 = AtomicU32::new(0);
    static LATE: AtomicU32 = AtomicU32::new(0);
    static STOP: AtomicBool = AtomicBool::new(false);
    fn visit(_: &Event<'_>) {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        if !ALIVE.load(Ordering::SeqCst) {
            LATE.fetch_add(1, Ordering::SeqCst);
        }
        CALLS.fetch_add(1, Ordering::SeqCst);
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }

    let workers: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    marker!("handlers", "load");
                }
            })
        })
        .collect();
    let mut wrong = 0;
    for _ in 0..100 {
        let before = CALLS.load(Ordering::SeqCst);
        ALIVE.store(true, Ordering::SeqCst);
        let guard = register("handlers:load", &visit)?;
        while CALLS.load(Ordering::SeqCst) < before + 5 {
            thread::yield_now();
        }
        drop(guard);
        wrong += INSIDE.load(Ordering::SeqCst);
        ALIVE.store(false, Ordering::SeqCst);
    }
    STOP.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().map_err(|_| "a thread panicked")?;
    }
    expect("threads inside after a removal", wrong, 0)?;
    expect("calls after a removal", LATE.load(Ordering::SeqCst), 0)
}

/// An event inside a call-back is not called.
fn nested() -> Outcome {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    fn again(_: &Event<'_>) {
        CALLS.fetch_add(1, Ordering::SeqCst);
        marker!("handlers", "nested", depth: u32 = 1);
    }

    let _guard = register("handlers:nested", &again)?;
    for _ in 0..3 {
        marker!("handlers", "nested", depth: u32 = 0);
    }
    expect("calls", CALLS.load(Ordering::SeqCst), 3)
}

thread_local! {
    static GUARD: RefCell<Option<Handler>> = const { RefCell::new(None) };
}

/// A call-back removes itself.
fn itself() -> Outcome {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    fn once(_: &Event<'_>) {
        CALLS.fetch_add(1, Ordering::SeqCst);
        drop(GUARD.take());
    }

    GUARD.set(Some(register("handlers:once", &once)?));
    for _ in 0..3 {
        marker!("handlers", "once");
    }
    expect("calls", CALLS.load(Ordering::SeqCst), 1)
}

/// Signal handlers have markers, and interrupt everything.
fn signals() -> Outcome {
    static IN_SIGNAL: AtomicU32 = AtomicU32::new(0);
    static CALLED: AtomicU32 = AtomicU32::new(0);
    extern "C" fn on_signal(_: libc::c_int) {
        IN_SIGNAL.fetch_add(1, Ordering::SeqCst);
        marker!("handlers", "signal", text: str = "from a signal handler");
    }
    fn on_event(event: &Event<'_>) {
        if event.str("text") == Some("from a signal handler") {
            CALLED.fetch_add(1, Ordering::SeqCst);
        }
    }

    let guard = register("handlers:signal", &on_event)?;
    let on_signal = on_signal as extern "C" fn(libc::c_int);
    // SAFETY: the function does only what a signal handler may.
    unsafe { libc::signal(libc::SIGALRM, on_signal as libc::sighandler_t) };
    // SAFETY: raises a signal that has a handler.
    unsafe { libc::raise(libc::SIGALRM) };
    expect(
        "calls from a signal handler",
        CALLED.load(Ordering::SeqCst),
        1,
    )?;

    set_timer(Duration::from_micros(500));
    for number in 0..200 {
        let other = register("handlers:tick", &on_tick)?;
        for _ in 0..20 {
            tick(number);
        }
        drop(other);
    }
    set_timer(Duration::ZERO);
    drop(guard);
    let (signals, called) = (
        IN_SIGNAL.load(Ordering::SeqCst),
        CALLED.load(Ordering::SeqCst),
    );
    // Those that interrupted a call-back are not called.
    if signals < 10 || called > signals || called < 2 {
        return Err(format!("{called} calls for {signals} signals"));
    }
    Ok(())
}

fn set_timer(interval: Duration) {
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: interval.as_micros() as libc::suseconds_t,
    };
    let timer = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: the structure is valid, and the old one is not asked for.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}

/// A child has its parent's call-backs, and none of its threads inside them.
fn forks() -> Outcome {
    static ENTERED: AtomicBool = AtomicBool::new(false);
    static LEAVE: AtomicBool = AtomicBool::new(false);
    fn stay(_: &Event<'_>) {
        ENTERED.store(true, Ordering::SeqCst);
        while !LEAVE.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    let ticking = register("handlers:tick", &on_tick)?;
    let staying = register("handlers:stay", &stay)?;
    let worker = thread::spawn(|| marker!("handlers", "stay"));
    while !ENTERED.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    TICKS.store(0, Ordering::SeqCst);
    // SAFETY: the child only counts, ends call-backs and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        tick(1);
        let called = TICKS.load(Ordering::SeqCst) == 1;
        // Would wait for the worker, which is not in this process.
        drop(staying);
        drop(ticking);
        tick(2);
        let ended = TICKS.load(Ordering::SeqCst) == 1;
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(!called) + 2 * i32::from(!ended)) };
    }
    let status = waitpid(rustix::process::Pid::from_raw(child), WaitOptions::empty());
    LEAVE.store(true, Ordering::SeqCst);
    worker.join().map_err(|_| "the thread panicked")?;
    let status = status.map_err(|error| format!("waitpid: {error}"))?;
    let code = status.and_then(|(_, status)| status.exit_status());
    expect("status of the child", code, Some(0))?;
    expect("ticks of the child here", TICKS.load(Ordering::SeqCst), 0)?;
    tick(3);
    expect("ticks afterwards", TICKS.load(Ordering::SeqCst), 1)
}

/// What is wrong is said, with its place.
fn refusals() -> Outcome {
    for (pattern, position) in [("handlers:a b", 10), ("", 0), ("a:[", 2), ("a,b", 1)] {
        match handler::register(pattern, &on_tick) {
            Err(RegisterError::Pattern { position: at, .. }) if at == position => {}
            other => return Err(format!("`{pattern}`: {other:?}")),
        }
    }
    let all: Result<Vec<_>, _> = (0..markers::abi::MAX_CALLS)
        .map(|_| register("handlers:tick", &on_tick))
        .collect();
    let all = all?;
    expect(
        "one more",
        handler::register("handlers:tick", &on_tick).err(),
        Some(RegisterError::TooMany),
    )?;
    TICKS.store(0, Ordering::SeqCst);
    tick(1);
    expect("calls", TICKS.load(Ordering::SeqCst) as usize, all.len())
}

const AFTER_EXEC: &str = "--after-exec";

/// exec ends call-backs: the new program's markers are off, which it says itself.
fn exec() -> Outcome {
    let guard = register("handlers:tick", &on_tick)?;
    let error = Command::new("/proc/self/exe").arg(AFTER_EXEC).exec();
    drop(guard);
    Err(format!("/proc/self/exe: {error}"))
}

fn after_exec() -> ExitCode {
    let by_rules = std::env::var_os("RULES").is_some();
    match expect("evaluated after exec", tick(1), by_rules) {
        Ok(()) => {
            println!("ok exec");
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("failed exec: {why}");
            ExitCode::FAILURE
        }
    }
}
