//! The bytes of marker descriptors, of the ELF note that locates them, and of `marker_ctl()`'s
//! arguments.
//!
//! The C side of every item here is `include/uapi/linux/bootmark.h` in `kernel-patch/linux`; a test
//! compares sizes, alignments, offsets and constants of the two. See docs/markers.md.
//!
//! Who writes what: the build writes descriptors and the note; only the kernel writes
//! [`Descriptor::state`] of a mapped program; the program reads nothing but that word. The kernel
//! reads descriptors from the file before any relocation ran, so they hold no address.

use core::sync::atomic::AtomicU32;
use static_assertions::const_assert_eq;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of the descriptors; a reader that meets a newer major version says so.
pub const ABI_MAJOR: u8 = 1;
/// Minor versions only add.
pub const ABI_MINOR: u8 = 0;

/// Name of the section, as `linkme` makes it from the slice's name.
pub const SECTION: &str = "linkme_BOOTMARK";
/// Octets of a descriptor, which is the stride of the array.
pub const DESC_SIZE: usize = 256;
/// Alignment of a descriptor, in octets.
pub const DESC_ALIGN: usize = 64;
/// Room for a provider's name, with the terminating NUL.
pub const PROVIDER_LEN: usize = 24;
/// Room for a marker's name, with the terminating NUL.
pub const NAME_LEN: usize = 40;
/// Fields of a marker at most.
pub const MAX_FIELDS: usize = 8;
/// Room for field names and enumeration labels together.
pub const STRINGS_LEN: usize = 144;
/// Longest string or byte field that a record carries, in octets; the rest is cut.
pub const MAX_BYTES: usize = 480;

/// `enum bootmark_kind`: a point in time.
pub const KIND_INSTANT: u8 = 1;
/// `enum bootmark_kind`: a span begins.
pub const KIND_SPAN_BEGIN: u8 = 2;
/// `enum bootmark_kind`: a span ends.
pub const KIND_SPAN_END: u8 = 3;
/// `enum bootmark_kind`: a value over time.
pub const KIND_COUNTER: u8 = 4;

/// Level of markers that name none: informational, as in syslog(2).
pub const LEVEL_DEFAULT: u8 = 6;
/// Debug, as in syslog(2).
pub const LEVEL_MAX: u8 = 7;

/// `enum bootmark_type`: u8. Numbers are packed little endian without padding.
pub const TYPE_U8: u8 = 1;
/// `enum bootmark_type`: u16.
pub const TYPE_U16: u8 = 2;
/// `enum bootmark_type`: u32.
pub const TYPE_U32: u8 = 3;
/// `enum bootmark_type`: u64.
pub const TYPE_U64: u8 = 4;
/// `enum bootmark_type`: i8.
pub const TYPE_I8: u8 = 5;
/// `enum bootmark_type`: i16.
pub const TYPE_I16: u8 = 6;
/// `enum bootmark_type`: i32.
pub const TYPE_I32: u8 = 7;
/// `enum bootmark_type`: i64.
pub const TYPE_I64: u8 = 8;
/// `enum bootmark_type`: f32.
pub const TYPE_F32: u8 = 9;
/// `enum bootmark_type`: f64.
pub const TYPE_F64: u8 = 10;
/// `enum bootmark_type`: one octet, 0 or 1.
pub const TYPE_BOOL: u8 = 11;
/// `enum bootmark_type`: u16 length, then UTF-8.
pub const TYPE_STR: u8 = 12;
/// `enum bootmark_type`: u16 length, then octets.
pub const TYPE_BYTES: u8 = 13;
/// `enum bootmark_type`: u64, a raw reading of the trace clock.
pub const TYPE_CLOCK: u8 = 14;

/// `enum bootmark_hint`: show as it is.
pub const HINT_NONE: u8 = 0;
/// `enum bootmark_hint`: show in hexadecimal.
pub const HINT_HEX: u8 = 1;
/// `enum bootmark_hint`: labels of the values 0, 1, 2 ... follow the field's name.
pub const HINT_ENUM: u8 = 2;
/// `enum bootmark_hint`: 0, or a negative errno.
pub const HINT_ERRNO: u8 = 3;
/// `enum bootmark_hint`: nanoseconds.
pub const HINT_NSECS: u8 = 4;
/// `enum bootmark_hint`: octets.
pub const HINT_SIZE: u8 = 5;

