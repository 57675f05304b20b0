//! The programs that attack, and the files that mutated ones are made from.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{lock, paths, process, programs};

/// What goes into the guest.
pub(super) struct AttackPrograms {
    /// The attacker.
    pub attack: PathBuf,
    /// Host files, and where the guest is to have them.
    pub files: Vec<(PathBuf, String)>,
}

pub(super) fn programs() -> Result<AttackPrograms> {
    let target_dir = paths::target().join("guest");
    let _lock = lock::exclusive(&target_dir.join("lock"), "is building guest programs")?;
    let built = programs::build_package(&target_dir, "bootmark-attack")?;
    let attack = built.join("bootmark-attack");
    let folder = target_dir.join("attack");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let made = |name: &str| folder.join(name);
    let alone = ["-nostdlib", "-fno-stack-protector", "-fvisibility=hidden"];
    compile(
        "module.c",
        &made("leaf"),
        &[&alone[..], &["-static"]].concat(),
    )?;
    compile(
        "module.c",
        &made("plug.so"),
        &[&alone[..], &["-fPIC", "-shared", "-Wl,--entry=0"]].concat(),
    )?;
    compile("loader.c", &made("loader"), &[])?;
    let in_guest = |name: &str| format!("/usr/share/attack/{name}");
    let mut files: Vec<(PathBuf, String)> = ["leaf", "plug.so", "loader"]
        .into_iter()
        .map(|name| (made(name), in_guest(name)))
        .collect();
    files.push((attack.clone(), in_guest("program")));
    for library in programs::libraries(&made("loader"))? {
        let at = library.to_string_lossy().into_owned();
        let host = library
            .canonicalize()
            .with_context(|| format!("no library {}", library.display()))?;
        files.push((host, at));
    }
    Ok(AttackPrograms { attack, files })
}

fn compile(source: &str, out: &Path, options: &[&str]) -> Result<()> {
    let kernel = paths::kernel_patch().join("linux");
    process::output(
        programs::c_compiler()
            .args(["-std=gnu11", "-isystem"])
            .arg(kernel.join("include/uapi"))
            .arg("-I")
            .arg(kernel.join("tools/testing/selftests/bootmark"))
            .args(options)
            .arg(
                paths::workspace()
                    .join("qemu-tests/attack/files")
                    .join(source),
            )
            .arg("-o")
            .arg(out),
    )
    .with_context(|| format!("{source} does not build"))?;
    Ok(())
}
