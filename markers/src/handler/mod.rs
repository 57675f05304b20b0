//! Call-backs: functions of this process that run at its own markers, in the thread and at the moment
//! of the event, whether or not a rule records it.
//!
//! ```
//! use markers::handler::{self, Event};
//!
//! fn on_mount(event: &Event<'_>) {
//!     if let Some(target) = event.str("target") {
//!         // Tell a front end ...
//!         # let _ = target;
//!     }
//! }
//!
//! match handler::register("init:mount", &on_mount) {
//!     // Until the guard is dropped.
//!     Ok(guard) => drop(guard),
//!     // A kernel without Bootmark says ENOSYS.
//!     Err(error) => eprintln!("{error}"),
//! }
//! ```
//!
//! A call-back
//!
//! - runs wherever the marker stands: in signal handlers, with locks held, on 4 KiB of stack more than
//!   a record takes. It must do only what may be done there, and it must return: no unwinding (a panic
//!   ends the program), no `longjmp`, no end of the thread;
//! - sees events of all copies of the library in the process: the program's and those of its shared
//!   objects;
//! - is not called for events of its own thread that happen while it, or another call-back, runs: these
//!   are recorded only. The same holds when 255 threads are in call-backs at once.
//!
//! fork hands call-backs on to the child, exec ends them. Where a process has none, markers cost what
//! they cost without: the kernel sets a bit in the state words of those that are called.

mod event;
mod pattern;
mod table;
#[cfg(test)]
mod tests;

use core::ffi::c_void;
use core::marker::PhantomData;

use bootbuf::abi::{MAX_RECORD, RECORD_HEADER};
use rustix::io::Errno;

use crate::abi::Descriptor;
use crate::value::{AnyPayload, Payload};

pub use event::Event;
pub(crate) use event::RawEvent;
pub(crate) use table::{Handle, register_raw, unregister_raw};

/// Longest payload.
const MAX_PAYLOAD: usize = MAX_RECORD - RECORD_HEADER;
/// Payloads up to this length take little of the stack, which may be a signal handler's.
const SHORT_PAYLOAD: usize = 256;

/// An event whose marker is called. `timestamp` is that of its record, 0 when it has none; returns
/// that of the event.
pub(crate) fn event(marker: &Descriptor, payload: &AnyPayload<'_>, timestamp: u64) -> u64 {
    if payload.size() <= SHORT_PAYLOAD {
        encoded::<SHORT_PAYLOAD>(marker, payload, timestamp)
    } else {
        // No payload is longer.
        encoded::<MAX_PAYLOAD>(marker, payload, timestamp)
    }
}

/// Encodes the payload as a record has it, and calls.
#[inline(never)]
fn encoded<const ROOM: usize>(
    marker: &Descriptor,
    payload: &AnyPayload<'_>,
    timestamp: u64,
) -> u64 {
    let mut room = [0; ROOM];
    let Some(octets) = room.get_mut(..payload.size()) else {
        return timestamp;
    };
    // SAFETY: the slice has size() octets.
    unsafe { payload.put(octets.as_mut_ptr()) };
    table::call(marker, octets, timestamp)
}

/// Has `function` called at the markers that `pattern` (`provider:name`, globs as in a rule) matches,
/// until the guard is dropped. Libraries that are mapped later are included.
///
/// A function item or a closure that captures nothing can be given as `&function`.
///
/// # Errors
///
/// See [`RegisterError`].
pub fn register<F>(pattern: &str, function: &'static F) -> Result<Handler, RegisterError>
where
    F: Fn(&Event<'_>) + Sync,
{
    let data = core::ptr::from_ref(function).cast_mut().cast();
    // SAFETY: `trampoline` makes of `data` the reference that it was made from, which lives for ever.
    let handle = unsafe { register_raw(pattern.as_bytes(), trampoline::<F>, data)? };
    Ok(Handler {
        handle,
        not_send: PhantomData,
    })
}

/// # Safety
///
/// `event` is one that [`table::call`] hands over, `data` a `&'static F`.
unsafe extern "C" fn trampoline<F>(event: *const RawEvent, data: *mut c_void)
where
    F: Fn(&Event<'_>) + Sync,
{
    // SAFETY: the caller's promise.
    let (event, function) = unsafe { (Event::new(&*event), &*data.cast::<F>()) };
    if let Some(event) = event {
        function(&event);
    }
}

/// What a call-back is to C, and to other copies of the library.
pub(crate) type Function = unsafe extern "C" fn(event: *const RawEvent, data: *mut c_void);

/// A registered call-back. Dropping it ends it: when the drop returns, no other thread is inside any
/// more. Inside a call-back it returns at once, and threads that are inside finish.
///
/// `core::mem::forget` leaves the call-back in place for ever.
#[must_use = "the call-back ends when this is dropped: bind it to a name, not to `_`"]
#[derive(Debug)]
pub struct Handler {
    handle: Handle,
    /// Whether a drop waits depends on the thread.
    not_send: PhantomData<*mut ()>,
}

impl Drop for Handler {
    fn drop(&mut self) {
        unregister_raw(self.handle);
    }
}

/// Why a call-back could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The kernel has no Bootmark.
    #[error("this kernel has no Bootmark, so no marker ever fires")]
    Unsupported,
    /// The process has as many as there may be.
    #[error("the process has {max} call-backs already", max = crate::abi::MAX_CALLS)]
    TooMany,
    /// The pattern is malformed.
    #[error("the pattern is wrong at octet {position}: {what}")]
    Pattern {
        /// Offset in octets.
        position: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The calling thread was interrupted, by the signal handler that calls, in the middle of
    /// registering or removing.
    #[error("the interrupted thread is registering or removing a call-back")]
    Interrupted,
    /// Another copy of the library in this process was first, and is of another major version.
    #[error(
        "the call-backs of this process belong to a version of the library that is not this one's"
    )]
    OtherVersion,
    /// The kernel refused.
    #[error("the kernel refuses: {0}")]
    Kernel(Errno),
}

impl RegisterError {
    /// The errno that says it in C, positive.
    #[cfg(feature = "c")]
    pub(crate) fn errno(self) -> i32 {
        match self {
            Self::Unsupported => Errno::NOSYS,
            Self::TooMany => Errno::NOSPC,
            Self::Pattern { .. } => Errno::INVAL,
            Self::Interrupted => Errno::DEADLK,
            Self::OtherVersion => Errno::PROTO,
            Self::Kernel(errno) => errno,
        }
        .raw_os_error()
    }
}
