//! C programs and shared objects carry their markers whatever compiler, linker and kind of output.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{c_compiler, libbootmark, markers_of, run, scratch, source};

/// The markers of `one.c` and `two.c`.
const MARKERS: [&str; 6] = [
    "c:counted",
    "c:errno",
    "c:main",
    "c:main",
    "c:two",
    "c:unused",
];

fn build(dir: &Path, name: &str, compiler: &str, options: &[&str]) -> PathBuf {
    let path = dir.join(name);
    run(c_compiler(compiler)
        .args(options)
        .args([
            source("tests/fixtures/one.c"),
            source("tests/fixtures/two.c"),
            libbootmark().into(),
        ])
        .arg("-o")
        .arg(&path));
    path
}

#[test]
fn all_kinds_of_programs_with_both_compilers_and_linkers() {
    let dir = scratch("link-c");
    for compiler in ["gcc", "clang"] {
        for linker in ["-fuse-ld=bfd", "-fuse-ld=lld"] {
            for (kind, options) in [
                ("pie", &["-O2", "-pie", "-fPIE"][..]),
                ("no-pie", &["-O2", "-no-pie", "-fno-pie"]),
                ("static", &["-O2", "-static"]),
                ("static-pie", &["-O2", "-static-pie", "-fPIE"]),
                ("stripped", &["-O2", "-s"]),
                ("unoptimised", &["-O0", "-g"]),
                (
                    "small",
                    &[
                        "-Os",
                        "-ffunction-sections",
                        "-fdata-sections",
                        "-Wl,--gc-sections",
                    ],
                ),
                ("packed", &["-O2", "-Wl,-z,pack-relative-relocs"]),
            ] {
                if kind == "packed" && linker == "-fuse-ld=lld" {
                    // lld 14 has it under another name.
                    continue;
                }
                let name = format!("{compiler}{linker}-{kind}");
                let program = build(&dir, &name, compiler, &[options, &[linker]].concat());
                assert_eq!(markers_of(&program), MARKERS, "{name}");
                assert_eq!(run(&mut Command::new(&program)), "1\n", "{name}");
            }
        }
        let linker = if compiler == "gcc" {
            "-fuse-ld=bfd"
        } else {
            "-fuse-ld=lld"
        };
        let name = format!("{compiler}-lto");
        let program = build(
            &dir,
            &name,
            compiler,
            &["-O2", "-flto", linker, "-Wl,--gc-sections"],
        );
        assert_eq!(markers_of(&program), MARKERS, "{name}");
        assert_eq!(run(&mut Command::new(&program)), "1\n", "{name}");
    }
    let packed = build(
        &dir,
        "relr",
        "clang",
        &["-O2", "-fuse-ld=lld", "-Wl,--pack-dyn-relocs=relr"],
    );
    assert_eq!(markers_of(&packed), MARKERS);
}

#[test]
fn a_shared_object_has_its_own_markers_and_keeps_the_writer_to_itself() {
    let dir = scratch("link-c-shared");
    for (compiler, linker) in [
        ("gcc", "-fuse-ld=bfd"),
        ("gcc", "-fuse-ld=lld"),
        ("clang", "-fuse-ld=bfd"),
        ("clang", "-fuse-ld=lld"),
    ] {
        let library = dir.join(format!("lib{compiler}{linker}.so"));
        run(c_compiler(compiler)
            .args(["-O2", "-fPIC", "-shared", linker, "-Wl,-z,defs"])
            .arg(source("tests/fixtures/two.c"))
            .arg(libbootmark())
            .arg("-o")
            .arg(&library));
        assert_eq!(markers_of(&library), ["c:two"]);
        let symbols = run(Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(&library));
        assert!(!symbols.contains("bootmark"), "{symbols}");

        let program = dir.join(format!("{compiler}{linker}-program"));
        run(c_compiler(compiler)
            .args(["-O2", linker, "-Wl,-rpath,$ORIGIN"])
            .arg(source("tests/fixtures/one.c"))
            .arg(&library)
            .arg(libbootmark())
            .arg("-o")
            .arg(&program));
        let without_two = MARKERS.iter().filter(|name| **name != "c:two");
        assert_eq!(
            markers_of(&program),
            without_two.copied().collect::<Vec<_>>()
        );
        assert_eq!(run(&mut Command::new(&program)), "1\n");
    }
}

#[test]
fn two_instructions_while_off() {
    let dir = scratch("link-c-code");
    for compiler in ["gcc", "clang"] {
        let object = dir.join(compiler);
        run(c_compiler(compiler)
            .args(["-O2", "-c"])
            .arg(source("tests/fixtures/two.c"))
            .arg("-o")
            .arg(&object));
        let code = run(Command::new("objdump")
            .args(["-d", "--no-show-raw-insn"])
            .arg(&object));
        let compare = code
            .lines()
            .position(|line| line.contains("cmpl ") && line.contains("(%rip)"));
        let after = code.lines().nth(compare.expect(&code) + 1).unwrap();
        assert!(after.contains("jne "), "{code}");
    }
}
