//! The bytes of records, chunks and packets, and the arguments of `bootbuf_reserve()` and
//! `bootbuf_open()`.
//!
//! The C side of every item here is `include/uapi/linux/bootbuf.h` in `kernel-patch/linux`; a test
//! compares sizes, alignments, offsets and constants of the two. See docs/records.md.
//!
//! Who writes what: a thread writes records and [`ChunkCtl`] in its own chunk; the kernel writes
//! `ChunkCtl` when it hands a chunk out and `ChunkCtl::limit` when it seals one; [`PacketHeader`]
//! lies in memory that no process maps, and takes the place of `ChunkCtl` in what a read of the
//! extraction descriptor returns. Everything is little endian.

use static_assertions::{const_assert, const_assert_eq};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Alignment of records in a chunk, in octets.
pub const RECORD_ALIGN: usize = 8;
/// Octets before a record's payload.
pub const RECORD_HEADER: usize = 16;
/// Where a record's length stands in its word.
pub const WORD_LEN_SHIFT: u32 = 32;
/// Set in a record's word by the store that commits the record.
pub const WORD_COMMITTED: u64 = 1 << 63;
/// No record: stands behind the last one of a sealed chunk, where it fits, so that nothing can be
/// claimed there any more.
pub const WORD_END: u64 = 1 << 48;
/// In [`ChunkCtl::lost`] of a chunk that was sealed: what is added here is not counted.
pub const LOST_TAKEN: u64 = 1 << 63;

/// Octets at the start of a chunk ([`ChunkCtl`]) or packet ([`PacketHeader`]).
pub const HEADER_SIZE: usize = 128;
/// Smallest chunk, in octets.
pub const MIN_CHUNK: usize = 4096;
/// Largest chunk, in octets, and so the largest packet.
pub const MAX_CHUNK: usize = 65536;
/// Longest record, in octets, header included: it fits the smallest chunk.
pub const MAX_RECORD: usize = MIN_CHUNK - HEADER_SIZE;

/// `enum bootbuf_clock`: the trace clock is not known.
pub const CLOCK_NONE: u32 = 0;
/// `enum bootbuf_clock`: the TSC, whose frequency stands in [`MetaClock`].
pub const CLOCK_TSC: u32 = 1;
/// `enum bootbuf_clock`: nanoseconds of `CLOCK_BOOTTIME`.
pub const CLOCK_BOOTTIME: u32 = 2;

/// First octets of a packet, as CTF 1.8 requires.
pub const CTF_MAGIC: u32 = 0xC1FC_1FC1;

/// `enum bootbuf_stream`: one stream a thread.
pub const STREAM_THREAD: u32 = 0;
/// `enum bootbuf_stream`: kernel events, one stream a CPU.
pub const STREAM_CPU: u32 = 1;
/// `enum bootbuf_stream`: what decoding needs.
pub const STREAM_META: u32 = 2;
/// `enum bootbuf_stream`: aggregations, one stream a thread that keeps some.
pub const STREAM_AGGREGATE: u32 = 3;

/// `enum bootbuf_seal`: not sealed, a snapshot.
pub const SEAL_OPEN: u8 = 0;
/// `enum bootbuf_seal`: the writer asked for the next chunk.
pub const SEAL_FULL: u8 = 1;
/// `enum bootbuf_seal`: the thread called exec.
pub const SEAL_EXEC: u8 = 2;
/// `enum bootbuf_seal`: the thread ended; `exit_code` is valid.
pub const SEAL_EXIT: u8 = 3;
/// `enum bootbuf_seal`: the chunk was open when the earlier boot ended.
pub const SEAL_RECOVERED: u8 = 4;

/// Packet flag: from the earlier boot.
pub const PACKET_PREVIOUS: u16 = 1;

/// Hints in a chunk of aggregations.
pub const CELL_HINTS: usize = 32;

/// Header of a record; the payload follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordHeader {
    /// Event id (bits 0 to 31), length in octets (32 to 47), committed (63).
    pub word: u64,
    /// Raw reading of the trace clock.
    pub timestamp: u64,
}

