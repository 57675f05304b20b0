//! Rust programs and libraries carry their markers whatever linker, kind of output and optimisation.
//!
//! The crate is built once, and then linked in many ways by rustc itself, which takes a second each.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use common::{cargo, markers_of, output, run, scratch, source};

const PROGRAM: [&str; 3] = ["program:main", "program:main", "program:work"];
const HELPER: [&str; 4] = [
    "helper:generic",
    "helper:generic",
    "helper:inlined",
    "helper:plain",
];

/// GNU ld and LLVM's, the latter as Debian has it and as rustc brings it along.
const LINKERS: [(&str, &[&str]); 3] = [
    (
        "bfd",
        &["-Clinker-features=-lld", "-Clink-arg=-fuse-ld=bfd"],
    ),
    (
        "lld",
        &["-Clinker-features=-lld", "-Clink-arg=-fuse-ld=lld"],
    ),
    ("rust-lld", &[]),
];

/// The crate, with code for all that follows in it.
fn markers_rlib() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| build_rlib("plain", &["c"]))
}

/// Builds the crate with features and returns a folder with `libmarkers.rlib` and `libbootbuf.rlib`.
fn build_rlib(name: &str, features: &[&str]) -> PathBuf {
    // Variants share what they depend on; cargo leaves the last one's libraries in the folder.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    let target = common::target_dir("rlib");
    run(cargo()
        // Bitcode for LTO beside the machine code.
        .env("RUSTFLAGS", "-Cembed-bitcode=yes")
        .env("CARGO_PROFILE_RELEASE_PANIC", "unwind")
        .args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "bootmark-markers",
        ])
        .args(["--package", "bootmark-bootbuf", "--features"])
        .args([&features.join(","), "--target-dir"])
        .arg(&target));
    let folder = scratch(&format!("rlib-{name}"));
    for library in ["libmarkers.rlib", "libbootbuf.rlib"] {
        std::fs::copy(target.join("release").join(library), folder.join(library)).unwrap();
    }
    folder
}

fn rustc(dir: &Path, file: &str, options: &[&str]) -> Command {
    rustc_with(markers_rlib(), dir, file, options)
}

fn rustc_with(markers: &Path, dir: &Path, file: &str, options: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command
        .arg("--edition=2024")
        .args(options)
        .arg("--extern")
        .arg(format!(
            "markers={}",
            markers.join("libmarkers.rlib").display()
        ))
        .arg("-L")
        .arg(format!(
            "dependency={}",
            common::target_dir("rlib").join("release/deps").display()
        ))
        .arg("-L")
        .arg(dir)
        .arg("--out-dir")
        .arg(dir)
        .arg(source("tests/fixtures").join(file));
    command
}

fn sorted<'a>(names: impl IntoIterator<Item = &'a &'a str>) -> Vec<&'a str> {
    let mut names: Vec<_> = names.into_iter().copied().collect();
    names.sort_unstable();
    names
}

/// Builds `program.rs` with `helper.rs` linked in, and returns its path.
fn program(name: &str, options: &[&str]) -> PathBuf {
    let dir = scratch(&format!("link-rust-{name}"));
    run(&mut rustc(
        &dir,
        "helper.rs",
        &[&["--crate-type=rlib", "-Cembed-bitcode=yes"], options].concat(),
    ));
    run(&mut rustc(
        &dir,
        "program.rs",
        &[&["--extern=helper"], options].concat(),
    ));
    dir.join("program")
}

#[test]
fn all_kinds_of_programs_with_all_linkers() {
    for (linker, linker_options) in LINKERS {
        for (kind, options) in [
            ("pie", &["-O"][..]),
            ("no-pie", &["-O", "-Crelocation-model=static"]),
            (
                "static",
                &[
                    "-O",
                    "-Ctarget-feature=+crt-static",
                    "-Crelocation-model=static",
                ],
            ),
            ("static-pie", &["-O", "-Ctarget-feature=+crt-static"]),
            ("unoptimised", &["-Copt-level=0", "-g"]),
            ("stripped", &["-O", "-Cstrip=symbols"]),
            ("thin-lto", &["-O", "-Clto=thin"]),
            (
                "fat-lto",
                &["-O", "-Clto=fat", "-Ccodegen-units=1", "-Cstrip=symbols"],
            ),
        ] {
            let name = format!("{linker}-{kind}");
            let program = program(&name, &[options, linker_options].concat());
            assert_eq!(
                markers_of(&program),
                sorted(PROGRAM.iter().chain(&HELPER)),
                "{name}"
            );
            assert_eq!(run(&mut Command::new(&program)), "7 5\n", "{name}");
        }
    }
}

