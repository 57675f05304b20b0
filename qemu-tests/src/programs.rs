//! The programs that go into the guest: Rust ones as static-PIE, and the C
//! service, linked with the library that C programs get.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::progress::Step;
use crate::{lock, paths, process};

/// The one target that guest programs are built for.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The built programs. Being static, they run on the host as well.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The initramfs' `/init`.
    pub init: PathBuf,
    /// The root image's `/sbin/init`.
    pub stage2: PathBuf,
    /// The command-line tool.
    pub bootmark: PathBuf,
    /// The demo services, for `/usr/lib/bootmark/services`.
    pub services: Vec<PathBuf>,
    /// The library for C programs.
    pub libbootmark: PathBuf,
}

/// Builds them all into `target/guest`, once a process; what is up to date stays.
///
/// # Errors
/// When a program does not compile; the message has the compiler's.
pub fn build() -> Result<Programs> {
    static BUILT: Mutex<Option<Programs>> = Mutex::new(None);

    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(programs) = &*built {
        return Ok(programs.clone());
    }
    Ok(built.insert(build_all()?).clone())
}

fn build_all() -> Result<Programs> {
    let target_dir = paths::target().join("guest");
    let _lock = lock::exclusive(&target_dir.join("lock"), "is building guest programs")?;
    let step = Step::start("building the guest programs");
    let log = target_dir.join("build.log");
    std::fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
    let programs = ["-p", "bootmark-initrd", "-p", "bootmark-tools", "--bins"];
    process::logged(cargo(&target_dir, "release").args(programs), &log, &step)?;
    process::logged(
        cargo(&target_dir, "capi").args(["-p", "bootmark-capi", "--lib"]),
        &log,
        &step,
    )?;
    let built = target_dir.join(TARGET).join("release");
    let svc_c = built.join("svc-c");
    let library = target_dir.join(TARGET).join("capi/libbootmark.a");
    c_service(&library, &svc_c)?;
    step.clear();

    let program = |name: &str| -> Result<PathBuf> {
        let path = built.join(name);
        if !path.exists() {
            bail!("the workspace builds no program `{name}` (it is part of the guest image)");
        }
        Ok(path)
    };
    let mut services = vec![svc_c];
    for name in rust_services()? {
        services.push(program(&name)?);
    }
    Ok(Programs {
        init: program("bootmark-init")?,
        stage2: program("bootmark-stage2")?,
        bootmark: program("bootmark")?,
        services,
        libbootmark: library,
    })
}

/// Builds the programs of one more package of the workspace for the guest, into `target_dir`, and gives
/// their folder. The caller holds the folder's lock.
///
/// # Errors
/// When it does not compile; the message has the compiler's.
pub fn build_package(target_dir: &Path, package: &str) -> Result<PathBuf> {
    let step = Step::start(&format!("building {package}"));
    let log = target_dir.join(format!("{package}.log"));
    std::fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
    process::logged(
        cargo(target_dir, "release").args(["-p", package, "--bins"]),
        &log,
        &step,
    )?;
    step.clear();
    Ok(target_dir.join(TARGET).join("release"))
}

/// The files that a dynamic program needs, as this machine's loader finds them.
///
/// # Errors
/// When `ldd` fails.
pub fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = process::output(Command::new("ldd").arg(program))?;
    Ok(output
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}

/// The Rust services of the demo image, by their sources: the target folder may
/// still hold one that is gone.
fn rust_services() -> Result<Vec<String>> {
    let dir = paths::workspace().join("initrd/src/bin");
    let mut names = Vec::new();
    for entry in
        std::fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?
    {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(name) = name
            .strip_suffix(".rs")
            .filter(|name| name.starts_with("svc-"))
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn cargo(target_dir: &Path, profile: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--profile", profile])
        .args(["--target", TARGET, "--target-dir"])
        .arg(target_dir)
        .current_dir(paths::workspace())
        // A target is named, so this reaches neither build scripts nor macros.
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    command
}

/// The compiler of the guest's C programs, without a warning let pass.
pub fn c_compiler() -> Command {
    let mut command = Command::new("gcc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror"]);
    command
}

/// Builds the C service the way a C program would be: against the header and
/// the static library.
fn c_service(library: &Path, out: &Path) -> Result<()> {
    let workspace = paths::workspace();
    let scratch = out.with_extension("new");
    process::output(
        c_compiler()
            .args(["-std=c11", "-static", "-pthread"])
            .arg("-I")
            .arg(workspace.join("markers/include"))
            .arg(workspace.join("initrd/services/svc-c.c"))
            .arg(library)
            .arg("-o")
            .arg(&scratch),
    )
    .context("the C service does not build")?;
    std::fs::rename(&scratch, out).with_context(|| format!("cannot write {}", out.display()))
}