/// The first octets of a chunk while it is mapped into a process.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ChunkCtl {
    /// Offset of the first octet not known to be claimed: a hint, the chain of words is the truth.
    pub pos: u32,
    /// [`size`](Self::size) when a writer may claim with the TSC and without asking, else 0:
    /// sealed, wiped by fork, or another clock.
    pub limit: u32,
    /// Octets of the chunk; 0 when it is not to be written at all.
    pub size: u32,
    /// [`CLOCK_TSC`] or [`CLOCK_BOOTTIME`].
    pub clock: u32,
    /// Events that could not be recorded in this chunk for want of room while no other was to be
    /// had; [`LOST_TAKEN`] from the seal on.
    pub lost: u64,
    /// Thread group id in the initial pid namespace: for filters, as what follows.
    pub pid: u32,
    /// Thread id there.
    pub tid: u32,
    /// User that owns the process, in the initial user namespace; follows setuid(2).
    pub uid: u32,
    /// Zero.
    pub reserved0: u32,
    /// The thread's name, NUL-padded; follows prctl(2).
    pub comm: [u8; 16],
    /// Ticks of the trace clock in a second, as known when the chunk was handed out.
    pub freq_hz: u64,
    /// In a chunk of aggregations the thread's own: where a cell may be found, in units of 8 octets;
    /// 0 elsewhere.
    pub hints: [u16; CELL_HINTS],
}

/// Header of a packet.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PacketHeader {
    /// [`CTF_MAGIC`].
    pub magic: u32,
    /// [`STREAM_THREAD`], [`STREAM_CPU`] or [`STREAM_META`].
    pub stream_id: u32,
    /// Boot id, the same in all packets of one boot.
    pub uuid: [u8; 16],
    /// Number of the thread or CPU stream, unique in the boot.
    pub stream_instance: u64,
    /// Clock when the chunk was handed out.
    pub ts_begin: u64,
    /// Clock when it was sealed or looked at.
    pub ts_end: u64,
    /// Bits up to the end of the last record, this header included.
    pub content_bits: u64,
    /// Bits up to the next packet.
    pub packet_bits: u64,
    /// Number of the packet in its stream, from 0.
    pub seq: u64,
    /// Events of this stream lost so far.
    pub discarded: u64,
    /// Thread group id in the initial pid namespace; 0 for the kernel.
    pub pid: u32,
    /// Thread id there.
    pub tid: u32,
    /// [`STREAM_CPU`]: the CPU.
    pub cpu: u32,
    /// User that owns the process, in the initial user namespace.
    pub uid: u32,
    /// The thread's name at the seal, NUL-padded.
    pub comm: [u8; 16],
    /// With [`SEAL_EXIT`]: the wait status of the thread.
    pub exit_code: u32,
    /// [`SEAL_OPEN`] and the like.
    pub seal: u8,
    /// [`CLOCK_TSC`] or [`CLOCK_BOOTTIME`].
    pub clock: u8,
    /// [`PACKET_PREVIOUS`].
    pub flags: u16,
    /// Order of seals in this boot, from 1: what [`IOC_ACK`] names. 0 in snapshots and in the meta
    /// stream.
    pub seal_seq: u64,
}

const_assert_eq!(size_of::<RecordHeader>(), RECORD_HEADER);
const_assert_eq!(size_of::<ChunkCtl>(), HEADER_SIZE);
const_assert_eq!(size_of::<PacketHeader>(), HEADER_SIZE);

/// Event id of [`MetaClock`] in the meta stream.
pub const META_CLOCK: u32 = 1;
/// Event id of [`MetaModule`].
pub const META_MODULE: u32 = 2;
/// Event id of [`MetaMarker`].
pub const META_MARKER: u32 = 3;
/// Event id of [`MetaProcess`].
pub const META_PROCESS: u32 = 4;
/// Event id of [`MetaExit`].
pub const META_EXIT: u32 = 5;
/// Event id of [`MetaSlot`].
pub const META_SLOT: u32 = 6;
/// Event id of [`MetaKernel`] in the meta stream.
pub const META_KERNEL: u32 = 7;
/// Event id of [`MetaLost`] in the meta stream.
pub const META_LOST: u32 = 8;

/// Longest path in the meta stream, in octets; longer ones keep their end.
pub const PATH_MAX: usize = 1024;
/// Longest build id, in octets.
pub const BUILD_ID_MAX: usize = 20;

/// How readings of the trace clock become `CLOCK_BOOTTIME`. Several may come; the last is the best.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MetaClock {
    /// [`CLOCK_TSC`] or [`CLOCK_BOOTTIME`].
    pub clock: u32,
    /// Zero.
    pub reserved: u32,
    /// Ticks a second.
    pub freq_hz: u64,
    /// A reading of the trace clock ...
    pub reading: u64,
    /// ... and `CLOCK_BOOTTIME` at the same moment, in nanoseconds ...
    pub boottime_ns: i64,
    /// ... and `CLOCK_REALTIME`, 0 when not known yet.
    pub realtime_ns: i64,
}