#[test]
fn relr_does_not_touch_them() {
    let program = program(
        "relr",
        &[
            "-O",
            "-Clinker-features=-lld",
            "-Clink-arg=-fuse-ld=lld",
            "-Clink-arg=-Wl,--pack-dyn-relocs=relr",
        ],
    );
    assert_eq!(markers_of(&program), sorted(PROGRAM.iter().chain(&HELPER)));
}

#[test]
fn a_shared_object_for_c_has_its_own() {
    for (linker, linker_options) in LINKERS {
        let dir = scratch(&format!("link-rust-cdylib-{linker}"));
        run(&mut rustc(
            &dir,
            "helper.rs",
            &[&["-O", "--crate-type=rlib"], linker_options].concat(),
        ));
        run(&mut rustc(
            &dir,
            "library.rs",
            &[
                &["-O", "--crate-type=cdylib", "--extern=helper"],
                linker_options,
            ]
            .concat(),
        ));
        let names = markers_of(&dir.join("liblibrary.so"));
        assert_eq!(
            names,
            sorted(HELPER.iter().chain(&["library:work"])),
            "{linker}"
        );
    }
}

/// A generic function of a Rust dylib is compiled in its users: the code is theirs, the marker is not.
#[test]
fn a_rust_dylib_has_its_own() {
    let markers = build_rlib("dylib", &["dylib"]);
    for (linker, linker_options) in LINKERS {
        let dir = scratch(&format!("link-rust-dylib-{linker}"));
        let build = |file: &str, options: &[&str]| {
            let shared: &[&str] = &["-O", "-Cprefer-dynamic", "-Crpath"];
            run(&mut rustc_with(
                &markers,
                &dir,
                file,
                &[shared, options, linker_options].concat(),
            ));
        };
        build("helper.rs", &["--crate-type=dylib"]);
        build("program.rs", &["--extern=helper"]);
        assert_eq!(markers_of(&dir.join("libhelper.so")), HELPER, "{linker}");
        assert_eq!(markers_of(&dir.join("program")), PROGRAM, "{linker}");
        assert_eq!(
            run(&mut Command::new(dir.join("program"))),
            "7 5\n",
            "{linker}"
        );
    }
}

/// Whatever is linked in is listed, note included, whether or not the code is kept.
#[test]
fn a_program_that_calls_no_marker_lists_those_of_its_library() {
    for (linker, linker_options) in LINKERS {
        let dir = scratch(&format!("link-rust-none-{linker}"));
        let main = dir.join("none.rs");
        std::fs::write(
            &main,
            "extern crate helper; fn main() { println!(\"none\"); }",
        )
        .unwrap();
        run(&mut rustc(
            &dir,
            "helper.rs",
            &[&["-O", "--crate-type=rlib"], linker_options].concat(),
        ));
        run(&mut rustc(
            &dir,
            main.to_str().unwrap(),
            &[&["-O", "--extern=helper"], linker_options].concat(),
        ));
        assert_eq!(markers_of(&dir.join("none")), HELPER, "{linker}");
    }
}

/// Objects of both languages in one program share the note.
#[test]
fn rust_and_c_in_one_program() {
    for (linker, linker_options) in LINKERS {
        let dir = scratch(&format!("link-rust-c-{linker}"));
        let object = dir.join("two.o");
        run(common::c_compiler("gcc")
            .args(["-O2", "-fPIC", "-ffunction-sections", "-c"])
            .arg(source("tests/fixtures/two.c"))
            .arg("-o")
            .arg(&object));
        run(&mut rustc(
            &dir,
            "helper.rs",
            &[&["-O", "--crate-type=rlib"], linker_options].concat(),
        ));
        let link = format!("-Clink-arg={}", object.display());
        let options = &["-O", "--extern=helper", "--cfg=with_c", &link];
        run(&mut rustc(
            &dir,
            "program.rs",
            &[options, linker_options].concat(),
        ));
        let expected = sorted(PROGRAM.iter().chain(&HELPER).chain(&["c:two"]));
        assert_eq!(markers_of(&dir.join("program")), expected, "{linker}");
    }
}

