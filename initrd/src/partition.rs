//! The UUID of a partition, from the table on its disk: kernels before 6.13 do not tell it.
//!
//! Layouts: UEFI specification, chapter 5 (GPT); the MBR's is `block/partitions/msdos.c`, whose way of making
//! a UUID of disk signature and number this follows.

use std::io;

/// Reads the table through `read`, which fills a buffer from an offset of the whole disk and says how
/// many octets it got.
///
/// `block` is the disk's logical block size in octets, `number` the partition's, from 1.
///
/// # Errors
/// What `read` gives; a disk without a table that is known is `Ok(None)`.
pub fn uuid(
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    block: u64,
    number: u32,
) -> io::Result<Option<String>> {
    let mut mbr = [0; 512];
    if read(0, &mut mbr)? < mbr.len() || mbr[510..] != [0x55, 0xaa] {
        return Ok(None);
    }
    let mut header = [0; 92];
    if read(block, &mut header)? == header.len() && header.starts_with(b"EFI PART") {
        let Some(at) = gpt_entry(&header, block, number) else {
            return Ok(None);
        };
        let mut entry = [0; 32];
        let whole = read(at, &mut entry)? == entry.len();
        // An entry without a type is not in use.
        return Ok((whole && entry[..16] != [0; 16]).then(|| gpt_uuid(&entry[16..])));
    }
    let signature = u32::from_le_bytes([mbr[440], mbr[441], mbr[442], mbr[443]]);
    Ok((signature != 0).then(|| format!("{signature:08x}-{number:02x}")))
}

/// Where on the disk the entry is; `None` when the header makes no sense.
fn gpt_entry(header: &[u8; 92], block: u64, number: u32) -> Option<u64> {
    let le32 = |at: usize| header[at..at + 4].try_into().map(u32::from_le_bytes).ok();
    let first = u64::from_le_bytes(header[72..80].try_into().ok()?);
    let (count, size) = (le32(80)?, le32(84)?);
    // Entries have 128 octets or a multiple.
    if number == 0 || number > count || size < 128 || !size.is_multiple_of(128) {
        return None;
    }
    first
        .checked_mul(block)?
        .checked_add(u64::from(number - 1) * u64::from(size))
}

/// GPT stores the first three groups little endian.
fn gpt_uuid(bytes: &[u8]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut out = String::with_capacity(36);
    for (i, at) in ORDER.into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{:02x}", bytes[at]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(disk: &[u8], block: u64, number: u32) -> Option<String> {
        let read = |at: u64, buf: &mut [u8]| {
            let from = usize::try_from(at).unwrap_or(usize::MAX).min(disk.len());
            let n = buf.len().min(disk.len() - from);
            buf[..n].copy_from_slice(&disk[from..from + n]);
            Ok(n)
        };
        uuid(read, block, number).unwrap()
    }

    fn gpt(block: usize) -> Vec<u8> {
        let mut disk = vec![0; 40 * block];
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        let header = &mut disk[block..];
        header[..8].copy_from_slice(b"EFI PART");
        header[72..80].copy_from_slice(&2_u64.to_le_bytes());
        header[80..84].copy_from_slice(&8_u32.to_le_bytes());
        header[84..88].copy_from_slice(&128_u32.to_le_bytes());
        let entry = 2 * block + 128;
        for (i, octet) in (0..16).zip(0xa0_u8..) {
            disk[entry + i] = 1;
            disk[entry + 16 + i] = octet;
        }
        disk
    }

    #[test]
    fn gpt_partitions() {
        for block in [512, 4096] {
            let disk = gpt(block);
            let want = "a3a2a1a0-a5a4-a7a6-a8a9-aaabacadaeaf";
            assert_eq!(of(&disk, block as u64, 2).as_deref(), Some(want));
            // Not in use, not in the table, no number.
            for other in [1, 9, 0] {
                assert_eq!(of(&disk, block as u64, other), None);
            }
        }
    }

    #[test]
    fn mbr_partitions() {
        let mut disk = vec![0; 4096];
        assert_eq!(of(&disk, 512, 1), None);
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(of(&disk, 512, 1), None);
        disk[440..444].copy_from_slice(&0x1234_abcd_u32.to_le_bytes());
        assert_eq!(of(&disk, 512, 5).as_deref(), Some("1234abcd-05"));
    }

    proptest! {
        #[test]
        fn hostile_headers(noise in proptest::collection::vec(any::<u8>(), 84), number in any::<u32>()) {
            let mut disk = gpt(512);
            disk[520..604].copy_from_slice(&noise);
            let _ = of(&disk, 512, number);
            disk.truncate(590);
            let _ = of(&disk, 512, number);
        }
    }
}
