//! The kernel's own events: what one rule shows, what must be asked for, and one switch for
//! markers and ftrace.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::reading::{self, Event};
use qemu_tests::{kernel, process};

/// All events; babeltrace2 reads as many, without a warning.
fn events(outcome: &Outcome) -> Vec<Event> {
    let events = reading::events(&outcome.trace()).unwrap();
    assert_eq!(
        reading::babeltrace(&outcome.trace()).unwrap().len(),
        events.len()
    );
    events
}

fn signed(event: &Event, field: &str) -> i64 {
    event.0["fields"][field]
        .as_i64()
        .unwrap_or_else(|| panic!("no number {field} in {event:?}"))
}

/// What came of the attempts to mount (or unmount) there: the fields of the begins that pass, and
/// the results of the ends that belong to them.
fn attempts<'a>(events: &'a [Event], what: &str, target: &str) -> Vec<(&'a Event, i64)> {
    let (begin, end) = (format!("kernel:{what}.begin"), format!("kernel:{what}.end"));
    events
        .iter()
        .filter(|event| event.name() == begin && event.text("target") == Some(target))
        .map(|event| {
            let ended = events
                .iter()
                .find(|other| other.name() == end && signed(other, "begin") == event.ns())
                .unwrap_or_else(|| panic!("{event:?} has no end"));
            assert_eq!(ended.text("target"), Some(target));
            (event, signed(ended, "ret"))
        })
        .collect()
}

const ENOENT: i64 = -2;
const EEXIST: i64 = -17;
const ENODEV: i64 = -19;
const EINVAL: i64 = -22;

#[test]
fn one_rule_shows_mounts_switches_and_block_requests() {
    let script = "
        mkdir -p /tmp/here
        mount -t tmpfs -o nosuid paper /tmp/here
        mount -t nosuchfs paper /tmp/here
        mount -t tmpfs paper /tmp/nowhere
        mount -o remount,ro /tmp/here
        umount /tmp/here
        umount /tmp/here
        echo 3 > /proc/sys/vm/drop_caches
        dd if=/dev/vda of=/dev/null bs=64k count=16 2>/dev/null
        dd if=/dev/zero of=/var/lib/bootmark/written bs=4k count=8 conv=fsync 2>/dev/null
        bootmark list --system | grep -c '^off.* kernel:sys_' | sed 's/^/syscalls-off /'
        bootmark summary --help >/dev/null
    ";
    let outcome = Guest::new()
        .rules("init:*,kernel:*")
        .pool("32M")
        .script(script)
        .boot()
        .unwrap();
    let events = events(&outcome);
    let summary = reading::summary(&outcome.trace()).unwrap();
    assert_eq!(summary["lost"].as_u64(), Some(0), "{summary}");

    let here = attempts(&events, "mount", "/tmp/here");
    let results: Vec<i64> = here.iter().map(|(_, ret)| *ret).collect();
    assert_eq!(results, [0, ENODEV, 0], "{here:?}");
    let (first, _) = here[0];
    assert_eq!(first.text("source"), Some("paper"));
    assert_eq!(first.text("fstype"), Some("tmpfs"));
    // MS_NOSUID, as the C library and the kernel spell it.
    assert_eq!(signed(first, "flags") & 2, 2, "{first:?}");
    assert_eq!(here[1].0.text("fstype"), Some("nosuchfs"));
    // MS_REMOUNT.
    assert_eq!(signed(here[2].0, "flags") & 32, 32);
    let nowhere = attempts(&events, "mount", "/tmp/nowhere");
    assert_eq!(nowhere.len(), 1);
    assert_eq!(nowhere[0].1, ENOENT);
    let results: Vec<i64> = attempts(&events, "umount", "/tmp/here")
        .iter()
        .map(|(_, ret)| *ret)
        .collect();
    assert_eq!(results, [0, EINVAL]);
    // PID 1 says of its own mounts what the kernel says.
    let by_init: HashSet<&str> = events
        .iter()
        .filter(|event| event.name() == "kernel:mount.begin" && event.number("pid") == Some(1))
        .filter_map(|event| event.text("target"))
        .collect();
    assert!(by_init.contains("/proc"), "{by_init:?}");

    switches_form_a_chain(&events);
    assert!(events.iter().any(|event| {
        event.name() == "kernel:sched_wakeup" && event.number("target_cpu").is_some()
    }));
    requests_come_in_pairs(&events);

    assert_eq!(outcome.printed("syscalls-off"), "2");
    assert!(
        !events
            .iter()
            .any(|event| event.name().starts_with("kernel:sys_"))
    );
    assert!(
        events.windows(2).all(|pair| pair[0].ns() <= pair[1].ns()),
        "not in the order of time"
    );
    // Context switches are the most by far, and the page is about something else.
    let page = summary.to_string();
    assert!(!page.contains("sched_switch"), "{page}");
}