/// What Rust and C write comes back as it was, over the stand-in for the system call.
#[test]
fn records_come_back() {
    let markers = build_rlib("stand-in", &["c", "elf", "stand-in"]);
    let dir = scratch("link-rust-records");
    let object = dir.join("two.o");
    run(common::c_compiler("gcc")
        .args(["-O2", "-fPIC", "-c"])
        .arg(source("tests/fixtures/two.c"))
        .arg("-o")
        .arg(&object));
    let bootbuf = format!(
        "--extern=bootbuf={}",
        markers.join("libbootbuf.rlib").display()
    );
    let link = format!("-Clink-arg={}", object.display());
    for optimise in ["-O", "-Copt-level=0"] {
        run(&mut rustc_with(
            &markers,
            &dir,
            "records.rs",
            &[optimise, &bootbuf, &link],
        ));
        let records = run(&mut Command::new(dir.join("records")));
        assert_eq!(records, RECORDS, "{optimise}");
    }
}

const RECORDS: &str = "\
r:all a=Unsigned(1) b=Signed(-2) c=F32(0.5) d=Bool(true) e=\"0123456789\" \
f=\"a string of runtime length\" g=Bytes([1, 2]) h=on
r:none
r:count n=Unsigned(1099511627776)
r:long text=\"\"
r:long text=\"x\"
r:long text=\"xxx\"
r:long text=\"xxxxxxx\"
r:long text=\"xxxxxxxx\"
r:long text=\"xxxxxxxxxxxxxxxx\"
r:long text=\"xxxxxxxxxxxxxxxxx\"
r:long text=32 octets
r:long text=33 octets
r:long text=480 octets
r:long text=480 octets
r:fallible number=Unsigned(0)
r:fallible begin=earlier ret=Signed(-2)
r:fallible number=Unsigned(1)
r:fallible begin=earlier ret=Signed(0)
r:outer
r:inner
r:inner begin=earlier ret=Signed(0)
r:outer begin=earlier ret=Signed(-11)
c:two number=Signed(-5)
r:cut
";

#[test]
fn two_instructions_while_off() {
    let program = program("code", &["-O"]);
    let code = run(Command::new("objdump")
        .args(["-d", "--no-show-raw-insn"])
        .arg(&program));
    let function = code
        .lines()
        .skip_while(|line| !line.contains("inner") || !line.ends_with(">:"));
    let function: Vec<_> = function.take_while(|line| !line.is_empty()).collect();
    let compare = function
        .iter()
        .position(|line| line.contains("cmpl ") && line.contains("(%rip)"));
    let compare = compare.unwrap_or_else(|| panic!("no compare with memory: {function:#?}"));
    assert!(function[compare + 1].contains("jne "), "{function:#?}");
}

/// The kernel of the machine that runs the tests has no Bootmark, or none that knows this program.
#[test]
fn without_the_kernels_part_programs_run_on() {
    let program = program("unpatched", &["-O"]);
    let strace = |arguments: &[&str]| {
        let log = program.with_extension("strace");
        let output = output(
            Command::new("strace")
                .args(["-f", "-o"])
                .arg(&log)
                .arg(&program)
                .args(arguments),
        );
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, b"7 5\n");
        assert_eq!(output.stderr, b"");
        std::fs::read_to_string(log).unwrap()
    };
    let calls = strace(&[]);
    for number in 1000..1003 {
        assert!(!calls.contains(&format!("syscall_{number:#x}(")), "{calls}");
    }
    // Turned on and refused, they ask the kernel rarely and open nothing.
    let enabled = strace(&["enable"]);
    assert!(enabled.contains("syscall_0x3e9("), "{enabled}");
    assert!(
        enabled.lines().count() - calls.lines().count() < 4,
        "{enabled}"
    );
}