/// One typed field of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Field {
    /// [`TYPE_U8`] and the like.
    pub ty: u8,
    /// [`HINT_NONE`] and the like.
    pub hint: u8,
    /// Offset of the name in [`Descriptor::strings`].
    pub name_off: u8,
    /// Octets there, without a terminating NUL. With [`HINT_ENUM`] the name is followed by the
    /// labels, each behind a NUL; all of it is counted here.
    pub name_len: u8,
}

/// One marker.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Descriptor {
    /// [`DESC_SIZE`].
    pub size: u16,
    /// [`ABI_MAJOR`].
    pub abi_major: u8,
    /// [`ABI_MINOR`].
    pub abi_minor: u8,
    /// [`KIND_INSTANT`] and the like.
    pub kind: u8,
    /// 0 to [`LEVEL_MAX`].
    pub level: u8,
    /// Valid entries of `fields`.
    pub nfields: u8,
    /// Zero.
    pub flags: u8,
    /// Zero in the file; see [`STATE_ENABLED`].
    pub state: AtomicU32,
    /// Source line, for people.
    pub line: u32,
    /// NUL-padded; letters, digits, `_`, `-`, `.`.
    pub provider: [u8; PROVIDER_LEN],
    /// As `provider`.
    pub name: [u8; NAME_LEN],
    /// In the order in which the payload holds them.
    pub fields: [Field; MAX_FIELDS],
    /// The names of the fields, one after the other.
    pub strings: [u8; STRINGS_LEN],
}

const_assert_eq!(size_of::<Descriptor>(), DESC_SIZE);
const_assert_eq!(align_of::<Descriptor>(), DESC_ALIGN);

/// State word: write records. A word of zero is off.
pub const STATE_ENABLED: u32 = 1;
/// Where the number of a filter or aggregation stands (0 for none): see [`CTL_SLOT_TEXT`].
pub const STATE_SLOT_SHIFT: u32 = 1;
/// Its bits.
pub const STATE_SLOT_MASK: u32 = 0x7fe;
/// Largest number of a slot.
pub const MAX_SLOT: u32 = 1023;
/// State word: run the call-backs of this process; see [`CTL_CALLS_SET`].
pub const STATE_CALL: u32 = 0x800;
/// Where the event id stands.
pub const STATE_ID_SHIFT: u32 = 12;
/// Largest event id.
pub const MAX_EVENT_ID: u32 = 0xf_ffff;
/// Event ids below this one are the kernel's own markers.
pub const FIRST_USER_ID: u32 = 256;

/// Owner of the ELF note.
pub const NOTE_OWNER: &str = "bootmark";
/// Type of the ELF note.
pub const NOTE_TYPE: u32 = 1;
/// A module with more markers than this is refused whole.
pub const MAX_MARKERS: usize = 4096;

/// Payload of the ELF note.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, packed(4))]
pub struct Note {
    /// major << 16 | minor.
    pub abi: u32,
    /// Octets between descriptors.
    pub stride: u32,
    /// Address of the first descriptor minus the address of this member.
    pub start: i64,
    /// Address behind the last descriptor minus the address of this member.
    pub stop: i64,
}

const_assert_eq!(size_of::<Note>(), 24);

/// Longest rule, in octets, without a NUL.
pub const RULE_MAX: usize = 512;

/// `enum marker_ctl_op`: append a rule.
pub const CTL_RULE_ADD: u32 = 1;
/// `enum marker_ctl_op`: remove a rule.
pub const CTL_RULE_DEL: u32 = 2;
/// `enum marker_ctl_op`: list rules as [`RuleInfo`].
pub const CTL_RULE_LIST: u32 = 3;
/// `enum marker_ctl_op`: list markers as [`MarkerInfo`].
pub const CTL_MARKER_LIST: u32 = 4;
/// `enum marker_ctl_op`: fill in a [`Status`].
pub const CTL_STATUS: u32 = 5;
/// `enum marker_ctl_op`: the text of a slot. For everybody: the traced process evaluates it.
pub const CTL_SLOT_TEXT: u32 = 6;
/// `enum marker_ctl_op`: the patterns that the calling process has call-backs for. For everybody.
pub const CTL_CALLS_SET: u32 = 7;
/// `enum marker_ctl_op`: where the calling process keeps its call-backs, and a [`Clock`] if there is
/// room for one. For everybody.
pub const CTL_CALLS_GET: u32 = 8;

