//! The kernel builder from the outside: the cache, and sources it must refuse.

use std::fs;
use std::time::{Duration, Instant};

use qemu_tests::kernel;

#[test]
fn a_second_run_finds_the_same_kernel_in_the_cache() {
    let first = kernel::kernel(None, "off").unwrap();
    let started = Instant::now();
    let second = kernel::kernel(None, "off").unwrap();
    assert_eq!(first.image, second.image);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(second.has("CONFIG_EXT4_FS").unwrap());
    assert!(!second.has("CONFIG_BOOTMARK").unwrap());
    assert!(second.system_map.exists());
}

#[test]
fn the_option_off_leaves_no_symbol_behind() {
    let kernel = kernel::kernel(None, "off").unwrap();
    let map = fs::read_to_string(&kernel.system_map).unwrap();
    let ours: Vec<&str> = map
        .lines()
        .filter(|line| line.contains("bootmark") || line.contains("bootbuf"))
        // Entry points of system calls that are not built in are weak stubs.
        .filter(|line| !line.contains("__x64_sys_"))
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
}

#[test]
fn a_source_that_is_not_6_12_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("Makefile"),
        "VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 0\n",
    )
    .unwrap();
    let error = format!("{:#}", kernel::kernel(Some(dir.path()), "off").unwrap_err());
    assert!(
        error.contains("Linux 6.1") && error.contains("6.12"),
        "{error}"
    );

    let missing = dir.path().join("linux.tar.xz");
    let error = format!("{:#}", kernel::kernel(Some(&missing), "off").unwrap_err());
    assert!(error.contains("no kernel source at"), "{error}");
}
