//! The demo image's services as `bootmark-stage2` runs them, and the ways in which it ends.

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::qemu::Ending;
use qemu_tests::reading;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// For `/bin/sh`: a file system at the folder `$1` that is frozen, so that who writes to it waits in the kernel
/// and does not end of any signal. It lies in memory: its image must not keep the root file system busy.
const FREEZE: &str = "set -e\n\
    mkdir $1\n\
    truncate -s 4M $1.image\n\
    mke2fs -F $1.image >/dev/null\n\
    mount -t ext4 -o loop $1.image $1\n\
    fsfreeze --freeze $1\n";

/// What the console and the outcome say of such a process.
const STUCK: &str = "does not end, not even of SIGKILL; given up after ";

fn guest() -> Guest {
    Guest::new().append("loglevel=4")
}

/// Service files, and the guest that has them; the folder is needed until it ran.
fn with_services(mut guest: Guest, services: &[(&str, &str)]) -> (tempfile::TempDir, Guest) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in services {
        let path = dir.path().join(format!("{name}.conf"));
        fs::write(&path, text).unwrap();
        guest = guest.add(&path, &format!("/etc/bootmark/services/{name}.conf"));
    }
    (dir, guest)
}

#[test]
fn services_run_in_order_and_in_parallel() {
    let outcome = guest()
        .script(
            "le64() { od -A n -t u8 \"$1\"; }\n\
             echo threads $(cat /run/bootmark/svc-threads.count)\n\
             echo c $(cat /run/bootmark/svc-c.count)\n\
             echo killed $(le64 /run/bootmark/svc-killed.count)\n\
             echo crash $(le64 /run/bootmark/svc-crash.count)\n\
             echo after-fail $(cat /run/bootmark/after-fail)\n\
             echo inventory $(grep -c : /run/bootmark/inventory)\n\
             echo logged $(grep -c inventory: /run/bootmark/messages)\n\
             echo syslogd $(ps -o args | grep -c '[b]usybox syslogd')\n\
             echo root $(grep ' / ' /proc/mounts | grep -v rootfs | cut -d' ' -f4)\n\
             echo host $(hostname)\n\
             echo blocked $(awk '/SigBlk/ { print $2 }' /proc/self/status)\n\
             echo path $PATH\n\
             echo me $(id -u)\n\
             exit 7\n",
        )
        .boot()
        .unwrap();
    assert_eq!(outcome.script_status, Some(7));
    outcome.shows(&[
        "service fail failed: exit status 3",
        "service needs-fail is skipped: fail failed",
        "service crash failed: SIGSEGV",
        "services: 6 done, 1 running, 3 failed, 1 skipped",
    ]);
    assert!(ran_to_its_limit(&outcome, "killed", "400ms") >= 0.4);
    assert!(!outcome.console.contains("this must not be seen"));
    assert_eq!(outcome.printed("threads"), "2010");
    assert_eq!(outcome.printed("c"), "506");
    assert_eq!(outcome.printed("crash"), "300");
    assert!(outcome.printed("killed").parse::<u64>().unwrap() > 10);
    assert_eq!(outcome.printed("after-fail"), "ran");
    assert!(outcome.printed("inventory").parse::<u32>().unwrap() >= 6);
    assert_eq!(outcome.printed("logged"), "1");
    assert_eq!(outcome.printed("syslogd"), "1");
    assert!(outcome.printed("root").starts_with("rw"));
    assert_eq!(outcome.printed("host"), "bootmark");
    assert_eq!(outcome.printed("blocked"), "0000000000000000");
    assert_eq!(outcome.printed("path"), "/usr/sbin:/usr/bin:/sbin:/bin");
    assert_eq!(outcome.printed("me"), "0");
}

#[test]
fn a_read_only_root_is_made_writable() {
    let outcome = guest()
        .append("ro rootflags=noatime bootmark.services=no bootmark.extract=no")
        .script("echo root $(grep ' / ' /proc/mounts | grep -v rootfs | cut -d' ' -f4)")
        .boot()
        .unwrap();
    let root = outcome.printed("root");
    assert!(root.starts_with("rw,noatime"), "{root}");
}

