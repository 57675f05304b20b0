//! Markers of files: this test's own program has two.

mod common;

use std::fs;

use common::{bootmark, silent, texts};
use markers::{marker, span};

fn marked() {
    marker!("tool-test", "point", count: u32 [hex] = 1, name: str = "x");
    let _span = span!("tool-test", "work");
}

#[test]
fn markers_of_a_program_are_listed_and_verified() {
    marked();
    let exe = std::env::current_exe().unwrap();
    let exe = exe.to_str().unwrap();
    let list = silent(bootmark(&["list", exe]));
    assert!(
        list.contains("tool-test:point") && list.contains("count: u32 [hex], name: str"),
        "{list}"
    );
    assert_eq!(list.lines().count(), 4, "{list}");
    let list = silent(bootmark(&["list", "--json", exe]));
    let first: serde_json::Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    assert!(
        first["event"].as_str().unwrap().starts_with("tool-test:"),
        "{first}"
    );

    let text = silent(bootmark(&["verify", exe, "--expect", "tool-test:work"]));
    assert!(text.contains(": 3 markers, ABI 1.0"), "{text}");
    let output = bootmark(&["verify", exe, "--expect", "tool-test:gone"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output)
            .1
            .contains("marker tool-test:gone is expected"),
        "{output:?}"
    );
}

#[test]
fn a_lost_note_fails_the_check() {
    marked();
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("program");
    let mut data = fs::read(std::env::current_exe().unwrap()).unwrap();
    // The note's header: owner of 9 octets, payload of 24, type 1.
    let header = [
        &9u32.to_le_bytes()[..],
        &24u32.to_le_bytes(),
        &1u32.to_le_bytes(),
        b"bootmark\0",
    ]
    .concat();
    let at = data
        .windows(header.len())
        .position(|window| window == header)
        .unwrap();
    data[at + 12] = b'X';
    fs::write(&path, &data).unwrap();
    let path = path.to_str().unwrap();
    let output = bootmark(&["verify", path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output).1.contains("there is no bootmark note"),
        "{output:?}"
    );
    let output = bootmark(&["list", path]);
    assert_eq!(output.status.code(), Some(1));

    // The marker's provider with a character that none may have.
    data[at + 12] = b'b';
    let name = b"tool-test\0\0";
    while let Some(at) = data.windows(name.len()).position(|window| window == name) {
        data[at] = b'/';
    }
    fs::write(path, &data).unwrap();
    let output = bootmark(&["verify", path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output).1.contains("descriptor's provider is not"),
        "{output:?}"
    );
}

#[test]
fn files_without_markers_are_told_apart() {
    let output = bootmark(&["verify", "/bin/sh"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        texts(&output).1.contains("/bin/sh: no markers"),
        "{output:?}"
    );
    assert_eq!(bootmark(&["list", "/bin/sh"]).status.code(), Some(3));
    let output = bootmark(&["list", "/etc/passwd", "/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    let (_, errors) = texts(&output);
    assert!(
        errors.contains("/etc/passwd: not an ELF file")
            && errors.contains("/nowhere: No such file"),
        "{errors}"
    );
}

#[test]
fn usage_and_help() {
    assert_eq!(bootmark(&["frobnicate"]).status.code(), Some(2));
    assert_eq!(
        bootmark(&["view", "x", "--since", "soon"]).status.code(),
        Some(2)
    );
    assert_eq!(bootmark(&["list"]).status.code(), Some(2));
    assert!(silent(bootmark(&["--help"])).contains("Exit status:"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(silent(bootmark(&["completions", shell])).contains("bootmark"));
    }
    assert!(silent(bootmark(&["man"])).starts_with(".ie"));
    let temp = tempfile::tempdir().unwrap();
    silent(bootmark(&[
        "man",
        "--output",
        temp.path().to_str().unwrap(),
    ]));
    assert!(temp.path().join("bootmark-extract.1").exists());
}
