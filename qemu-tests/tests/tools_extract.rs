//! `bootmark` inside a guest: rules at run time, extraction that is repeated and killed.

use std::collections::BTreeMap;

use qemu_tests::guest::Guest;
use qemu_tests::reading::{self, Event};

/// Events of the streams by name of the thread.
fn count(events: &[Event], comm: &str, name: &str) -> u64 {
    events
        .iter()
        .filter(|event| event.0["comm"] == comm && event.name() == name)
        .count() as u64
}

#[test]
fn rules_turn_markers_on_and_off_while_programs_run() {
    let script = "
        services=/usr/lib/bootmark/services
        bootmark enable 'svc:*'
        echo \"enable $?\"
        $services/svc-threads
        echo \"first $(cat /run/bootmark/svc-threads.count)\"
        bootmark disable 'svc:step'
        echo \"disable $?\"
        $services/svc-threads
        bootmark list --system --json | grep -c '\"enabled\":true' | sed 's/^/on /'
        bootmark list --system | grep -c '^off.* svc:step ' | sed 's/^/off /'
        bootmark enable 'svc:st/ep' 2>&1 | sed 's/^/malformed /'
        bootmark enable 'no-such-provider' >/dev/null 2>&1
        echo \"nothing $?\"
        bootmark forget '!svc:step'
        echo \"forget $?\"
        bootmark forget '!svc:step' 2>/dev/null
        echo \"forgotten $?\"
        bootmark forget --all
        $services/svc-threads
        bootmark status
    ";
    let outcome = Guest::new().rules("").script(script).boot().unwrap();
    for (word, status) in [
        ("enable", "3"),
        ("disable", "0"),
        ("off", "1"),
        ("nothing", "3"),
        ("forget", "0"),
        ("forgotten", "1"),
    ] {
        assert_eq!(
            outcome.printed(word),
            status,
            "{word}:\n{}",
            outcome.script_log
        );
    }
    assert!(
        outcome
            .printed("malformed")
            .contains("malformed rule, at character 10:"),
        "{}",
        outcome.script_log
    );
    assert!(
        outcome.script_log.contains("malformed            ^\n"),
        "{}",
        outcome.script_log
    );
    assert!(
        outcome.script_log.contains("rules    none"),
        "{}",
        outcome.script_log
    );

    let events = reading::events(&outcome.trace()).unwrap();
    let wrote: u64 = outcome.printed("first").parse().unwrap();
    let steps = count(&events, "svc-threads", "svc:step");
    let spans = count(&events, "svc-threads", "svc:thread.begin");
    // Twice the spans, once the steps, and of the third run nothing.
    assert_eq!(spans, 8);
    assert_eq!(
        steps + spans + 2,
        wrote,
        "the first run wrote steps, 4 spans and 2 more"
    );
    assert_eq!(
        reading::babeltrace(&outcome.trace()).unwrap().len(),
        events.len()
    );
}

#[test]
fn extractions_that_are_killed_and_repeated_lose_and_repeat_nothing() {
    let script = "
        total=0
        for pause in 0.01 0.03 0.05 0.08 0.1 0.12 0.15 0.2; do
            /usr/lib/bootmark/services/svc-threads
            total=$((total + $(cat /run/bootmark/svc-threads.count)))
            bootmark extract --output /var/lib/bootmark/trace >/dev/null 2>&1 &
            sleep $pause
            kill -9 $! 2>/dev/null
            wait $!
        done
        echo \"total $total\"
        bootmark extract --output /var/lib/bootmark/trace
        echo \"again $?\"
        bootmark status --json
        ls -A /var/lib/bootmark | grep -c '^\\.trace' | sed 's/^/remains /'
    ";
    let outcome = Guest::new().rules("svc:*").script(script).boot().unwrap();
    assert_eq!(outcome.printed("again"), "0", "{}", outcome.script_log);
    assert_eq!(outcome.printed("remains"), "0", "{}", outcome.script_log);
    let events = reading::events(&outcome.trace()).unwrap();
    // The services of the image wrote too: the script's runs are those of later processes.
    let mut by_process: BTreeMap<u64, u64> = BTreeMap::new();
    for event in events
        .iter()
        .filter(|event| event.0["comm"] == "svc-threads")
    {
        *by_process.entry(event.pid().unwrap()).or_default() += 1;
    }
    let service = by_process
        .pop_first()
        .expect("the image's own svc-threads wrote")
        .1;
    let total: u64 = outcome.printed("total").parse().unwrap();
    assert_eq!(by_process.len(), 8);
    assert_eq!(
        by_process.values().sum::<u64>(),
        total,
        "{by_process:?}, and {service} of the service"
    );
    let summary = reading::summary(&outcome.trace()).unwrap();
    assert_eq!(summary["lost"].as_u64(), Some(0));
    assert_eq!(
        reading::babeltrace(&outcome.trace()).unwrap().len(),
        events.len()
    );
}

#[test]
fn disks_that_are_full_or_read_only_are_said_and_free_nothing() {
    let script = "
        /usr/lib/bootmark/services/svc-threads
        mkdir -p /tmp/small && mount -t tmpfs -o size=16k none /tmp/small
        attempt() {
            said=$(bootmark extract --output $2 2>&1)
            echo \"$1 $? $said\"
        }
        attempt full /tmp/small/trace
        ls -A /tmp/small | wc -l | sed 's/^/left /'
        # With a trace that is there and cannot be completed.
        mount -o remount,size=8m /tmp/small
        attempt good /tmp/small/trace
        /usr/lib/bootmark/services/svc-threads
        mount -o remount,ro /tmp/small
        before=$(find /tmp/small -type f | sort | xargs cat | md5sum)
        attempt read-only /tmp/small/trace
        attempt below /tmp/small/new/trace
        [ \"$before\" = \"$(find /tmp/small -type f | sort | xargs cat | md5sum)\" ]
        echo \"same $?\"
        mount -o remount,rw /tmp/small
        attempt again /tmp/small/trace
        cp -a /tmp/small/trace /var/lib/bootmark/small
        umount /tmp/small
    ";
    let outcome = Guest::new().rules("svc:*").script(script).boot().unwrap();
    let log = &outcome.script_log;
    for (word, path, why, remedy) in [
        (
            "full",
            "/tmp/small/.trace.new",
            "No space left on device",
            "make room there",
        ),
        (
            "read-only",
            "/tmp/small/.trace.new",
            "Read-only file system",
            "mount it read-write",
        ),
        (
            "below",
            "cannot create /tmp/small/new:",
            "Read-only file system",
            "or extract to another directory",
        ),
    ] {
        let said = outcome.printed(word);
        assert!(said.starts_with("1 bootmark: "), "{log}");
        for part in [path, why, remedy, "nothing was acknowledged"] {
            assert!(said.contains(part), "no `{part}`:\n{log}");
        }
    }
    assert_eq!(outcome.printed("left"), "0", "{log}");
    assert_eq!(outcome.printed("same"), "0", "{log}");
    for word in ["good", "again"] {
        assert!(outcome.printed(word).starts_with("0 "), "{log}");
    }
    // All that was refused came with the next run: of the image's service and of two more.
    let small = reading::events(&outcome.dir.join("fetched/small")).unwrap();
    assert_eq!(count(&small, "svc-threads", "svc:thread.end"), 12);
    assert_eq!(count(&small, "svc-threads", "svc:step"), 3 * 2000);
}