#[test]
fn orphans_are_reaped() {
    let outcome = guest()
        .append("bootmark.services=no bootmark.extract=no")
        .script(
            "for i in 1 2 3 4 5; do (sleep 0.1 &); done\n\
             sleep 1\n\
             echo zombies $(ps -o stat | grep -c ^Z)\n",
        )
        .boot()
        .unwrap();
    assert_eq!(outcome.printed("zombies"), "0");
}

#[test]
fn a_missing_extractor_is_a_failed_boot() {
    let outcome = guest()
        .append("bootmark.services=no")
        .without("usr/bin/bootmark")
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::PowerOff);
    assert_eq!(
        outcome.reported().unwrap(),
        Err("no extractor: /usr/bin/bootmark does not exist".into())
    );
}

/// How many seconds a service ran that the console says was killed for its limit.
#[track_caller]
fn ran_to_its_limit(outcome: &Outcome, service: &str, limit: &str) -> f64 {
    let start = format!("service {service} failed: SIGKILL after ");
    let end = format!(" s: its limit is {limit}");
    let line = outcome.console.lines().find_map(|line| {
        let (_, rest) = line.split_once(&start)?;
        rest.trim_end().strip_suffix(&end)
    });
    let Some(ran) = line else {
        panic!("no `{start}...{end}`:\n{}", outcome.console);
    };
    ran.parse().unwrap()
}

#[test]
fn bad_service_files_and_fatal_services_are_the_outcome() {
    let services = [
        ("zz-odd", "exec = relative\n"),
        ("zz-vital", "exec = /bin/false\non-failure = fatal\n"),
        ("zz-nowhere", "exec = /no/such/program\n"),
        ("zz-loop", "exec = /bin/true\nafter = zz-loop\n"),
        (
            "zz-stubborn",
            "exec = /bin/sh -c \"trap '' TERM; sleep 60\"\ntimeout = 200ms\n",
        ),
        ("zz-long", "exec = /bin/sh -c \"sleep 8; exit 3\"\n"),
    ];
    let (_dir, guest) = with_services(guest().append("bootmark.extract=no"), &services);
    let outcome = guest.run().unwrap();
    assert_eq!(outcome.ending, Ending::PowerOff);
    let reason = outcome.reported().unwrap().unwrap_err();
    assert_eq!(
        reason,
        "service file zz-odd.conf:1: exec = relative: it takes a program by its full path, and \
         arguments, quoted as in a shell; service zz-vital: exit status 1"
    );
    outcome.shows(&[
        "service zz-nowhere failed: /no/such/program: No such file",
        "service zz-loop: its dependencies lead in a circle, among: zz-loop",
    ]);
    // SIGTERM, which it ignores, comes 2 s before SIGKILL.
    assert!(ran_to_its_limit(&outcome, "zz-stubborn", "200ms") >= 2.2);
    // No later than that by much: both run by the guest's clock.
    let failed = |service: &str| outcome.console.find(&format!("service {service} failed"));
    assert!(failed("zz-stubborn") < failed("zz-long"));
}

#[test]
fn a_service_that_does_not_end_of_sigkill_is_given_up() {
    let stuck = |name: &str| {
        format!(
            "exec = /bin/sh -c \"echo $$ > /run/{name}.pid; echo > /run/{name}/file\"\n\
             requires = zz-freeze\n\
             timeout = 3s\n"
        )
    };
    let services = [
        (
            "zz-freeze",
            "exec = /bin/sh -c \"for name in forever thawed; do sh /etc/freeze.sh /run/$name; done\"\n",
        ),
        ("zz-forever", &stuck("forever")),
        ("zz-thawed", &stuck("thawed")),
        ("zz-needs", "exec = /bin/true\nrequires = zz-forever\n"),
    ];
    let (dir, guest) = with_services(guest().rules("init:*"), &services);
    let freeze = dir.path().join("freeze.sh");
    fs::write(&freeze, FREEZE).unwrap();
    // One is still there when the machine stops, the other comes to its end after all.
    let outcome = guest
        .add(&freeze, "/etc/freeze.sh")
        .script(
            "forever=$(cat /run/forever.pid) thawed=$(cat /run/thawed.pid)\n\
             state() { awk '/^State/ { print $2 }' /proc/$1/status; }\n\
             echo forever $forever\n\
             echo thawed $thawed\n\
             echo states $(state $forever) $(state $thawed)\n\
             fsfreeze --unfreeze /run/thawed\n\
             while [ -e /proc/$thawed ]; do sleep 0.1; done\n",
        )
        .boot()
        .unwrap();
    assert_eq!(outcome.script_status, Some(0));
    assert_eq!(outcome.printed("states"), "D D");
    outcome.shows(&["service zz-needs is skipped: zz-forever failed"]);
    let events = reading::events(&outcome.trace()).unwrap();
    for name in ["forever", "thawed"] {
        outcome.shows(&[&format!("service zz-{name} failed: {STUCK}")]);
        let pid = outcome.printed(name).parse().unwrap();
        let of_it = |event: &&reading::Event| event.number("pid") == Some(pid);
        // SIGTERM, SIGKILL, no more; and an orphan's end if there is one, of the signal that came first.
        let mut expected = vec![
            ("init:service_kill", Some(15)),
            ("init:service_kill", Some(9)),
            ("init:given_up", None),
        ];
        if name == "thawed" {
            expected.push(("init:reaped", Some(15)));
        }
        let seen: Vec<_> = events
            .iter()
            .filter(of_it)
            .filter(|event| !event.name().starts_with("init:service."))
            .map(|event| (event.name(), event.number("signal")))
            .collect();
        assert_eq!(seen, expected, "{name}");
        let given_up = events
            .iter()
            .filter(of_it)
            .find(|event| event.name() == "init:given_up")
            .unwrap();
        assert!(given_up.number("run_time").unwrap() >= 15_000_000_000);
    }
}

