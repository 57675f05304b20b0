//! What processes do with themselves while their markers are on: forks, threads, namespaces, filters,
//! limits, attempts at the window. They must fare as they do when nobody looks, and lose no event.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::{paths, process, programs, reading};

/// Builds `fixtures/life/*.c` against the library, as a program for the guest.
fn build(out: &Path) {
    let fixtures = paths::workspace().join("qemu-tests/tests/fixtures/life");
    let mut sources: Vec<_> = fs::read_dir(fixtures)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    sources.sort();
    process::output(
        programs::c_compiler()
            // A call-back has the arguments that it has to have.
            .args([
                "-std=c11",
                "-static",
                "-Wno-unused-parameter",
                "-pthread",
                "-I",
            ])
            .arg(paths::workspace().join("markers/include"))
            .args(sources)
            .arg(programs::build().unwrap().libbootmark)
            .arg("-o")
            .arg(out),
    )
    .unwrap();
}

/// All markers of the program.
const ALL: &str = "life:*";

/// Runs the program without and with its markers on by a rule; `only` one case or all.
fn run(rule: &str, append: &str, only: &str) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("life");
    build(&program);
    Guest::new()
        .pool("64M")
        .rules("")
        .append(&format!("bootmark.services=no {append}"))
        .add(&program, "/life")
        .timeout(Duration::from_secs(400))
        .script(format!(
            "echo 0 >/proc/sys/debug/exception-trace
             cd /run
             /life untraced {only} >/run/untraced 2>&1
             echo untraced-status $?
             bootmark enable '{rule}'
             echo enable-status $?
             /life traced {only} >/run/traced 2>&1
             echo traced-status $?
             # All of it, however long that takes on a slow kernel.
             bootmark extract --timeout 300 --output /var/lib/bootmark/trace
             echo extract-status $?
             bootmark status --json | awk -F'[:,]' '/events_lost/ {{ print \"lost\" $2 }}'
             sed 's/^/untraced /' /run/untraced
             sed 's/^/traced /' /run/traced"
        ))
        .boot()
        .unwrap()
}

/// The lines of one run that begin with a word, as (case, rest).
fn lines<'a>(outcome: &'a Outcome, run: &str, word: &str) -> BTreeMap<&'a str, &'a str> {
    let prefix = format!("{run} {word} ");
    outcome
        .script_log
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix)?.split_once(' '))
        .collect()
}

/// Every case went as it does when nobody looks.
fn all_lived(outcome: &Outcome) {
    let log = &outcome.script_log;
    // It is known from the first rule on only, so the rule matches nothing yet.
    assert_eq!(outcome.printed("enable-status"), "3", "{log}");
    assert_eq!(outcome.printed("extract-status"), "0", "{log}");
    for run in ["untraced", "traced"] {
        assert_eq!(outcome.printed(&format!("{run}-status")), "0", "{log}");
        let cases = lines(outcome, run, "case");
        let failed: Vec<_> = cases
            .iter()
            .filter(|(_, how)| **how != "status 0")
            .collect();
        assert!(failed.is_empty(), "{run}: {failed:?}\n{log}");
    }
    let names = |run| lines(outcome, run, "case").into_keys().collect::<Vec<_>>();
    assert_eq!(names("traced"), names("untraced"));
}

/// And what it wrote is in the trace once. Returns the number of cases.
fn all_well(outcome: &Outcome) -> usize {
    all_lived(outcome);
    let log = &outcome.script_log;
    let (cases, counts) = (
        lines(outcome, "traced", "case"),
        lines(outcome, "traced", "count"),
    );
    assert!(cases.keys().eq(counts.keys()), "{log}");

    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for event in reading::events(&outcome.trace()).unwrap() {
        if event.name() == "life:event" {
            let of = event.text("of").unwrap().to_owned();
            let number = event.number("number").unwrap();
            found.entry(of).or_default().push(number);
        }
    }
    for (case, count) in &counts {
        let mut numbers = found.remove(*case).unwrap_or_default();
        numbers.sort_unstable();
        let wanted: Vec<u64> = (1..=count.parse().unwrap()).collect();
        let missing = wanted.iter().filter(|number| !numbers.contains(number));
        assert!(
            numbers == wanted,
            "{case}: {} of {count} events, missing {:?}\n{log}",
            numbers.len(),
            missing.take(10).collect::<Vec<_>>()
        );
    }
    assert!(found.is_empty(), "{found:?}");
    let summary = reading::summary(&outcome.trace()).unwrap();
    assert_eq!(summary["left_out"]["invalid"], 0, "{}", summary["left_out"]);
    cases.len()
}

#[test]
fn processes_fare_as_they_do_when_nobody_looks() {
    let outcome = run(ALL, "", "");
    assert_eq!(all_well(&outcome), 48, "{}", outcome.script_log);
}

/// The library asks for the rule's text, and looks at each event; all of them pass.
#[test]
fn filtered_processes_fare_as_they_do_when_nobody_looks() {
    let rule = r#"life:*/of != "none"/{count(), record() by of}"#;
    let outcome = run(rule, "", "");
    assert_eq!(all_well(&outcome), 48, "{}", outcome.script_log);
}

/// The trace clock is one that programs have to ask the kernel for, which a filter may kill for.
#[test]
fn sandboxes_without_a_tsc_are_left_alone() {
    let outcome = run(ALL, "tsc=unstable", "seccomp");
    all_lived(&outcome);
    let seen = reading::events(&outcome.trace()).unwrap();
    let of = |case: &str| {
        let of_case = |event: &&reading::Event| event.text("of") == Some(case);
        seen.iter().filter(of_case).count()
    };
    // They recorded until they had filters.
    assert!(of("seccomp_strict") >= 10, "{}", outcome.script_log);
    let summary = reading::summary(&outcome.trace()).unwrap();
    assert_eq!(summary["left_out"]["invalid"], 0, "{}", summary["left_out"]);
}
