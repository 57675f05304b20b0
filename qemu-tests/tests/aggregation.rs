//! Aggregations, from the rule to the table: counted in the traced process, whatever becomes of it.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::OnceLock;

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::{programs, reading};
use serde_json::Value;

/// From the command line on: PID 1 through its exec, services in Rust and C with threads, processes
/// that are killed and that crash.
const RULES: &str = "init:mount/ret == 0/{count(), hist(dur) by fstype},\
    svc:step/step >= 100/{sum(step), min(step), max(step), hist(step) by text},\
    svc:thread{count(), hist(dur) by thread},\
    svc:c_step{count(), avg(step) by verb, comm},svc:c_thread{count() by ret},\
    svc:doomed{max(number) by file}";

/// What the services counted themselves, and events under a rule that comes at run time: in handlers on
/// top of the same counting, in children, in threads, in more spans than are kept until their end.
const SCRIPT: &str = "
set -e
for name in svc-killed svc-crash; do
    echo \"count $name $(od -An -t u8 /run/bootmark/$name.count)\"
done
# Status 3: no program with these markers has run yet.
bootmark enable 'flt:item/n & 1 == 0/{count(), sum(n), min(third), record() by tag}' \
    'flt:job{count(), hist(n) by tag}' || [ $? = 3 ]
/usr/lib/bootmark/services/svc-filter items signals forks threads spans nested
bootmark status
";

struct Boot {
    outcome: Outcome,
    rows: Vec<Value>,
}

fn boot() -> &'static Boot {
    static BOOT: OnceLock<Boot> = OnceLock::new();
    BOOT.get_or_init(|| {
        let outcome = Guest::new().rules(RULES).script(SCRIPT).boot().unwrap();
        assert_eq!(outcome.script_status, Some(0), "{}", outcome.script_log);
        let rows = reading::rows(&outcome.trace()).unwrap();
        Boot { outcome, rows }
    })
}

impl Boot {
    /// The rows of a marker, by the value of a name.
    fn table(&self, event: &str, name: &str) -> BTreeMap<String, &Value> {
        let rows = self.rows.iter().filter(|row| row["event"] == event);
        let rows = rows.map(|row| match &row["key"][name] {
            Value::String(text) => (text.clone(), row),
            other => (other.to_string(), row),
        });
        let table: BTreeMap<_, _> = rows.collect();
        assert!(!table.is_empty(), "nothing of {event}: {:#?}", self.rows);
        table
    }

    fn printed(&self, key: &str) -> u64 {
        self.outcome.printed(key).parse().unwrap()
    }
}

fn count(row: &Value) -> u64 {
    row["count"].as_u64().unwrap()
}

/// All that a histogram counted.
fn in_buckets(row: &Value, action: &str) -> u64 {
    let buckets = row["values"][action].as_array().unwrap();
    let counts = buckets.iter().map(|bucket| bucket["count"].as_u64());
    counts.map(Option::unwrap).sum()
}

#[test]
fn pid_1_counts_its_mounts_across_its_exec() {
    let mounts = boot().table("init:mount", "fstype");
    for fstype in ["proc", "sysfs", "devtmpfs", "tmpfs"] {
        let row = mounts[fstype];
        assert!(count(row) >= 1);
        assert_eq!(in_buckets(row, "hist(dur)"), count(row), "{row}");
    }
}

#[test]
fn threads_of_a_service_add_up_behind_a_filter() {
    // Four threads, each with the steps 100 to 499 in three kinds.
    let steps = boot().table("svc:step", "text");
    for (kind, text) in ["odd", "even", "third"].iter().enumerate() {
        let of_kind = || (100..500_u64).filter(|step| step % 3 == kind as u64);
        let row = steps[*text];
        assert_eq!(count(row), 4 * of_kind().count() as u64);
        let values = &row["values"];
        assert_eq!(values["sum(step)"], 4 * of_kind().sum::<u64>());
        assert_eq!(values["min(step)"], of_kind().min().unwrap());
        assert_eq!(values["max(step)"], of_kind().max().unwrap());
        let (low, high) = (
            of_kind().filter(|step| *step < 128).count(),
            of_kind().filter(|step| *step >= 256).count(),
        );
        let buckets = values["hist(step)"].as_array().unwrap();
        assert_eq!(buckets.len(), 3);
        assert_eq!(buckets[0]["count"], 4 * low);
        assert_eq!(buckets[2]["count"], 4 * high);
    }
    let threads = boot().table("svc:thread", "thread");
    let keys: Vec<_> = threads.keys().map(String::as_str).collect();
    assert_eq!(keys, ["0", "1", "2", "3"]);
    for row in threads.values() {
        assert_eq!((count(row), in_buckets(row, "hist(dur)")), (1, 1), "{row}");
    }
}