/// Whoever a CPU switched to is whoever it switches from next, since nothing was lost.
fn switches_form_a_chain(events: &[Event]) {
    let mut runs: HashMap<u64, (u64, String)> = HashMap::new();
    let mut states = HashSet::new();
    let mut count = 0;
    for event in events
        .iter()
        .filter(|event| event.name() == "kernel:sched_switch")
    {
        let cpu = event.0["cpu"].as_u64().unwrap();
        let next = (
            event.number("next_pid").unwrap(),
            event.text("next_comm").unwrap().to_owned(),
        );
        if let Some((pid, _)) = runs.insert(cpu, next) {
            assert_eq!(event.number("prev_pid"), Some(pid), "{event:?}");
        }
        states.insert(event.text("prev_state").unwrap().to_owned());
        count += 1;
    }
    assert!(count > 100, "{count} switches");
    assert_eq!(runs.len(), 2, "both CPUs switch");
    for state in ["R", "S"] {
        assert!(states.contains(state), "{states:?}");
    }
}

/// A request for data completes after it was issued, and all do. (Those without data are the block
/// layer's own, for caches to be flushed.)
fn requests_come_in_pairs(events: &[Event]) {
    let key = |event: &Event| {
        (
            event.number("major").unwrap(),
            event.number("minor").unwrap(),
            event.number("sector").unwrap(),
        )
    };
    let mut open: HashMap<_, u64> = HashMap::new();
    let (mut read, mut written) = (0, 0);
    for event in events
        .iter()
        .filter(|event| event.number("bytes").is_some_and(|bytes| bytes > 0))
    {
        match event.name() {
            "kernel:block_rq_issue" => *open.entry(key(event)).or_default() += 1,
            "kernel:block_rq_complete" => {
                assert_eq!(signed(event, "error"), 0, "{event:?}");
                let issued = open.entry(key(event)).or_default();
                assert!(*issued > 0, "completed, not issued: {event:?}");
                *issued -= 1;
                let bytes = event.number("bytes").unwrap();
                match event.text("rwbs").unwrap() {
                    rwbs if rwbs.contains('R') => read += bytes,
                    rwbs if rwbs.contains('W') => written += bytes,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    assert!(read >= 16 * 65536, "{read} octets read");
    assert!(written >= 8 * 4096, "{written} octets written");
    // The extraction ends with the trace, so the last ones may still be under way.
    let left: u64 = open.values().sum();
    assert!(left <= 4, "{left} requests never completed");
}

const MODULE: &str = "
#include <linux/module.h>
static int __init started(void) { return 0; }
static void __exit ended(void) { }
module_init(started);
module_exit(ended);
MODULE_LICENSE(\"GPL\");
MODULE_DESCRIPTION(\"nothing\");
";

/// Builds a module of the guest's kernel that does nothing.
fn build_module(dir: &Path) -> PathBuf {
    fs::write(dir.join("nothing.c"), MODULE).unwrap();
    fs::write(dir.join("Makefile"), "obj-m := nothing.o\n").unwrap();
    let inputs = kernel::Inputs::read(None, &kernel::default_config()).unwrap();
    kernel::in_build_tree(&inputs, |_, build| {
        process::output(kernel::kbuild(build).arg("modules_prepare"))?;
        // There is no list of all symbols, as the kernel's own modules are not built.
        process::output(
            kernel::kbuild(build)
                .arg(format!("M={}", dir.display()))
                .args(["KBUILD_MODPOST_WARN=1", "modules"]),
        )
    })
    .unwrap();
    dir.join("nothing.ko")
}

#[test]
fn modules_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let script = "
        insmod /nothing.ko && rmmod nothing
        echo \"status $?\"
    ";
    let outcome = Guest::new()
        .rules("kernel:module_*,kernel:initcall")
        .add(build_module(dir.path()), "/nothing.ko")
        .script(script)
        .boot()
        .unwrap();
    assert_eq!(outcome.printed("status"), "0", "{}", outcome.script_log);
    let events = events(&outcome);
    let first = |name: &str, field: &str, text: &str| {
        let found = events.iter().position(|event| {
            event.name() == name && event.text(field).is_some_and(|name| name.starts_with(text))
        });
        found.unwrap_or_else(|| panic!("no {name} of {text}"))
    };
    let loaded = first("kernel:module_load", "name", "nothing");
    // TAINT_OOT_MODULE.
    assert_eq!(signed(&events[loaded], "taints") & 1 << 12, 1 << 12);
    let started = first("kernel:initcall.end", "func", "started");
    assert!(loaded < started);
    assert!(started < first("kernel:module_free", "name", "nothing"));
}

#[test]
fn system_calls_are_recorded_on_request_only() {
    let script = "
        state() { echo \"$1 $(bootmark list --system | grep -c '^on.* kernel:sys_')\"; }
        state boot
        sh -c 'echo \"maker $$\"; exec mkdir /tmp/made'
        sh -c 'echo \"again $$\"; exec mkdir /tmp/made' 2>/dev/null
        bootmark forget --all >/dev/null
        state none
        bootmark enable 'kernel:*' >/dev/null
        state star
        bootmark enable 'kernel:[s]*' 'kernel:?ys_enter' >/dev/null
        state class
        bootmark enable 'kernel:sys_*' >/dev/null
        state asked
        bootmark enable 'kernel:*' >/dev/null
        state kept
        bootmark disable 'kernel:*' >/dev/null
        state off
        bootmark enable 'kernel:*' >/dev/null
        state back
        bootmark forget 'kernel:sys_*' >/dev/null
        state gone
        bootmark forget --all >/dev/null
    ";
    let outcome = Guest::new()
        .rules("kernel:sys_*")
        .pool("64M")
        .script(script)
        .boot()
        .unwrap();
    for (word, on) in [
        ("boot", "2"),
        ("none", "0"),
        ("star", "0"),
        ("class", "0"),
        ("asked", "2"),
        ("kept", "2"),
        ("off", "0"),
        ("back", "2"),
        ("gone", "0"),
    ] {
        assert_eq!(outcome.printed(word), on, "{word}:\n{}", outcome.script_log);
    }

    let events = events(&outcome);
    let calls: Vec<&Event> = events
        .iter()
        .filter(|event| event.name().starts_with("kernel:sys_"))
        .collect();
    // A rule of the command line holds for PID 1 too, which was not there yet.
    assert!(calls.iter().any(|event| event.number("tid") == Some(1)));
    assert_eq!(made(&calls, outcome.printed("maker")), [0]);
    assert_eq!(made(&calls, outcome.printed("again")), [EEXIST]);
}

/// The results of a thread's calls of mkdir(2), entered and left.
fn made(calls: &[&Event], tid: &str) -> Vec<i64> {
    const MKDIR: u64 = 83;
    const MODE: i64 = 0o777;
    let tid: u64 = tid.parse().unwrap();
    let of_thread: Vec<&&Event> = calls
        .iter()
        .filter(|event| event.number("tid") == Some(tid))
        .collect();
    of_thread
        .windows(2)
        .filter(|pair| pair[0].name() == "kernel:sys_enter" && pair[0].number("nr") == Some(MKDIR))
        .map(|pair| {
            assert_eq!(signed(pair[0], "a1"), MODE, "{:?}", pair[0]);
            assert_eq!(pair[1].name(), "kernel:sys_exit");
            assert_eq!(pair[1].number("nr"), Some(MKDIR));
            signed(pair[1], "ret")
        })
        .collect()
}

#[test]
fn a_storm_of_events_is_counted_and_harms_nothing() {
    let script = "
        services=/usr/lib/bootmark/services
        for i in 1 2 3; do
            (while [ ! -e /tmp/stop ]; do $services/svc-threads; done) &
        done
        for i in 1 2 3 4 5 6; do
            bootmark extract --output /var/lib/bootmark/trace --timeout 5s >/dev/null 2>&1
            sleep 0.3
        done
        touch /tmp/stop
        wait
        bootmark forget --all >/dev/null
        echo \"done $?\"
    ";
    let outcome = Guest::new()
        .rules("init:*,svc:*,kernel:*,kernel:sys_*")
        .pool("2M")
        .script(script)
        .boot()
        .unwrap();
    assert_eq!(outcome.printed("done"), "0", "{}", outcome.script_log);
    // babeltrace2 would warn of what was lost.
    let events = reading::events(&outcome.trace()).unwrap();
    let summary = reading::summary(&outcome.trace()).unwrap();
    assert!(summary["lost"].as_u64() > Some(0), "{summary}");
    assert_eq!(summary["left_out"]["invalid"].as_u64(), Some(0));
    for name in ["kernel:sys_enter", "kernel:sched_switch", "svc:step"] {
        assert!(events.iter().any(|event| event.name() == name), "{name}");
    }
}

/// In a script: `on` and `off` turn tracing on and off, and print when.
const SWITCH: &str = "
    mount -t tracefs none /sys/kernel/tracing 2>/dev/null
    tracing=/sys/kernel/tracing
    services=/usr/lib/bootmark/services
    uptime() { cut -d' ' -f1 /proc/uptime; }
    on() { echo \"open $(uptime)\"; echo 1 > $tracing/tracing_on; }
    off() { echo 0 > $tracing/tracing_on; echo \"shut $(uptime)\"; }
";

/// The times between `on` and `off`, in nanoseconds since boot.
fn windows(log: &str) -> Vec<(i64, i64)> {
    let times = |word: &str| -> Vec<i64> {
        log.lines()
            .filter_map(|line| line.strip_prefix(word)?.trim().parse::<f64>().ok())
            .map(|seconds| (seconds * 1e9) as i64)
            .collect()
    };
    // What is printed is cut off to a hundredth.
    let shut = times("shut").into_iter().map(|ns| ns + 10_000_000);
    times("open").into_iter().zip(shut).collect()
}

fn of_window(events: &[Event], (open, shut): (i64, i64)) -> Vec<&Event> {
    events
        .iter()
        .filter(|event| (open..=shut).contains(&event.ns()))
        .collect()
}

#[test]
fn one_switch_turns_markers_and_ftrace_on_and_off() {
    let script = format!(
        "{SWITCH}
        echo \"boot $(cat $tracing/tracing_on)\"
        echo \"parameter $(cat /sys/module/bootmark/parameters/follow_ftrace)\"
        bootmark list --system | grep -c '^on' | sed 's/^/on-while-shut /'
        bootmark status | grep '^ftrace' | sed 's/^/status /'
        $services/svc-threads
        on
        $services/svc-threads
        echo \"count $(cat /run/bootmark/svc-threads.count)\"
        off
        $services/svc-threads
        # Programs come and go while the switch is thrown.
        (while [ ! -e /tmp/stop ]; do $services/svc-c /tmp/count; done) &
        for i in 1 2 3 4 5 6 7 8; do
            on
            sleep 0.2
            off
            sleep 0.2
        done
        touch /tmp/stop
        wait
        # ftrace's own way to stop itself: its trigger runs with the scheduler's locks held.
        on
        echo traceoff > $tracing/events/sched/sched_switch/trigger
        sleep 1
        echo \"shut $(uptime)\"
        echo '!traceoff' > $tracing/events/sched/sched_switch/trigger
        echo \"triggered $(cat $tracing/tracing_on)\"
        $services/svc-threads
        "
    );
    let outcome = Guest::new()
        .rules("init:*,svc:*,kernel:*")
        .append("bootmark.follow_ftrace trace_trigger=initcall_start.traceoff")
        .script(script)
        .boot()
        .unwrap();
    let log = &outcome.script_log;
    assert_eq!(outcome.printed("boot"), "0", "{log}");
    assert_eq!(outcome.printed("parameter"), "Y", "{log}");
    assert_eq!(outcome.printed("on-while-shut"), "0", "{log}");
    assert!(outcome.printed("status").contains("followed"), "{log}");
    assert_eq!(outcome.printed("triggered"), "0", "{log}");
    outcome.shows(&["bootmark: markers follow ftrace, where tracing is off now"]);

    let events = events(&outcome);
    let summary = reading::summary(&outcome.trace()).unwrap();
    assert_eq!(summary["lost"].as_u64(), Some(0), "{summary}");
    let windows = windows(log);
    assert_eq!(windows.len(), 10, "{log}");

    // All events are in a window: of the kernel's and of PID 1's start there is none.
    for event in &events {
        assert!(
            windows
                .iter()
                .any(|(open, shut)| (*open..=*shut).contains(&event.ns())),
            "{event:?} is in none of {windows:?}"
        );
    }

    let first = of_window(&events, windows[0]);
    let marked = first
        .iter()
        .filter(|event| event.0["comm"] == "svc-threads")
        .count();
    let count: usize = outcome.printed("count").parse().unwrap();
    assert_eq!(marked, count, "all that it wrote while the switch was on");
    let executed = first
        .iter()
        .filter(|event| event.name() == "kernel:sched_process_exec")
        .filter(|event| {
            event
                .text("filename")
                .is_some_and(|name| name.ends_with("svc-threads"))
        })
        .count();
    assert_eq!(executed, 1);

    for window in &windows[1..9] {
        let here = of_window(&events, *window);
        assert!(here.iter().any(|event| event.pid().is_some()), "{window:?}");
        assert!(
            here.iter()
                .any(|event| event.name() == "kernel:sched_process_exec"),
            "{window:?}"
        );
    }
    // The trigger fires at the next context switch.
    let last = of_window(&events, windows[9]);
    assert!(last.last().unwrap().ns() < windows[9].1 - 500_000_000);
}

#[test]
fn without_the_option_markers_do_not_care_for_ftrace() {
    let script = format!(
        "{SWITCH}
        echo \"parameter $(cat /sys/module/bootmark/parameters/follow_ftrace)\"
        off
        $services/svc-threads
        echo \"count $(cat /run/bootmark/svc-threads.count)\"
        "
    );
    let outcome = Guest::new()
        .rules("")
        .append("bootmark=svc:* bootmark.services=no")
        .script(script)
        .boot()
        .unwrap();
    assert_eq!(outcome.printed("parameter"), "N");
    let events = events(&outcome);
    let count: usize = outcome.printed("count").parse().unwrap();
    assert_eq!(events.len(), count);
}
