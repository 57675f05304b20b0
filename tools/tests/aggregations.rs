//! Cells from packets to tables.

mod common;

use bootbuf::abi::*;
use common::*;
use serde_json::{Value, json};

const BY_TARGET: &str = "/ret == 0/{count(), hist(dur), max(flags) by target}";
const PLAIN: &str = "{sum(size), avg(took), record()}";
const FLOATS: &str = "{sum(ratio), min(ratio) by state, comm, ok}";

fn meta_with_slots() -> Maker {
    meta().slot(1, BY_TARGET).slot(2, PLAIN).slot(3, FLOATS)
}

fn thread(instance: u64, seq: u64, pid: u32, comm: &str) -> Maker {
    let mut maker = Maker::thread(instance, seq, pid, comm);
    maker.header.stream_id = STREAM_AGGREGATE;
    maker
        .times(1_000_000 + 100_000 * seq, 1_090_000 + 100_000 * seq)
        .sealed(SEAL_FULL, 10 * instance + seq)
}

/// The values of a cell of [`BY_TARGET`].
fn by_target(count: u64, buckets: &[(usize, u64)], max: u64) -> Vec<u64> {
    let mut values = vec![count];
    values.resize(1 + HIST_BUCKETS, 0);
    for (bucket, count) in buckets {
        values[1 + bucket] = *count;
    }
    values.push(max);
    values
}

fn floats(count: u64, sum: f64, min: f64) -> [u64; 3] {
    [count, sum.to_bits(), min.to_bits()]
}

/// Two threads of one process and one of another; a chunk that was exchanged, one that is open.
fn packets() -> Vec<Vec<u8>> {
    let key = |state: u8, comm: &str| fields(&[&[state], &string(comm), &[1]]);
    vec![
        meta_with_slots().bytes(),
        thread(5, 0, 1, "init")
            .cell(
                1_000_100,
                MOUNT_END,
                1,
                &by_target(3, &[(11, 2), (14, 1)], 7),
                &string("/proc"),
            )
            .cell(
                1_000_200,
                MOUNT_END,
                1,
                &by_target(1, &[(20, 1)], 1),
                &string("/sys"),
            )
            .cell(1_000_300, COUNT, 2, &[2, 3 << 10, 3_000], &[])
            .bytes(),
        thread(5, 1, 1, "init")
            .sealed(SEAL_EXIT, 60)
            .cell(
                1_100_100,
                MOUNT_END,
                1,
                &by_target(2, &[(11, 2)], 9),
                &string("/proc"),
            )
            .bytes(),
        thread(6, 0, 77, "svc")
            .cell(
                1_000_050,
                MOUNT_END,
                1,
                &by_target(4, &[(12, 4)], 2),
                &string("/proc"),
            )
            .cell(1_000_060, COUNT, 2, &[1, 1 << 10, 6_000], &[])
            .cell(
                1_000_070,
                ALL,
                3,
                &floats(2, 0.5, -0.25),
                &key(1, "wörk\u{7}"),
            )
            .cell(1_000_080, ALL, 3, &floats(1, 1e300, 1e300), &key(0, "x"))
            // Killed before it counted: it means nothing.
            .cell(
                1_000_090,
                ALL,
                3,
                &floats(0, 0.0, f64::INFINITY),
                &key(2, "x"),
            )
            .bytes(),
        thread(7, 0, 77, "svc")
            .sealed(SEAL_OPEN, 0)
            .cell(
                1_000_020,
                ALL,
                3,
                &floats(2, 0.25, -1.5),
                &key(1, "wörk\u{7}"),
            )
            .bytes(),
    ]
}

fn extracted(packets: &[Vec<u8>]) -> (tempfile::TempDir, String) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    silent(extract(&dir, packets));
    (temp, dir.to_str().unwrap().to_owned())
}

