//! File system type, label and UUID from a device's first octets.
//!
//! Bounded reads at fixed offsets, and nothing that is read decides where to read next, so a
//! hostile device at worst has a strange label. Layouts: `fs/ext4/ext4.h`, `fs/xfs/libxfs/xfs_format.h`,
//! `include/uapi/linux/btrfs_tree.h`, `include/uapi/linux/msdos_fs.h`, `fs/erofs/erofs_fs.h`,
//! `fs/squashfs/squashfs_fs.h`, ECMA-119, `include/linux/swap.h`, LUKS on-disk format.

use std::io;

/// What a device holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The kernel's name of the type (`ext4`), or a name of what cannot be mounted (`swap`).
    pub fstype: &'static str,
    /// Whether the kernel could mount it; swap space and encrypted volumes it cannot.
    pub mountable: bool,
    /// The label, if it has one. Octets that are not UTF-8 become U+FFFD.
    pub label: Option<String>,
    /// The UUID as blkid(8) prints it, lower case except for FAT's.
    pub uuid: Option<String>,
}

/// Where the pieces are that probing looks at: offset and length, in octets.
const WINDOWS: [(u64, usize); 3] = [(0, 4096), (32 << 10, 2048), (64 << 10, 4096)];

/// The pieces of one device.
struct Pieces([Vec<u8>; 3]);

impl Pieces {
    /// `len` octets at `offset` of the device; `None` when the device ends before.
    fn get(&self, offset: usize, len: usize) -> Option<&[u8]> {
        WINDOWS.iter().zip(&self.0).find_map(|((at, _), bytes)| {
            let from = offset.checked_sub(usize::try_from(*at).ok()?)?;
            bytes.get(from..from.checked_add(len)?)
        })
    }

    fn has(&self, offset: usize, magic: &[u8]) -> bool {
        self.get(offset, magic.len()) == Some(magic)
    }

    fn le32(&self, offset: usize) -> u32 {
        self.get(offset, 4)
            .and_then(|b| b.try_into().ok())
            .map_or(0, u32::from_le_bytes)
    }
}

