//! What bad input gets from the kernel's side: an answer that says what and where, and a boot that goes on.
//!
//! Root devices and inits that are not there: `initrd_failures`. Damaged traces and files: the tests of `tools`.

use qemu_tests::guest::Guest;
use qemu_tests::reading;
use serde_json::Value;

#[test]
fn malformed_rules_are_skipped_and_unmatched_ones_are_named() {
    let script = "
        echo '== status'
        bootmark status --json
        echo '== malformed'
        bootmark enable 'svc:st[ep'
        echo \"exit $?\"
        echo '== nothing'
        bootmark enable 'nosuch:*'
        echo \"exit $?\"
    ";
    let outcome = Guest::new()
        .rules("init:start,init:mo/unt,nothing:here,!init:*{x}")
        .script(script)
        .boot()
        .unwrap();
    outcome.tells(&["init:mo/unt", "position 11", "'/'"]);
    outcome.tells(&["!init:*{x}", "position 7", "no filter or actions"]);

    let status: Value = serde_json::from_str(outcome.section("status")).unwrap();
    let rules: Vec<(&str, u64)> = status["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            (
                rule["text"].as_str().unwrap(),
                rule["matched"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(rules.len(), 2, "{rules:?}");
    assert!(matches!(rules[0], ("init:start", 1..)), "{rules:?}");
    assert_eq!(rules[1], ("nothing:here", 0));

    let malformed = outcome.section("malformed");
    assert!(malformed.contains("malformed rule"), "{malformed}");
    assert!(malformed.contains("svc:st[ep\n"), "{malformed}");
    assert!(malformed.contains("exit 1"), "{malformed}");
    let nothing = outcome.section("nothing");
    assert!(nothing.contains("nosuch:*"), "{nothing}");
    assert!(nothing.contains("exit 3"), "{nothing}");

    let events = reading::events(&outcome.trace()).unwrap();
    assert!(events.iter().all(|event| event.name() == "init:start"));
    assert_eq!(events.len(), 2);
}

#[test]
fn a_pool_that_cannot_be_had_is_said_and_the_boot_goes_on() {
    for (size, why) in [
        ("64T", "more than half of the memory"),
        ("100K", "smaller than"),
        ("16Q", "not a size"),
    ] {
        let script = "
            grep -l bootbuf /proc/[0-9]*/maps
            bootmark status
            bootmark extract --output /tmp/trace
            echo \"exit $?\"
        ";
        let outcome = Guest::new()
            .pool(size)
            .append("bootmark.extract=no")
            .script(script)
            .boot()
            .unwrap();
        outcome.tells(&[&format!("bootbuf={size}"), why, "tracing is off"]);
        outcome.tells(&["there are rules but no buffers", "bootbuf=16M"]);
        let log = &outcome.script_log;
        assert!(log.contains("buffers  none"), "{log}");
        assert!(log.contains("exit 1"), "{log}");
        assert!(!log.contains("maps"), "{log}");
    }
}

#[test]
fn programs_with_markers_run_on_a_kernel_without_the_patch() {
    let script = "
        echo '== tool'
        bootmark status
        echo \"exit $?\"
        echo '== extract'
        bootmark extract --output /tmp/trace
        echo \"exit $?\"
        echo '== counts'
        cat /run/bootmark/svc-threads.count /run/bootmark/svc-c.count
    ";
    let outcome = Guest::new()
        .kernel("off")
        .append("bootmark.extract=no")
        .script(script)
        .boot()
        .unwrap();
    for (title, call) in [("tool", "marker_ctl"), ("extract", "bootbuf_open")] {
        let text = outcome.section(title);
        assert!(text.contains("this kernel has no Bootmark"), "{text}");
        assert!(text.contains(call) && text.contains("exit 1"), "{text}");
    }
    let counts: Vec<u64> = outcome
        .section("counts")
        .lines()
        .map(|line| line.trim().parse().unwrap())
        .collect();
    assert_eq!(counts.len(), 2);
    assert!(counts.iter().all(|count| *count > 0));
}

#[test]
fn three_records_cost_a_page_and_programs_without_markers_nothing() {
    // The first run of each program lets the kernel describe it, once.
    let script = "
        free() { bootmark status --json | grep free_bytes | tr -dc 0-9; echo; }
        three() { /usr/lib/bootmark/services/svc-killed /tmp/count 3; }
        three; free
        three; free
        for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; free
    ";
    let outcome = Guest::new()
        .rules("svc:doomed")
        .append("bootmark.services=no")
        .script(script)
        .boot()
        .unwrap();
    let free: Vec<u64> = outcome
        .script_log
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect();
    assert_eq!(free.len(), 3, "{}", outcome.script_log);
    assert_eq!(free[0] - free[1], 4096);
    assert_eq!(free[1], free[2]);
    let events = reading::events(&outcome.trace()).unwrap();
    assert_eq!(events.len(), 6);
}
