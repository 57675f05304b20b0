//! Values of fields: how long they are in a record and how they get there.

use core::marker::PhantomData;

use crate::abi::MAX_BYTES;

/// One value, ready to be written.
///
/// # Safety
///
/// [`put`](Self::put) writes exactly [`size`](Self::size) octets, at the given address and nowhere else.
pub unsafe trait Value: Copy {
    /// Octets in the payload.
    fn size(self) -> usize;

    /// Writes the value and returns the address behind it.
    ///
    /// # Safety
    ///
    /// `to` points at `self.size()` octets that may be written.
    unsafe fn put(self, to: *mut u8) -> *mut u8;
}

/// The values of all fields of a record.
///
/// # Safety
///
/// As [`Value`]: [`put`](Self::put) writes exactly [`size`](Self::size) octets.
#[diagnostic::on_unimplemented(message = "a marker has at most 8 fields (MAX_FIELDS)")]
pub unsafe trait Payload: Copy {
    /// Octets in the payload.
    fn size(self) -> usize;

    /// Writes all values, one behind the other.
    ///
    /// # Safety
    ///
    /// `to` points at `self.size()` octets that may be written.
    unsafe fn put(self, to: *mut u8);
}

macro_rules! numbers {
    ($($ty:ident)*) => { $(
        // SAFETY: the one store writes as many octets as the type has, which is what size() says.
        unsafe impl Value for $ty {
            #[inline(always)]
            fn size(self) -> usize {
                size_of::<$ty>()
            }

            #[inline(always)]
            unsafe fn put(self, to: *mut u8) -> *mut u8 {
                // SAFETY: the caller gives size() octets; payloads are packed, hence unaligned.
                unsafe {
                    to.cast::<$ty>().write_unaligned(self);
                    to.add(size_of::<$ty>())
                }
            }
        }

        #[doc = concat!("A field of type `", stringify!($ty), "`.")]
        #[inline(always)]
        pub fn $ty(value: $ty) -> $ty {
            value
        }
    )* };
}

numbers!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

/// A field of type `bool`: one octet, 0 or 1.
#[inline(always)]
pub fn bool(value: bool) -> u8 {
    u8::from(value)
}

/// A field of type `clock`: a raw reading of the trace clock.
#[inline(always)]
pub fn clock(value: u64) -> u64 {
    value
}

/// At most [`MAX_BYTES`] octets behind their length.
#[derive(Clone, Copy)]
pub struct Octets<'a>(&'a [u8]);

impl Octets<'_> {
    #[inline(always)]
    fn len(self) -> usize {
        // SAFETY: text() and bytes(), which alone make these, cut what is longer. Knowing it, the compiler
        // sees that the record fits.
        unsafe { core::hint::assert_unchecked(self.0.len() <= MAX_BYTES) };
        self.0.len()
    }
}

/// A field of type `str`; a longer one is cut in front of the character that no longer fits.
#[inline(always)]
pub fn str(value: &str) -> Octets<'_> {
    text(value.as_bytes())
}

/// The same of text that is meant to be UTF-8.
#[inline(always)]
pub fn text(value: &[u8]) -> Octets<'_> {
    Octets(if value.len() > MAX_BYTES {
        cut(value)
    } else {
        value
    })
}

/// A field of type `bytes`; what is longer is cut.
#[inline(always)]
pub fn bytes(value: &[u8]) -> Octets<'_> {
    Octets(value.get(..MAX_BYTES).unwrap_or(value))
}

#[cold]
#[inline(never)]
fn cut(octets: &[u8]) -> &[u8] {
    let mut end = MAX_BYTES;
    // A character has four octets at most, and all but its first are 0b10xxxxxx.
    while end > MAX_BYTES - 4 && octets.get(end).is_some_and(|octet| octet & 0xc0 == 0x80) {
        end -= 1;
    }
    octets.get(..end).unwrap_or_default()
}

// SAFETY: put() writes two octets of length and then copies as many as the slice has.
unsafe impl Value for Octets<'_> {
    #[inline(always)]
    fn size(self) -> usize {
        size_of::<u16>() + self.len()
    }

    #[inline(always)]
    unsafe fn put(self, to: *mut u8) -> *mut u8 {
        let len = self.len();
        // SAFETY: the caller gives size() octets. The source is a live slice of `len` octets, and
        // nobody else has a reference to the room of a claimed record, so they do not overlap.
        unsafe {
            let to = (len as u16).put(to);
            copy(self.0.as_ptr(), to, len);
            to.add(len)
        }
    }
}

/// Copies octets with a few wide moves that may overlap each other. Most strings of markers are
/// short; calling memcpy for them costs more than the copy, and may not even be bound yet when PID 1
/// starts.
///
/// # Safety
///
/// `len` octets at `from` can be read and at `to` be written; the two do not overlap.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: each arm moves octets 0..N and len-N..len only, with N at most `len`.
    unsafe {
        // The likely lengths first, 8 to 16.
        if len.wrapping_sub(8) <= 8 {
            ends::<u64>(from, to, len);
        } else if len > 32 {
            copy_long(from, to, len);
        } else if len > 16 {
            ends::<u128>(from, to, len);
        } else if len >= 4 {
            ends::<u32>(from, to, len);
        } else if len != 0 {
            // Octets 0, len/2 and len-1 are all there are.
            let (a, b, c) = (*from, *from.add(len / 2), *from.add(len - 1));
            *to = a;
            *to.add(len / 2) = b;
            *to.add(len - 1) = c;
        }
    }
}

