//! `cargo xtask` as a user meets it when the arguments are wrong: told at once,
//! before anything is built.

use std::fs;
use std::process::{Command, Output};

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
