//! The trace of a machine from a dump of its memory, as its console might be all that still works.

use std::fs;
use std::io::Write;
use std::mem::offset_of;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bootbuf::abi::PoolHeader;
use qemu_tests::guest::Guest;
use qemu_tests::qemu::Alarm;
use qemu_tests::{image, kernel, paths, process, programs, reading};

/// What the script prints on the console when the dump may be made.
const READY: &str = "dump me now";

/// Asks QEMU for a dump once the console says so, and returns when it is complete: then the guest goes
/// on, which it shows by its last words.
fn dump_when_ready(monitor: &Path, console: &Path, dump: &Path) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !fs::read(console).is_ok_and(|text| String::from_utf8_lossy(&text).contains(READY)) {
        assert!(Instant::now() < deadline, "the guest was never ready");
        thread::sleep(Duration::from_millis(50));
    }
    let mut monitor = UnixStream::connect(monitor).unwrap();
    writeln!(monitor, "dump-guest-memory {}", dump.display()).unwrap();
    // The connection must stay until the command was read; the guest stands still until it is done.
    while !fs::metadata(dump).is_ok_and(|dump| dump.len() > 64 << 20) {
        assert!(Instant::now() < deadline, "QEMU made no dump");
        thread::sleep(Duration::from_millis(50));
    }
}

struct Dumped {
    dir: tempfile::TempDir,
    dump: PathBuf,
    wrote: u64,
}

fn dumped() -> Dumped {
    let dir = tempfile::tempdir().unwrap();
    let (dump, socket) = (dir.path().join("vmcore"), dir.path().join("monitor"));
    let out = dir.path().join("out");
    let guest = Guest::new()
        .rules("init:*,svc:*,kernel:*")
        .append("bootmark.services=no")
        .script(format!(
            "/usr/lib/bootmark/services/svc-threads
             echo wrote $(cat /run/bootmark/svc-threads.count)
             echo '{READY}' >/dev/console
             sleep 4"
        ))
        .out(&out)
        .qemu_arg("-device")
        .qemu_arg("vmcoreinfo")
        .qemu_arg("-monitor")
        .qemu_arg(&format!("unix:{},server=on,wait=off", socket.display()));
    let (console, at) = (out.join("console.log"), dump.clone());
    let dumper = thread::spawn(move || dump_when_ready(&socket, &console, &at));
    let outcome = guest.boot().unwrap();
    dumper.join().unwrap();
    let wrote = outcome.printed("wrote").parse().unwrap();
    Dumped { dir, dump, wrote }
}

fn extract(dump: &Path, into: &Path) -> std::process::Output {
    Command::new(programs::build().unwrap().bootmark)
        .args(["extract", "--vmcore"])
        .arg(dump)
        .arg("--output")
        .arg(into)
        .output()
        .unwrap()
}

#[test]
fn the_trace_is_found_in_a_dump_of_the_memory() {
    let Dumped { dir, dump, wrote } = dumped();
    let trace = dir.path().join("trace");
    let run = extract(&dump, &trace);
    assert!(run.status.success(), "{run:?}");
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(said.contains("VMCOREINFO"), "{said}");

    let events = reading::events(&trace).unwrap();
    let of_service = |event: &&reading::Event| event.0["comm"] == "svc-threads";
    assert_eq!(events.iter().filter(of_service).count() as u64, wrote);
    // PID 1 was in the middle of its work: what it had written is in a chunk that was never sealed.
    assert!(
        events
            .iter()
            .any(|event| event.name() == "init:script.begin")
    );
    assert!(!events.iter().any(|event| event.name() == "init:script.end"));
    assert!(
        events
            .iter()
            .any(|event| event.name().starts_with("kernel:"))
    );
    assert_eq!(reading::babeltrace(&trace).unwrap().len(), events.len());

    // Without VMCOREINFO the pool is searched for.
    let mut octets = fs::read(&dump).unwrap();
    let line = b"BOOTBUF_POOL=";
    let mut at = 0;
    while let Some(found) = octets[at..].windows(line.len()).position(|w| w == line) {
        octets[at + found] = b'b';
        at += found + line.len();
    }
    assert_ne!(at, 0, "the kernel wrote no such line");
    fs::write(&dump, &octets).unwrap();
    let found = dir.path().join("found");
    let run = extract(&dump, &found);
    assert!(run.status.success(), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stderr).contains("found by search"));
    assert_eq!(reading::events(&found).unwrap().len(), events.len());

    // A dump that was cut off in the pool gives what lies before.
    // Magic, version, log2 of the page size.
    let head = b"BOOTBUF1\x02\0\0\0\x0c\0\0\0";
    let pool = octets.windows(16).position(|w| w == head).unwrap();
    let data_off = offset_of!(PoolHeader, data_off);
    let data = u64::from_le_bytes(octets[pool + data_off..][..8].try_into().unwrap());
    let cut = pool + usize::try_from(data).unwrap() + (64 << 10);
    fs::write(&dump, &octets[..cut]).unwrap();
    let rest = dir.path().join("rest");
    let run = extract(&dump, &rest);
    assert!(run.status.success(), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stderr).contains("not in the dump"));

    // And one without it says so.
    fs::write(&dump, &octets[..1 << 20]).unwrap();
    let run = extract(&dump, &dir.path().join("none"));
    assert_eq!(run.status.code(), Some(1));
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(said.contains("holds no trace buffers"), "{said}");
}

