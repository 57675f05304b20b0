//! The runner itself, on real guests: every way a run can end is told apart,
//! and a guest that goes wrong is ended at once.
//!
//! The guests are shell scripts as `/init` on the kernel without Bootmark: what
//! is tried here must hold whatever the project's own PID 1 does.

use std::fs;
use std::time::{Duration, Instant};

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::qemu::{Alarm, Ending};

const OK: &str = "echo 'bootmark-outcome: ok'\npoweroff -f";

fn guest(script: &str) -> Guest {
    Guest::with_init_script(script).unwrap().kernel("off")
}

/// The error that a boot of this script gives, as a user would see it.
fn refused(script: &str) -> String {
    format!("{:#}", guest(script).boot().unwrap_err())
}

/// From the guest's last word to the end of the run must be seconds, whatever
/// the time limit.
fn ended_at_once(outcome: &Outcome) {
    assert!(outcome.took < Duration::from_secs(90), "{:?}", outcome.took);
}

#[test]
fn a_good_boot_is_good() {
    let outcome = guest(&format!("echo hello\n{OK}")).boot().unwrap();
    assert_eq!(outcome.ending, Ending::PowerOff);
    assert!(outcome.console.contains("hello\n"));
    let log = fs::read_to_string(outcome.console_log()).unwrap();
    assert_eq!(log.replace('\r', ""), outcome.console);
}

#[test]
fn a_panic_ends_the_run_at_once() {
    let limit = Duration::from_secs(600);
    let outcome = guest("exit 3").timeout(limit).run().unwrap();
    assert_eq!(outcome.ending, Ending::Alarm(Alarm::Panic));
    ended_at_once(&outcome);
    let error = format!("{:#}", outcome.check().unwrap_err());
    assert!(error.contains("Attempted to kill init"), "{error}");
    assert!(error.contains("console.log"), "{error}");
}

#[test]
fn an_oops_ends_the_run_at_once() {
    let outcome = guest("echo c > /proc/sysrq-trigger\nsleep 1000")
        .run()
        .unwrap();
    // sysrq's crash calls panic() in some kernels and faults in others.
    assert!(
        matches!(outcome.ending, Ending::Alarm(Alarm::Panic | Alarm::Oops)),
        "{:?}",
        outcome.ending
    );
    ended_at_once(&outcome);
    // The call trace comes after the alarm, and is waited for.
    assert!(
        outcome.console.contains("Call Trace"),
        "{}",
        outcome.console
    );
}

#[test]
fn a_guest_past_its_time_is_ended() {
    let limit = Duration::from_secs(6);
    let outcome = guest("sleep 1000").timeout(limit).run().unwrap();
    assert_eq!(outcome.ending, Ending::TimeLimit(limit));
    assert!(outcome.took < Duration::from_secs(20), "{:?}", outcome.took);
    let error = format!("{:#}", outcome.check().unwrap_err());
    assert!(error.contains("time limit of 6 s"), "{error}");
}

#[test]
fn a_reset_is_no_power_off() {
    let outcome = guest("echo 'bootmark-outcome: ok'\nreboot -f")
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::Reset);
    assert!(outcome.check().is_err());
}

#[test]
fn a_missing_outcome_is_refused() {
    let error = refused("poweroff -f");
    assert!(error.contains("without saying what came of it"), "{error}");
}

#[test]
fn a_doubled_outcome_is_refused() {
    let error = refused(&format!("echo 'bootmark-outcome: ok'\n{OK}"));
    assert!(error.contains("says twice"), "{error}");
}

#[test]
fn a_reported_failure_is_one() {
    let error = refused("echo 'bootmark-outcome: failed: no storage'\npoweroff -f");
    assert!(error.contains("reports a failure: no storage"), "{error}");
}

#[test]
fn a_kernel_warning_spoils_a_boot() {
    // The kernel's log takes lines from user space as they are.
    let error = refused(&format!(
        "echo 'WARNING: CPU: 0 at made/up.c:1' > /dev/kmsg\n{OK}"
    ));
    assert!(error.contains("the kernel warned"), "{error}");
}

#[test]
fn qemu_that_does_not_start_says_why() {
    let started = Instant::now();
    let outcome = guest(OK).qemu_arg("-no-such-option").run().unwrap();
    let Ending::Qemu(text) = &outcome.ending else {
        panic!("{:?}", outcome.ending);
    };
    assert!(text.contains("no-such-option"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(600));
}

#[test]
fn typing_answers_the_guest() {
    let outcome = guest(&format!(
        "echo -n 'name? '\nread name\necho \"hello $name\"\n{OK}"
    ))
    .type_after("name? ", "bootmark\n")
    .boot()
    .unwrap();
    assert!(outcome.console.contains("hello bootmark\n"));
}

#[test]
fn a_guest_that_may_reboot_comes_back_after_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    fs::write(&disk, vec![0; 1 << 20]).unwrap();
    // The disk says whether this is the first boot.
    let script = format!(
        "if grep -q again /dev/vda; then\n{OK}\nfi\n\
         echo again > /dev/vda\nsync\nexit 1"
    );
    let outcome = guest(&script)
        .disk(&disk)
        .reboots()
        .tolerate(Alarm::Panic)
        .run()
        .unwrap();
    assert_eq!(outcome.ending, Ending::PowerOff);
    assert_eq!(outcome.console.matches("Run /init as init").count(), 2);
    // Nothing can be fetched from such a disk, and that is not passed over.
    let error = format!("{:#}", outcome.check().unwrap_err());
    assert!(error.contains("no readable file system"), "{error}");
}