/// [`copy`] of more than 32 octets, in steps of 16.
///
/// # Safety
///
/// As [`copy`].
#[inline(never)]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    let mut at = 0;
    // SAFETY: each step starts before len-16, and the last one at len-16.
    unsafe {
        while at < len - 16 {
            to.add(at)
                .cast::<u128>()
                .write_unaligned(from.add(at).cast::<u128>().read_unaligned());
            at += 16;
        }
        ends::<u128>(from.add(len - 16), to.add(len - 16), 16);
    }
}

/// Moves the first and the last `size_of::<T>()` of `len` octets.
///
/// # Safety
///
/// As [`copy`], and `len` is at least the size of `T`.
#[inline(always)]
unsafe fn ends<T: Copy>(from: *const u8, to: *mut u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: both moves lie within `len` octets, see above.
    unsafe {
        let (head, tail) = (
            from.cast::<T>().read_unaligned(),
            from.add(last).cast::<T>().read_unaligned(),
        );
        to.cast::<T>().write_unaligned(head);
        to.add(last).cast::<T>().write_unaligned(tail);
    }
}

/// The values of a record of whatever types, for code that exists once.
#[derive(Clone, Copy)]
pub struct AnyPayload<'a> {
    size: usize,
    values: *const (),
    put: unsafe fn(*const (), *mut u8),
    lifetime: PhantomData<&'a ()>,
}

impl<'a> AnyPayload<'a> {
    /// Forgets the types.
    pub fn new<P: Payload>(values: &'a P) -> Self {
        /// # Safety
        ///
        /// `values` is a `P`, and `to` points at its size in octets that may be written.
        unsafe fn put<P: Payload>(values: *const (), to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { (*values.cast::<P>()).put(to) }
        }
        Self {
            size: values.size(),
            values: (&raw const *values).cast(),
            put: put::<P>,
            lifetime: PhantomData,
        }
    }
}

// SAFETY: both are those of the payload that it was made from.
unsafe impl Payload for AnyPayload<'_> {
    #[inline(always)]
    fn size(self) -> usize {
        self.size
    }

    #[inline(always)]
    unsafe fn put(self, to: *mut u8) {
        // SAFETY: `values` is what `put` was made for, and lives; the caller gives the octets.
        unsafe { (self.put)(self.values, to) }
    }
}

/// Octets that are encoded already.
#[derive(Clone, Copy)]
pub struct Encoded<'a>(pub &'a [u8]);

// SAFETY: copies as many octets as there are.
unsafe impl Payload for Encoded<'_> {
    #[inline(always)]
    fn size(self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    unsafe fn put(self, to: *mut u8) {
        // SAFETY: the caller gives as many octets, in memory of its own.
        unsafe { to.copy_from_nonoverlapping(self.0.as_ptr(), self.0.len()) }
    }
}

macro_rules! payloads {
    ($($($name:ident)*;)*) => { $(
        // SAFETY: each value writes its own size, one behind the other; size() is their sum.
        unsafe impl<$($name: Value),*> Payload for ($($name,)*) {
            #[inline(always)]
            fn size(self) -> usize {
                #[allow(non_snake_case)]
                let ($($name,)*) = self;
                0 $(+ $name.size())*
            }

            #[inline(always)]
            unsafe fn put(self, to: *mut u8) {
                #[allow(non_snake_case)]
                let ($($name,)*) = self;
                // SAFETY: the caller gives the sum of the sizes.
                $(let to = unsafe { $name.put(to) };)*
                let _ = to;
            }
        }
    )* };
}

payloads! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written<P: Payload>(payload: P) -> Vec<u8> {
        let mut room = vec![0xee; payload.size() + 8];
        // SAFETY: the vector has more than size() octets.
        unsafe { payload.put(room.as_mut_ptr()) };
        assert!(
            room[payload.size()..].iter().all(|&octet| octet == 0xee),
            "wrote behind its end"
        );
        room.truncate(payload.size());
        room
    }

    #[test]
    fn numbers_are_packed_little_endian() {
        assert_eq!(
            written((u8(1), u32(0x0203_0405), i16(-2), bool(true))),
            [1, 5, 4, 3, 2, 0xfe, 0xff, 1]
        );
    }

    #[test]
    fn strings_of_every_length_arrive_whole() {
        let text: String = ('a'..='z').cycle().take(MAX_BYTES + 1).collect();
        for len in 0..=MAX_BYTES {
            let record = written((str(&text[..len]), u8(7)));
            assert_eq!(record[..2], (len as u16).to_le_bytes());
            assert_eq!(record[2..2 + len], text.as_bytes()[..len]);
            assert_eq!(record[2 + len..], [7]);
        }
    }

    #[test]
    fn long_strings_are_cut_between_characters() {
        let long = "x".repeat(MAX_BYTES - 1) + "\u{20ac}uro";
        assert_eq!(str(&long).0.len(), MAX_BYTES - 1);
        let crab = "x".repeat(MAX_BYTES - 3) + "\u{1f980}";
        assert_eq!(str(&crab).0.len(), MAX_BYTES - 3);
        let fits = "x".repeat(MAX_BYTES - 4) + "\u{1f980}!";
        assert_eq!(str(&fits).0.len(), MAX_BYTES);
        assert_eq!(bytes(&[1; 1000]).0.len(), MAX_BYTES);
    }
}
