//! A kernel that panics: the boot after it has every event that was committed before.
//!
//! `svc-witness` testifies in a page of memory that the kernel leaves alone (`memmap=`) how many
//! events it has committed. The script sees by that page, and by what it finds extracted, whether
//! it runs in the boot that is to die or in the one after it.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::qemu::Alarm;
use qemu_tests::reading::{self, Event};

/// Where the two witnesses testify.
const PAGES: [&str; 2] = ["0x8000000", "0x8001000"];

/// Ends the second boot's script with what the witnesses of the first say; else starts them, and
/// says so when both are at work.
fn witnesses() -> String {
    let [zero, one] = PAGES;
    format!(
        "counter() {{ dd if=/dev/mem bs=8 skip=$(($1 / 8)) count=1 2>/dev/null | od -A n -t u8; }}
        if [ -d /var/lib/bootmark/previous ]; then
            echo \"witness 0 $(counter {zero})\"
            echo \"witness 1 $(counter {one})\"
            bootmark extract --boot -1 --output /tmp/again 2>&1
            echo \"again $?\"
            exit 0
        fi
        /usr/lib/bootmark/services/svc-witness {zero} 0 &
        /usr/lib/bootmark/services/svc-witness {one} 1 &
        while [ $(counter {zero}) -lt 100 -o $(counter {one}) -lt 100 ]; do sleep 0.05; done
        echo witnesses-at-work > /dev/kmsg
        "
    )
}

fn guest() -> Guest {
    // A panic may be some seconds in coming, in which the witnesses must not run out of room.
    Guest::new()
        .memory(1024)
        .pool("192M")
        .append("memmap=8K$0x8000000")
        .reboots()
        .tolerate(Alarm::Panic)
        .timeout(Duration::from_secs(400))
}

/// Whether the trace of the boot that died has every event that its witnesses testify to, and at
/// most one more of each.
#[track_caller]
fn nothing_is_missing(outcome: &Outcome) -> Vec<Event> {
    let events = reading::events(&outcome.previous()).unwrap();
    for cpu in 0..2 {
        let told: u64 = outcome.printed(&format!("witness {cpu}")).parse().unwrap();
        let numbers: Vec<u64> = events
            .iter()
            .filter(|event| {
                event.name() == "svc:witness" && event.number("cpu") == Some(cpu as u64)
            })
            .map(|event| event.number("number").unwrap())
            .collect();
        assert!(told >= 100, "{told}");
        let found = numbers.len() as u64;
        assert!(
            numbers.iter().copied().eq(1..=found),
            "gaps or repetitions in {found} events of cpu {cpu}"
        );
        assert!(
            found == told || found == told + 1,
            "cpu {cpu}: {told} were committed, {found} are there"
        );
        eprintln!("cpu {cpu}: {told} committed, {found} found");
    }
    assert_eq!(
        outcome.printed("again"),
        "3",
        "it is given up once it was read"
    );
    events
}

#[track_caller]
fn ended_by_a_panic(outcome: &Outcome, message: &str) {
    let summary = reading::summary(&outcome.previous()).unwrap();
    assert_eq!(summary["previous"], true);
    assert_eq!(summary["end"]["how"], "panic", "{summary}");
    let text = summary["end"]["text"].as_str().unwrap();
    assert!(text.contains(message), "{text}");
    let last = summary["last_events"].as_array().unwrap();
    assert_eq!(last.len(), 10);
    let after = reading::summary(&outcome.trace()).unwrap();
    assert_eq!(after["previous"], false);
    assert_ne!(summary["boot_id"], after["boot_id"]);
}

#[test]
fn a_panic_in_a_system_call() {
    let script = format!("{}echo c > /proc/sysrq-trigger", witnesses());
    let outcome = guest().script(script).boot().unwrap();
    let events = nothing_is_missing(&outcome);
    ended_by_a_panic(&outcome, "sysrq triggered crash");
    // Of the kernel's own streams and of PID 1 as well.
    for name in [
        "kernel:sched_process_exec",
        "init:start",
        "init:script.begin",
    ] {
        assert!(
            events.iter().any(|event| event.name() == name),
            "no {name} in the trace of the boot that died"
        );
    }
    let lines = reading::babeltrace(&outcome.previous()).unwrap();
    assert_eq!(lines.len(), events.len());
    outcome.shows(&["they are kept until they are read"]);
}

