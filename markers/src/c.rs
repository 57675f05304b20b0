//! What the macros of `bootmark.h` call when a marker is on.
//!
//! C programs get it from `libbootmark.a` (`bootbuf/capi`); Rust programs with parts in C, from this
//! crate's feature `c`. It runs in signal handlers too: it allocates nothing, does not panic and leaves
//! `errno` alone.

use core::ffi::{c_char, c_void};

mod call;

pub use call::{
    bootmark_call, bootmark_event_float, bootmark_event_nsecs, bootmark_event_octets,
    bootmark_event_signed, bootmark_event_unsigned, bootmark_uncall,
};

use crate::abi::{self, Descriptor};
use crate::emit::{record, record_end};
use crate::value::{self, Octets, Payload, Value};

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
    let nfields = usize::from(desc.nfields).min(abi::MAX_FIELDS);
    // SAFETY: the caller gives as many values as the marker has fields.
    let args = unsafe { core::slice::from_raw_parts(args, nfields) };

    let mut values = heapless::Vec::<FieldValue<'_>, { abi::MAX_FIELDS }>::new();
    for (arg, field) in args.iter().zip(&desc.fields) {
        // SAFETY: the macros of the header give each type its kind of value.
        let value = unsafe { FieldValue::new(field.ty, arg) };
        // Never full: there are as many turns as fields at most.
        if values.push(value).is_err() {
            return 0;
        }
    }
    if let (abi::KIND_SPAN_END, [begin, ret]) = (desc.kind, args) {
        // SAFETY: the header initialises all octets of these two.
        let (begin, ret) = unsafe { (begin.value.octets, ret.value.octets) };
        let [a, b, c, d, ..] = ret;
        record_end(
            desc,
            u64::from_le_bytes(begin),
            i32::from_le_bytes([a, b, c, d]),
        );
        return 0;
    }
    record(desc, FieldValues(&values))
}

/// The values of all fields.
#[derive(Clone, Copy)]
struct FieldValues<'a>(&'a [FieldValue<'a>]);

// SAFETY: each value writes its own size, one behind the other; size() is their sum.
unsafe impl Payload for FieldValues<'_> {
    #[inline(always)]
    fn size(self) -> usize {
        self.0.iter().map(FieldValue::size).sum()
    }

    #[inline(always)]
    unsafe fn put(self, mut to: *mut u8) {
        for value in self.0 {
            // SAFETY: the caller gives the sum of the sizes.
            to = unsafe { value.put(to) };
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn written(ty: u8, arg: &Arg) -> std::vec::Vec<u8> {
        // SAFETY: the tests give pointers to what they say.
        let value = unsafe { FieldValue::new(ty, arg) };
        let mut room = std::vec![0xee; value.size() + 8];
        // SAFETY: the room is larger than the value.
        let end = unsafe { value.put(room.as_mut_ptr()) };
        assert_eq!(end as usize - room.as_ptr() as usize, value.size());
        assert!(room[value.size()..].iter().all(|&octet| octet == 0xee));
        room.truncate(value.size());
        room
    }

    fn number(octets: [u8; 8]) -> Arg {
        Arg {
            value: ArgValue { octets },
            len: 0,
        }
    }

    fn string(octets: &[u8], len: usize) -> Arg {
        Arg {
            value: ArgValue {
                ptr: octets.as_ptr().cast(),
            },
            len,
        }
    }

    #[test]
    fn numbers_are_written_by_their_size() {
        let arg = number([1, 2, 3, 4, 5, 6, 7, 8]);
        for (ty, size) in [
            (abi::TYPE_U8, 1),
            (abi::TYPE_I8, 1),
            (abi::TYPE_BOOL, 1),
            (abi::TYPE_U16, 2),
            (abi::TYPE_I16, 2),
            (abi::TYPE_U32, 4),
            (abi::TYPE_I32, 4),
            (abi::TYPE_F32, 4),
            (abi::TYPE_U64, 8),
            (abi::TYPE_I64, 8),
            (abi::TYPE_F64, 8),
            (abi::TYPE_CLOCK, 8),
        ] {
            assert_eq!(
                written(ty, &arg),
                [1, 2, 3, 4, 5, 6, 7, 8][..size],
                "type {ty}"
            );
        }
    }

    #[test]
    fn strings_end_where_they_say_or_at_their_nul() {
        let text = b"text\0behind";
        assert_eq!(
            written(abi::TYPE_STR, &string(text, usize::MAX)),
            b"\x04\0text"
        );
        assert_eq!(written(abi::TYPE_STR, &string(text, 2)), b"\x02\0te");
        assert_eq!(written(abi::TYPE_BYTES, &string(text, 6)), b"\x06\0text\0b");
        let null = Arg {
            value: ArgValue {
                ptr: core::ptr::null(),
            },
            len: usize::MAX,
        };
        assert_eq!(written(abi::TYPE_STR, &null), b"\x06\0(null)");
    }

    #[test]
    fn long_strings_are_cut_between_characters() {
        let mut long = std::vec![b'x'; abi::MAX_BYTES - 1];
        long.extend("\u{20ac} and more".as_bytes());
        for len in [usize::MAX, long.len()] {
            let mut terminated = long.clone();
            terminated.push(0);
            assert_eq!(
                written(abi::TYPE_STR, &string(&terminated, len)).len(),
                2 + abi::MAX_BYTES - 1
            );
        }
        assert_eq!(
            written(abi::TYPE_BYTES, &string(&long, long.len())).len(),
            2 + abi::MAX_BYTES
        );
    }
}
