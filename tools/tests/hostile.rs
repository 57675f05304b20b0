//! Directories that are cut off, changed, or made to harm.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use bootmark_tools::styles::Styles;
use bootmark_tools::summary::collect;
use bootmark_tools::trace::reader::Trace;
use bootmark_tools::view::{json, text};
use common::*;
use proptest::prelude::*;

fn trace(dir: &Path) -> Vec<PathBuf> {
    extract(dir, &boot());
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// Reads everything in every way; returns the number of events.
fn read(dir: &Path) -> Option<u64> {
    let trace = Trace::open(dir).ok()?;
    let mut events = trace.events();
    let mut count = 0;
    let mut sink = Vec::new();
    while let Some(event) = events.next_event() {
        count += 1;
        json::write(&mut sink, &event, &trace.meta.clock).unwrap();
        text::write(&mut sink, &event, &trace.meta.clock, &Styles::new(true)).unwrap();
    }
    let summary = collect(&trace, 3);
    assert_eq!(summary.events, count);
    bootmark_tools::summary::text::write(&mut sink, &summary, 3, &Styles::new(true)).unwrap();
    Some(count)
}

#[test]
fn a_trace_that_is_cut_off_is_read_to_the_cut() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    trace(&dir);
    let dir_text = dir.to_str().unwrap();
    let stream = dir.join("init-1-1.2");
    let bytes = fs::read(&stream).unwrap();
    // In the middle of the first packet's third record.
    fs::write(&stream, &bytes[..128 + 16 + 32 + 10]).unwrap();
    let output = bootmark(&["view", "--pid", "1", dir_text]);
    let (text, errors) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(
        errors.contains("init-1-1.2, offset 186: cut off: "),
        "{errors}"
    );
    assert!(errors.contains("octets of packet 0 are lost"), "{errors}");
    // The other streams are all there.
    let (text, _) = texts(&bootmark(&["view", dir_text]));
    assert_eq!(text.lines().count(), 8, "{text}");
    let output = bootmark(&["summary", dir_text]);
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).0.contains("damaged: "), "{output:?}");

    // A damaged header costs its packet; the next one is found.
    let mut damaged = bytes.clone();
    damaged[0] ^= 0xff;
    damaged.splice(0..0, bytes[..bytes.len()].to_vec());
    fs::write(&stream, &damaged).unwrap();
    let output = bootmark(&["view", "--json", "--pid", "1", dir_text]);
    let (text, errors) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text.lines().count(), 10, "{text}");
    assert!(errors.contains("octets are lost"), "{errors}");
}

#[test]
fn what_is_no_trace_is_refused_in_words() {
    let temp = tempfile::tempdir().unwrap();
    let empty = temp.path().to_str().unwrap();
    for command in ["view", "summary"] {
        let output = bootmark(&[command, empty]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            texts(&output)
                .1
                .contains("is no Bootmark trace: it has no file .bootmark"),
            "{output:?}"
        );
        let output = bootmark(&[command, "/nowhere"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            texts(&output)
                .1
                .contains("cannot read /nowhere: No such file"),
            "{output:?}"
        );
    }
    fs::write(temp.path().join(".bootmark"), "no packet").unwrap();
    let output = bootmark(&["view", empty]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output)
            .1
            .contains("nothing can be decoded without it"),
        "{output:?}"
    );
}

#[test]
fn a_terminal_is_not_harmed() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let target = fields(&[
        &string("\x1b]0;owned\x07\n\"\\\u{202e}"),
        &0u64.to_le_bytes(),
    ]);
    let packet = Maker::thread(3, 0, 5, "\x1b[2J")
        .sealed(1, 1)
        .record(MOUNT, 5, &target);
    silent(extract(&dir, &[meta().bytes(), packet.bytes()]));
    for args in [&["view"][..], &["summary"], &["view", "--json"]] {
        let text = silent(bootmark(
            &[args, &["--color", "never", dir.to_str().unwrap()]].concat(),
        ));
        assert!(
            !text.contains(['\x1b', '\x07', '\u{202e}']) || args.contains(&"--json"),
            "{text:?}"
        );
        assert!(!text.contains('\x1b'), "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn changed_files_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>())),
    ) {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("trace");
        let source = common_trace();
        fs::create_dir(&dir).unwrap();
        let mut files = Vec::new();
        for (name, bytes) in source {
            files.push((dir.join(name), bytes.clone()));
        }
        for (file, at, value) in changes {
            let bytes = &mut file.get_mut(&mut files).1;
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        if let Some((file, at)) = cut {
            let bytes = &mut file.get_mut(&mut files).1;
            bytes.truncate(at.index(bytes.len().max(1)));
        }
        for (path, bytes) in &files {
            fs::write(path, bytes).unwrap();
        }
        if let Some(count) = read(&dir) {
            prop_assert!(count <= 60);
        }
        // Extraction into it refuses or completes it.
        let again = temp.path().join("packets");
        fs::write(&again, boot().concat()).unwrap();
        let mut source = bootmark_tools::extract::source::FileSource::open(&again).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let _ = bootmark_tools::extract::extract(&mut source, &dir, Default::default(), deadline);
    }

    #[test]
    fn changed_packets_never_panic_and_never_break_the_trace(
        changes in prop::collection::vec((0..5usize, any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("trace");
        let mut packets = boot();
        for (packet, at, value) in changes {
            let bytes = &mut packets[packet];
            // The kernel vouches for headers; records come from programs.
            let at = 128 + at.index(bytes.len() - 128);
            bytes[at] = value;
        }
        let file = temp.path().join("packets");
        fs::write(&file, packets.concat()).unwrap();
        let mut source = bootmark_tools::extract::source::FileSource::open(&file).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let report = bootmark_tools::extract::extract(&mut source, &dir, Default::default(), deadline).unwrap();
        prop_assert_eq!(read(&dir), Some(report.totals.events));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn whatever_programs_write_babeltrace2_reads_it(
        changes in prop::collection::vec((1..5usize, any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("trace");
        let mut packets = boot();
        for (packet, at, value) in changes {
            let bytes = &mut packets[packet];
            let at = 128 + at.index(bytes.len() - 128);
            bytes[at] = value;
        }
        extract(&dir, &packets);
        let (ours, _) = texts(&bootmark(&["view", "--json", dir.to_str().unwrap()]));
        let output = babeltrace2(&[dir.to_str().unwrap()]);
        let theirs = String::from_utf8_lossy(&output.stdout);
        prop_assert!(output.status.success(), "{:?}", output);
        // A string with a line feed takes more than one line there.
        let count = theirs.lines().filter(|line| line.starts_with('[')).count();
        prop_assert_eq!(ours.lines().count(), count, "{}", theirs);
    }
}

/// The files of a good trace.
fn common_trace() -> &'static [(String, Vec<u8>)] {
    static TRACE: std::sync::OnceLock<Vec<(String, Vec<u8>)>> = std::sync::OnceLock::new();
    TRACE.get_or_init(|| {
        let temp = tempfile::tempdir().unwrap();
        trace(&temp.path().join("trace"))
            .into_iter()
            .map(|path| {
                (
                    path.file_name().unwrap().to_str().unwrap().to_owned(),
                    fs::read(&path).unwrap(),
                )
            })
            .collect()
    })
}
