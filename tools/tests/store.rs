//! The directory as a transaction: extraction that is repeated, killed, refused.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bootbuf::abi::{PacketHeader, SEAL_EXIT, SEAL_FULL, SEAL_OPEN, STREAM_META};
use common::*;

/// All files of a directory but the notes, which count extractions.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .filter(|(name, _)| name != ".bootmark.json")
        .collect()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn view(dir: &Path) -> String {
    silent(bootmark(&["view", "--json", dir.to_str().unwrap()]))
}

/// A packet of one thread with `count` events.
fn packet(instance: u64, seq: u64, seal: u8, count: u64) -> Vec<u8> {
    let begin = 1_000_000 + seq * 10_000;
    let mut maker = Maker::thread(instance, seq, 50 + instance as u32, "svc")
        .times(begin, begin + 10_000)
        .sealed(
            seal,
            if seal == SEAL_OPEN {
                0
            } else {
                seq * 10 + instance
            },
        );
    for index in 0..count {
        let sizes = fields(&[&(seq * 1000 + index).to_le_bytes(), &0u64.to_le_bytes()]);
        maker = maker.record(COUNT, begin + 1 + index, &sizes);
    }
    maker.bytes()
}

#[test]
fn a_trace_is_its_owners_until_the_owner_says_otherwise() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let mode = || fs::metadata(&dir).unwrap().permissions().mode() & 0o7777;
    silent(extract(&dir, &[meta().bytes(), packet(3, 0, SEAL_FULL, 5)]));
    assert_eq!(mode(), 0o700);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
    silent(extract(&dir, &[meta().bytes(), packet(3, 1, SEAL_FULL, 5)]));
    assert_eq!(mode(), 0o750);
}

#[test]
fn extracting_again_completes_it() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let first = [
        meta().bytes(),
        packet(3, 0, SEAL_FULL, 5),
        packet(3, 1, SEAL_OPEN, 2),
    ];
    let text = silent(extract(&dir, &first));
    assert!(text.contains("7 events, 0 lost, 1 streams"), "{text}");

    // The snapshot is replaced by its sealed version, the packet that comes again is recognised, and
    // another stream begins.
    let second = [
        meta().bytes(),
        packet(3, 0, SEAL_FULL, 5),
        packet(3, 1, SEAL_EXIT, 4),
        packet(4, 0, SEAL_OPEN, 3),
    ];
    let text = silent(extract(&dir, &second));
    assert!(text.contains("12 events, 0 lost, 2 streams"), "{text}");
    let after = files(&dir);
    assert_eq!(view(&dir).lines().count(), 12);
    assert_eq!(
        silent(babeltrace2(&[dir.to_str().unwrap()]))
            .lines()
            .count(),
        12
    );

    // Once more the same changes nothing.
    silent(extract(&dir, &second));
    assert_eq!(files(&dir), after);
    assert_eq!(names(temp.path()), ["trace", "trace.packets"]);

    // A snapshot that became longer replaces the shorter one, not the other way round.
    silent(extract(&dir, &[meta().bytes(), packet(4, 0, SEAL_OPEN, 6)]));
    silent(extract(&dir, &[meta().bytes(), packet(4, 0, SEAL_OPEN, 3)]));
    assert_eq!(view(&dir).lines().count(), 15);
}

#[test]
fn records_that_do_not_fit_are_left_out_and_counted_once() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let sizes = [0; 16];
    let mut bad = Maker::thread(3, 0, 5, "svc")
        .times(1_000_000, 2_000_000)
        .sealed(SEAL_EXIT, 1)
        .record(COUNT, 1_000_001, &sizes)
        .torn(COUNT, 1_000_002, &sizes)
        .record(COUNT, 1_000_003, &sizes[..15]) // too short
        .record(999, 1_000_004, &sizes) // no such marker
        .record(EXEC, 1_000_005, &sizes) // the kernel's, not a thread's
        .record(COUNT, 900_000, &sizes) // before the chunk
        .record(COUNT, 3_000_000, &sizes) // after it
        .record(COUNT, 1_000_010, &sizes)
        .record(COUNT, 1_000_009, &sizes) // back in time
        .record(COUNT, 1_000_011, &sizes)
        .word(COUNT, 4000, true, tsc(1_000_012), &sizes); // longer than the packet
    bad.header.discarded = 10;
    for _ in 0..2 {
        let (text, errors) = texts(&extract(&dir, &[meta().bytes(), bad.clone().bytes()]));
        assert!(
            text.contains("3 events, 18 lost, 1 streams"),
            "{text}{errors}"
        );
        assert!(errors.contains("7 records that do not fit"), "{errors}");
        assert!(errors.contains("1 records whose writer"), "{errors}");
    }
    assert_eq!(view(&dir).lines().count(), 3);
    let (text, _) = texts(&babeltrace2(&[dir.to_str().unwrap()]));
    assert_eq!(text.lines().count(), 3);
    let summary = silent(bootmark(&["summary", dir.to_str().unwrap()]));
    for part in [
        "3 recorded in 1 streams, 18 lost",
        "      10  for want of room",
        "       1  torn",
        "       7  invalid",
    ] {
        assert!(summary.contains(part), "{part}:\n{summary}");
    }
}

