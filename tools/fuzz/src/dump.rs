//! The headers of memory dumps as ELF files, whatever they say: for this crate and for tools/tests/vmcore.rs.

use bootbuf::abi::MIN_CHUNK;

/// A segment as its header describes it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Physical address.
    pub phys: u64,
    /// Where it lies in the file.
    pub offset: u64,
    /// Octets of it.
    pub size: u64,
}

/// The headers of an ELF dump, 64 octets and 56 for each segment.
pub fn headers(loads: &[Load]) -> Vec<u8> {
    let mut octets = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [4u16, 62] {
        octets.extend(half.to_le_bytes()); // ET_CORE, EM_X86_64
    }
    octets.extend(1u32.to_le_bytes());
    for word in [0u64, 64, 0] {
        octets.extend(word.to_le_bytes()); // no entry, segments behind this, no sections
    }
    octets.extend(0u32.to_le_bytes());
    for half in [64, 56, loads.len() as u16, 64, 0, 0] {
        octets.extend(half.to_le_bytes());
    }
    for load in loads {
        for word in [1u32, 4] {
            octets.extend(word.to_le_bytes()); // PT_LOAD, readable
        }
        let Load { phys, offset, size } = *load;
        for word in [offset, phys, phys, size, size, MIN_CHUNK as u64] {
            octets.extend(word.to_le_bytes());
        }
    }
    octets
}
