//! The manual pages of the system calls: well-formed, and in step with headers and code.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use qemu_tests::paths;

/// A page, and the files whose errors it has to give.
const PAGES: &[(&str, &[&str])] = &[
    (
        "marker_ctl.2",
        &[
            "activate.c",
            "calls.c",
            "ctl.c",
            "rule.c",
            "rules.c",
            "slot.c",
        ],
    ),
    (
        "bootbuf_reserve.2",
        &["chunk.c", "owner.c", "flight.c", "window.c"],
    ),
    ("bootbuf_open.2", &["previous.c", "reader.c"]),
];

/// What the headers define for these calls, by how it begins; the rest is about files and memory.
const FAMILIES: &[&str] = &[
    "MARKER_",
    "BOOTBUF_RESERVE_",
    "BOOTBUF_OPEN_",
    "BOOTBUF_IOC_",
    "BOOTBUF_CLOCK_",
    "BOOTBUF_STREAM_",
    "BOOTBUF_SEAL_",
    "BOOTBUF_PACKET_",
    "BOOTBUF_META_",
    "BOOTBUF_KERNEL_",
    "BOOTBUF_LOST_",
    "BOOTMARK_STATE_",
    "__NR_bootmark_",
];

fn page(name: &str) -> PathBuf {
    paths::kernel_patch().join("man").join(name)
}

/// The page as a reader sees it.
fn shown(name: &str) -> String {
    let out = Command::new("groff")
        .args([
            "-man",
            "-Tascii",
            "-P-c",
            "-P-b",
            "-P-o",
            "-P-u",
            "-rLL=400n",
            "-rHY=0",
        ])
        .arg(page(name))
        .output()
        .unwrap();
    assert!(out.status.success(), "{name}");
    String::from_utf8(out.stdout).unwrap()
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect()
}

fn header(name: &str) -> String {
    let folder = paths::kernel_patch().join("linux/include/uapi/linux");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// What a header's lines define: `#define NAME` and `NAME = value,` of enumerations.
fn constants(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim_start();
            let defined = line.strip_prefix("#define ").map(str::trim_start);
            let listed = || line.split_once('=').map(|(name, _)| name.trim_end());
            let name = defined.or_else(listed)?.split([' ', '\t', '(']).next()?;
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            name.chars().all(plain).then_some(name)
        })
        .collect()
}

#[test]
fn the_pages_are_well_formed() {
    for (name, _) in PAGES {
        let page = page(name);
        let groff = Command::new("groff")
            .args(["-man", "-Tutf8", "-ww", "-z"])
            .arg(&page)
            .output()
            .unwrap();
        let mandoc = Command::new("mandoc")
            .args(["-Tlint", "-Wwarning"])
            .arg(&page)
            .output()
            .unwrap();
        for (tool, out) in [("groff", groff), ("mandoc", mandoc)] {
            let said = [out.stdout, out.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(out.status.success() && said.is_empty(), "{tool}: {said}");
        }
        let text = shown(name);
        for section in [
            "SYNOPSIS",
            "DESCRIPTION",
            "RETURN VALUE",
            "ERRORS",
            "VERSIONS",
            "NOTES",
            "EXAMPLES",
            "SEE ALSO",
        ] {
            assert!(
                text.lines().any(|line| line == section),
                "{name} has no {section}"
            );
        }
    }
}

#[test]
fn every_constant_is_explained() {
    let pages: String = PAGES.iter().map(|(name, _)| shown(name)).collect();
    let explained = words(&pages);
    for name in ["bootmark.h", "bootbuf.h"] {
        let text = header(name);
        let missing: Vec<&str> = constants(&text)
            .into_iter()
            .filter(|constant| FAMILIES.iter().any(|family| constant.starts_with(family)))
            .filter(|constant| !explained.contains(constant))
            .collect();
        assert!(
            missing.is_empty(),
            "no page in kernel-patch/man explains {missing:?} of {name}"
        );
    }
}

#[test]
fn every_error_is_explained() {
    let folder = paths::kernel_patch().join("linux/kernel/bootmark");
    for (name, sources) in PAGES {
        let text = shown(name);
        let errors = text
            .split("\nERRORS\n")
            .nth(1)
            .and_then(|rest| rest.split("\nVERSIONS\n").next())
            .unwrap();
        let explained = words(errors);
        let mut found = BTreeSet::new();
        for source in *sources {
            let text = fs::read_to_string(folder.join(source)).unwrap();
            for (at, _) in text.match_indices("-E") {
                // What a function is only asked about is not passed on.
                let before = text[..at].trim_end();
                let end = text[at + 2..]
                    .find(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit())
                    .map_or(text.len(), |end| at + 2 + end);
                if !before.ends_with("==") && !before.ends_with("!=") {
                    found.insert(text[at + 1..end].to_owned());
                }
            }
        }
        // The system call is restarted, or becomes EINTR of read(2): nobody sees this one.
        found.remove("ERESTARTSYS");
        assert!(found.contains("EINVAL"), "{name}");
        let missing: Vec<&String> = found
            .iter()
            .filter(|error| !explained.contains(error.as_str()))
            .collect();
        assert!(
            missing.is_empty(),
            "{name} does not explain {missing:?}, which {sources:?} return"
        );
    }
}

/// The examples compile as they are printed.
#[test]
fn the_examples_compile() {
    let dir = tempfile::tempdir().unwrap();
    let include = dir.path().join("linux");
    fs::create_dir(&include).unwrap();
    for name in ["bootmark.h", "bootbuf.h"] {
        fs::write(include.join(name), header(name)).unwrap();
    }
    for (name, _) in PAGES {
        let text = shown(name);
        let example = text
            .split("\nEXAMPLES\n")
            .nth(1)
            .and_then(|rest| rest.split("\nSEE ALSO\n").next())
            .unwrap();
        let start = example.find("#include").unwrap();
        let source = dir.path().join("example.c");
        fs::write(&source, &example[start..]).unwrap();
        let out = Command::new("gcc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-c", "-o"])
            .arg(dir.path().join("example.o"))
            .arg("-isystem")
            .arg(dir.path())
            .arg(&source)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "the example of {name}:\n{said}");
    }
}
