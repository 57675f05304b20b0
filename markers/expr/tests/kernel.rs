//! The kernel checks the text of a slot when a rule is made, with a parser of its own: it must take what
//! the library can compile. It may take more, as it knows of no types.

#[allow(dead_code, reason = "properties.rs evaluates the trees")]
mod plain;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use expr::{SlotText, What};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const TEXTS: usize = 5_000;

/// Builds the kernel's file as a program that answers lines.
fn checker() -> std::path::PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let kernel = tests.join("../../../../kernel-patch/linux/kernel/bootmark/syntax.c");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("syntax");
    fs::create_dir_all(dir.join("linux")).unwrap();
    for (from, name) in [
        (tests.join("marker.h"), "marker.h"),
        (tests.join("main.c"), "main.c"),
        (kernel, "syntax.c"),
    ] {
        fs::copy(&from, dir.join(name)).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
    }
    // marker.h has what they have.
    for name in ["bits", "ctype", "kernel", "overflow", "string", "time64"] {
        fs::write(dir.join(format!("linux/{name}.h")), "").unwrap();
    }
    let program = dir.join("checker");
    let status = Command::new("gcc")
        .args([
            "-O1",
            "-g",
            "-Wall",
            "-Werror",
            "-fsanitize=address,undefined",
        ])
        .args([
            "-fno-sanitize-recover=all",
            "-I.",
            "main.c",
            "syntax.c",
            "-o",
        ])
        .arg(&program)
        .current_dir(&dir)
        .status()
        .unwrap();
    assert!(status.success(), "syntax.c does not compile as a program");
    program
}

/// The kernel's answers to texts without line ends.
fn answers(texts: &[String]) -> Vec<String> {
    let mut child = Command::new(checker())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = texts.join("\n") + "\n";
    let writer = thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), texts.len());
    lines
}

/// Random texts: whole ones, and pieces in any order.
fn texts() -> Vec<String> {
    let pieces = prop::collection::vec(
        prop::sample::select(vec![
            "n",
            "x",
            "dur",
            "1",
            "0x2",
            "1.5",
            "5ms",
            "2.5K",
            "'a/}'",
            "\"*b\"",
            "==",
            "!=",
            "<",
            "<=",
            "~",
            "!~",
            "+",
            "-",
            "*",
            "&",
            "|",
            "<<",
            ">>",
            "&&",
            "||",
            "!",
            "(",
            ")",
            "/",
            "{",
            "}",
            "count()",
            "sum(",
            "hist(dur)",
            "by",
            ",",
            "=",
            ".",
            "1x",
            "0x",
            "_",
        ]),
        0..12,
    );
    let text = prop_oneof![
        4 => plain::tree().prop_map(|tree| format!("/{}/", tree.text())),
        2 => plain::tree().prop_map(|tree| {
            format!("/{}/{{count(), hist(dur * 2) by name, pid}}", tree.text())
        }),
        4 => pieces.prop_map(|pieces| format!("/{}/", pieces.join(" "))),
    ];
    let mut runner = TestRunner::deterministic();
    (0..TEXTS)
        .map(|_| text.new_tree(&mut runner).unwrap().current())
        .filter(|text| text.len() <= expr::MAX_TEXT)
        .collect()
}

#[test]
fn the_kernel_takes_what_can_be_compiled() {
    let mut texts = texts();
    texts.extend(
        [
            "{count()}",
            "{sum(n * 2), avg(x), record() by name, pid}",
            "/on/{min(-1), max(1 << 3)}",
            "/1_000 == 0xff_ff && x < 1.5 || 'it' ~ \"i*\"/",
            "/!(a == b) && !c/",
        ]
        .map(String::from),
    );
    let mut both = 0;
    for (text, answer) in texts.iter().zip(answers(&texts)) {
        match SlotText::parse(text) {
            Ok(_) => {
                assert_eq!(answer, "ok", "{text}");
                both += 1;
            }
            // The kernel knows no types and compiles nothing.
            Err(error) if answer == "ok" => assert!(
                matches!(
                    error.what,
                    What::Type { .. }
                        | What::Compare { .. }
                        | What::NoCondition(_)
                        | What::Pattern(_)
                        | What::Class(_)
                ) || plain::is_limit(&error.what),
                "{text}: {error}"
            ),
            Err(_) => {}
        }
    }
    assert!(both > texts.len() / 3, "{both} of {}", texts.len());
}
