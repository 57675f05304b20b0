//! Call-backs in the process: Rust and C programs that check themselves, in guests with and without
//! rules and buffers; plug-ins and a preloaded library, each with its own copy of the library.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::{paths, process, programs, reading};

const SCENARIOS: [&str; 9] = [
    "fields", "spans", "removal", "nested", "itself", "signals", "forks", "refusals", "exec",
];

const RUN: &str = "/usr/lib/bootmark/services/svc-handlers; echo status $?";

#[track_caller]
fn all_ok(outcome: &Outcome) {
    for name in SCENARIOS {
        assert!(
            outcome.script_log.contains(&format!("ok {name}\n")),
            "{name}:\n{}",
            outcome.script_log
        );
    }
    assert_eq!(outcome.printed("status"), "0", "{}", outcome.script_log);
}

#[test]
fn call_backs_run_without_a_rule_and_without_a_buffer() {
    let outcome = Guest::new()
        .rules("")
        .pool("")
        .append("bootmark.services=no bootmark.extract=no")
        .script(RUN)
        .boot()
        .unwrap();
    all_ok(&outcome);
}

#[test]
fn call_backs_run_beside_recording() {
    let outcome = Guest::new()
        // Without the one that threads write as fast as they can while its call-back is removed: it
        // fills every pool.
        .rules("handlers:*,!handlers:load")
        .append("bootmark.services=no")
        .script(format!("export RULES=1\n{RUN}"))
        .boot()
        .unwrap();
    all_ok(&outcome);
    let events = reading::events(&outcome.trace()).unwrap();
    let of = |name: &str| events.iter().filter(|event| event.name() == name).count();
    // Those of a call-back that are not called are recorded: three outer and three inner.
    assert_eq!(of("handlers:nested"), 6);
    assert_eq!(of("handlers:all"), 5);
    assert_eq!((of("handlers:work.begin"), of("handlers:work.end")), (1, 1));
    assert_eq!(
        reading::babeltrace(&outcome.trace()).unwrap().len(),
        events.len()
    );
}

/// Builds a C file of `tests/fixtures` against the library.
fn build(dir: &Path, source: &str, name: &str, options: &[&str]) -> PathBuf {
    let out = dir.join(name);
    let library = programs::build().unwrap().libbootmark;
    process::output(
        programs::c_compiler()
            .args(["-std=c11", "-D_GNU_SOURCE", "-I"])
            .arg(paths::workspace().join("markers/include"))
            .args(options)
            .arg(
                paths::workspace()
                    .join("qemu-tests/tests/fixtures")
                    .join(source),
            )
            .arg(library)
            .args(["-ldl", "-o"])
            .arg(&out),
    )
    .unwrap();
    out
}

/// Builds `plug.rs` as a shared object with a copy of the crate of its own.
fn build_rust_plug(dir: &Path) -> PathBuf {
    let workspace = paths::workspace();
    let manifest = format!(
        "[package]\nname = \"plug\"\nedition = \"2024\"\n[workspace]\n\
         [lib]\ncrate-type = [\"cdylib\"]\npath = {:?}\n\
         [dependencies]\nbootmark-markers = {{ path = {:?} }}\n",
        workspace.join("qemu-tests/tests/fixtures/plug.rs"),
        workspace.join("markers"),
    );
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    fs::copy(workspace.join("Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    let target = paths::target().join("guest/plug");
    process::output(
        Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--release", "--target-dir"])
            .arg(&target)
            .current_dir(dir)
            .env_remove("RUSTFLAGS"),
    )
    .unwrap();
    target.join("release/libplug.so")
}

#[test]
fn c_programs_their_plug_ins_and_a_preloaded_library_share_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "calls.c", "calls", &[]);
    let plug = build(dir.path(), "plug.c", "plug.so", &["-fPIC", "-shared"]);
    let preload = build(dir.path(), "preload.c", "preload.so", &["-fPIC", "-shared"]);
    let rust_plug = build_rust_plug(dir.path());
    let mut guest = Guest::new()
        .rules("")
        .append("bootmark.services=no")
        .add(&program, "/calls/")
        .add(&plug, "/calls/")
        .add(&rust_plug, "/calls/")
        .add(&preload, "/calls/");
    let needed: BTreeSet<_> = [&program, &rust_plug]
        .into_iter()
        .flat_map(|file| programs::libraries(file).unwrap())
        .collect();
    for library in needed {
        let at = library.to_string_lossy().into_owned();
        guest = guest.add(library.canonicalize().unwrap(), &at);
    }
    let outcome = guest
        .script(
            "cd /calls
            ./calls ./plug.so && echo plain 0
            LD_PRELOAD=./preload.so ./calls ./plug.so && echo preloaded 0
            bootmark enable 'plug:*'
            ./calls ./libplug.so && echo rust 0",
        )
        .boot()
        .unwrap();
    let log = &outcome.script_log;
    assert!(!log.contains("failed"), "{log}");
    outcome.printed("plain");
    outcome.printed("preloaded");
    outcome.printed("rust");
    // Each time: a tick before and one behind the plug-in; two spans of it before its call-back ends.
    for line in ["ticks 2\n", "plugs 4\n", "sum 15\n"] {
        assert_eq!(log.matches(line).count(), 3, "{line}{log}");
    }
    // All three ticks and all three spans.
    assert_eq!(outcome.printed("preload events"), "9");
    assert_eq!(outcome.printed("preload spans"), "3");

    // The Rust plug-in, opened while a rule named its markers, wrote its three spans.
    let events = reading::events(&outcome.trace()).unwrap();
    let numbers: Vec<_> = events
        .iter()
        .filter(|event| event.name() == "plug:work.begin")
        .filter_map(|event| event.number("number"))
        .collect();
    assert_eq!(numbers, [7, 8, 9]);
    assert_eq!(events.len(), 6);
}
