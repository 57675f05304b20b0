//! The Debian packages that builds and tests need, installed when missing.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::progress::Step;

/// What `boot` and `test` need.
pub const PACKAGES: &[&str] = &[
    "babeltrace2",
    "bc",
    "binutils",
    "bison",
    "busybox-static",
    "clang",
    "cpio",
    "e2fsprogs",
    "flex",
    "git",
    "groff-base",
    "gcc",
    "kmod",
    "libc6-dev",
    "libelf-dev",
    "libssl-dev",
    "linux-source-6.12",
    "lld",
    "lz4",
    "make",
    "mandoc",
    "patch",
    "perl",
    "qemu-system-x86",
    "rsync",
    "sparse",
    "strace",
    "tar",
    "util-linux",
    "xz-utils",
    "zstd",
];

/// What `bench` needs besides: the tracer to compare with.
pub const BENCH_PACKAGES: &[&str] = &["liblttng-ust-dev", "lttng-tools"];

/// What `fuzz` needs on the host: libFuzzer comes as C++ source.
pub const FUZZ_PACKAGES: &[&str] = &["g++"];

/// Makes sure the packages are there. When all are, this is one `dpkg-query`.
///
/// # Errors
/// When packages are missing and cannot be installed; the message has the one
/// line to run.
pub fn ensure(packages: &[&str]) -> Result<()> {
    if !Path::new("/usr/bin/dpkg-query").exists() {
        return check_programs();
    }
    let missing = missing(packages)?;
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!(
        "apt-get update && apt-get install -y --no-install-recommends {}",
        missing.join(" ")
    );
    let root = rustix::process::geteuid().is_root();
    let prefix: &[&str] = if root {
        &[]
    } else if sudo_works() {
        &["sudo", "-n"]
    } else {
        bail!(
            "missing Debian packages, and no way to install them from here; run once:\n  \
             sudo sh -c '{by_hand}'"
        );
    };
    let step = Step::start("installing Debian packages");
    step.detail(&missing.join(" "));
    let log = tempfile::NamedTempFile::new().context("cannot make a log file")?;
    let apt = |args: &[&str]| {
        let words: Vec<&str> = prefix
            .iter()
            .copied()
            .chain(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"])
            .chain(args.iter().copied())
            .collect();
        process::logged(Command::new(words[0]).args(&words[1..]), log.path(), &step)
    };
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(missing.iter().map(String::as_str));
    apt(&["update"])
        .and_then(|()| apt(&install))
        .with_context(|| {
            format!("cannot install the missing Debian packages; by hand, as root:\n  {by_hand}")
        })?;
    step.done(&missing.join(" "));
    Ok(())
}

/// The packages that dpkg does not have as installed.
fn missing(packages: &[&str]) -> Result<Vec<String>> {
    // It fails when it does not know one of the names, and still lists the rest.
    let out = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${db:Status-Status}\n"])
        .args(packages)
        .stdin(Stdio::null())
        .output()
        .context("cannot run dpkg-query")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let installed: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_suffix(" installed"))
        .collect();
    Ok(packages
        .iter()
        .filter(|name| !installed.contains(*name))
        .map(|name| (*name).to_owned())
        .collect())
}

fn sudo_works() -> bool {
    Command::new("sudo")
        .args(["-n", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// On another distribution: names the programs that are not on the PATH.
fn check_programs() -> Result<()> {
    const PROGRAMS: &[&str] = &[
        "babeltrace2",
        "bc",
        "bison",
        "busybox",
        "clang",
        "cpio",
        "debugfs",
        "flex",
        "git",
        "groff",
        "gcc",
        "ld.lld",
        "lz4",
        "make",
        "mandoc",
        "mke2fs",
        "patch",
        "perl",
        "qemu-system-x86_64",
        "rsync",
        "setpriv",
        "sparse",
        "strace",
        "tar",
        "xz",
        "zstd",
    ];
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .copied()
        .filter(|name| find(name).is_none())
        .collect();
    if !missing.is_empty() {
        bail!(
            "this is no Debian, and these programs are missing: {}. Install them by this \
             system's means (busybox must be statically linked, and --kernel-source must name a \
             Linux 6.12 tree), or use Debian 12, where this is done for you",
            missing.join(", ")
        );
    }
    Ok(())
}

/// Finds a program on the PATH or in the system's administration folders.
pub fn find(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(std::path::PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|place| place.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_nobody_has_is_missing() {
        if !Path::new("/usr/bin/dpkg-query").exists() {
            return;
        }
        let found = missing(&["bash", "no-such-package-as-this"]).unwrap();
        assert_eq!(found, ["no-such-package-as-this"]);
    }
}