/// Probes a device through `read`, which fills a buffer from an offset and says how many octets it
/// got; fewer than asked for means that the device ends there.
///
/// # Errors
/// What `read` gives; an unknown content is `Ok(None)`.
pub fn probe(
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<Option<Superblock>> {
    let mut pieces = [const { Vec::new() }; 3];
    for ((offset, len), piece) in WINDOWS.into_iter().zip(&mut pieces) {
        piece.resize(len, 0);
        let got = read(offset, piece)?;
        piece.truncate(got);
    }
    Ok(identify(&Pieces(pieces)))
}

fn identify(p: &Pieces) -> Option<Superblock> {
    luks(p)
        .or_else(|| ext(p))
        .or_else(|| xfs(p))
        .or_else(|| btrfs(p))
        .or_else(|| erofs(p))
        .or_else(|| squashfs(p))
        .or_else(|| iso9660(p))
        .or_else(|| swap(p))
        .or_else(|| vfat(p))
}

fn ext(p: &Pieces) -> Option<Superblock> {
    const SB: usize = 1024;
    const COMPAT_HAS_JOURNAL: u32 = 0x4;
    const INCOMPAT_JOURNAL_DEV: u32 = 0x8;
    // What ext3 knows: FILETYPE, RECOVER, META_BG; SPARSE_SUPER, LARGE_FILE, BTREE_DIR.
    const EXT3_INCOMPAT: u32 = 0x2 | 0x4 | 0x10;
    const EXT3_RO_COMPAT: u32 = 0x1 | 0x2 | 0x4;
    if !p.has(SB + 0x38, &[0x53, 0xef]) {
        return None;
    }
    let (compat, incompat) = (p.le32(SB + 0x5c), p.le32(SB + 0x60));
    let ro_compat = p.le32(SB + 0x64);
    let journal_device = incompat & INCOMPAT_JOURNAL_DEV != 0;
    let fstype = if journal_device {
        "jbd"
    } else if incompat & !EXT3_INCOMPAT != 0 || ro_compat & !EXT3_RO_COMPAT != 0 {
        "ext4"
    } else if compat & COMPAT_HAS_JOURNAL != 0 {
        "ext3"
    } else {
        "ext2"
    };
    Some(Superblock {
        fstype,
        mountable: !journal_device,
        label: text(p.get(SB + 0x78, 16)?),
        uuid: uuid(p.get(SB + 0x68, 16)?),
    })
}

fn xfs(p: &Pieces) -> Option<Superblock> {
    p.has(0, b"XFSB").then_some(())?;
    Some(Superblock {
        fstype: "xfs",
        mountable: true,
        label: text(p.get(108, 12)?),
        uuid: uuid(p.get(32, 16)?),
    })
}

fn btrfs(p: &Pieces) -> Option<Superblock> {
    const SB: usize = 64 << 10;
    p.has(SB + 64, b"_BHRfS_M").then_some(())?;
    Some(Superblock {
        fstype: "btrfs",
        mountable: true,
        label: text(p.get(SB + 299, 256)?),
        uuid: uuid(p.get(SB + 32, 16)?),
    })
}

fn erofs(p: &Pieces) -> Option<Superblock> {
    const SB: usize = 1024;
    p.has(SB, &0xe0f5_e1e2_u32.to_le_bytes()).then_some(())?;
    Some(Superblock {
        fstype: "erofs",
        mountable: true,
        label: text(p.get(SB + 64, 16)?),
        uuid: uuid(p.get(SB + 48, 16)?),
    })
}

fn squashfs(p: &Pieces) -> Option<Superblock> {
    // Version 4 is the only one that the kernel still reads; it has neither label nor UUID.
    (p.has(0, b"hsqs") && p.has(28, &4_u16.to_le_bytes())).then_some(())?;
    Some(Superblock {
        fstype: "squashfs",
        mountable: true,
        label: None,
        uuid: None,
    })
}

fn iso9660(p: &Pieces) -> Option<Superblock> {
    const VOLUME: usize = 32 << 10;
    p.has(VOLUME, b"\x01CD001").then_some(())?;
    Some(Superblock {
        fstype: "iso9660",
        mountable: true,
        label: text(p.get(VOLUME + 40, 32)?.trim_ascii_end()),
        uuid: None,
    })
}

fn swap(p: &Pieces) -> Option<Superblock> {
    p.has(4086, b"SWAPSPACE2").then_some(())?;
    Some(Superblock {
        fstype: "swap",
        mountable: false,
        label: text(p.get(1052, 16)?),
        uuid: uuid(p.get(1036, 16)?),
    })
}

fn luks(p: &Pieces) -> Option<Superblock> {
    p.has(0, b"LUKS\xba\xbe").then_some(())?;
    Some(Superblock {
        fstype: "crypto_LUKS",
        mountable: false,
        label: None,
        uuid: text(p.get(168, 40)?),
    })
}

/// Last, since a FAT boot sector has the weakest signature of all.
fn vfat(p: &Pieces) -> Option<Superblock> {
    p.has(510, &[0x55, 0xaa]).then_some(())?;
    // The serial number and the label stand in front of the words FAT12, FAT16 or FAT32.
    let (serial, label) = if p.has(82, b"FAT32   ") {
        (67, 71)
    } else if p.has(54, b"FAT12   ") || p.has(54, b"FAT16   ") {
        (39, 43)
    } else {
        return None;
    };
    let label = text(p.get(label, 11)?.trim_ascii_end()).filter(|l| l != "NO NAME");
    let serial = p.le32(serial);
    Some(Superblock {
        fstype: "vfat",
        mountable: true,
        label,
        uuid: (serial != 0).then(|| format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff)),
    })
}

/// NUL-padded text; empty is none.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    (end > 0).then(|| String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// A UUID in the usual groups; all zero is none.
fn uuid(bytes: &[u8]) -> Option<String> {
    if bytes.iter().all(|b| *b == 0) {
        return None;
    }
    let mut out = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{byte:02x}"));
    }
    Some(out)
}

#[cfg(test)]
#[path = "superblock_tests.rs"]
mod tests;
