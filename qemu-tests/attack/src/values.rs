//! Numbers at which code goes wrong, and octets that are almost right.

use fastrand::Rng;

/// A number that is likely to be on one side or the other of somebody's limit.
pub(crate) fn number(rng: &mut Rng) -> u64 {
    match rng.u8(0..12) {
        0 | 1 => 0,
        2 | 3 => rng.u64(0..64),
        4 => (1_u64 << rng.u32(0..64))
            .wrapping_add(rng.u64(0..3))
            .wrapping_sub(1),
        5 => u64::MAX - rng.u64(0..4),
        6 => (i32::MAX as u64)
            .wrapping_add(rng.u64(0..3))
            .wrapping_sub(1),
        7 => u64::from(u32::MAX)
            .wrapping_add(rng.u64(0..3))
            .wrapping_sub(1),
        8 => (rng.u64(0..64) * 4096)
            .wrapping_add(rng.u64(0..3))
            .wrapping_sub(1),
        9 => 1 << 63,
        10 => u64::from(rng.u32(..)),
        _ => rng.u64(..),
    }
}

/// Changes a few octets, and sometimes how many there are.
pub(crate) fn mutate(rng: &mut Rng, octets: &mut Vec<u8>) {
    for _ in 0..rng.u8(1..4) {
        if octets.is_empty() {
            octets.push(rng.u8(..));
            continue;
        }
        let at = rng.usize(0..octets.len());
        match rng.u8(0..8) {
            0 => octets[at] ^= 1 << rng.u8(0..8),
            1 => octets[at] = rng.u8(..),
            2 => octets[at] = *rng.choice(b"\0\n /{}'\"*?[]!@,:=<>&|()\xff").unwrap_or(&0),
            3 => put_number(rng, octets, at, 4),
            4 => put_number(rng, octets, at, 8),
            5 => octets.insert(at, rng.u8(..)),
            6 => drop(octets.remove(at)),
            _ => {
                let end = (at + rng.usize(1..16)).min(octets.len());
                let copy = octets[at..end].to_vec();
                octets.splice(at..at, copy);
            }
        }
    }
}

/// Puts a [`number`] of so many octets at a place that is a multiple of them.
pub(crate) fn put_number(rng: &mut Rng, octets: &mut [u8], at: usize, len: usize) {
    let at = at / len * len;
    let value = number(rng).to_le_bytes();
    if let Some(place) = octets.get_mut(at..at + len) {
        place.copy_from_slice(&value[..len]);
    }
}