/// A file with markers; its path follows, not terminated.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MetaModule {
    /// From 1; 0 is the kernel.
    pub module_id: u32,
    /// Markers have this id and the following, in array order.
    pub first_event_id: u32,
    /// How many.
    pub markers: u32,
    /// Valid octets of `build_id`.
    pub build_id_len: u16,
    /// Octets of the path.
    pub path_len: u16,
    /// Device of the file, as in stat(2).
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// The GNU build id.
    pub build_id: [u8; BUILD_ID_MAX],
    /// Zero.
    pub reserved: u32,
}

/// Precedes a marker's descriptor (`markers::abi::Descriptor`, its state zero).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MetaMarker {
    /// The id in records.
    pub event_id: u32,
    /// Whose it is.
    pub module_id: u32,
}

/// A process that was handed its first chunk since it started or called exec; the executable's path
/// follows, not terminated.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MetaProcess {
    /// Thread group id.
    pub pid: u32,
    /// Its parent's.
    pub ppid: u32,
    /// Its user.
    pub uid: u32,
    /// The executable's module, 0 when it holds no markers itself.
    pub module_id: u32,
    /// `CLOCK_BOOTTIME` at its start, in nanoseconds.
    pub start_boottime_ns: u64,
    /// Valid octets of `build_id`.
    pub build_id_len: u16,
    /// Octets of the path.
    pub path_len: u16,
    /// The executable's GNU build id.
    pub build_id: [u8; BUILD_ID_MAX],
}

/// The end of a process that had a chunk.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MetaExit {
    /// Thread group id.
    pub pid: u32,
    /// Wait status of the process.
    pub exit_code: u32,
}

/// `enum bootbuf_kernel`: the kernel has started; the text is its release.
pub const KERNEL_RUNS: u32 = 1;
/// `enum bootbuf_kernel`: restart, halt or power off, as the text says.
pub const KERNEL_STOPS: u32 = 2;
/// `enum bootbuf_kernel`: a panic, with this message.
pub const KERNEL_PANICS: u32 = 3;

/// The kernel itself starts or ends; a text follows, not terminated. A boot with neither
/// [`KERNEL_STOPS`] nor [`KERNEL_PANICS`] ended by a reset or power cut.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MetaKernel {
    /// [`KERNEL_RUNS`] and the like.
    pub state: u32,
    /// Octets of the text.
    pub text_len: u16,
    /// Zero.
    pub reserved: u16,
}

/// The text of a slot (`["/" filter "/"] ["{" actions "}"]`, docs/filters.md) follows, not terminated.
/// Written before the slot stands in any state word.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MetaSlot {
    /// From 1 to `markers::abi::MAX_SLOT`.
    pub slot: u32,
    /// Octets of the text.
    pub text_len: u16,
    /// Zero.
    pub reserved: u16,
}

/// `enum bootbuf_lost_why`: the process held its share of the pool.
pub const LOST_PROCESS: u32 = 1;
/// `enum bootbuf_lost_why`: its user did.
pub const LOST_USER: u32 = 2;
/// `enum bootbuf_lost_why`: nothing was free for it.
pub const LOST_POOL: u32 = 3;
/// `enum bootbuf_lost_why`: no memory or address space for a chunk.
pub const LOST_MEMORY: u32 = 4;

/// Events of a stream that are in no packet. Several may come for one stream, as several packets do,
/// each with a count from the stream's start: the greatest counts.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MetaLost {
    /// The stream, which may have no packet at all.
    pub stream_instance: u64,
    /// Its events lost so far, as [`PacketHeader::discarded`] counts them.
    pub lost: u64,
    /// How many of them were recorded, and overwritten before they were read.
    pub overwritten: u64,
    /// [`STREAM_THREAD`] and the like.
    pub stream_id: u32,
    /// 1; more: it stands for so many streams of one user, each of which found no room for a record
    /// of its own.
    pub threads: u32,
    /// Thread group id in the initial pid namespace; 0 for the kernel, and for several threads.
    pub pid: u32,
    /// Thread id there.
    pub tid: u32,
    /// The CPU, in [`STREAM_CPU`].
    pub cpu: u32,
    /// User that owns the process, in the initial user namespace.
    pub uid: u32,
    /// [`LOST_PROCESS`] and the like: what the last of them found no room for; 0 when there were
    /// none, or it is not known.
    pub why: u32,
    /// Zero.
    pub reserved: u32,
    /// The thread's name, NUL-padded.
    pub comm: [u8; 16],
}

/// Event id of [`Cell`] in an aggregate stream.
pub const AGGREGATE_CELL: u32 = 1;
/// Octets of a key at most; longer strings in it are cut.
pub const CELL_KEY_MAX: usize = 128;
/// Actions of a slot at most.
pub const CELL_MAX_ACTIONS: usize = 4;
/// Buckets of a histogram: 0 counts values below 1, `n` those from 2^(n-1) to 2^n - 1.
pub const HIST_BUCKETS: usize = 64;

