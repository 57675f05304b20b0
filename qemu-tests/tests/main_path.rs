//! The main job: boot with tracing on, and read what PID 1 did.
//!
//! One boot carries the assertions that agree on rules and script; the others have boots of their own.

use std::sync::OnceLock;

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::reading::{self, Event};

/// Says how many events the services wrote, as they counted themselves.
const COUNTS: &str = "
for name in svc-threads svc-c; do
    echo \"count $name $(cat /run/bootmark/$name.count)\"
done
for name in svc-killed svc-crash; do
    echo \"count $name $(od -An -t u8 /run/bootmark/$name.count)\"
done
bootmark status
";

struct Boot {
    outcome: Outcome,
    events: Vec<Event>,
}

/// The boot of `cargo xtask boot`, with its default rules.
fn demo() -> &'static Boot {
    static BOOT: OnceLock<Boot> = OnceLock::new();
    BOOT.get_or_init(|| {
        let outcome = Guest::new().script(COUNTS).boot().unwrap();
        let events = reading::events(&outcome.trace()).unwrap();
        Boot { outcome, events }
    })
}

impl Boot {
    fn count(&self, service: &str) -> u64 {
        self.outcome
            .printed(&format!("count {service}"))
            .parse()
            .unwrap()
    }

    fn first(&self, name: &str) -> usize {
        self.events
            .iter()
            .position(|event| event.name() == name)
            .unwrap_or_else(|| panic!("no event {name}"))
    }

    /// The events of a process, which `pick` finds by one of them.
    fn of_process(&self, pick: impl Fn(&Event) -> bool) -> Vec<&Event> {
        let pid = self
            .events
            .iter()
            .find(|event| event.pid().is_some() && pick(event))
            .and_then(Event::pid)
            .expect("the process left no event");
        self.events
            .iter()
            .filter(|event| event.pid() == Some(pid))
            .collect()
    }
}

#[test]
fn the_first_marker_is_pid_1s_before_anything_is_mounted() {
    let boot = demo();
    let first = boot
        .events
        .iter()
        .find(|event| event.pid().is_some())
        .unwrap();
    assert_eq!(first.pid(), Some(1));
    assert_eq!(first.name(), "init:start");
    assert_eq!(first.text("stage"), Some("initramfs"));
    assert!(boot.first("init:start") < boot.first("init:mount.begin"));
}

#[test]
fn kernel_events_stand_before_and_after_it_on_the_same_clock() {
    let boot = demo();
    let start = boot.first("init:start");
    let kernel = |events: &[Event]| {
        let of_kernel = events.iter().filter(|event| event.pid().is_none());
        of_kernel
            .map(|event| event.name().to_owned())
            .collect::<Vec<_>>()
    };
    let before = kernel(&boot.events[..start]);
    let after = kernel(&boot.events[start..]);
    assert!(before.contains(&"kernel:initcall.begin".to_owned()));
    assert!(before.contains(&"kernel:initcall.end".to_owned()));
    assert!(after.contains(&"kernel:sched_process_exec".to_owned()));
    assert!(after.contains(&"kernel:sched_process_exit".to_owned()));

    // PID 1's own exec is the kernel's last word before PID 1's first.
    let exec = boot.events[..start]
        .iter()
        .rfind(|event| event.name() == "kernel:sched_process_exec")
        .expect("the kernel recorded no exec before PID 1's first marker");
    assert_eq!(exec.number("pid"), Some(1));
    let gap = boot.events[start].ns() - exec.ns();
    assert!((0..2_000_000_000).contains(&gap), "{gap} ns");
    assert!(
        boot.events
            .windows(2)
            .all(|pair| pair[0].ns() <= pair[1].ns()),
        "not in the order of time"
    );
}

#[test]
fn pid_1_goes_on_in_the_same_stream_after_switch_root() {
    let boot = demo();
    let of_init: Vec<&Event> = boot
        .events
        .iter()
        .filter(|event| event.pid() == Some(1))
        .collect();
    let starts: Vec<_> = of_init
        .iter()
        .filter(|event| event.name() == "init:start")
        .map(|event| event.text("stage").unwrap())
        .collect();
    assert_eq!(starts, ["initramfs", "root"]);
    let stream = of_init[0].stream();
    assert!(of_init.iter().all(|event| event.stream() == stream));
    assert!(
        of_init
            .iter()
            .any(|event| event.name() == "init:service.begin")
    );
}

