//! `bootmark-init` when the boot cannot go on: it says what is wrong and does what the command line asks.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use qemu_tests::guest::Guest;
use qemu_tests::qemu::{Alarm, Ending};
use qemu_tests::{image, programs};

/// The project's guest without a trace: these are about PID 1 alone. `loglevel` keeps the kernel's messages
/// out of what the tests look for.
fn guest() -> Guest {
    Guest::new()
        .rules("")
        .append("bootmark.extract=no bootmark.services=no loglevel=4")
}

#[test]
fn a_root_device_that_does_not_come() {
    let outcome = guest()
        .root("LABEL=nosuch")
        .append("rootwait=4")
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::Alarm(Alarm::Panic));
    outcome.shows(&[
        "waiting for the root device LABEL=nosuch for 3 s now (at most 4 s); there is: vda (ext4",
        "failed while finding the root device",
        "error:  LABEL=nosuch did not appear in 4 s",
        "found:  vda (ext4 LABEL=bootmark-root UUID=",
        "remedy: check root=",
    ]);
    // What it says about the device is what one needs to correct the mistake.
    let uuid = outcome.console.split("UUID=").nth(1).unwrap();
    let uuid = &uuid[..36];
    let root = format!("UUID={}", uuid.to_uppercase());
    let again = guest().root(&root).disk(outcome.disk()).boot().unwrap();
    again.shows(&["the root device is vda"]);
}

#[test]
fn a_partition_by_the_uuid_of_its_table() {
    const START: u64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    image::root_at(
        &image::root_layout(&programs::build().unwrap()).unwrap(),
        &root,
    )
    .unwrap();
    let path = dir.path().join("disk");
    let mut disk = File::create(&path).unwrap();
    disk.seek(SeekFrom::Start(START)).unwrap();
    let size = io::copy(&mut File::open(&root).unwrap(), &mut disk).unwrap();
    // An MBR with one Linux partition, the first of two entries left empty.
    let mut mbr = [0; 512];
    mbr[440..444].copy_from_slice(&0x1234_abcd_u32.to_le_bytes());
    mbr[462 + 4] = 0x83;
    mbr[462 + 8..462 + 12].copy_from_slice(&u32::try_from(START / 512).unwrap().to_le_bytes());
    mbr[462 + 12..462 + 16].copy_from_slice(&u32::try_from(size / 512).unwrap().to_le_bytes());
    mbr[510..].copy_from_slice(&[0x55, 0xaa]);
    disk.write_all_at(&mbr, 0).unwrap();
    let outcome = guest()
        .root("PARTUUID=1234ABCD-02")
        // Not as the guest's disk: the harness fetches results from whole ones only.
        .without_disk()
        .qemu_arg("-drive")
        .qemu_arg(&format!("file={},format=raw,if=virtio", path.display()))
        .boot()
        .unwrap();
    outcome.shows(&["the root device is vda2 (ext4", " PARTUUID=1234abcd-02,"]);
}

#[test]
fn no_disk_at_all() {
    let outcome = guest()
        .without_disk()
        .root("/dev/vda")
        .append("rootwait=1 rd.onfail=reboot")
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::Reset);
    outcome.shows(&[
        "/dev/vda did not appear in 1 s",
        "no block device at all",
        "restarting, as rd.onfail=reboot asks",
    ]);
}

#[test]
fn a_root_that_makes_no_sense() {
    let outcome = guest().root("NFS=server").run().unwrap();
    assert_eq!(outcome.ending, Ending::Alarm(Alarm::Panic));
    outcome.shows(&[
        "failed while reading the command line",
        "root=NFS=server: NFS= is not known here",
        "the kernel does now what panic= says",
    ]);
}

#[test]
fn a_file_system_that_the_kernel_lacks() {
    let outcome = guest()
        .append("rootfstype=zfs,xfs rd.onfail=poweroff")
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::PowerOff);
    // Powering off without an outcome is not a good boot.
    assert!(outcome.check().is_err());
    outcome.shows(&[
        "failed while mounting the root file system",
        "zfs: this kernel does not know the type (it knows",
        "; xfs: this kernel does not know the type",
        "powering off, as rd.onfail=poweroff asks",
    ]);
}

#[test]
fn mount_options_that_the_file_system_lacks() {
    let outcome = guest()
        .append("rootflags=noatime,nosuchoption")
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::Alarm(Alarm::Panic));
    outcome.shows(&["/dev/vda on /sysroot: ext4: Invalid argument"]);
}

#[test]
fn an_init_that_is_missing() {
    let outcome = guest().append("init=/sbin/nosuch").run().unwrap();
    assert_eq!(outcome.ending, Ending::Alarm(Alarm::Panic));
    outcome.shows(&[
        "failed while looking for init in the new root",
        "/sbin/nosuch: No such file or directory",
        "in the new root: bin dev etc",
        "correct init=",
    ]);
}

#[test]
fn a_root_without_any_init() {
    let outcome = guest()
        .without("sbin/init")
        .without("bin/init")
        .without("bin/sh")
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::Alarm(Alarm::Panic));
    outcome.shows(&[
        "/sbin/init: No such file",
        "/etc/init: No such file",
        "/bin/init: No such file",
        "/bin/sh: No such file",
        "is this the right file system?",
    ]);
}

#[test]
fn an_init_that_is_no_program() {
    let outcome = guest().append("init=/etc/passwd").run().unwrap();
    assert_eq!(outcome.ending, Ending::Alarm(Alarm::Panic));
    outcome.shows(&["/etc/passwd: is not executable (mode 644)"]);
}

#[test]
fn a_shell_in_which_the_root_is_mounted_by_hand() {
    let outcome = guest()
        .root("/dev/nosuch")
        .append("rootwait=1 rd.onfail=shell")
        .type_after(
            "initramfs# ",
            "mkdir -p /sysroot; mount -t ext4 /dev/vda /sysroot; exit\n",
        )
        .boot()
        .unwrap();
    outcome.shows(&[
        "/dev/nosuch did not appear",
        "a shell follows; leave it with `exit` to try again",
    ]);
}

#[test]
fn stops_on_the_way() {
    let outcome = guest()
        .append("rd.break=pre-mount rd.break=post-mount rd.break")
        .type_after("rd.break=pre-mount asks", "")
        .type_after(
            "initramfs# ",
            "echo at-$(grep -c /sysroot /proc/mounts) on $(tty); exit\n",
        )
        .type_after("rd.break=post-mount asks", "")
        .type_after(
            "initramfs# ",
            "echo at-$(grep -c /sysroot /proc/mounts)x; exit\n",
        )
        .type_after("rd.break=pre-switch asks", "")
        .type_after("initramfs# ", "exit\n")
        .boot()
        .unwrap();
    outcome.shows(&["\nat-0 on /dev/ttyS0", "\nat-1x"]);
}

#[test]
fn no_console_is_no_reason_to_stop() {
    let outcome = guest().append("console= rd.onfail=poweroff").run().unwrap();
    // Nothing can be seen but the end: without descriptors, Rust's own start-up code would have
    // aborted and the kernel would have panicked.
    assert_eq!(outcome.ending, Ending::PowerOff);
}

#[test]
fn another_init_gets_its_arguments_and_environment() {
    let outcome = guest()
        .append("rw init=/bin/sh colour=\"dark green\" -- -c \"echo pid $$ $colour, /init is $(ls /init); exec /sbin/init\"")
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::PowerOff, "{}", outcome.console);
    outcome.shows(&["pid 1 dark green, /init is"]);
    assert_eq!(outcome.reported().unwrap(), Ok(()));
}