#[test]
fn chunks_that_overlap_in_time_are_made_to_follow_each_other() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let first = Maker::thread(3, 0, 5, "svc")
        .times(1000, 2000)
        .sealed(SEAL_FULL, 1)
        .record(START, 1500, &[]);
    let second = Maker::thread(3, 1, 5, "svc")
        .times(1900, 2500)
        .sealed(SEAL_FULL, 2)
        .record(START, 1950, &[]);
    let third = Maker::thread(3, 2, 5, "svc")
        .times(2400, 3000)
        .sealed(SEAL_FULL, 3)
        .record(START, 2600, &[]);
    silent(extract(
        &dir,
        &[meta().bytes(), first.bytes(), second.bytes(), third.bytes()],
    ));
    assert_eq!(
        silent(babeltrace2(&[dir.to_str().unwrap()]))
            .lines()
            .count(),
        3
    );
}

#[test]
fn other_directories_are_refused_and_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    silent(extract(&dir, &[meta().bytes(), packet(3, 0, SEAL_FULL, 5)]));
    let before = files(&dir);
    let mut other = meta();
    other.header.uuid = *b"another boot id!";
    let output = extract(&dir, &[other.bytes()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output).1.contains("holds the trace of another boot"),
        "{output:?}"
    );
    assert_eq!(files(&dir), before);

    let home = temp.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("letter"), "dear").unwrap();
    let output = extract(&home, &[meta().bytes()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output)
            .1
            .contains("is not empty and no Bootmark trace"),
        "{output:?}"
    );
    assert_eq!(names(&home), ["letter"]);

    // One that was cut off is not built upon: what it lost cannot be had again.
    let stream = dir.join("svc-53-53.3");
    let bytes = fs::read(&stream).unwrap();
    fs::write(&stream, &bytes[..bytes.len() - 20]).unwrap();
    let output = extract(&dir, &[meta().bytes()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output).1.contains("svc-53-53.3, offset 0: "),
        "{output:?}"
    );
    assert_eq!(
        names(temp.path()),
        ["home", "home.packets", "trace", "trace.packets"]
    );
}

/// A snapshot with three events, an invalid record and an unfinished one.
fn snapshot(seq: u64) -> Maker {
    let begin = 1_000_000 + seq * 10_000;
    let mut maker = Maker::thread(3, seq, 53, "svc")
        .times(begin, begin + 10_000)
        .sealed(SEAL_OPEN, 0);
    for index in 0..3 {
        maker = maker.record(COUNT, begin + 1 + index, &[0; 16]);
    }
    maker
        .record(999, begin + 5, &[0; 16]) // no such marker
        .torn(COUNT, begin + 6, &[0; 16])
}

#[test]
fn what_was_left_out_of_an_overwritten_snapshot_is_forgotten_with_it() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let (text, errors) = texts(&extract(&dir, &[meta().bytes(), snapshot(0).bytes()]));
    assert!(text.contains("3 events, 1 lost"), "{text}{errors}");
    assert!(
        errors.contains("1 records that were being written"),
        "{errors}"
    );

    // The kernel counts all five as lost.
    let mut later = Maker::thread(3, 1, 53, "svc")
        .times(1_010_000, 1_020_000)
        .sealed(SEAL_FULL, 1)
        .record(COUNT, 1_010_001, &[0; 16]);
    later.header.discarded = 5;
    let text = silent(extract(&dir, &[meta().bytes(), later.bytes()]));
    assert!(text.contains("1 events, 5 lost"), "{text}");
    let notes = fs::read_to_string(dir.join(".bootmark.json")).unwrap();
    assert!(notes.contains("\"left_out\": {}"), "{notes}");
}

