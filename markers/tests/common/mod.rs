//! Builds small programs with the compilers of the machine.

// Each test program uses a part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A directory of its own for a test's files, empty.
pub fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// A file of this crate.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs a command that must succeed, and returns what it wrote to its standard output.
pub fn run(command: &mut Command) -> String {
    let output = output(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command.
pub fn output(command: &mut Command) -> Output {
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// A C compiler with the warnings that the header promises to be free of, as errors.
pub fn c_compiler(name: &str) -> Command {
    let mut command = Command::new(name);
    command.args([
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wconversion",
        "-Werror",
        "-I",
    ]);
    command.arg(source("include"));
    command
}

/// cargo, free of what the test's own cargo put into the environment.
pub fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    for variable in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_TARGET",
    ] {
        command.env_remove(variable);
    }
    command.current_dir(source(".."));
    command
}

/// A target directory that stays from run to run.
pub fn target_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("target")
        .join(name)
}

/// `libbootmark.a`, as programs get it.
pub fn libbootmark() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = target_dir("capi");
        run(cargo()
            .args([
                "build",
                "--quiet",
                "--profile",
                "capi",
                "--package",
                "bootmark-capi",
                "--target-dir",
            ])
            .arg(&target));
        target.join("capi/libbootmark.a")
    })
}

/// `provider:name` of the markers of a file, sorted, after everything that can be checked was.
pub fn markers_of(path: &Path) -> Vec<String> {
    let data = std::fs::read(path).unwrap();
    let module = markers::elf::read(&data)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .unwrap_or_else(|| panic!("{}: no markers", path.display()));
    let mut names: Vec<_> = module.markers.iter().map(ToString::to_string).collect();
    names.sort();
    names
}
