//! What all processes of a target share: a page of numbers.

use std::ffi::c_int;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::last_error;

/// The descriptor under which every process has it, across exec.
pub(crate) const FD: c_int = 100;

/// Process ids that are remembered, and groups.
const SLOTS: usize = 24;

/// What is counted.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    /// Things done.
    Steps,
    /// System calls that said yes.
    Good,
    /// System calls that said no.
    Refused,
    /// Processes made.
    Forks,
    /// Programs executed.
    Execs,
    /// Signals sent.
    Kills,
    /// Files made.
    Files,
    /// Words written into chunks.
    Words,
}

/// Their names, in order.
pub(crate) const NAMES: [&str; 8] = [
    "steps", "good", "refused", "forks", "execs", "kills", "files", "words",
];

/// The page.
#[repr(C)]
pub(crate) struct Shared {
    counts: [AtomicU64; NAMES.len()],
    groups: [AtomicI32; 16],
    pids: [AtomicI32; SLOTS],
}

impl Shared {
    /// Makes the page, under [`FD`].
    pub(crate) fn make() -> io::Result<&'static Self> {
        // SAFETY: takes a string and flags.
        let fd = unsafe { libc::memfd_create(c"fuzz".as_ptr(), 0) };
        if fd < 0 {
            return Err(last_error("memfd_create"));
        }
        // SAFETY: numbers; 100 is nobody's in a program that has just started.
        if unsafe { libc::ftruncate(fd, size_of::<Self>() as i64) } != 0
            // SAFETY: as above.
            || unsafe { libc::dup2(fd, FD) } != FD
        {
            return Err(last_error("memfd"));
        }
        Self::open()
    }

    /// Maps the page that the process was started with.
    pub(crate) fn open() -> io::Result<&'static Self> {
        // SAFETY: a new mapping of a file that is at least as long, or an error.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Self>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                FD,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(last_error("the shared page"));
        }
        // SAFETY: page-aligned, never unmapped, all atomics, for which any octets are values.
        Ok(unsafe { &*at.cast::<Self>() })
    }

    pub(crate) fn count(&self, what: Count) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How much was tried so far.
    pub(crate) fn steps(&self) -> u64 {
        self.counts[Count::Steps as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let values = self
            .counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        NAMES.into_iter().zip(values)
    }

    /// Notes the process group of a worker, which all it starts belongs to.
    pub(crate) fn set_group(&self, number: usize, group: i32) {
        self.groups[number % self.groups.len()].store(group, Ordering::Relaxed);
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = i32> {
        self.groups
            .iter()
            .map(|group| group.load(Ordering::Relaxed))
            .filter(|&group| group > 1)
    }

    /// Makes the process one that others may kill.
    pub(crate) fn enlist(&self, slot: usize) {
        self.pids[slot % SLOTS].store(std::process::id() as i32, Ordering::Relaxed);
    }

    /// A process that was enlisted; it may be gone.
    pub(crate) fn any(&self, slot: usize) -> i32 {
        self.pids[slot % SLOTS].load(Ordering::Relaxed)
    }

    /// Signals a process of the target, and never one that got the number of one that is gone.
    pub(crate) fn kill(&self, pid: i32, signal: c_int) -> bool {
        if pid <= 1 {
            return false;
        }
        // SAFETY: numbers. From here on the descriptor means one process, whatever its number.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return false;
        }
        // SAFETY: a number.
        let group = unsafe { libc::getpgid(pid) };
        let sent = self.groups().any(|ours| ours == group)
            // SAFETY: numbers, and no information, for which the kernel takes null.
            && unsafe {
                libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, ptr::null::<u8>(), 0)
            } == 0;
        // SAFETY: our own descriptor.
        unsafe { libc::close(fd as c_int) };
        if sent {
            self.count(Count::Kills);
        }
        sent
    }
}
