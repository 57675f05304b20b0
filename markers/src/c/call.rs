//! Call-backs for C programs: see `bootmark.h`.

use core::ffi::{CStr, c_char, c_int, c_void};

use rustix::io::Errno;

use crate::handler::{Event, Function, Handle, RawEvent, register_raw, unregister_raw};

// A shared object keeps these to itself, whether or not it uses them: what it does use is hidden by the
// header already.
core::arch::global_asm!(
    ".hidden bootmark_call",
    ".hidden bootmark_uncall",
    ".hidden bootmark_event_unsigned",
    ".hidden bootmark_event_signed",
    ".hidden bootmark_event_float",
    ".hidden bootmark_event_octets",
    ".hidden bootmark_event_nsecs",
);

/// Registers a call-back: see `bootmark.h`.
///
/// # Safety
///
/// `pattern` is a terminated string; `function` may be called with `data` and any event, from any
/// thread, until it has been removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bootmark_call(
    pattern: *const c_char,
    function: Option<Function>,
    data: *mut c_void,
) -> c_int {
    let (false, Some(function)) = (pattern.is_null(), function) else {
        return -Errno::INVAL.raw_os_error();
    };
    // SAFETY: the caller's promises.
    let result = unsafe {
        let pattern = CStr::from_ptr(pattern).to_bytes();
        register_raw(pattern, function, data)
    };
    match result {
        Ok(handle) => handle.0 as c_int,
        Err(error) => -error.errno(),
    }
}

/// Removes a call-back: see `bootmark.h`.
#[unsafe(no_mangle)]
pub extern "C" fn bootmark_uncall(call: c_int) -> c_int {
    if unregister_raw(Handle(call as u32)) {
        0
    } else {
        -Errno::NOENT.raw_os_error()
    }
}

/// The value of a field: see `bootmark.h`.
///
/// # Safety
///
/// `event` is what a call-back was given, `field` a terminated string, `value` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bootmark_event_unsigned(
    event: *const RawEvent,
    field: *const c_char,
    value: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give(event, field, value, |event, field| event.unsigned(field)) }
}

/// The value of a field: see `bootmark.h`.
///
/// # Safety
///
/// As for [`bootmark_event_unsigned`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bootmark_event_signed(
    event: *const RawEvent,
    field: *const c_char,
    value: *mut i64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give(event, field, value, |event, field| event.signed(field)) }
}

/// The value of a field: see `bootmark.h`.
///
/// # Safety
///
/// As for [`bootmark_event_unsigned`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bootmark_event_float(
    event: *const RawEvent,
    field: *const c_char,
    value: *mut f64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give(event, field, value, |event, field| event.float(field)) }
}

/// The octets of a field: see `bootmark.h`.
///
/// # Safety
///
/// As for [`bootmark_event_unsigned`], with `len` in place of `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bootmark_event_octets(
    event: *const RawEvent,
    field: *const c_char,
    len: *mut usize,
) -> *const c_void {
    let mut found: &[u8] = &[];
    // SAFETY: the caller's promise; the slice lies in the event's payload.
    let status = unsafe { give(event, field, &mut found, |event, field| event.octets(field)) };
    if status != 0 {
        return core::ptr::null();
    }
    // SAFETY: the caller's promise.
    unsafe { len.write(found.len()) };
    found.as_ptr().cast()
}

/// How long a span took: see `bootmark.h`.
///
/// # Safety
///
/// `event` is what a call-back was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bootmark_event_nsecs(event: *const RawEvent) -> u64 {
    // SAFETY: the caller's promise.
    let event = unsafe { Event::new(&*event) };
    event.and_then(|event| event.duration()).map_or(0, |taken| {
        u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// # Safety
///
/// `event` is what a call-back was given and lives for `'a`, `field` is a terminated string, and
/// `value` may be written.
unsafe fn give<'a, T>(
    event: *const RawEvent,
    field: *const c_char,
    value: *mut T,
    get: impl FnOnce(&Event<'a>, &str) -> Option<T>,
) -> c_int {
    // SAFETY: the caller's promise.
    let (event, field) = unsafe { (Event::new(&*event), CStr::from_ptr(field).to_str()) };
    let found = match (event, field) {
        (Some(event), Ok(field)) => get(&event, field),
        _ => None,
    };
    match found {
        Some(found) => {
            // SAFETY: the caller's promise.
            unsafe { value.write(found) };
            0
        }
        None => -Errno::NOENT.raw_os_error(),
    }
}
