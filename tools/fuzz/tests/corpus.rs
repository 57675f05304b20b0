//! The corpus of each fuzz target, run as ordinary tests: what a fuzzer found once is never found again.

use std::fs;
use std::path::Path;

use bootmark_fuzz::TARGETS;

/// Runs everything in a target's folder; fails when nothing in it makes sense any more, as after a change
/// of the ABI that left the corpus behind.
#[track_caller]
fn run(name: &str) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut understood = 0;
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        // Told by the test's output when the next line panics.
        println!("{}", path.display());
        understood += target(&fs::read(path).unwrap());
    }
    assert!(understood >= 10, "{understood} in {}", folder.display());
}

#[test]
fn packets() {
    run("packets");
}

#[test]
fn trace() {
    run("trace");
}

#[test]
fn pool() {
    run("pool");
}

#[test]
fn elf_tools() {
    run("elf-tools");
}

#[test]
fn rules() {
    run("rules");
}
