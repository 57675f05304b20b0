//! Memory for arguments, with nothing behind it.

use std::io;
use std::ptr;

use fastrand::Rng;

use crate::last_error;

const PAGE: usize = 4096;
/// Octets that can be used; as many behind them cannot.
const LEN: usize = 256 << 10;

/// Addresses that are nobody's: null and near it, the end of user space, what is no address at all, and
/// the kernel's.
const NOWHERE: [usize; 8] = [
    0,
    8,
    PAGE - 8,
    0x7fff_ffff_f000 - 8,
    0x8000_0000_0000,
    0xffff_8880_0000_0000,
    0xffff_ffff_8100_0000,
    usize::MAX - 7,
];

/// Memory of one thread for what it passes to the kernel.
pub(crate) struct Arena {
    base: usize,
}

impl Arena {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: a new mapping, which overlaps nothing.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                LEN * 2,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(last_error("mmap"));
        }
        // SAFETY: the second half of the mapping made just now, which nothing points into.
        if unsafe { libc::mprotect(base.cast::<u8>().add(LEN).cast(), LEN, libc::PROT_NONE) } != 0 {
            return Err(last_error("mprotect"));
        }
        Ok(Self {
            base: base.expose_provenance(),
        })
    }

    /// An address for so many octets: in most cases where they fit, else partly or wholly where there
    /// is nothing.
    pub(crate) fn address(&self, rng: &mut Rng, len: usize) -> usize {
        let end = self.base + LEN;
        let len = len.min(LEN);
        match rng.u8(0..16) {
            0 => *rng.choice(&NOWHERE).unwrap_or(&0),
            // Into the hole.
            1 => end - rng.usize(0..=len),
            // Just in front of it.
            2..6 => end - len,
            6 => self.base + rng.usize(0..PAGE),
            _ => {
                let len = len.div_ceil(8) * 8;
                end - len - rng.usize(0..=(LEN - len) / 8) * 8
            }
        }
    }

    /// Puts octets somewhere; the address may be one where they are not, or not all of them.
    pub(crate) fn put(&mut self, rng: &mut Rng, octets: &[u8]) -> usize {
        let at = self.address(rng, octets.len());
        let start = self.base;
        if (start..start + LEN).contains(&at) {
            let len = octets.len().min(start + LEN - at);
            // SAFETY: `at` and `len` octets behind it lie in the usable half, which only this thread
            // has, and which no reference points into.
            unsafe {
                ptr::copy_nonoverlapping(octets.as_ptr(), ptr::with_exposed_provenance_mut(at), len)
            };
        }
        at
    }

    /// What is at an address now, as far as that is in here.
    pub(crate) fn get(&self, at: usize, len: usize) -> Vec<u8> {
        let start = self.base;
        if !(start..start + LEN).contains(&at) {
            return Vec::new();
        }
        let len = len.min(start + LEN - at);
        let mut octets = vec![0; len];
        // SAFETY: as in `put`.
        unsafe {
            ptr::copy_nonoverlapping(ptr::with_exposed_provenance(at), octets.as_mut_ptr(), len)
        };
        octets
    }
}