#[test]
fn what_a_process_aggregated_is_there_after_a_panic() {
    let outcome = guest()
        .rules("svc:witness{count(), max(number) by cpu}")
        .script(format!("{}echo c > /proc/sysrq-trigger", witnesses()))
        .boot()
        .unwrap();
    let rows = reading::rows(&outcome.previous()).unwrap();
    assert_eq!(rows.len(), 2, "{rows:#?}");
    for row in &rows {
        let cpu = row["key"]["cpu"].as_u64().unwrap();
        let told: u64 = outcome.printed(&format!("witness {cpu}")).parse().unwrap();
        assert!(told >= 100, "{told}");
        // The last one may have been counted and not told, and be in one value and not the other.
        for found in [&row["count"], &row["values"]["max(number)"]] {
            let found = found.as_u64().unwrap();
            assert!(found == told || found == told + 1, "{told} told: {row}");
        }
    }
    assert!(reading::events(&outcome.previous()).unwrap().is_empty());
    assert_eq!(reading::summary(&outcome.previous()).unwrap()["lost"], 0);
}

#[test]
fn a_panic_in_an_interrupt_while_all_cpus_write() {
    let dir = tempfile::tempdir().unwrap();
    let monitor = dir.path().join("monitor");
    let out = dir.path().join("out");
    let nmi = thread::spawn({
        let (monitor, console) = (monitor.clone(), out.join("console.log"));
        move || {
            wait_for(&console, "witnesses-at-work");
            UnixStream::connect(monitor)
                .and_then(|mut stream| stream.write_all(b"nmi\n").and(Ok(stream)))
                .inspect(|_| thread::sleep(Duration::from_secs(1)))
        }
    });
    let script = format!("{}sleep 300", witnesses());
    let outcome = guest()
        .append("unknown_nmi_panic")
        .qemu_arg("-monitor")
        .qemu_arg(&format!("unix:{},server=on,wait=off", monitor.display()))
        .out(&out)
        .script(script)
        .boot()
        .unwrap();
    nmi.join().unwrap().unwrap();
    nothing_is_missing(&outcome);
    ended_by_a_panic(&outcome, "NMI");
}

fn wait_for(console: &PathBuf, text: &str) {
    let patience = Instant::now() + Duration::from_secs(600);
    while !fs::read_to_string(console).is_ok_and(|log| log.contains(text)) {
        assert!(
            Instant::now() < patience,
            "no `{text}` in {}",
            console.display()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_panic_by_a_watchdog() {
    // Whoever writes to a frozen file system waits without end, which the kernel's watchdog sees.
    let script = format!(
        "{}
        dd if=/dev/zero of=/tmp/image bs=64k count=64 2>/dev/null
        mke2fs -F /tmp/image >/dev/null 2>&1
        mkdir -p /tmp/frozen
        mount -o loop -t ext4 /tmp/image /tmp/frozen
        fsfreeze --freeze /tmp/frozen
        echo 1 > /proc/sys/kernel/hung_task_timeout_secs
        echo 1 > /proc/sys/kernel/hung_task_panic
        touch /tmp/frozen/x",
        witnesses()
    );
    let outcome = guest()
        .tolerate(Alarm::HungTask)
        .script(script)
        .boot()
        .unwrap();
    nothing_is_missing(&outcome);
    ended_by_a_panic(&outcome, "hung_task: blocked tasks");
}

#[test]
fn a_boot_that_restarts_leaves_what_nobody_has_read() {
    let script = "
        if [ -d /var/lib/bootmark/previous ]; then exit 0; fi
        bootmark extract --boot -1 --output /tmp/nothing 2>&1
        echo \"first $?\" > /var/lib/bootmark/first
        sync
        reboot -f
    ";
    let outcome = Guest::new()
        .reboots()
        .timeout(Duration::from_secs(400))
        .script(script)
        .boot()
        .unwrap();
    let first = fs::read_to_string(outcome.dir.join("fetched/first")).unwrap();
    assert_eq!(first, "first 3\n");
    let summary = reading::summary(&outcome.previous()).unwrap();
    assert_eq!(summary["end"]["how"], "shutdown");
    assert_eq!(summary["end"]["text"], "restart");
    assert_eq!(summary["lost"], 0);
    let text = page(&outcome.previous());
    assert!(text.contains("by a shutdown (restart)"), "{text}");
    assert!(text.contains("Last events"), "{text}");
}

/// What `bootmark summary` prints.
fn page(trace: &Path) -> String {
    let bootmark = qemu_tests::programs::build().unwrap().bootmark;
    qemu_tests::process::output(
        std::process::Command::new(bootmark)
            .arg("summary")
            .arg(trace),
    )
    .unwrap()
}
