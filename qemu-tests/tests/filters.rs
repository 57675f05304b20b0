//! Filters of rules, evaluated in the traced process, and the same language over a trace.

use std::collections::HashMap;
use std::process::Command;
use std::sync::OnceLock;

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::programs;
use qemu_tests::reading::{self, Event};

/// From the command line on: PID 1, a service in Rust with threads, a service in C.
const RULES: &str = "init:mount/ret != 0 || dur > 5ms/,init:service/name ~ 's*' && kind == 'oneshot'/,\
    svc:step/text ~ 'o*' && step >= 490/,svc:thread/thread == 2 && dur > 0/,\
    svc:threads_start/threads == 'four'/,svc:threads_done/comm == 'svc-threads' && uid == 0/,\
    svc:c_step/verb == 'sync' && step < 30/,svc:c_thread/ret == -EAGAIN/";

/// What svc-filter writes, under rules that change meanwhile.
const SCRIPT: &str = "
set -e
on() {
    # 3: no program of these markers is known yet.
    bootmark enable \"$@\" || [ $? = 3 ]
}
run=/usr/lib/bootmark/services/svc-filter
on 'flt:item/n & 1 == 0/' 'flt:job/ret != 0 || dur > 10ms/'
$run signals
$run items spans nested forks threads
$run quiet

on \"flt:item/comm ~ 'svc-f*' && pid == tid && uid == 0 && kind == 'round'/\"
$run context
on 'flt:item/pid == 1 && n > 0/'
$run quiet
on \"flt:item/raw == 'x'/\"
$run misfit
bootmark status

on flt:item
$run wait &
sleep 1
on 'flt:item/even/'
touch /run/bootmark/svc-filter.go
wait
";

struct Boot {
    outcome: Outcome,
    events: Vec<Event>,
}

fn boot() -> &'static Boot {
    static BOOT: OnceLock<Boot> = OnceLock::new();
    BOOT.get_or_init(|| {
        let outcome = Guest::new().rules(RULES).script(SCRIPT).boot().unwrap();
        assert_eq!(outcome.script_status, Some(0), "{}", outcome.script_log);
        let events = reading::events(&outcome.trace()).unwrap();
        Boot { outcome, events }
    })
}

impl Boot {
    fn named(&self, name: &str) -> Vec<&Event> {
        let events = self.events.iter();
        events.filter(|event| event.name() == name).collect()
    }

    /// The numbers of the events with a tag.
    fn tagged(&self, name: &str, tag: &str) -> Vec<u64> {
        let events = self.events.iter();
        events
            .filter(|event| event.name() == name && event.text("tag") == Some(tag))
            .map(|event| event.number("n").unwrap())
            .collect()
    }

    /// The spans with a tag whose begin stands right in front of their end, as both were written there:
    /// number, errno and nanoseconds. Each must have passed for a reason.
    fn passed_at_the_end(&self, tag: &str) -> Vec<(u64, i64, u64)> {
        let mut before: HashMap<Option<u64>, &Event> = HashMap::new();
        let mut spans = Vec::new();
        for event in &self.events {
            let earlier = before.insert(event.stream(), event);
            let begin = earlier.filter(|begin| begin.text("tag") == Some(tag));
            if let (Some(begin), "flt:job.end") = (begin, event.name()) {
                let dur = event.0["dur_ns"].as_u64().unwrap();
                let ret = event.0["fields"]["ret"].as_i64().unwrap();
                assert!(ret != 0 || dur > 10_000_000, "{event:?}");
                spans.push((begin.number("n").unwrap(), ret, dur));
            }
        }
        spans
    }

    /// The program's own word on how many events pass.
    fn expected(&self, tag: &str) -> usize {
        let printed = self.outcome.printed(&format!("expected {tag}"));
        printed.parse().unwrap()
    }
}

#[test]
fn pid_1_is_filtered_from_its_first_span_on() {
    let ends = boot().named("init:mount.end");
    for end in &ends {
        let slow = end.0["dur_ns"].as_u64().unwrap() > 5_000_000;
        let failed = end.0["fields"]["ret"].as_i64() != Some(0);
        assert!(slow || failed, "{end:?}");
    }
    assert_eq!(boot().named("init:mount.begin").len(), ends.len());

    // This one is decided at the begin.
    let begins = boot().named("init:service.begin");
    let names: Vec<_> = begins
        .iter()
        .filter_map(|begin| begin.text("name"))
        .collect();
    assert!(names.contains(&"slow"), "{names:?}");
    assert!(names.iter().all(|name| name.starts_with('s')), "{names:?}");
    assert!(!names.contains(&"syslog"), "{names:?}");
    assert_eq!(boot().named("init:service.end").len(), begins.len());
}

#[test]
fn services_in_rust_are_filtered() {
    let steps = boot().named("svc:step");
    // "odd" has the numbers that three divides: 492, 495, 498, in each of four threads.
    let expected = 4 * (490..500).filter(|step| step % 3 == 0).count();
    assert_eq!(steps.len(), expected);
    assert!(steps.iter().all(|step| step.text("text") == Some("odd")));
    let begins = boot().named("svc:thread.begin");
    assert_eq!(begins.len(), 1);
    assert_eq!(begins[0].number("thread"), Some(2));
    assert_eq!(boot().named("svc:thread.end").len(), 1);
    assert_eq!(boot().named("svc:threads_done").len(), 1);
}

