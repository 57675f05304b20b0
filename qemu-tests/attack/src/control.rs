//! A process that must not notice what others do: it writes numbered events, and every one of them has
//! to be in the trace.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bootbuf::abi::RECORD_HEADER;
use markers::abi::STATE_ID_SHIFT;
use markers::marker;

use crate::last_error;

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Has SIGTERM end the process at a place of its choice; see [`stopped`].
pub(crate) fn catch_term() {
    // SAFETY: the handler only stores to an atomic.
    unsafe { libc::signal(libc::SIGTERM, stop as *const () as libc::sighandler_t) };
}

/// Whether SIGTERM has come.
pub(crate) fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// The id of this program's marker `fuzz:control`, 0 when it was never on.
pub(crate) fn event_id() -> u32 {
    markers::BOOTMARK
        .iter()
        .find(|marker| marker.name.starts_with(b"control\0"))
        .map_or(0, |marker| {
            marker.state.load(Ordering::Relaxed) >> STATE_ID_SHIFT
        })
}

/// Writes events until SIGTERM, and prints `control PID COMMITTED REFUSED`.
///
/// The marker gives descriptor and id. The events are written past its state word: others change the
/// rules meanwhile, and this is about the buffers.
pub(crate) fn run(uid: u32) -> io::Result<()> {
    catch_term();
    // Whoever is short of memory takes it elsewhere. Not there without procfs.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    if uid != 0 {
        // SAFETY: numbers; the process has one thread.
        if unsafe { libc::setresgid(uid, uid, uid) != 0 || libc::setresuid(uid, uid, uid) != 0 } {
            return Err(last_error("setresuid"));
        }
    }
    marker!("fuzz", "control", number: u64 = 0);
    let id = event_id();
    if id == 0 {
        return Err(io::Error::other("no rule turned fuzz:control on"));
    }
    println!("started");
    let (mut number, mut refused) = (0_u64, 0_u64);
    while !stopped() {
        for _ in 0..4 {
            number += 1;
            match bootbuf::claim(id, RECORD_HEADER + size_of::<u64>()) {
                Some(mut claim) => {
                    // SAFETY: the payload has eight octets, aligned, and is this thread's until the commit.
                    unsafe { claim.payload().cast::<u64>().write(number) };
                    claim.commit();
                }
                None => refused += 1,
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    println!(
        "control {} {} {refused}",
        std::process::id(),
        number - refused
    );
    Ok(())
}
