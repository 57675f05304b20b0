//! The kernel patch's own kselftests, built as kbuild builds them and run as root in the guest.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use qemu_tests::guest::Guest;
use qemu_tests::{kernel, paths, process};

const FOLDER: &str = "tools/testing/selftests/bootmark";

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Builds the kselftests out of the kernel tree, in `dir`, and returns where they are.
fn build(dir: &Path) -> PathBuf {
    let selftests = dir.join("tools/testing/selftests");
    let inputs = kernel::Inputs::read(None, "small").unwrap();
    kernel::in_build_tree(&inputs, |tree, _| {
        // What the tests and their makefile use of the tree, and the patch's two headers in
        // place of an installation of all headers.
        copy_files(&tree.join("tools/testing/selftests"), &selftests)?;
        copy_files(&tree.join("tools/scripts"), &dir.join("tools/scripts"))?;
        Ok(())
    })
    .unwrap();
    let patch = paths::kernel_patch().join("linux");
    copy_files(&patch.join(FOLDER), &dir.join(FOLDER)).unwrap();
    copy_files(
        &patch.join("include/uapi/linux"),
        &dir.join("usr/include/linux"),
    )
    .unwrap();

    let out = dir.join("out");
    fs::create_dir(&out).unwrap();
    process::output(
        Command::new("make")
            .arg("-C")
            .arg(dir.join(FOLDER))
            .arg(format!("OUTPUT={}", out.display()))
            .arg(format!(
                "KHDR_INCLUDES=-isystem {}",
                dir.join("usr/include").display()
            )),
    )
    .unwrap();
    out
}

#[test]
fn the_kernels_selftests_pass() {
    let dir = tempfile::tempdir().unwrap();
    let out = build(dir.path());
    let mut programs: Vec<String> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with("_test"))
        .collect();
    programs.sort();
    assert!(programs.iter().any(|name| name == "bootbuf_test"));

    // They share the one pool and the one list of rules: one after the other.
    let mut script = String::from("cd /selftests\n");
    for name in &programs {
        script += &format!("./{name}\necho \"status {name} $?\"\n");
    }
    let outcome = Guest::new()
        .append("bootmark.services=no bootmark.extract=no")
        .rules("")
        .pool("4M")
        .add(&out, "/selftests")
        .timeout(Duration::from_secs(600))
        .script(script)
        .boot()
        .unwrap();
    for name in &programs {
        assert!(
            outcome.script_log.contains(&format!("status {name} 0\n")),
            "{name} failed:\n{}",
            outcome.script_log
        );
    }
}
