//! The signals that PID 1 waits for, taken one at a time in its main loop rather than in handlers.

use crate::power::Stop;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A child ended (one signal may stand for several).
    Child,
    /// Somebody asks for the machine to stop.
    Stop(Stop),
    /// The time is over.
    Timeout,
}

/// The blocked signals.
#[derive(Debug)]
pub struct Signals(libc::sigset_t);

/// As busybox's init: what its `poweroff`, `reboot` and `halt` send. Ctrl-Alt-Del gives SIGINT.
const STOPS: [(i32, Stop); 4] = [
    (libc::SIGUSR2, Stop::PowerOff),
    (libc::SIGTERM, Stop::Reboot),
    (libc::SIGINT, Stop::Reboot),
    (libc::SIGUSR1, Stop::Halt),
];

/// Unblocks everything, as programs expect to find it: the mask survives an exec. For the child's side of a
/// fork; makes one system call.
pub fn unblock_all() {
    let mut none = MaybeUninit::uninit();
    // SAFETY: sigemptyset() makes the set whole before sigprocmask() reads it.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

impl Signals {
    /// Blocks them from here on; children have to unblock them before they execute anything.
    pub fn block() -> Signals {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset() makes the set whole before anything reads it; the others take it by
        // pointer for the time of the call.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            let mut set = set.assume_init();
            libc::sigaddset(&mut set, libc::SIGCHLD);
            for (signal, _) in STOPS {
                libc::sigaddset(&mut set, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            Signals(set)
        }
    }

    /// Waits for the next one, or until the time is over; `None` waits for ever.
    pub fn wait(&self, timeout: Option<Duration>) -> Event {
        let timeout = timeout.map(|t| libc::timespec {
            tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the set and the time live until the call returns; a null siginfo is allowed.
        let signal = unsafe { libc::sigtimedwait(&self.0, ptr::null_mut(), timeout) };
        STOPS
            .iter()
            .find(|(number, _)| *number == signal)
            .map(|(_, stop)| Event::Stop(*stop))
            .unwrap_or(if signal == libc::SIGCHLD {
                Event::Child
            } else {
                // The time is over, or a signal that nobody waits for came between.
                Event::Timeout
            })
    }
}