#[test]
fn services_in_c_are_filtered() {
    let steps = boot().named("svc:c_step");
    assert_eq!(steps.len(), 2 * 10);
    for step in steps {
        assert_eq!(step.text("verb"), Some("sync"));
    }
    // Of two threads one fails.
    let begins = boot().named("svc:c_thread.begin");
    assert_eq!(begins.len(), 1);
    assert_eq!(begins[0].number("thread"), Some(1));
    assert_eq!(boot().named("svc:c_thread.end").len(), 1);
}

#[test]
fn what_does_not_fit_records_everything_and_is_reported() {
    let boot = boot();
    assert_eq!(boot.named("svc:threads_start").len(), 1);
    assert_eq!(boot.tagged("flt:item", "misfit").len(), 200);
    // `bootmark status` says why.
    let log = &boot.outcome.script_log;
    assert!(log.contains("field `raw` is a sequence of bytes"), "{log}");
}

#[test]
fn handlers_children_and_threads_are_filtered() {
    let boot = boot();
    for tag in ["items", "signals", "ticks", "forks", "threads"] {
        let numbers = boot.tagged("flt:item", tag);
        assert!(numbers.iter().all(|n| n % 2 == 0), "{tag}: {numbers:?}");
        assert_eq!(numbers.len(), boot.expected(tag), "{tag}");
    }
    assert!(boot.expected("ticks") > 10);
    let failed = boot.passed_at_the_end("threads").into_iter();
    assert_eq!(failed.filter(|(_, ret, _)| *ret != 0).count(), 4 * 10);
    // The parent's, each once.
    assert_eq!(
        boot.tagged("flt:job.begin", "forks"),
        [1, 2, 3, 4, 5, 6, 7, 8]
    );
}

#[test]
fn context_is_known() {
    let numbers = boot().tagged("flt:item", "context");
    let round: Vec<u64> = (0..200).step_by(10).collect();
    assert_eq!(numbers, round);
}

#[test]
fn rejected_events_do_not_enter_the_kernel() {
    // A system call would have killed the program: the script would have failed.
    assert_eq!(boot().tagged("flt:item", "quiet").len(), 0);
    assert_eq!(boot().expected("quiet"), 0);
}

#[test]
fn running_programs_get_new_filters() {
    let all: Vec<u64> = (0..10).collect();
    assert_eq!(boot().tagged("flt:item", "before"), all);
    assert_eq!(boot().tagged("flt:item", "after"), [0, 2, 4, 6, 8]);
}

#[test]
fn spans_are_decided_at_their_end_and_written_whole() {
    let spans = boot().passed_at_the_end("spans");
    assert_eq!(boot().tagged("flt:job.begin", "spans").len(), spans.len());
    let mut wanted = (0..50).filter(|n| matches!(n % 10, 3 | 5));
    for (n, ret, dur) in spans {
        match n % 10 {
            3 => assert_eq!(ret, -5),
            5 => assert!(dur > 20_000_000 && ret == 0, "{dur} {ret}"),
            // The host was busy.
            _ => continue,
        }
        assert_eq!(Some(n), wanted.next());
    }
    assert_eq!(wanted.next(), None);
}

#[test]
fn more_spans_than_are_kept_are_recorded() {
    // 80 in each other, of which the outer 64 wait for their end. There they are rejected, unless
    // the host was busy.
    let numbers = boot().tagged("flt:job.begin", "nested");
    let (recorded, late) = numbers.split_at(16);
    assert_eq!(recorded, (1..=16).rev().collect::<Vec<u64>>());
    assert!(late.iter().all(|n| *n > 16), "{late:?}");
}

#[test]
fn view_takes_the_same_language() {
    let boot = boot();
    let view = |condition: &str| {
        let output = Command::new(programs::build().unwrap().bootmark)
            .args(["view", "--json", "--event", "flt", "--where", condition])
            .arg(boot.outcome.trace())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let note = String::from_utf8(output.stderr).unwrap();
        (text.lines().count(), note, output.status.code())
    };
    // The ends, by the fields of their begins.
    let (lines, note, status) = view("tag == 'spans' && dur > 20ms");
    // More when the host was busy.
    assert!(lines >= 5 && status == Some(0), "{lines} {status:?}");
    assert!(
        note.contains("`dur` is known at the end of a span only"),
        "{note}"
    );
    let (lines, note, _) =
        view("tag == 'items' && third * 3 < 9.5 && even && comm == 'svc-filter'");
    assert_eq!(lines, 5, "{note}");
    let (_, note, status) = view("tag == 'a' && n ==");
    assert_eq!(status, Some(2));
    assert!(
        note.contains("tag == 'a' && n ==\n                      ^"),
        "{note}"
    );
}
