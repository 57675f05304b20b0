//! What the kernel says on the console when things go wrong.

use std::fmt;

/// A reason to end a run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarm {
    /// The kernel panicked.
    Panic,
    /// An oops or a `BUG`.
    Oops,
    /// A CPU does not leave the kernel.
    SoftLockup,
    /// A CPU holds up RCU.
    RcuStall,
    /// A process waits uninterruptibly for too long.
    HungTask,
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panic => "the kernel panicked",
            Self::Oops => "the kernel hit a BUG or oops",
            Self::SoftLockup => "the kernel reports a soft lockup",
            Self::RcuStall => "the kernel reports an RCU stall",
            Self::HungTask => "the kernel reports a hung task",
        })
    }
}

/// The alarm that a console line is, if any. Only the kernel's log counts (it has time-stamps): a
/// program may print what it likes. Its message may begin anywhere in the line, as the kernel breaks
/// into what a program prints.
pub fn classify(line: &str) -> Option<Alarm> {
    kernel_messages(line).find_map(alarm)
}

fn alarm(text: &str) -> Option<Alarm> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| text.starts_with(prefix));
    if starts(&["Kernel panic - not syncing"]) {
        Some(Alarm::Panic)
    } else if starts(&["watchdog: BUG: soft lockup", "BUG: soft lockup"]) {
        Some(Alarm::SoftLockup)
    } else if starts(&["rcu: INFO: rcu_", "rcu: INFO: Tasks"]) {
        Some(Alarm::RcuStall)
    } else if starts(&["INFO: task "]) && text.contains("blocked for more than") {
        Some(Alarm::HungTask)
    } else if starts(&[
        "BUG: ",
        "kernel BUG at",
        "Oops: ",
        "general protection fault",
        "BUG ",
    ]) {
        Some(Alarm::Oops)
    } else {
        None
    }
}

/// How reports of the kernel's checks begin, beside those that are alarms (KASAN's, SLUB's, and of
/// sleeping in the wrong place). A check that turned itself off is one too.
const REPORTS: &[&str] = &[
    "WARNING: ",
    "UBSAN: ",
    "ODEBUG: ",
    "refcount_t: ",
    "list_add corruption",
    "list_del corruption",
    "pagealloc: memory corruption",
    "pagealloc: single bit error",
    "INFO: trying to register non-static key",
    "INFO: lockdep is turned off",
    "turning off the locking correctness validator",
    "kmemleak: Kernel memory leak detector disabled",
    "kmemleak: Memory pool empty",
];

/// Whether a console line starts a kernel warning: the run goes on, but it was
/// not a good one.
pub fn is_warning(line: &str) -> bool {
    kernel_messages(line).any(|text| {
        REPORTS.iter().any(|start| text.starts_with(start))
            || text.contains("new suspected memory leaks")
    })
}

/// What may be the texts of kernel log lines in a console line.
fn kernel_messages(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('[')
        .filter_map(|(at, _)| kernel_message(&line[at..]))
}

/// The text of a kernel log line, without time-stamp and caller.
fn kernel_message(line: &str) -> Option<&str> {
    let (stamp, mut text) = line.strip_prefix('[')?.split_once(']')?;
    // Both parts: `name[90]` is how the kernel names a process.
    let (seconds, fraction) = stamp.trim_start().split_once('.')?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) {
        return None;
    }
    // CONFIG_PRINTK_CALLER adds `[  T123]` or `[  C0]`.
    if let Some((_, rest)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        text = rest;
    }
    Some(text.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_told_apart() {
        let cases = [
            (
                "[    1.284210] Kernel panic - not syncing: VFS: Unable to mount root fs",
                Some(Alarm::Panic),
            ),
            (
                "[   26.1] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [sh:1]",
                Some(Alarm::SoftLockup),
            ),
            (
                "[   21.0][    C0] rcu: INFO: rcu_preempt self-detected stall on CPU",
                Some(Alarm::RcuStall),
            ),
            (
                "[  123.4] INFO: task sh:55 blocked for more than 120 seconds.",
                Some(Alarm::HungTask),
            ),
            (
                "[    2.0] BUG: kernel NULL pointer dereference, address: 0000000000000000",
                Some(Alarm::Oops),
            ),
            (
                "[    2.0] kernel BUG at kernel/bootmark/pool.c:10!",
                Some(Alarm::Oops),
            ),
            (
                "[    2.0] Oops: Oops: 0002 [#1] PREEMPT SMP",
                Some(Alarm::Oops),
            ),
            (
                "bootmark-init: f[    5.215357] Kernel panic - not syncing: Attempted to kill init!",
                Some(Alarm::Panic),
            ),
            (
                "[    3.225388] traps: sh[90] general protection fault ip:7f76 sp:7ffe error:0",
                None,
            ),
            ("BUG: printed by a program", None),
            ("[note] BUG: printed by a program", None),
            ("[    0.0] rcu: Hierarchical SRCU implementation.", None),
            ("[    0.5] Run /init as init process", None),
        ];
        for (line, alarm) in cases {
            assert_eq!(classify(line), alarm, "{line}");
        }
    }

    #[test]
    fn warnings_are_seen() {
        assert!(is_warning("[ 1.0] WARNING: CPU: 0 PID: 1 at mm/mmap.c:1"));
        assert!(is_warning(
            "[ 1.0] WARNING: possible circular locking dependency detected"
        ));
        assert!(is_warning(
            "[ 9.0] turning off the locking correctness validator."
        ));
        assert!(is_warning(
            "[ 9.0] kmemleak: 1 new suspected memory leaks (see /sys/kernel/debug/kmemleak)"
        ));
        assert!(!is_warning("WARNING: from a program"));
        assert!(!is_warning(
            "[ 0.0] kmemleak: Kernel memory leak detector initialized"
        ));
    }
}