#[test]
fn a_snapshot_that_was_overwritten_before_its_turn_is_not_stored() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    // Between the look at chunk 1 and the second reading it was sealed and overwritten; 2 came.
    let text = silent(extract(
        &dir,
        &[
            meta().bytes(),
            packet(3, 0, SEAL_FULL, 5),
            packet(3, 2, SEAL_FULL, 4),
            packet(3, 1, SEAL_OPEN, 2),
        ],
    ));
    assert!(text.contains("9 events, 0 lost, 1 streams"), "{text}");

    // A sealed packet that comes too late is the kernel's mistake.
    let output = extract(&dir, &[meta().bytes(), packet(3, 1, SEAL_FULL, 2)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output)
            .1
            .contains("returned packet 1 of stream 3 after packet 2"),
        "{output:?}"
    );
}

#[test]
fn packets_are_recognised_only_in_a_trace_that_names_its_boot() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let refused = |packets: &[Vec<u8>], why: &str| {
        let before = files(&dir);
        let output = extract(&dir, packets);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(texts(&output).1.contains(why), "{output:?}");
        assert_eq!(files(&dir), before);
    };
    let of_other_boot = |mut bytes: Vec<u8>| {
        let at = std::mem::offset_of!(PacketHeader, uuid);
        bytes[at..at + 16].copy_from_slice(b"another boot id!");
        bytes
    };
    silent(extract(&dir, &[meta().bytes(), packet(3, 0, SEAL_FULL, 5)]));
    let (meta_file, stream) = (dir.join(".bootmark"), dir.join("svc-53-53.3"));
    let described = fs::read(&meta_file).unwrap();

    // Equal in stream and number, of another boot.
    let others = [meta().bytes(), packet(3, 0, SEAL_FULL, 9)].map(of_other_boot);
    fs::write(&meta_file, b"").unwrap();
    refused(&others, ".bootmark, offset 0: no packet says of which boot");
    fs::write(&meta_file, &described).unwrap();
    let mut mixed = packet(3, 0, SEAL_FULL, 5);
    let offset = mixed.len();
    mixed.extend(of_other_boot(packet(3, 1, SEAL_FULL, 5)));
    fs::write(&stream, &mixed).unwrap();
    refused(
        &[meta().bytes(), packet(3, 1, SEAL_FULL, 9)],
        &format!("svc-53-53.3, offset {offset}: a packet of another boot (616e6f74-"),
    );
}

#[test]
fn a_trace_without_descriptions_names_its_boot() {
    let temp = tempfile::tempdir().unwrap();
    // So is that of a dump whose meta chunk is damaged. All records are invalid.
    for (name, first) in [
        ("none", vec![packet(3, 0, SEAL_FULL, 5)]),
        (
            "empty",
            vec![
                Maker::new(STREAM_META, 0, 0).bytes(),
                packet(3, 0, SEAL_FULL, 5),
            ],
        ),
    ] {
        let dir = temp.path().join(name);
        for _ in 0..2 {
            let (text, errors) = texts(&extract(&dir, &first));
            assert!(
                text.contains("0 events, 5 lost, 1 streams"),
                "{text}{errors}"
            );
        }
        let mut other = packet(3, 0, SEAL_FULL, 5);
        let at = std::mem::offset_of!(PacketHeader, uuid);
        other[at] ^= 1;
        let (_, errors) = texts(&extract(&dir, &[other]));
        assert!(errors.contains("the trace of another boot"), "{errors}");
        // What comes later is described.
        let (text, errors) = texts(&extract(
            &dir,
            &[meta().bytes(), packet(3, 1, SEAL_FULL, 2)],
        ));
        assert!(text.contains("2 events, 5 lost"), "{text}{errors}");
    }

    // Nothing at all is no trace of any boot, and any may follow.
    let dir = temp.path().join("nothing");
    silent(extract(&dir, &[]));
    let text = silent(extract(&dir, &[meta().bytes(), packet(3, 0, SEAL_FULL, 5)]));
    assert!(text.contains("5 events"), "{text}");
}

