//! What `view` and `summary` print, to the letter.

mod common;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::*;

fn trace(temp: &Path) -> PathBuf {
    let dir = temp.join("run").join("trace");
    std::fs::create_dir(temp.join("run")).unwrap();
    extract(&dir, &boot());
    dir
}

fn view(dir: &Path, args: &[&str]) -> String {
    silent(bootmark(&[&["view", dir.to_str().unwrap()], args].concat()))
}

#[test]
fn lines_are_for_people() {
    let temp = tempfile::tempdir().unwrap();
    let dir = trace(temp.path());
    let expected = r#"[     0.100000]      - [cpu 0]         kernel:initcall begin {func="pci_init"}
[     0.350000]      - [cpu 0]         kernel:initcall end {250.000 ms, func="pci_init"}
[     0.950000]      - [cpu 0]         kernel:sched_process_exec {pid=1, old_pid=1, filename="/init"}
[     1.000001]      1 init            init:start
[     1.000010]      1 init            init:stage begin {name="mounts"}
[     1.000020]      1 init            init:mount begin {target="/proc", flags=0xe}
[     1.002020]      1 init            init:mount end {2.000 ms}
[     1.003000]      1 init            init:mount begin {target="/sys", flags=0xe}
[     1.003500]      1 init            init:mount end {500.000 us, ret=-EBUSY}
[     1.004000]      1 init            init:stage end {3.990 ms}
[     1.100000]      1 init            init:stage begin {name="switch-root"}
[     1.300001]     77 svc/\"x\"       svc:all-types {flags=0xdeadbeef, delta=-5, ratio=0.25, ok=true, state=on, data=[de ad 01], at=1.299000, half=1.5}
[     1.300002]     77 svc/\"x\"       svc:count {size=4.0 KiB, took=1.500 ms}
[     1.400000]     77 svc/\"x\"       svc:all-types {flags=0xdeadbeef, delta=-5, ratio=0.25, ok=true, state=on, data=[de ad 01], at=1.299000, half=1.5}
[     1.900000]      1 init            init:stage end {800.000 ms}
"#;
    assert_eq!(view(&dir, &[]), expected);
    // The directory above, which `cargo xtask boot` names, will do as well.
    assert_eq!(view(dir.parent().unwrap(), &[]), expected);
    let coloured = view(&dir, &["--color", "always", "-n", "1"]);
    assert!(coloured.contains("\u{1b}["), "{coloured}");
}

#[test]
fn json_is_for_programs() {
    let temp = tempfile::tempdir().unwrap();
    let dir = trace(temp.path());
    let text = view(&dir, &["--json"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 15);
    assert_eq!(
        lines[1],
        r#"{"ts_ns":350000000,"stream":1,"cpu":0,"event":"kernel:initcall","kind":"end","level":6,"dur_ns":250000000,"fields":{"begin":100000000,"ret":0,"func":"pci_init"}}"#
    );
    assert_eq!(
        lines[11],
        r#"{"ts_ns":1300001000,"stream":3,"pid":77,"tid":77,"comm":"svc/\"x\"","event":"svc:all-types","kind":"instant","level":6,"fields":{"flags":3735928559,"delta":-5,"ratio":0.25,"ok":true,"state":"on","data":"dead01","at":1299000000,"half":1.5}}"#
    );
}

#[test]
fn filters_choose() {
    let temp = tempfile::tempdir().unwrap();
    let dir = trace(temp.path());
    let count = |args: &[&str]| view(&dir, args).lines().count();
    assert_eq!(count(&["--event", "init:mount"]), 4);
    assert_eq!(count(&["--event", "init", "--event", "!*:st*"]), 4);
    assert_eq!(count(&["-e", "svc", "-e", "kernel"]), 6);
    assert_eq!(count(&["--pid", "1"]), 9);
    assert_eq!(count(&["--comm", "svc*"]), 3);
    assert_eq!(count(&["--comm", "!svc*"]), 9);
    assert_eq!(count(&["--since", "1s", "--until", "1100ms"]), 8);
    assert_eq!(count(&["--until", "100000us"]), 1);
    assert_eq!(count(&["--limit", "2"]), 2);
    let output = bootmark(&["view", dir.to_str().unwrap(), "--event", "nothing"]);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_summary_is_a_page() {
    let temp = tempfile::tempdir().unwrap();
    let dir = trace(temp.path());
    let page = silent(bootmark(&["summary", dir.to_str().unwrap()]));
    let (head, rest) = page.split_once("\n  events").unwrap();
    assert!(
        head.starts_with("Boot 01234567-89ab-cdef-0123-456789abcdef\n  machine    "),
        "{head}"
    );
    assert_eq!(
        rest,
        r#"     15 recorded in 3 streams, 1 lost
  from       0.100000 s to 1.900000 s after boot
  time to PID 1   0.950000 s

PID 1
  executed by the kernel at 0.950000 s
  first event at 1.000001 s
          begin     duration  stage
       1.000010     3.990 ms  init:stage name="mounts"
       1.000020     2.000 ms    init:mount target="/proc", flags=0xe
       1.003000   500.000 us    init:mount target="/sys", flags=0xe, ret=-EBUSY
       1.100000   800.000 ms  init:stage name="switch-root"

Slowest spans
    duration     begin  who       span
  800.000 ms  1.100000  init (1)  init:stage name="switch-root"
    3.990 ms  1.000010  init (1)  init:stage name="mounts"
    2.000 ms  1.000020  init (1)  init:mount target="/proc", flags=0xe
  500.000 us  1.003000  init (1)  init:mount target="/sys", flags=0xe, ret=-EBUSY

Slowest of 1 initcalls (250.000 ms in all)
    duration     begin  who    span
  250.000 ms  0.100000  cpu 0  kernel:initcall func="pci_init"

Processes
     start  pid  parent     ran for  events  program                   end
  0.900000    1       0           -       9  /init                     runs
  1.300000   77       1  600.000 ms       3  /usr/lib/svc (svc/\"x\")  killed by SIGKILL

Lost
         1  torn: their writer was killed within the write
         1  of 4 events in svc__x_-77-77.3
"#
    );
    let json = silent(bootmark(&["summary", "--json", dir.to_str().unwrap()]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["events"], 15);
    assert_eq!(json["left_out"]["torn"], 1);
    assert_eq!(json["pid1"]["exec_ns"], 950_000_000);
    assert_eq!(
        json["pid1"]["stages"][0]["stages"][1]["event"],
        "init:mount"
    );
    assert_eq!(json["processes"][1]["end"], "killed by SIGKILL");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("trace");
    let mut maker = Maker::thread(3, 0, 5, "svc").times(0, 2000).sealed(1, 1);
    for index in 0..1500 {
        maker = maker.record(COUNT, index, &[0; 16]);
    }
    silent(extract(&dir, &[meta().bytes(), maker.bytes()]));
    for json in [&["--json"][..], &[]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bootmark"))
            .args(["view", dir.to_str().unwrap()])
            .args(json)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut errors = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(errors, "");
    }
}
