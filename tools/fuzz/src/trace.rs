//! Target `trace`: a trace directory whose files hold anything.
//!
//! Input: files one after the other, each behind [`FILE`] and an octet that chooses its name. So
//! what a fuzzer takes out or puts in moves no boundary.

use std::fs;
use std::time::{Duration, Instant};

use bootmark_tools::extract::{extract, source::FileSource};
use bootmark_tools::trace::layout;

use crate::reading::read;

/// What stands in front of a file.
pub const FILE: &[u8] = b"\n=FILE=";

/// Names of files; an octet chooses by its remainder.
pub const NAMES: [&str; 6] = [
    layout::META,
    layout::NOTES,
    layout::METADATA,
    "init-1-1.2",
    "svc-77-77.3",
    "cpu0.1",
];

/// Makes the directory, reads it, and extracts into it; the number of events that were read.
///
/// # Panics
/// When an extraction of nothing succeeds and changes what is there.
pub fn run(data: &[u8]) -> u64 {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = temp.path().join("trace");
    fs::create_dir(&dir).expect("a directory in it");
    for (name, content) in files(data) {
        fs::write(dir.join(name), content).expect("a file in it");
    }
    let count = read(&dir);
    // It refuses, or goes on with what is there.
    let nothing = temp.path().join("packets");
    fs::write(&nothing, b"").expect("a file");
    let mut source = FileSource::open(&nothing).expect("no packets are no error");
    let deadline = Instant::now() + Duration::from_secs(60);
    if extract(&mut source, &dir, Default::default(), deadline).is_ok() {
        let after = read(&dir).unwrap_or_default();
        assert!(count.unwrap_or_default() <= after, "{count:?} {after}");
    }
    count.unwrap_or_default()
}

/// The files of an input.
pub fn files(data: &[u8]) -> impl Iterator<Item = (&'static str, &[u8])> {
    let starts: Vec<usize> = data
        .windows(FILE.len())
        .enumerate()
        .filter(|(_, window)| *window == FILE)
        .map(|(at, _)| at)
        .collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([data.len()]).collect();
    starts.into_iter().zip(ends).filter_map(|(start, end)| {
        let (name, content) = data.get(start + FILE.len()..end)?.split_first()?;
        Some((NAMES[usize::from(*name) % NAMES.len()], content))
    })
}
