//! What is left of processes that die in the middle of writing: all that they had committed, once.
//!
//! The guest's own service kills a thousand writers of three threads each in every way that there is, and
//! keeps a log of what each thread had committed in memory that outlived it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bootbuf::abi::{SEAL_EXEC, SEAL_EXIT, SEAL_FULL, STREAM_THREAD};
use bootbuf::reader::Packet;
use qemu_tests::guest::Guest;
use qemu_tests::{process, programs, reading};
use serde::Deserialize;

const LIVES: usize = 1000;
const SERVICES: &str = "/usr/lib/bootmark/services";
const SIGKILL: u32 = 9;
const SIGSEGV: u32 = 11;
const SIGABRT: u32 = 6;

/// A line of the service's log.
#[derive(Debug, Deserialize)]
struct Life {
    round: u64,
    order: String,
    pid: u64,
    status: u32,
    threads: Vec<Thread>,
}

#[derive(Debug, Deserialize)]
struct Thread {
    tid: u64,
    begun: u64,
    committed: u64,
}

/// An event of a life: number, thread id, text.
struct Found {
    number: u64,
    pid: u64,
    tid: u64,
    text: String,
}

/// What `svc-mortal` writes as the text of an event.
fn text(number: u64) -> String {
    let len = if number.is_multiple_of(8) {
        200
    } else {
        number % 24
    };
    (0..len)
        .map(|at| char::from(b'a' + ((number + at) % 26) as u8))
        .collect()
}

fn build_id(program: &str) -> String {
    let programs = programs::build().unwrap();
    let path = programs
        .services
        .iter()
        .find(|path| path.ends_with(program))
        .unwrap();
    let notes = process::output(Command::new("readelf").arg("-n").arg(path)).unwrap();
    let (_, id) = notes.split_once("Build ID: ").unwrap();
    id.lines().next().unwrap().trim().to_owned()
}

/// How the last packet of each thread's stream ends, by (process, stream).
fn last_seals(trace: &Path) -> HashMap<u32, Vec<(u8, u32)>> {
    let mut seals: HashMap<u32, Vec<(u8, u32)>> = HashMap::new();
    for entry in fs::read_dir(trace).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "metadata" {
            continue;
        }
        let octets = fs::read(&path).unwrap();
        let mut rest = octets.as_slice();
        let mut last = None;
        while !rest.is_empty() {
            let (packet, behind) = Packet::parse(rest).unwrap();
            if let Some((seal, _)) = last.filter(|_| packet.header().stream_id == STREAM_THREAD) {
                assert!([SEAL_FULL, SEAL_EXEC].contains(&seal), "{name}: {seal}");
            }
            last = Some((packet.header().seal, packet.header().exit_code));
            if behind.is_empty() && packet.header().stream_id == STREAM_THREAD {
                seals.entry(packet.header().pid).or_default().extend(last);
            }
            rest = behind;
        }
    }
    seals
}

