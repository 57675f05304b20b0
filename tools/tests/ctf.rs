//! The trace directory, read by a program that none of us wrote.

mod common;

use common::*;

/// `boot()` without its torn record: nothing is discarded, so there is nothing to warn of.
fn clean_boot() -> Vec<Vec<u8>> {
    let mut packets = boot();
    packets[3] = Maker::thread(3, 0, 77, "svc/\"x\"")
        .times(1_300_000, 1_900_000)
        .sealed(3, 3)
        .bytes();
    packets
}

#[test]
fn babeltrace2_reads_it_without_a_warning_and_counts_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let dir_text = dir.to_str().unwrap();
    silent(extract(&dir, &clean_boot()));
    let theirs = silent(babeltrace2(&["--clock-seconds", dir_text]));
    let ours = silent(bootmark(&["view", "--json", dir_text]));
    assert_eq!(theirs.lines().count(), 12, "{theirs}");
    assert_eq!(ours.lines().count(), 12, "{ours}");
    for (theirs, ours) in theirs.lines().zip(ours.lines()) {
        let ours: serde_json::Value = serde_json::from_str(ours).unwrap();
        let time = ours["ts_ns"].as_i64().unwrap();
        let time = format!("[{}.{:09}]", time / 1_000_000_000, time % 1_000_000_000);
        assert!(theirs.starts_with(&time), "{time}: {theirs}");
        let name = ours["event"].as_str().unwrap();
        assert!(theirs.contains(&format!(" {name}")), "{name}: {theirs}");
    }
}

#[test]
fn times_before_the_kernels_clock_draw_no_warning() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let mut early = Maker::new(1, 9, 0).sealed(1, 1);
    early.header.ts_begin = tsc(0) - FREQ / 2;
    early.header.ts_end = tsc(10);
    let record = fields(&[&7u32.to_le_bytes(), &7u32.to_le_bytes(), &string("/x")]);
    let early = early.word(EXEC, 16 + record.len(), true, tsc(0) - FREQ / 4, &record);
    silent(extract(&dir, &[meta().bytes(), early.bytes()]));
    // The counter's zero is 8 s before boot.
    let text = silent(babeltrace2(&["--clock-seconds", dir.to_str().unwrap()]));
    assert!(text.starts_with("[7.750000000]"), "{text}");
    let metadata = std::fs::read_to_string(dir.join("metadata")).unwrap();
    assert!(metadata.contains("boot_ns = 8000000000;"), "{metadata}");
    let text = silent(bootmark(&["view", dir.to_str().unwrap()]));
    assert!(text.starts_with("[    -0.250000]"), "{text}");
}

#[test]
fn every_type_arrives() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let (_, errors) = texts(&extract(&dir, &boot()));
    assert!(
        errors.contains("1 records whose writer was killed within the write"),
        "{errors}"
    );
    let (text, warnings) = texts(&babeltrace2(&[dir.to_str().unwrap()]));
    let line = text
        .lines()
        .find(|line| line.contains("svc:all-types"))
        .unwrap();
    for part in [
        "flags = 0xDEADBEEF",
        "delta = -5",
        "ratio = 0.25",
        "ok = ( \"true\" : container = 1 )",
        "state = ( \"on\" : container = 1 )",
        "data = [ [0] = 0xDE, [1] = 0xAD, [2] = 0x1 ]",
        "half = 1.5",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    // The record that its writer never completed is told of.
    assert!(warnings.contains("discarded events"), "{warnings}");
    assert!(warnings.contains("svc__x_-77-77.3"), "{warnings}");
    assert_eq!(warnings.trim().lines().count(), 1, "{warnings}");
}

#[test]
fn an_empty_trace_is_one() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let text = silent(extract(&dir, &[meta().bytes()]));
    assert!(text.contains("0 events, 0 lost, 0 streams"), "{text}");
    assert_eq!(silent(babeltrace2(&[dir.to_str().unwrap()])), "");
    let text = silent(bootmark(&["summary", dir.to_str().unwrap()]));
    assert!(text.contains("No event was recorded"), "{text}");
    assert_eq!(silent(bootmark(&["view", dir.to_str().unwrap()])), "");
    let output = bootmark(&["view", "--event", "init", dir.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
}