fn json_lines(dir: &str) -> Vec<Value> {
    silent(bootmark(&["view", "--json", dir]))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn cells_of_all_threads_and_chunks_add_up() {
    let (_temp, dir) = extracted(&packets());
    let lines = json_lines(&dir);
    assert_eq!(lines.len(), 5, "{lines:#?}");
    let row = |event: &str, key: Value| {
        let found = |line: &&Value| line["event"] == event && line["key"] == key;
        lines.iter().find(found).expect("a row").clone()
    };
    let proc = row("init:mount", json!({ "target": "/proc" }));
    assert_eq!(proc["aggregation"], BY_TARGET);
    assert_eq!(proc["kind"], "end");
    assert_eq!(proc["count"], 9);
    assert_eq!(proc["first_ns"], 1_000_050_000_u64);
    assert_eq!(proc["values"]["max(flags)"], 9);
    assert_eq!(
        proc["values"]["hist(dur)"],
        json!([
            { "from": 1024, "to": 2047, "count": 4 },
            { "from": 2048, "to": 4095, "count": 4 },
            { "from": 8192, "to": 16383, "count": 1 },
        ])
    );
    let count = row("svc:count", json!({}));
    assert_eq!(count["count"], 3);
    assert_eq!(
        count["values"],
        json!({ "sum(size)": 4096, "avg(took)": 3000.0 })
    );
    let on = row(
        "svc:all-types",
        json!({ "state": "on", "comm": "wörk\u{7}", "ok": true }),
    );
    assert_eq!(on["count"], 4);
    assert_eq!(
        on["values"],
        json!({ "sum(ratio)": 0.75, "min(ratio)": -1.5 })
    );
    // The most frequent comes first.
    let counts: Vec<_> = lines
        .iter()
        .filter(|line| line["event"] == "init:mount")
        .map(|line| line["count"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, [9, 1]);
}

#[test]
fn tables_have_bars_units_and_labels() {
    let (_temp, dir) = extracted(&packets());
    let view = |locale: &str, args: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_bootmark"))
            .args([&["view", &dir], args].concat())
            .env("LC_ALL", locale)
            .output()
            .unwrap();
        silent(output)
    };
    let text = view("C", &[]);
    for line in [
        &format!("init:mount {BY_TARGET}"),
        "  10 events in 2 processes",
        "  target   count  max(flags)",
        "  \"/proc\"      9           9   ########################################",
        "  \"/sys\"       1           1   #####",
        "  hist(dur), target=\"/proc\"",
        "    1.024 us to 2.047 us  4  ########################################",
        "    4.096 us to 8.191 us  0",
        "    8.192 us to 16.383 us  1  ##########",
        "  count  sum(size)  avg(took)",
        "      3    4.0 KiB   3.000 us   ########################################",
        "  state  comm",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.lines()
                .any(|have| squeezed(have).starts_with(&squeezed(line))),
            "{line}\n{text}"
        );
    }
    assert!(!text.contains('█'), "{text}");
    // What a terminal would act on is made visible.
    assert!(text.contains("on") && text.contains("\\u{7}"), "{text}");
    assert!(view("de_DE.UTF-8", &[]).contains("████"));
    assert!(!view("C", &["--event", "svc"]).contains("init:mount"));
    assert!(view("C", &["--pid", "1"]).contains("  6 events in 1 process\n"));
    let events_alone = bootmark(&["view", &dir, "--since", "0", "--limit", "3"]);
    assert_eq!(events_alone.status.code(), Some(3));
    assert_eq!(texts(&events_alone).0, "");
    assert!(view("C", &["--since", "0", "--aggregations"]).contains("hist(dur)"));
}

#[test]
fn events_come_first_and_the_summary_tells_of_both() {
    let mut all = boot();
    all.splice(0..1, packets());
    let (_temp, dir) = {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("trace");
        extract(&dir, &all);
        (temp, dir.to_str().unwrap().to_owned())
    };
    let lines = json_lines(&dir);
    let (events, rows) = lines.split_at(lines.len() - 5);
    assert!(events.iter().all(|line| line["ts_ns"].is_number()));
    assert!(rows.iter().all(|line| line["aggregation"].is_string()));
    let only = silent(bootmark(&["view", "--json", "--aggregations", &dir]));
    assert_eq!(only.lines().count(), 5);
    let text = silent(bootmark(&["summary", &dir]));
    assert!(text.contains("Aggregations"), "{text}");
    assert!(
        text.contains(&format!("init:mount {BY_TARGET}: 10 events in 2 rows")),
        "{text}"
    );
    let json: Value =
        serde_json::from_str(&silent(bootmark(&["summary", "--json", &dir]))).unwrap();
    assert_eq!(json["events"], events.len());
    assert_eq!(json["aggregations"].as_array().unwrap().len(), 3);
}

