//! `cargo xtask` as a user meets it: wrong arguments are told at once, before
//! anything is built, and what a boot is asked for on the command line is done.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use qemu_tests::reading;

fn xtask(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(args)
        .output()
        .unwrap()
}

fn error(args: &[&str]) -> String {
    let out = xtask(args);
    assert!(!out.status.success());
    String::from_utf8(out.stderr).unwrap()
}

#[test]
fn help_names_every_option_of_boot() {
    let out = xtask(&["boot", "-h"]);
    let text = String::from_utf8(out.stdout).unwrap();
    for option in [
        "--out",
        "--append",
        "--rules",
        "--kernel-source",
        "--shell",
        "--add",
        "--script",
        "--panic-after",
        "--memory",
        "--cpus",
        "--timeout",
    ] {
        assert!(text.contains(option), "no {option} in:\n{text}");
    }
}

#[test]
fn an_add_without_a_place_is_refused() {
    assert!(error(&["boot", "--add", "/etc/hostname"]).contains("expected HOST:GUEST"));
    assert!(error(&["boot", "--add", "/etc/hostname:etc"]).contains("absolute path"));
    assert!(error(&["boot", "--add", "/no/such/file:/etc/x"]).contains("there is no /no/such"));
}

#[test]
fn a_script_that_is_not_there_is_refused() {
    assert!(error(&["boot", "--script", "/no/such.sh"]).contains("/no/such.sh"));
}

#[test]
fn results_do_not_go_over_other_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.txt"), "x").unwrap();
    let text = error(&["boot", "--out", dir.path().to_str().unwrap()]);
    assert!(text.contains("is not empty"), "{text}");
    assert!(dir.path().join("thesis.txt").exists());
}

#[test]
fn an_unknown_configuration_names_the_known_ones() {
    assert!(error(&["kernel", "--config", "huge"]).contains("small, off, debug"));
}

/// Waits until the guest's console shows a text.
fn wait_for(boot: &mut Child, console: &Path, text: &str) {
    loop {
        let log = fs::read_to_string(console).unwrap_or_default();
        if log.contains(text) {
            return;
        }
        // A person would see a panic and leave.
        let over = log.contains("Kernel panic") || boot.try_wait().unwrap().is_some();
        if over {
            boot.kill().unwrap();
            panic!("no `{text}` on the console:\n{log}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_shell_is_interactive_and_powers_off_when_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut boot = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["boot", "--shell", "--out"])
        .arg(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let console = dir.path().join("console.log");
    let mut keyboard = boot.stdin.take().unwrap();
    wait_for(&mut boot, &console, "bootmark# ");
    keyboard.write_all(b"echo in-$((40+2))-shell\r").unwrap();
    wait_for(&mut boot, &console, "in-42-shell");
    keyboard.write_all(b"exit\r").unwrap();
    let out = boot.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}");
    assert!(text.contains("reboot: Power down"), "{text}");
}

#[test]
fn a_script_runs_with_what_was_added_and_decides_the_status() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script.sh");
    fs::write(
        &script,
        "echo user $(id -u)\ncat /opt/added/file\nbootmark --version\nexit 7\n",
    )
    .unwrap();
    fs::create_dir(dir.path().join("folder")).unwrap();
    fs::write(dir.path().join("folder/file"), "from the host\n").unwrap();
    // A name that a careless command line would trip over.
    let results = dir.path().join("my, results");
    let add = format!("{}:/opt/added", dir.path().join("folder").display());
    let out = xtask(&[
        "boot",
        "--out",
        results.to_str().unwrap(),
        "--script",
        script.to_str().unwrap(),
        "--add",
        &add,
        "--append",
        "made.up=1",
    ]);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(7), "{stderr}");
    let log = fs::read_to_string(results.join("script.log")).unwrap();
    assert!(log.starts_with("user 0\nfrom the host\nbootmark "), "{log}");
    let console = fs::read_to_string(results.join("console.log")).unwrap();
    assert!(console.contains(" made.up=1"), "{console}");
    let summary = fs::read_to_string(results.join("summary.txt")).unwrap();
    let stdout = String::from_utf8_lossy(&out.stdout);
    assert!(stdout.contains(summary.trim_end()), "{stdout}");
    // What it says to look at the events with does it, as it stands.
    let view = stdout.lines().find_map(|line| line.strip_prefix("view "));
    let seen = Command::new("sh")
        .args(["-c", view.expect("no line that begins with view")])
        .output()
        .unwrap();
    assert!(seen.status.success(), "{seen:?}");
    assert!(String::from_utf8_lossy(&seen.stdout).contains("init:start"));
    assert!(results.join("trace/metadata").exists());
}

#[test]
fn a_boot_that_panics_leaves_its_trace_beside_that_of_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results");
    let out = xtask(&[
        "boot",
        "--panic-after",
        "700",
        "--timeout",
        "400",
        "--out",
        results.to_str().unwrap(),
    ]);
    let stdout = String::from_utf8_lossy(&out.stdout);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{stdout}{stderr}");
    let (died, after) = (results.join("previous"), results.join("trace"));
    let [died_says, after_says] = [&died, &after].map(|trace| reading::summary(trace).unwrap());
    assert_eq!(died_says["previous"], true);
    assert_eq!(died_says["end"]["how"], "panic", "{died_says}");
    assert_eq!(after_says["previous"], false);
    assert_ne!(died_says["boot_id"], after_says["boot_id"]);
    for (trace, says) in [(&died, &died_says), (&after, &after_says)] {
        let events = reading::events(trace).unwrap();
        assert!(events.iter().any(|event| event.name() == "init:start"));
        assert_eq!(says["events"].as_u64(), Some(events.len() as u64));
        assert_eq!(reading::babeltrace(trace).unwrap().len(), events.len());
    }
    // Both are shown, and named.
    assert!(stdout.contains("The boot that panicked:"), "{stdout}");
    assert!(stdout.contains("The boot after it:"), "{stdout}");
    assert!(stdout.contains(died.to_str().unwrap()), "{stdout}");
}
