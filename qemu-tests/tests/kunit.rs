//! The kernel patch's KUnit suites, on the smallest kernel that it can be part of, and kernels
//! that are only built.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use qemu_tests::ktap;
use qemu_tests::progress::Step;
use qemu_tests::qemu::{self, Ending, Machine};
use qemu_tests::{kernel, lock, paths};

/// The suites that the sources have.
fn suites() -> BTreeSet<String> {
    let folder = paths::kernel_patch().join("linux/kernel/bootmark");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with("_kunit.c") {
            let text = fs::read_to_string(&path).unwrap();
            let before = names.len();
            names.extend(
                text.split("struct kunit_suite ")
                    .skip(1)
                    .filter_map(|rest| {
                        let (_, value) = rest.split_once(".name")?;
                        let value = value.trim_start().strip_prefix('=')?.trim_start();
                        Some(value.strip_prefix('"')?.split_once('"')?.0.to_owned())
                    }),
            );
            assert!(names.len() > before, "{} has no suite", path.display());
        }
    }
    names
}

#[test]
fn the_kernels_unit_tests_pass() {
    let kernel = kernel::kernel(None, "kunit").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut machine = Machine::new(&kernel.image, &dir.path().join("console.log"));
    machine.command_line =
        "console=ttyS0 panic=-1 tsc=reliable bootbuf=1M kunit_shutdown=reboot".to_owned();
    machine.cpus = 1;
    machine.memory = 128;
    machine.timeout = Duration::from_secs(300);
    let turn = paths::target().join("guest-turn");
    let _turn = lock::exclusive(&turn, "is running a guest").unwrap();
    let accel = qemu::accelerator(&kernel.image).unwrap();
    let run = qemu::run(&machine, accel, &Step::start("running KUnit")).unwrap();
    assert_eq!(run.ending, Ending::Reset, "{}", run.console);

    let passed = match ktap::parse(&run.console) {
        Ok(passed) => passed,
        Err(error) => panic!("{error:#}\n\n{}", run.console),
    };
    let names: BTreeSet<String> = passed.into_iter().map(|suite| suite.name).collect();
    assert_eq!(names, suites());
}

#[test]
fn allnoconfig_and_the_option_is_a_kernel() {
    let kernel = kernel::kernel(None, "allno").unwrap();
    assert!(kernel.has("CONFIG_BOOTMARK").unwrap());
    for off in [
        "CONFIG_SMP",
        "CONFIG_TRACING",
        "CONFIG_MODULES",
        "CONFIG_KUNIT",
    ] {
        assert!(!kernel.has(off).unwrap(), "{off}");
    }
    let map = fs::read_to_string(&kernel.system_map).unwrap();
    assert!(map.contains(" bootmark_init\n"));
}

#[test]
fn one_cpu_is_enough() {
    let objects = kernel::kernel(None, "up").unwrap();
    assert!(objects.has("CONFIG_BOOTMARK").unwrap());
    assert!(!objects.has("CONFIG_SMP").unwrap());
    assert!(fs::metadata(&objects.image).unwrap().len() > 0);
}