#[test]
fn an_extractor_that_does_not_end_of_sigkill_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let extractor = dir.path().join("bootmark");
    let text = format!("#!/bin/sh\nset -- /run/stuck\n{FREEZE}echo > $1/file\n");
    fs::write(&extractor, text).unwrap();
    fs::set_permissions(&extractor, fs::Permissions::from_mode(0o755)).unwrap();
    // It has ten minutes, which pass at once where the machine has nothing to do.
    let outcome = guest()
        .append("bootmark.services=no sysctl.kernel.hung_task_timeout_secs=0")
        .add(&extractor, "/usr/bin/bootmark")
        .counted()
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::PowerOff);
    let reason = outcome.reported().unwrap().unwrap_err();
    assert!(
        reason.starts_with(&format!("extraction: {STUCK}")),
        "{reason}"
    );
}

#[test]
fn a_shell_on_the_console() {
    let outcome = guest()
        .append("bootmark.shell bootmark.services=no bootmark.extract=no")
        .type_after(
            "bootmark# ",
            "echo on $(tty) blocked $(awk '/SigBlk/ { print $2 }' /proc/self/status)\n",
        )
        .type_after(
            "blocked 0000000000000000",
            "sh -c \"echo 're''ady'; exec sleep 1000\"\n",
        )
        // Control-C reaches the foreground job, not PID 1.
        .type_after("ready", "\u{3}")
        .type_after("bootmark# ", "echo status $?; exit\n")
        .boot()
        .unwrap();
    outcome.shows(&["\non /dev/ttyS0 blocked 0000000000000000", "\nstatus 130"]);
}

#[test]
fn poweroff_and_reboot_by_command() {
    let quiet = "bootmark.services=no bootmark.extract=no";
    let outcome = guest()
        .append(quiet)
        .script("poweroff; sleep 1000")
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::PowerOff);
    // It did not come to its end.
    assert_eq!(outcome.script_status, None);
    let reason = outcome.reported().unwrap().unwrap_err();
    assert!(reason.contains("asked for the machine to stop"), "{reason}");
    let outcome = guest()
        .append(quiet)
        .script("reboot; sleep 1000")
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::Reset);
}

#[test]
fn rootdelay_is_waited_for_before_the_devices_are_looked_at() {
    let outcome = Guest::new()
        .rules("init:*")
        .append("rootdelay=2 bootmark.services=no")
        .boot()
        .unwrap();
    let events = reading::events(&outcome.trace()).unwrap();
    let delay = events
        .iter()
        .find(|event| event.name() == "init:rootdelay.end")
        .unwrap();
    assert!(delay.0["dur_ns"].as_u64().unwrap() >= 2_000_000_000);
    let probe = |event: &&reading::Event| {
        event.name().starts_with("init:") && event.name().contains("mount_root")
    };
    let mounted = events.iter().find(probe).unwrap();
    assert!(mounted.ns() >= delay.ns());
}