#[test]
fn a_thousand_dead_processes_leave_what_they_committed_once() {
    let outcome = Guest::new()
        .pool("128M")
        .memory(768)
        .rules("svc:*")
        .append("bootmark.services=no")
        .timeout(Duration::from_secs(300))
        .script(format!(
            "# The kernel's own words about each cost more than the death.
             echo 0 >/proc/sys/debug/exception-trace
             echo 0 >/proc/sys/vm/oom_dump_tasks
             {SERVICES}/svc-mortal kill {LIVES} 1 /var/lib/bootmark/mortal.log || exit 1
             # All of it, however long that takes.
             bootmark extract --timeout 1000 --output /var/lib/bootmark/trace || exit 1
             bootmark status --json"
        ))
        .boot()
        .unwrap();
    assert_eq!(outcome.script_status, Some(0), "{}", outcome.script_log);
    let log = fs::read_to_string(outcome.dir.join("fetched/mortal.log")).unwrap();
    let lives: Vec<Life> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lives.len(), LIVES);

    // Nothing found no room, so whatever is missing would be the kernel's or the library's fault.
    let at = outcome.script_log.find('{').unwrap();
    let status: serde_json::Value = serde_json::from_str(&outcome.script_log[at..]).unwrap();
    assert_eq!(status["events_lost"], 0, "{status:#}");
    let trace = outcome.trace();
    let summary = reading::summary(&trace).unwrap();
    let left_out = &summary["left_out"];
    assert_eq!(left_out["invalid"], 0, "{left_out}");
    assert_eq!(left_out["unfinished"], 0, "{left_out}");
    assert_eq!(summary["lost"], left_out["torn"], "{left_out}");
    assert_eq!(summary["damage"].as_array().map(Vec::len), Some(0));

    let mut found: HashMap<(u64, u64), Vec<Found>> = HashMap::new();
    let mut of_next: HashMap<u64, Vec<u64>> = HashMap::new();
    for event in reading::events(&trace).unwrap() {
        let number = event.number("number");
        match event.name() {
            "svc:mortal" => {
                let key = (
                    event.number("round").unwrap(),
                    event.number("thread").unwrap(),
                );
                found.entry(key).or_default().push(Found {
                    number: number.unwrap(),
                    pid: event.pid().unwrap(),
                    tid: event.0["tid"].as_u64().unwrap(),
                    text: event.text("text").unwrap().to_owned(),
                });
            }
            "svc:doomed" => of_next
                .entry(event.pid().unwrap())
                .or_default()
                .push(number.unwrap()),
            other => panic!("no rule asked for {other}"),
        }
    }
    let mut lost: HashMap<u64, u64> = HashMap::new();
    for stream in summary["streams"].as_array().unwrap() {
        let pid = stream["pid"].as_u64().unwrap();
        *lost.entry(pid).or_default() += stream["lost"].as_u64().unwrap();
    }
    let seals = last_seals(&trace);
    let processes: HashMap<u64, &serde_json::Value> = summary["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|process| (process["pid"].as_u64().unwrap(), process))
        .collect();
    let (mortal, next) = (build_id("svc-mortal"), build_id("svc-killed"));

    let (mut committed, mut one_more, mut torn, mut silent) = (0, 0, 0, 0);
    let mut orders: HashMap<&str, usize> = HashMap::new();
    for life in &lives {
        *orders.entry(&life.order).or_default() += 1;
        let mut open = 0;
        let mut events = 0;
        for (thread, told) in life.threads.iter().enumerate() {
            let of_thread = found
                .remove(&(life.round, thread as u64))
                .unwrap_or_default();
            let count = of_thread.len() as u64;
            assert!(
                count == told.committed || count == told.committed + 1 && told.begun == count,
                "{count} events of thread {thread} of {life:?}"
            );
            for (event, number) in of_thread.iter().zip(1..) {
                assert_eq!(event.number, number, "thread {thread} of {life:?}");
                assert_eq!(event.text, text(number), "thread {thread} of {life:?}");
                assert_eq!((event.pid, event.tid), (life.pid, told.tid));
            }
            committed += told.committed;
            one_more += count - told.committed;
            open += told.begun - count;
            events += count;
        }
        let of_next = of_next.remove(&life.pid).unwrap_or_default();
        let lost = lost.remove(&life.pid).unwrap_or_default();
        assert!(lost <= open, "{lost} torn, {open} begun: {life:?}");
        torn += lost;

        let wanted = match life.order.as_str() {
            "Kill" | "Memory" => SIGKILL,
            "Segv" | "Exec" => SIGSEGV,
            "Abort" => SIGABRT,
            "Exit" => 17 << 8,
            other => panic!("{other}"),
        };
        assert_eq!(life.status, wanted, "{life:?}");
        let execed = life.order == "Exec";
        assert_eq!(of_next, if execed { vec![1, 2, 3, 4, 5] } else { vec![] });
        let Some(process) = processes.get(&life.pid) else {
            assert_eq!(
                (events, lost),
                (0, 0),
                "{life:?} is not among the processes"
            );
            silent += 1;
            continue;
        };
        assert_eq!(process["wait_status"], life.status, "{process:#}");
        let mut programs = vec![(format!("{SERVICES}/svc-mortal"), mortal.as_str())];
        if execed {
            programs.push((format!("{SERVICES}/svc-killed"), next.as_str()));
        }
        let told: Vec<(String, &str)> = process["programs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|program| {
                (
                    program["path"].as_str().unwrap().to_owned(),
                    program["build_id"].as_str().unwrap(),
                )
            })
            .collect();
        // Some had been replaced before they asked for room to write in.
        if events + lost == 0 && told.len() < programs.len() {
            programs.remove(0);
        }
        assert_eq!(told, programs, "{process:#}");

        let seals = &seals[&u32::try_from(life.pid).unwrap()];
        assert!(
            seals.iter().all(|(seal, _)| *seal == SEAL_EXIT),
            "{seals:?} of {life:?}"
        );
        // What exec ends leaves no status.
        assert!(
            seals
                .iter()
                .all(|(_, code)| *code == life.status || execed && *code == 0),
            "{seals:?} of {life:?}"
        );
    }
    assert!(found.is_empty() && of_next.is_empty());
    assert!(lost.values().all(|lost| *lost == 0), "{lost:?}");
    println!(
        "{LIVES} processes, {orders:?}: {committed} events committed, {one_more} more in the trace, \
         {torn} torn; {silent} processes wrote nothing"
    );
    for order in ["Kill", "Segv", "Abort", "Exit", "Exec", "Memory"] {
        assert!(
            orders.get(order).is_some_and(|count| *count > 4),
            "{orders:?}"
        );
    }
    assert!(committed > 10 * LIVES as u64);
}
