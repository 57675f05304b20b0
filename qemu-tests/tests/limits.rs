//! What the quotas of the pool are for: nobody can take from PID 1 what it needs.

use qemu_tests::guest::Guest;
use qemu_tests::reading;

#[test]
fn the_pinned_share_of_pid_1_is_left_when_all_others_have_filled_the_pool() {
    // Each run of the service is a process with a share of its own, and what it wrote stays unread.
    let script = r#"
        for run in 1 2 3 4 5 6 7 8 9 10 11 12; do
            /usr/lib/bootmark/services/svc-threads
        done
        bootmark status --json | awk -F'[:,]' '/events_lost/ { print "lost" $2 }'
    "#;
    let outcome = Guest::new()
        .pool("512K")
        .rules("init:*,svc:*")
        .append("bootmark.services=no")
        .script(script)
        .boot()
        .unwrap();
    assert_eq!(outcome.script_status, Some(0), "{}", outcome.script_log);

    let summary = reading::summary(&outcome.trace()).unwrap();
    let streams = summary["streams"].as_array().unwrap();
    let lost = |of: &dyn Fn(&str) -> bool| -> u64 {
        streams
            .iter()
            .filter(|stream| of(stream["file"].as_str().unwrap()))
            .map(|stream| stream["lost"].as_u64().unwrap())
            .sum()
    };
    // The kernel counts those of threads that never had a chunk too.
    let all: u64 = outcome.printed("lost").parse().unwrap();
    assert!(all > 2010, "the pool was never full: {summary:#}");
    // Streams are called COMM-PID-TID.N.
    assert!(lost(&|file| file.starts_with("svc-threads-")) > 0);
    assert_eq!(lost(&|file| file.contains("-1-1.")), 0, "{summary:#}");

    // PID 1 went on recording: its own events about what comes after the script are there.
    let events = reading::events(&outcome.trace()).unwrap();
    let last_of_services = events
        .iter()
        .filter(|event| event.name().starts_with("svc:"))
        .map(reading::Event::ns)
        .max()
        .unwrap();
    assert!(
        events
            .iter()
            .any(|event| event.pid() == Some(1) && event.ns() > last_of_services)
    );
}