#[test]
fn a_service_in_c_adds_up() {
    let verbs = boot().table("svc:c_step", "verb");
    for (kind, verb) in ["read", "write", "sync"].iter().enumerate() {
        let steps: Vec<u64> = (0..250).filter(|step| step % 3 == kind as u64).collect();
        let row = verbs[*verb];
        assert_eq!(row["key"]["comm"], "svc-c");
        assert_eq!(count(row), 2 * steps.len() as u64);
        let mean = steps.iter().sum::<u64>() as f64 / steps.len() as f64;
        assert_eq!(row["values"]["avg(step)"], mean);
    }
    let spans = boot().table("svc:c_thread", "ret");
    assert_eq!(spans.values().map(|row| count(row)).sum::<u64>(), 2);
    assert_eq!(spans.len(), 2);
}

#[test]
fn numbers_survive_a_kill_and_a_crash() {
    let doomed = boot().table("svc:doomed", "file");
    for name in ["svc-killed", "svc-crash"] {
        let committed = boot().printed(&format!("count {name}"));
        assert!(committed > 0);
        let row = doomed[&format!("/run/bootmark/{name}.count")];
        // It may die between the event and its own count.
        assert!(
            (committed..=committed + 1).contains(&count(row)),
            "{committed}: {row}"
        );
        // The count comes last.
        let max = row["values"]["max(number)"].as_u64().unwrap();
        assert!((count(row)..=count(row) + 1).contains(&max), "{row}");
    }
}

#[test]
fn handlers_children_and_threads_count_exactly() {
    let items = boot().table("flt:item", "tag");
    let events = reading::events(&boot().outcome.trace()).unwrap();
    for tag in ["items", "signals", "ticks", "forks", "threads"] {
        let expected = boot().printed(&format!("expected {tag}"));
        let row = items[tag];
        assert_eq!(count(row), expected, "{tag}");
        // `record()` keeps the events as well.
        let recorded = events
            .iter()
            .filter(|event| event.name() == "flt:item" && event.text("tag") == Some(tag));
        let numbers: Vec<u64> = recorded.map(|event| event.number("n").unwrap()).collect();
        assert_eq!(numbers.len() as u64, expected, "{tag}");
        assert_eq!(row["values"]["sum(n)"], numbers.iter().sum::<u64>());
        assert_eq!(row["values"]["min(third)"], 0.0);
    }
    let jobs = boot().table("flt:job", "tag");
    assert_eq!(count(jobs["spans"]), 50);
    assert_eq!(count(jobs["forks"]), 8);
    assert_eq!(count(jobs["threads"]), 4 * 200);
    for row in jobs.values() {
        assert_eq!(in_buckets(row, "hist(n)"), count(row), "{row}");
    }
    // What cannot wait for its end is recorded instead.
    let recorded = events
        .iter()
        .filter(|event| event.name() == "flt:job.end")
        .count() as u64;
    assert_eq!(count(jobs["nested"]) + recorded, 80);
}

#[test]
fn what_is_counted_is_not_recorded() {
    let events = reading::events(&boot().outcome.trace()).unwrap();
    let names = events.iter().map(|event| event.name());
    let others: Vec<_> = names.filter(|name| !name.starts_with("flt:")).collect();
    assert_eq!(others, Vec::<&str>::new());
}

#[test]
fn tables_and_babeltrace_show_them() {
    let trace = boot().outcome.trace();
    let output = Command::new(programs::build().unwrap().bootmark)
        .args(["view", "--aggregations"])
        .arg(&trace)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for part in [
        "init:mount /ret == 0/{count(), hist(dur) by fstype}",
        "hist(dur), fstype=\"proc\"",
        "██",
        "in 1 process",
        "\"odd\"",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let lines = reading::babeltrace(&trace).unwrap();
    let cells = lines.iter().filter(|line| line.contains(" aggregate: "));
    assert!(cells.count() >= boot().rows.len());
    let summary = reading::summary(&trace).unwrap();
    assert_eq!(summary["lost"], 0);
    assert_eq!(summary["aggregations"].as_array().unwrap().len(), 8);
}
