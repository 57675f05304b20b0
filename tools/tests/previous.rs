//! The trace of a boot that the boot after it took from memory.

mod common;

use std::fs;

use bootbuf::abi::*;
use common::*;
use zerocopy::IntoBytes;

/// A record of the kernel's start or end.
fn kernel(maker: Maker, state: u32, text: &str, us: u64) -> Maker {
    let head = MetaKernel {
        state,
        text_len: text.len() as u16,
        reserved: 0,
    };
    maker.record(
        META_KERNEL,
        us,
        &fields(&[head.as_bytes(), text.as_bytes()]),
    )
}

/// Packets as `BOOTBUF_OPEN_PREVIOUS` gives them.
fn packets(meta: Maker) -> Vec<Vec<u8>> {
    let mut meta = meta;
    meta.header.flags = PACKET_PREVIOUS;
    let mut service = Maker::thread(3, 0, 77, "svc")
        .times(1_300_000, 1_900_000)
        .sealed(SEAL_RECOVERED, 1);
    service.header.flags = PACKET_PREVIOUS;
    for index in 0..20u64 {
        let size = fields(&[&index.to_le_bytes(), &0u64.to_le_bytes()]);
        service = service.record(COUNT, 1_300_001 + index, &size);
    }
    // Its writer was within the write when the kernel died.
    let service = service.torn(COUNT, 1_300_100, &[0; 16]);
    vec![meta.bytes(), service.bytes()]
}

#[test]
fn a_boot_that_panicked_says_so_and_shows_its_last_events() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("previous");
    let meta = kernel(meta(), KERNEL_RUNS, "6.1.2-other", 0);
    let meta = kernel(meta, KERNEL_PANICS, "Attempted to kill init!", 1_900_000);
    let (out, _) = texts(&extract(&dir, &packets(meta)));
    assert!(out.contains("20 events, 1 lost, 1 streams"), "{out}");

    let page = silent(bootmark(&["summary", dir.to_str().unwrap()]));
    for text in [
        "Linux 6.1.2-other ",
        "without shutdown, by a panic at 1.900000 s: Attempted to kill init!",
        "Last events",
        "svc:count {size=19 B",
    ] {
        assert!(page.contains(text), "no `{text}` in\n{page}");
    }
    assert!(
        !page.contains("svc:count {size=9 B"),
        "ten are shown:\n{page}"
    );
    let json = silent(bootmark(&["summary", "--json", dir.to_str().unwrap()]));
    let summary: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(summary["previous"], true);
    assert_eq!(summary["end"]["how"], "panic");
    assert_eq!(summary["end"]["ns"], 1_900_000_000u64);
    assert_eq!(summary["last_events"].as_array().unwrap().len(), 10);
    let notes = fs::read_to_string(dir.join(".bootmark.json")).unwrap();
    assert!(notes.contains("6.1.2-other"), "{notes}");
}

#[test]
fn other_ends_have_other_words() {
    let temp = tempfile::tempdir().unwrap();
    let stopped = kernel(meta(), KERNEL_STOPS, "restart", 1_900_000);
    for (name, meta, text) in [
        ("stopped", stopped, "by a shutdown (restart) at 1.900000 s"),
        ("silent", meta(), "without shutdown and without a word"),
    ] {
        let dir = temp.path().join(name);
        extract(&dir, &packets(meta));
        let page = silent(bootmark(&["summary", dir.to_str().unwrap()]));
        assert!(page.contains(text), "no `{text}` in\n{page}");
    }
    // A boot that still runs has no end.
    let dir = temp.path().join("running");
    silent(extract(&dir, &boot_without_torn()));
    let page = silent(bootmark(&["summary", dir.to_str().unwrap()]));
    assert!(
        !page.contains("ended") && !page.contains("Last events"),
        "{page}"
    );
}

fn boot_without_torn() -> Vec<Vec<u8>> {
    vec![
        meta().bytes(),
        Maker::thread(2, 0, 1, "init")
            .times(1_000_000, 1_250_000)
            .sealed(SEAL_FULL, 2)
            .record(START, 1_000_001, &[])
            .bytes(),
    ]
}