#[test]
fn a_write_that_fails_is_said_and_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let packets = temp.path().join("packets");
    let many: Vec<Vec<u8>> = std::iter::once(meta().bytes())
        .chain((0..10).map(|seq| packet(3, seq, SEAL_FULL, 1500)))
        .collect();
    fs::write(&packets, many.concat()).unwrap();
    // Files of at most 64 KiB, and an error instead of the signal.
    let script = "ulimit -f 64; trap '' XFSZ; exec \"$@\"";
    let (packets, dir) = (packets.to_str().unwrap(), dir.to_str().unwrap());
    let output = Command::new("bash")
        .args([
            "-c",
            script,
            "bash",
            env!("CARGO_BIN_EXE_bootmark"),
            "extract",
        ])
        .args(["--packets", packets, "--output", dir])
        .output()
        .unwrap();
    let (_, errors) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("cannot write") && errors.contains("File too large"),
        "{errors}"
    );
    assert_eq!(names(temp.path()), ["packets"]);

    let output = bootmark(&[
        "extract",
        "--packets",
        packets,
        "--output",
        "/proc/nowhere/trace",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output).1.contains("cannot create /proc/nowhere"),
        "{output:?}"
    );
}

#[test]
fn a_kernel_without_bootmark_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let output = bootmark(&["extract", "--output", dir.to_str().unwrap()]);
    let (_, errors) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        errors,
        "bootmark: this kernel has no Bootmark (bootbuf_open: ENOSYS): boot a patched kernel\n"
    );
    assert!(names(temp.path()).is_empty());
    for args in [
        &["status"][..],
        &["enable", "init:*"],
        &["disable", "init"],
        &["list", "--system"],
    ] {
        let output = bootmark(args);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            texts(&output)
                .1
                .contains("this kernel has no Bootmark (marker_ctl: ENOSYS)"),
            "{output:?}"
        );
    }
}

#[test]
fn what_a_killed_run_left_is_repaired() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    silent(extract(&dir, &[meta().bytes(), packet(3, 0, SEAL_FULL, 5)]));
    let before = files(&dir);
    // Died between the two renames of a file system that cannot exchange.
    fs::rename(&dir, temp.path().join(".trace.old")).unwrap();
    fs::create_dir(temp.path().join(".trace.new")).unwrap();
    fs::write(temp.path().join(".trace.new/.stream-3"), "half").unwrap();
    silent(extract(&dir, &[meta().bytes(), packet(3, 0, SEAL_FULL, 5)]));
    assert_eq!(files(&dir), before);
    assert_eq!(names(temp.path()), ["trace", "trace.packets"]);

    // Died behind them.
    fs::create_dir(temp.path().join(".trace.old")).unwrap();
    fs::write(temp.path().join(".trace.old/metadata"), "older").unwrap();
    silent(extract(&dir, &[meta().bytes()]));
    assert_eq!(files(&dir), before);
    assert_eq!(names(temp.path()), ["trace", "trace.packets"]);
}

#[test]
fn killed_at_any_time_it_neither_loses_nor_repeats() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let first: Vec<Vec<u8>> = std::iter::once(meta().bytes())
        .chain((0..20).map(|instance| packet(instance + 1, 0, SEAL_OPEN, 50)))
        .collect();
    silent(extract(&dir, &first));
    let second: Vec<Vec<u8>> = std::iter::once(meta().bytes())
        .chain((0..20).flat_map(|instance| {
            [
                packet(instance + 1, 0, SEAL_FULL, 100),
                packet(instance + 1, 1, SEAL_EXIT, 100),
            ]
        }))
        .collect();
    let packets = temp.path().join("second");
    fs::write(&packets, second.concat()).unwrap();
    let args = [
        "extract",
        "--packets",
        packets.to_str().unwrap(),
        "--output",
        dir.to_str().unwrap(),
    ];
    let mut seen = BTreeMap::new();
    for round in 0..40 {
        // Back to the first state, sometimes.
        if round % 4 == 0 {
            fs::remove_dir_all(&dir).unwrap();
            silent(extract(&dir, &first));
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_bootmark"))
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(300 * (round % 30)));
        child.kill().unwrap();
        child.wait().unwrap();
        // What stands there is one of the two states, whole.
        let events = view(&dir).lines().count();
        assert!(events == 1000 || events == 4000, "{events}");
        *seen.entry(events).or_insert(0) += 1;
    }
    silent(bootmark(&args));
    assert_eq!(view(&dir).lines().count(), 4000);
    assert_eq!(names(temp.path()), ["second", "trace", "trace.packets"]);
    println!("states seen after the kill: {seen:?}");
}