#[test]
fn the_stages_of_pid_1_are_in_order_and_all_went_well() {
    let boot = demo();
    let order = [
        "init:start",
        "init:initramfs.begin",
        "init:mounts.begin",
        "init:mounts.end",
        "init:cmdline.begin",
        "init:wait_root.begin",
        "init:root_found",
        "init:wait_root.end",
        "init:mount_root.begin",
        "init:mount_root.end",
        "init:check_init.begin",
        "init:switch_root.begin",
        "init:cleanup.begin",
        "init:switch_root.end",
        "init:initramfs.end",
        "init:exec",
        "init:hostname.begin",
        "init:services.begin",
        "init:services.end",
        "init:script.begin",
        "init:extract",
    ];
    let places: Vec<usize> = order.iter().map(|name| boot.first(name)).collect();
    assert!(
        places.is_sorted(),
        "{:?}",
        order.iter().zip(&places).collect::<Vec<_>>()
    );
    let failed: Vec<&Event> = boot
        .events
        .iter()
        .filter(|event| event.pid() == Some(1))
        .filter(|event| {
            event.0["fields"]["ret"]
                .as_i64()
                .is_some_and(|ret| ret != 0)
        })
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn services_start_in_order_and_in_parallel_and_their_ends_are_told() {
    let boot = demo();
    let of = |what: &str, service: &str| {
        boot.events
            .iter()
            .find(|event| event.name() == what && event.text("name") == Some(service))
            .unwrap_or_else(|| panic!("no {what} of {service}"))
    };
    let exit = |service: &str| {
        let fields = &of("init:service_exit", service).0["fields"];
        (
            fields["status"].as_i64().unwrap(),
            fields["signal"].as_i64().unwrap(),
            fields["timed_out"].as_bool().unwrap(),
        )
    };
    assert_eq!(exit("fail"), (3, 0, false));
    assert_eq!(exit("killed"), (0, 9, true));
    assert_eq!(exit("crash"), (0, 11, false));
    assert_eq!(exit("threads"), (0, 0, false));
    of("init:service_skipped", "needs-fail");

    // Others start while the slow one runs, those among them that had to wait for somebody else.
    let slow = of("init:service_exit", "slow").ns();
    for (before, after) in [("fail", "after-fail"), ("syslog", "busybox")] {
        let start = of("init:service.begin", after).ns();
        assert!(of("init:service.begin", before).ns() < start);
        assert!(start < slow);
    }
}

#[test]
fn babeltrace_reads_the_same_events_without_a_warning() {
    let boot = demo();
    let lines = reading::babeltrace(&boot.outcome.trace()).unwrap();
    assert_eq!(lines.len(), boot.events.len());
    for name in ["init:start", "svc:step", "kernel:initcall.begin"] {
        let theirs = lines
            .iter()
            .filter(|line| line.contains(&format!(" {name}: ")))
            .count();
        let ours = boot.events.iter().filter(|event| event.name() == name);
        assert_eq!(theirs, ours.count(), "{name}");
    }
}

#[test]
fn what_services_say_they_wrote_is_there() {
    let boot = demo();
    let threads = boot.of_process(|event| event.name() == "svc:threads_start");
    assert_eq!(threads.len() as u64, boot.count("svc-threads"));
    let c = boot.of_process(|event| event.0["comm"] == "svc-c");
    assert_eq!(c.len() as u64, boot.count("svc-c"));
    let summary = reading::summary(&boot.outcome.trace()).unwrap();
    assert_eq!(
        summary["events"].as_u64(),
        Some(boot.events.len() as u64),
        "{summary:#}"
    );
    assert_eq!(summary["lost"].as_u64(), Some(0), "{summary:#}");
}

#[test]
fn services_killed_in_the_middle_leave_their_events_and_the_reason() {
    let boot = demo();
    let text = std::fs::read_to_string(boot.outcome.trace().join("metadata")).unwrap();
    assert!(text.contains("svc:doomed"));
    for (service, reason) in [("svc-killed", "SIGKILL"), ("svc-crash", "SIGSEGV")] {
        let file = format!("/run/bootmark/{service}.count");
        let events = boot.of_process(|event| event.text("file") == Some(&file));
        let numbers: Vec<u64> = events
            .iter()
            .filter_map(|event| event.number("number"))
            .collect();
        let committed = boot.count(service);
        assert!(committed > 10, "{service} wrote {committed}");
        let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
        assert_eq!(
            numbers, expected,
            "{service}: something is missing or doubled"
        );
        let count = numbers.len() as u64;
        assert!(
            count == committed || count == committed + 1,
            "{service}: {count} of {committed}"
        );

        let pid = events[0].pid().unwrap();
        let summary = reading::summary(&boot.outcome.trace()).unwrap();
        let processes = summary["processes"].as_array().unwrap();
        let process = processes
            .iter()
            .find(|process| process["pid"].as_u64() == Some(pid))
            .unwrap();
        assert!(process.to_string().contains(reason), "{process}");
    }
}

#[test]
fn a_rule_records_what_it_names_and_nothing_else() {
    let outcome = Guest::new().rules("init:mount*").boot().unwrap();
    let events = reading::events(&outcome.trace()).unwrap();
    assert!(!events.is_empty());
    for event in &events {
        assert!(event.name().starts_with("init:mount"), "{}", event.name());
    }
    assert_eq!(
        reading::babeltrace(&outcome.trace()).unwrap().len(),
        events.len()
    );
}

#[test]
fn without_rules_nothing_is_recorded_and_nothing_is_mapped() {
    let script = "
        grep -l bootbuf /proc/[0-9]*/maps 2>/dev/null && exit 1
        bootmark status --json
    ";
    let outcome = Guest::new().rules("").script(script).boot().unwrap();
    assert_eq!(outcome.script_status, Some(0), "{}", outcome.script_log);
    let status: serde_json::Value = serde_json::from_str(outcome.script_log.trim()).unwrap();
    let buffers = &status["buffers"];
    assert_eq!(buffers["sealed_chunks"].as_u64(), Some(0), "{status:#}");
    if outcome.trace().exists() {
        assert!(reading::events(&outcome.trace()).unwrap().is_empty());
    }
}