#[test]
fn babeltrace2_reads_cells_without_a_warning() {
    let (_temp, dir) = extracted(&packets());
    let text = silent(babeltrace2(&[&dir]));
    assert_eq!(text.lines().count(), 10, "{text}");
    let line = text
        .lines()
        .find(|line| line.contains("svc:count"))
        .unwrap();
    for part in [
        "aggregate: ",
        "event = ( \"svc:count\" : container = 260 )",
        &format!("slot = ( \"{PLAIN}\" : container = 2 )"),
        "values = [ [0] = 1, [1] = 1024, [2] = 6000 ]",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn a_later_snapshot_replaces_an_earlier_one_and_the_seal_both() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    for (seal, count) in [
        (SEAL_OPEN, 3),
        (SEAL_OPEN, 5),
        (SEAL_EXIT, 8),
        (SEAL_EXIT, 8),
    ] {
        let seal_seq = u64::from(seal == SEAL_EXIT);
        let packet = thread(5, 0, 1, "init")
            .sealed(seal, seal_seq)
            .cell(1_000_300, COUNT, 2, &[count, count, 0], &[])
            .bytes();
        silent(extract(&dir, &[meta_with_slots().bytes(), packet]));
        let lines = json_lines(dir.to_str().unwrap());
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["count"], count);
    }
}

#[test]
fn cells_that_do_not_fit_are_left_out_and_counted() {
    let good = [1, 2, 3];
    let key = string("/");
    let bad: [(u32, u16, &[u64], &[u8]); 9] = [
        // No such slot, no such marker, a begin, a text that does not fit the marker.
        (COUNT, 9, &good, &[]),
        (999, 2, &good, &[]),
        (MOUNT, 1, &by_target(1, &[], 0), &key),
        (START, 2, &good, &[]),
        // Too few values, too many; a key that is none, too short, too long.
        (COUNT, 2, &good[..2], &[]),
        (COUNT, 2, &by_target(1, &[], 0), &[]),
        (COUNT, 2, &good, &[0]),
        (MOUNT_END, 1, &by_target(1, &[], 0), &key[..2]),
        (MOUNT_END, 1, &by_target(1, &[], 0), b"\x01\0//"),
    ];
    let mut maker = thread(5, 0, 1, "init");
    for (at, (event, slot, values, key)) in (0..).zip(bad) {
        maker = maker.cell(1_000_000 + at, event, slot, values, key);
    }
    // A cell of no length, and a record of another kind.
    let maker = maker
        .record(AGGREGATE_CELL, 1_000_100, &[])
        .record(START, 1_000_200, &[])
        .cell(1_000_300, COUNT, 2, &good, &[]);
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let (out, errors) = texts(&extract(&dir, &[meta_with_slots().bytes(), maker.bytes()]));
    assert!(out.contains("0 events, 11 lost"), "{out}");
    assert!(errors.contains("11 records"), "{errors}");
    let lines = json_lines(dir.to_str().unwrap());
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0]["values"]["sum(size)"], 2);
    let (_, warnings) = texts(&babeltrace2(&[dir.to_str().unwrap()]));
    assert!(warnings.contains("discarded events"), "{warnings}");
}

#[test]
fn spans_of_one_name_are_told_apart_by_their_keys() {
    // A second place in the source, whose begin has other fields.
    let number = [field(
        "target",
        markers::abi::TYPE_U32,
        markers::abi::HINT_NONE,
    )];
    let other = spec("init", "mount", markers::abi::KIND_SPAN_BEGIN, &number);
    let meta = meta().marker(300, &other).slot(1, "{count() by target}");
    let cells = thread(5, 0, 1, "init")
        .cell(1_000_100, MOUNT_END, 1, &[1], &string("/proc"))
        .cell(1_000_200, MOUNT_END, 1, &[2], &7_u32.to_le_bytes());
    let (_temp, dir) = extracted(&[meta.bytes(), cells.bytes()]);
    let lines = json_lines(&dir);
    let keys: Vec<_> = lines.iter().map(|line| &line["key"]["target"]).collect();
    assert_eq!(keys.len(), 2);
    assert!(
        keys.contains(&&json!("/proc")) && keys.contains(&&json!(7)),
        "{keys:?}"
    );
}