/// In and out of every operation of `marker_ctl()`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CtlArgs {
    /// Zero.
    pub flags: u64,
    /// ADD: out, the rule's id. DEL: the rule's id, or 0 to go by the text. Lists: cursor, 0 at
    /// first; stays as it is when nothing more follows. SLOT_TEXT: the slot. CALLS_SET: in, where
    /// the caller keeps its call-backs; out, as CALLS_GET, where the process does.
    pub id: u64,
    /// Address of the text (ADD, DEL, CALLS_SET) or of the room for the answer.
    pub buf: u64,
    /// Octets at `buf`.
    pub buf_size: u64,
    /// Out. ADD: markers that the rule decides now. DEL: rules removed. Else octets written.
    pub result: u64,
    /// Out. ADD that fails with EINVAL: offset in the text of what is wrong.
    pub err_pos: u64,
}

/// One rule; its text follows, not terminated.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RuleInfo {
    /// Octets of this entry with its text, a multiple of 8.
    pub size: u32,
    /// The rule's id.
    pub id: u32,
    /// Known markers that the pattern matches.
    pub matched: u64,
    /// [`RULE_DISABLE`], [`RULE_BOOT`].
    pub flags: u32,
    /// Octets of the text.
    pub text_len: u32,
}

/// The rule turns markers off.
pub const RULE_DISABLE: u32 = 1;
/// The rule came from the command line.
pub const RULE_BOOT: u32 = 2;
/// The rule has a scope, so that it decides for some processes only.
pub const RULE_SCOPED: u32 = 4;
/// The rule came through `/proc/PID/bootmark` and ends with that process.
pub const RULE_PROCESS: u32 = 8;

/// Patterns with call-backs that a process can have.
pub const MAX_CALLS: usize = 16;
/// Octets of them together, with the commas between them.
pub const CALLS_TEXT_MAX: usize = 4096;

/// Answer of [`CTL_CALLS_GET`]: the trace clock, which is there without a pool as well.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Clock {
    /// `bootbuf::abi::CLOCK_TSC` and the like.
    pub clock: u32,
    /// Zero.
    pub reserved: u32,
    /// Ticks in a second.
    pub freq_hz: u64,
}

/// One marker known to the kernel; its descriptor follows ([`DESC_SIZE`] octets, state zero), then
/// the path of its file, not terminated.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MarkerInfo {
    /// Octets of this entry with descriptor and path, a multiple of 8.
    pub size: u32,
    /// The id in this marker's records.
    pub event_id: u32,
    /// The module that holds it, 0 for the kernel.
    pub module_id: u32,
    /// The state word that mapped copies hold in processes that no rule singles out.
    pub state: u32,
    /// Octets of the path.
    pub path_len: u32,
    /// Zero.
    pub reserved: [u32; 11],
}

const_assert_eq!(size_of::<MarkerInfo>(), 64);

/// Answer of [`CTL_STATUS`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Status {
    /// Octets of this structure that the kernel filled in.
    pub size: u32,
    /// major << 16 | minor.
    pub abi: u32,
    /// The trace's UUID.
    pub boot_id: [u8; 16],
    /// Size of the pool, zero when there is none.
    pub pool_bytes: u64,
    /// Octets of it that are free.
    pub free_bytes: u64,
    /// Chunks that somebody may still write to.
    pub open_chunks: u64,
    /// Chunks waiting for an extractor.
    pub sealed_chunks: u64,
    /// Events discarded since boot, by everybody.
    pub events_lost: u64,
    /// `bootbuf::abi::CLOCK_TSC` and the like.
    pub clock: u32,
    /// Number of rules.
    pub rules: u32,
    /// Number of files with markers seen so far.
    pub modules: u32,
    /// Number of markers in them, the kernel's included.
    pub markers: u32,
    /// Number of slots in use.
    pub slots: u32,
    /// [`STATUS_FOLLOW`], [`STATUS_GATED`].
    pub flags: u32,
    /// How many of `events_lost` were recorded, and overwritten before they were read.
    pub events_overwritten: u64,
    /// Records of the meta stream that found no room: names and ends of processes, counts of losses.
    pub meta_lost: u64,
}

/// Markers follow ftrace's `tracing_on` (`bootmark.follow_ftrace`).
pub const STATUS_FOLLOW: u32 = 1;
/// It is 0 now, so that nothing is recorded.
pub const STATUS_GATED: u32 = 2;
