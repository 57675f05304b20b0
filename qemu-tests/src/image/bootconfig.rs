//! A boot configuration behind an initramfs: what the kernel's `bootconfig` parameter makes it read.

const MAGIC: &[u8] = b"#BOOTCONFIG\n";

/// What comes behind an initramfs of `before` octets so that it carries `text`: the text with NULs
/// behind it, its length and the sum of its octets, and the magic, all aligned to four octets
/// (Documentation/admin-guide/bootconfig.rst).
pub fn bootconfig_trailer(text: &str, before: u64) -> Vec<u8> {
    let mut trailer = text.as_bytes().to_vec();
    trailer.push(0);
    while !(before + trailer.len() as u64).is_multiple_of(4) {
        trailer.push(0);
    }
    let sum: u32 = trailer.iter().map(|octet| u32::from(*octet)).sum();
    let len = trailer.len() as u32;
    trailer.extend(len.to_le_bytes());
    trailer.extend(sum.to_le_bytes());
    trailer.extend(MAGIC);
    trailer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_says_its_length() {
        for before in 0..4 {
            let trailer = bootconfig_trailer("a = b", before);
            let text = trailer.len() - MAGIC.len() - 8;
            assert_eq!((before as usize + trailer.len()) % 4, 0);
            assert_eq!(trailer[text..text + 4], (text as u32).to_le_bytes());
            assert!(trailer.starts_with(b"a = b\0") && trailer.ends_with(MAGIC));
        }
    }
}
