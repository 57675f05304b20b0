//! What the macros of `bootmark.h` call when a marker is on.
//!
//! C programs get it from `libbootmark.a` (`bootbuf/capi`); Rust programs with parts in C, from this
//! crate's feature `c`. It runs in signal handlers too: it allocates nothing, does not panic and leaves
//! `errno` alone.

use core::ffi::{c_char, c_void};
use core::sync::atomic::Ordering;

use crate::abi::{self, Descriptor};
use crate::value::{self, Octets, Value};

/// `struct bootmark_arg`: the value of one field.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Arg {
    value: ArgValue,
    /// Octets at `ptr`, or `usize::MAX` for a terminated string.
    len: usize,
}

/// `u`, `i`, `f` and `d` of `struct bootmark_arg` are read by their low octets.
#[derive(Clone, Copy)]
#[repr(C)]
union ArgValue {
    octets: [u8; 8],
    ptr: *const c_void,
}

/// Writes a record: see `bootmark.h`.
///
/// # Safety
///
/// `desc` is a marker made by `bootmark.h`, and `args` points at one value for each of its fields;
/// where these have pointers, their octets can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bootmark_write(desc: *const Descriptor, args: *const Arg) -> u64 {
    // SAFETY: the caller gives a descriptor, which lives as long as the program. Only the kernel
    // changes it, and only the state word, which is an atomic.
    let desc: &'static Descriptor = unsafe { &*desc };
    let state = desc.state.load(Ordering::Relaxed);
    if state & abi::STATE_ENABLED == 0 {
        return 0;
    }
    let nfields = usize::from(desc.nfields).min(abi::MAX_FIELDS);
    // SAFETY: the caller gives as many values as the marker has fields.
    let args = unsafe { core::slice::from_raw_parts(args, nfields) };

    let mut values = [FieldValue::Number {
        octets: [0; 8],
        size: 0,
    }; abi::MAX_FIELDS];
    let mut len = bootbuf::abi::RECORD_HEADER;
    for ((value, arg), field) in values.iter_mut().zip(args).zip(&desc.fields) {
        // SAFETY: the macros of the header give each type its kind of value.
        *value = unsafe { FieldValue::new(field.ty, arg) };
        len += value.size();
    }
    let Some(mut claim) = bootbuf::claim(state >> abi::STATE_ID_SHIFT, len) else {
        return 0;
    };
    let mut to = claim.payload();
    for value in values.iter().take(nfields) {
        // SAFETY: the claim has room for the sum of the sizes.
        to = unsafe { value.put(to) };
    }
    let timestamp = claim.timestamp();
    claim.commit();
    timestamp
}

#[derive(Clone, Copy)]
enum FieldValue<'a> {
    Number { octets: [u8; 8], size: usize },
    Octets(Octets<'a>),
}

impl FieldValue<'_> {
    /// # Safety
    ///
    /// `arg` holds a pointer to readable octets if `ty` is one of strings or bytes.
    #[inline(always)]
    unsafe fn new(ty: u8, arg: &Arg) -> Self {
        let size = match ty {
            abi::TYPE_U8 | abi::TYPE_I8 | abi::TYPE_BOOL => 1,
            abi::TYPE_U16 | abi::TYPE_I16 => 2,
            abi::TYPE_U32 | abi::TYPE_I32 | abi::TYPE_F32 => 4,
            abi::TYPE_STR | abi::TYPE_BYTES => {
                // SAFETY: the caller's promise.
                let octets = unsafe { octets_of(arg) };
                return Self::Octets(if ty == abi::TYPE_STR {
                    value::text(octets)
                } else {
                    value::bytes(octets)
                });
            }
            _ => 8,
        };
        // SAFETY: every bit pattern is a valid array of octets; the header initialises all of them, or
        // the low ones for a float, which are those that are read.
        let octets = unsafe { arg.value.octets };
        Self::Number { octets, size }
    }

    #[inline(always)]
    fn size(&self) -> usize {
        match self {
            Self::Number { size, .. } => *size,
            Self::Octets(octets) => octets.size(),
        }
    }

    /// # Safety
    ///
    /// `to` points at `self.size()` octets that may be written.
    #[inline(always)]
    unsafe fn put(&self, to: *mut u8) -> *mut u8 {
        match self {
            // SAFETY: `size` is at most 8, and the caller gives that many octets.
            Self::Number { octets, size } => unsafe {
                to.copy_from_nonoverlapping(octets.as_ptr(), *size);
                to.add(*size)
            },
            // SAFETY: the caller's promise.
            Self::Octets(octets) => unsafe { octets.put(to) },
        }
    }
}

/// # Safety
///
/// `arg` holds a pointer to as many octets as it says, to a terminated string, or NULL.
unsafe fn octets_of<'a>(arg: &Arg) -> &'a [u8] {
    // SAFETY: the caller says that the pointer is the one in use.
    let ptr = unsafe { arg.value.ptr };
    if ptr.is_null() {
        return b"(null)";
    }
    let len = if arg.len == usize::MAX {
        // One more than a record carries, so that what is cut is known to be.
        // SAFETY: the string is terminated, so it can be read up to there.
        unsafe { terminated_len(ptr.cast(), abi::MAX_BYTES + 1) }
    } else {
        arg.len.min(abi::MAX_BYTES + 1)
    };
    // SAFETY: `len` is at most what the caller says there is.
    unsafe { core::slice::from_raw_parts(ptr.cast(), len) }
}

/// strnlen(3), which need not be bound yet when a program starts.
///
/// # Safety
///
/// `text` can be read up to its terminator or `max` octets, whichever comes first.
unsafe fn terminated_len(text: *const c_char, max: usize) -> usize {
    let mut len = 0;
    // SAFETY: only octets in front of the terminator and `max` have been passed.
    while len < max && unsafe { *text.add(len) } != 0 {
        len += 1;
    }
    len
}
