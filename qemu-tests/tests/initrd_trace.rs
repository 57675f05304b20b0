//! What the trace says about PID 1 and the services, on one real boot.

use std::process::Command;

use qemu_tests::guest::{Guest, Outcome};
use qemu_tests::programs;
use serde_json::Value;

/// A boot whose script reports what the services say they wrote.
fn boot(rules: &str) -> Outcome {
    Guest::new()
        .rules(rules)
        .script(
            "le64() { od -A n -t u8 \"$1\"; }\n\
             echo threads $(cat /run/bootmark/svc-threads.count)\n\
             echo c $(cat /run/bootmark/svc-c.count)\n\
             echo killed $(le64 /run/bootmark/svc-killed.count)\n\
             echo crash $(le64 /run/bootmark/svc-crash.count)\n",
        )
        .boot()
        .unwrap()
}

/// All events, as `bootmark view --json` of the host has them.
fn events(outcome: &Outcome) -> Vec<Value> {
    let view = Command::new(programs::build().unwrap().bootmark)
        .args(["view", "--json"])
        .arg(outcome.trace())
        .output()
        .unwrap();
    assert!(
        view.status.success(),
        "{}",
        String::from_utf8_lossy(&view.stderr)
    );
    String::from_utf8(view.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|e| e["event"] == name).collect()
}

/// Where the first event of this name and kind stands.
#[track_caller]
fn place(events: &[Value], name: &str, kind: &str) -> usize {
    events
        .iter()
        .position(|e| e["event"] == name && e["kind"] == kind)
        .unwrap_or_else(|| panic!("no {kind} of {name}"))
}

#[track_caller]
fn said(outcome: &Outcome, key: &str) -> u64 {
    outcome
        .script_log
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
        .unwrap_or_else(|| panic!("no `{key}` in:\n{}", outcome.script_log))
}

#[test]
fn pid_1_from_its_first_statement_to_the_last_service() {
    let outcome = boot("init:*,svc:*,kernel:*");
    let all = events(&outcome);
    let pid1: Vec<Value> = all.iter().filter(|e| e["pid"] == 1).cloned().collect();

    // The first thing PID 1 records, before anything is mounted.
    assert_eq!(pid1[0]["event"], "init:start");
    assert_eq!(pid1[0]["fields"]["stage"], "initramfs");
    assert_eq!(pid1[1]["event"], "init:initramfs");
    let start = pid1[0]["ts_ns"].as_i64().unwrap();

    // Kernel events stand before and after it on the same clock.
    let kernel = |e: &&Value| e["event"].as_str().unwrap().starts_with("kernel:");
    assert!(
        all.iter()
            .filter(kernel)
            .any(|e| e["ts_ns"].as_i64().unwrap() < start)
    );
    assert!(
        all.iter()
            .filter(kernel)
            .any(|e| e["ts_ns"].as_i64().unwrap() > start)
    );
    assert!(all.is_sorted_by_key(|e| e["ts_ns"].as_i64().unwrap()));

    // The stages in order, all ended, and the second stage in the same process.
    let order = [
        ("init:start", "instant"),
        ("init:initramfs", "begin"),
        ("init:mounts", "begin"),
        ("init:mounts", "end"),
        ("init:cmdline", "begin"),
        ("init:wait_root", "begin"),
        ("init:root_found", "instant"),
        ("init:wait_root", "end"),
        ("init:mount_root", "begin"),
        ("init:mount_root", "end"),
        ("init:check_init", "begin"),
        ("init:switch_root", "begin"),
        ("init:cleanup", "begin"),
        ("init:switch_root", "end"),
        ("init:initramfs", "end"),
        ("init:exec", "instant"),
        ("init:hostname", "begin"),
        ("init:services", "begin"),
        ("init:services", "end"),
        ("init:script", "begin"),
        ("init:extract", "instant"),
    ];
    let places: Vec<usize> = order
        .iter()
        .map(|(name, kind)| place(&pid1, name, kind))
        .collect();
    assert!(
        places.is_sorted(),
        "{:?}",
        order.iter().zip(&places).collect::<Vec<_>>()
    );
    let starts = named(&pid1, "init:start");
    assert_eq!(starts.len(), 2);
    assert_eq!(starts[1]["fields"]["stage"], "root");

    // No stage failed on this boot.
    let failed: Vec<_> = pid1
        .iter()
        .filter(|e| e["fields"]["ret"].as_i64().is_some_and(|ret| ret != 0))
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn services_leave_what_they_say_they_wrote() {
    let outcome = boot("init:*,svc:*");
    let all = events(&outcome);
    let of = |names: &[&str]| -> u64 {
        names
            .iter()
            .map(|name| named(&all, name).len() as u64)
            .sum()
    };
    let threads = [
        "svc:threads_start",
        "svc:thread",
        "svc:step",
        "svc:threads_done",
    ];
    assert_eq!(of(&threads), said(&outcome, "threads"));
    let c = ["svc:c_start", "svc:c_thread", "svc:c_step", "svc:c_done"];
    assert_eq!(of(&c), said(&outcome, "c"));

    // The two that died: each committed event is there, at most one more than was counted.
    let doomed = |key: &str| {
        let file = format!("/run/bootmark/svc-{key}.count");
        let numbers: Vec<u64> = named(&all, "svc:doomed")
            .iter()
            .filter(|e| e["fields"]["file"] == file.as_str())
            .map(|e| e["fields"]["number"].as_u64().unwrap())
            .collect();
        assert!(
            numbers.iter().copied().eq(1..=numbers.len() as u64),
            "{key}: {numbers:?}"
        );
        numbers.len() as u64
    };
    assert_eq!(doomed("crash"), said(&outcome, "crash"));
    let (killed, counted) = (doomed("killed"), said(&outcome, "killed"));
    assert!(
        (counted..=counted + 1).contains(&killed),
        "{killed} of {counted}"
    );

    // How each ended.
    let exits = named(&all, "init:service_exit");
    let exit = |name: &str| {
        let fields = &exits.iter().find(|e| e["fields"]["name"] == name).unwrap()["fields"];
        let number = |key: &str| fields[key].as_i64().unwrap();
        (
            number("status"),
            number("signal"),
            fields["timed_out"].as_bool().unwrap(),
        )
    };
    assert_eq!(exit("fail"), (3, 0, false));
    assert_eq!(exit("killed"), (0, 9, true));
    assert_eq!(exit("crash"), (0, 11, false));
    assert_eq!(exit("threads"), (0, 0, false));
    let skipped = named(&all, "init:service_skipped");
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0]["fields"]["name"], "needs-fail");

    // Others start while the slow one runs, those among them that had to wait for somebody else.
    let at = |name: &str, what: &str| {
        let found = named(&all, what);
        let event = found.iter().find(|e| e["fields"]["name"] == name).unwrap();
        event["ts_ns"].as_i64().unwrap()
    };
    for (before, after) in [("fail", "after-fail"), ("syslog", "busybox")] {
        assert!(at(before, "init:service") < at(after, "init:service"));
        assert!(at(after, "init:service") < at("slow", "init:service_exit"));
    }
}

#[test]
fn rules_choose_what_pid_1_records() {
    let outcome = boot("init:mount*");
    let all = events(&outcome);
    assert!(named(&all, "init:mount").len() >= 2 * 4);
    assert!(named(&all, "init:mount_root").len() == 2);
    let others: Vec<_> = all
        .iter()
        .filter(|e| !e["event"].as_str().unwrap().starts_with("init:mount"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}