/// One cell of an aggregation, the payload of a record that its thread goes on changing while the chunk
/// is open: `nvalues` values of 8 octets follow, then `key_len` octets of key.
///
/// The first value is the number of events. Then come, for each action in order: none for `count()`
/// and `record()`, one for `sum`, `min`, `max` and `avg` (which keeps the sum; an i64, or an f64 when
/// the expression is one), [`HIST_BUCKETS`] for `hist`. The key holds the values of the names behind
/// `by` in order, as a record's payload would. The record's time-stamp is that of the first event.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Cell {
    /// The marker's id in records; of a span, that of its end.
    pub event_id: u32,
    /// The slot, whose text says what the values are.
    pub slot: u16,
    /// Number of values.
    pub nvalues: u16,
    /// Octets of the key.
    pub key_len: u16,
    /// Zero.
    pub reserved: [u16; 3],
}

const_assert_eq!(size_of::<Cell>(), 16);
const_assert!(
    RECORD_HEADER + size_of::<Cell>() + 8 * (1 + CELL_MAX_ACTIONS * HIST_BUCKETS) + CELL_KEY_MAX
        <= MAX_RECORD
);

/// Number of `marker_ctl()`. Far above the kernel's own numbers, so that a program never calls a
/// stranger on a kernel without the patch.
pub const NR_MARKER_CTL: usize = 1000;
/// Number of `bootbuf_reserve()`.
pub const NR_BOOTBUF_RESERVE: usize = 1001;
/// Number of `bootbuf_open()`.
pub const NR_BOOTBUF_OPEN: usize = 1002;

/// Argument of `bootbuf_reserve()`; the errors are listed in the UAPI header.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ReserveArgs {
    /// In: 0 or [`RESERVE_AGGREGATE`].
    pub flags: u64,
    /// In: address of the chunk that the caller wrote to last, 0 for none.
    pub chunk: u64,
    /// In: octets of the record that did not fit.
    pub want: u32,
    /// In: events lost since the last call, counted for the calling thread.
    pub lost: u32,
    /// Out: address of the chunk to write to.
    pub base: u64,
}

/// `bootbuf_reserve()`: the chunk for the thread's aggregations, a second one beside that for records,
/// in a stream of its own.
pub const RESERVE_AGGREGATE: u64 = 1;

/// `bootbuf_open()`: snapshots of open chunks, then end of file.
pub const OPEN_PEEK: u64 = 1;
/// `bootbuf_open()`: EAGAIN instead of waiting.
pub const OPEN_NONBLOCK: u64 = 2;
/// `bootbuf_open()`: the earlier boot's packets, then end of file.
pub const OPEN_PREVIOUS: u64 = 4;

/// Argument of `bootbuf_open()`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OpenArgs {
    /// [`OPEN_PEEK`] and the like.
    pub flags: u64,
}

/// `_IOW('B', 0xb0, __u64)`: frees the packets read whose `seal_seq` is at most the given one.
pub const IOC_ACK: u32 =
    (1 << 30) | ((size_of::<u64>() as u32) << 16) | ((b'B' as u32) << 8) | 0xb0;

/// `"BOOTBUF1"`.
pub const POOL_MAGIC: u64 = u64::from_le_bytes(*b"BOOTBUF1");
/// Version of the pool's layout.
pub const POOL_VERSION: u32 = 2;
/// Pools start at multiples of this, in octets: where the next boot looks for them.
pub const POOL_ALIGN: u32 = 1 << 20;
/// Offset of a second copy of [`PoolHeader`].
pub const POOL_COPY: usize = 2048;

/// First octets of the pool's first page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PoolHeader {
    /// [`POOL_MAGIC`].
    pub magic: u64,
    /// [`POOL_VERSION`].
    pub version: u32,
    /// log2 of the page size.
    pub page_shift: u32,
    /// Octets of the pool.
    pub size: u64,
    /// Physical address.
    pub phys: u64,
    /// Offset of the table of [`PacketHeader`], one a page, that of a chunk at its first page.
    pub table_off: u64,
    /// Offset of the first page that chunks are cut from.
    pub data_off: u64,
    /// The trace's UUID.
    pub boot_id: [u8; 16],
    /// Kernel release, NUL-padded.
    pub release: [u8; 64],
    /// Number of the boot in a row of warm ones, from 1.
    pub boot_nr: u64,
    /// `crc32_le(~0)` of the octets before it.
    pub crc: u32,
    /// Zero.
    pub reserved: u32,
}
