//! `cargo xtask test`

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use qemu_tests::{kernel, lint, paths, setup};

/// Run all checks and tests, the ones in QEMU included.
///
/// With --kernel only those whose guests can run another kernel, and no checks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run the guest tests on a kernel of this configuration: `debug` finds what the kernel's own
    /// checks find.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,

    /// A Linux 6.12 source tree or tarball for the checks [default: Debian's linux-source-6.12].
    #[arg(long, value_name = "DIR|TARBALL")]
    kernel_source: Option<PathBuf>,

    /// Arguments for `cargo test` in place of `--workspace`, as in `-- -p qemu-tests panic`.
    #[arg(last = true, value_name = "ARGS")]
    cargo: Vec<String>,
}

/// Test programs that --kernel leaves out, and why they would say nothing about that kernel.
const NOT_ON_ANOTHER_KERNEL: &[(&str, &str)] = &[
    ("kernel", "builds kernels and boots none"),
    ("kernel_series", "writes the patch as mails"),
    ("kunit", "runs the unit tests, in a kernel of their own"),
    ("man_pages", "reads the manual pages"),
    (
        "runner",
        "tries the runner, in guests that name their kernel",
    ),
    ("xtask", "tries the command line, boots included"),
];

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    if let Some(name) = &args.kernel {
        return on_kernel(name, &args.cargo);
    }
    setup::ensure(setup::PACKAGES)?;
    lint::rust()?;
    lint::kernel(args.kernel_source.as_deref())?;
    // All of them, so that one failure does not hide the next.
    let passed = if args.cargo.is_empty() {
        let everywhere = cargo_test(&["--workspace", "--no-fail-fast"], None)?;
        // The writer against a stand-in for the kernel, with which nothing else may be built.
        let writer = ["-p", "bootmark-bootbuf", "--features", "stand-in"];
        let writer = [&writer[..], &["--no-fail-fast", "--tests"]].concat();
        cargo_test(&writer, None)? && everywhere
    } else {
        cargo_test(&args.cargo, None)?
    };
    Ok(status(passed))
}

/// The guest tests on the kernel of the configuration `name`.
fn on_kernel(name: &str, cargo: &[String]) -> Result<ExitCode> {
    let known: Vec<&str> = kernel::for_guests().collect();
    if !known.contains(&name) {
        bail!(
            "the guest tests do not run on a kernel `{name}`, but on {}",
            known.join(", ")
        );
    }
    setup::ensure(setup::PACKAGES)?;
    // Built first: no test should wait for it, with its time running.
    kernel::kernel(None, name)?;
    if !cargo.is_empty() {
        return Ok(status(cargo_test(cargo, Some(name))?));
    }
    for (test, reason) in NOT_ON_ANOTHER_KERNEL {
        println!("left out: {test}, which {reason}");
    }
    let mut arguments = vec!["-p", "qemu-tests", "--no-fail-fast"];
    let tests = guest_tests()?;
    for test in &tests {
        arguments.extend(["--test", test]);
    }
    Ok(status(cargo_test(&arguments, Some(name))?))
}

/// The names of the test programs whose guests run on the kernel that --kernel names.
fn guest_tests() -> Result<Vec<String>> {
    let dir = paths::workspace().join("qemu-tests/tests");
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.strip_suffix(".rs") {
            Some(name) => names.push(name.to_owned()),
            None if entry.path().join("main.rs").exists() => names.push(name),
            None => {}
        }
    }
    for (test, _) in NOT_ON_ANOTHER_KERNEL {
        if !names.iter().any(|name| name == test) {
            bail!("there is no test `{test}` to leave out");
        }
    }
    names.retain(|name| !NOT_ON_ANOTHER_KERNEL.iter().any(|(test, _)| test == name));
    names.sort();
    Ok(names)
}

fn status(passed: bool) -> ExitCode {
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Whether `cargo test` with these arguments passes, its guests on this kernel.
fn cargo_test(args: &[impl AsRef<OsStr>], on: Option<&str>) -> Result<bool> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .arg("test")
        .args(args)
        .current_dir(paths::workspace());
    if let Some(name) = on {
        command.env(kernel::VARIABLE, name);
    }
    let status = command
        .status()
        .context("cannot start cargo to run the tests")?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_there() {
        let tests = guest_tests().unwrap();
        assert!(
            tests.iter().any(|name| name == "kernel_selftests"),
            "{tests:?}"
        );
        assert!(tests.iter().all(|name| name != "runner"), "{tests:?}");
        assert!(tests.iter().all(|name| name != "fixtures"), "{tests:?}");
    }
}
