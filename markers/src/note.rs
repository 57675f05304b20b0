//! The ELF note by which a module's array of descriptors is found.

use core::arch::asm;

use crate::abi;

/// Emits no instruction, but puts the note into the object file that the calling code ends up in.
///
/// The note travels in a COMDAT group, so a module has it once however many of its objects hold
/// markers, and the `.ifndef` keeps it single within an object. Descriptors are `#[used]`, so linkers
/// keep them when nothing refers to them, and `R` (SHF_GNU_RETAIN) is the same for the note. `__start_`
/// and `__stop_` are made by the linker; hidden, they are those of the module itself, and the differences
/// are known at link time. They are weak for the one case in which a module has markers' code but no
/// descriptor: generic functions of a Rust dylib, compiled in the dylib's users. There both are zero,
/// and the array is empty. bootmark.h has the same in C, and the two meet in programs of both languages.
#[inline(always)]
#[expect(
    named_asm_labels,
    reason = "the label must be one, and the same, in all copies"
)]
pub fn emit_note() {
    // SAFETY: no instruction is emitted and the section at hand is the current one again at the end.
    unsafe {
        asm!(
            ".ifndef __bootmark_note",
            ".pushsection .note.bootmark,\"aGR\",@note,__bootmark_note,comdat",
            ".balign 4",
            ".hidden __bootmark_note",
            ".weak __bootmark_note",
            ".type __bootmark_note, @object",
            "__bootmark_note:",
            ".long {owner_size}, {payload_size}, {note_type}",
            ".asciz \"bootmark\"",
            ".balign 4",
            ".long {abi}, {stride}",
            ".hidden __start_linkme_BOOTMARK",
            ".weak __start_linkme_BOOTMARK",
            ".quad __start_linkme_BOOTMARK - .",
            ".hidden __stop_linkme_BOOTMARK",
            ".weak __stop_linkme_BOOTMARK",
            ".quad __stop_linkme_BOOTMARK - .",
            ".size __bootmark_note, . - __bootmark_note",
            ".popsection",
            ".endif",
            owner_size = const abi::NOTE_OWNER.len() + 1,
            payload_size = const size_of::<abi::Note>(),
            note_type = const abi::NOTE_TYPE,
            abi = const (abi::ABI_MAJOR as u32) << 16 | abi::ABI_MINOR as u32,
            stride = const abi::DESC_SIZE,
            options(nomem, nostack, preserves_flags),
        );
    }
}