/// Builds the program that loads a kernel for the event of a crash.
fn capture_loader(dir: &Path) -> PathBuf {
    let out = dir.join("capture");
    process::output(
        programs::c_compiler()
            .args(["-std=gnu11", "-static"])
            .arg(paths::workspace().join("qemu-tests/tests/fixtures/capture.c"))
            .arg("-o")
            .arg(&out),
    )
    .unwrap();
    out
}

/// kdump: the machine panics into a second kernel, which reads the first one's memory from
/// `/proc/vmcore` while nothing but that holds the trace.
#[test]
fn the_capture_kernel_extracts_from_proc_vmcore() {
    let dir = tempfile::tempdir().unwrap();
    let config = kernel::default_config();
    let small = kernel::kernel(None, &config).unwrap();
    let layout = image::initramfs_layout(&programs::build().unwrap()).unwrap();
    let initramfs = image::initramfs(&layout, small.has("CONFIG_RD_ZSTD").unwrap()).unwrap();
    let reserved = 256 * kernel::Needs::of(&config).memory;
    let outcome = Guest::new()
        .memory(1024)
        .rules("init:*,svc:*,kernel:*")
        .append(&format!("bootmark.services=no crashkernel={reserved}M"))
        .add(small.image, "/boot/bzImage")
        .add(initramfs, "/boot/initramfs")
        .add(capture_loader(dir.path()), "/boot/capture")
        .tolerate(Alarm::Panic)
        .script(
            "cd /var/lib/bootmark
             if [ -e /proc/vmcore ]; then
                 bootmark extract --vmcore /proc/vmcore --output dumped 2>&1
                 echo extracted $?
                 echo wrote $(cat wrote)
                 exit 0
             fi
             /usr/lib/bootmark/services/svc-threads
             cat /run/bootmark/svc-threads.count >wrote
             sync
             line=$(sed 's/crashkernel=[^ ]*//' /proc/cmdline)
             /boot/capture /boot/bzImage /boot/initramfs \"$line maxcpus=1 reset_devices\" || exit 1
             echo c >/proc/sysrq-trigger",
        )
        .boot()
        .unwrap();
    assert_eq!(outcome.printed("extracted"), "0", "{}", outcome.script_log);
    assert!(
        outcome.script_log.contains("VMCOREINFO"),
        "{}",
        outcome.script_log
    );

    let trace = outcome.dir.join("fetched/dumped");
    let events = reading::events(&trace).unwrap();
    let of_service = |event: &&reading::Event| event.0["comm"] == "svc-threads";
    let wrote: u64 = outcome.printed("wrote").parse().unwrap();
    assert_eq!(events.iter().filter(of_service).count() as u64, wrote);
    for name in ["init:script.begin", "kernel:sched_process_exec"] {
        assert!(events.iter().any(|event| event.name() == name), "no {name}");
    }
    assert_eq!(reading::babeltrace(&trace).unwrap().len(), events.len());

    // The kernel that captured has a trace of its own.
    let [dumped, own] = [&trace, &outcome.trace()].map(|trace| reading::summary(trace).unwrap());
    assert_ne!(dumped["boot_id"], own["boot_id"]);
    assert_eq!(dumped["lost"], 0);
}
