//! What the ABI calls things in C and in Rust.

use core::mem::offset_of;

/// The value of a constant.
pub enum Value {
    Number(u64),
    Text(&'static str),
}

macro_rules! from_numbers {
    ($($ty:ty)*) => { $(
        impl From<$ty> for Value {
            fn from(number: $ty) -> Self {
                Self::Number(number as u64)
            }
        }
    )* };
}

from_numbers!(u8 u16 u32 u64 usize);

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

/// A constant of the ABI.
pub struct Constant {
    pub c_name: &'static str,
    pub value: Value,
    /// The Rust expression.
    pub rust: &'static str,
}

macro_rules! constants {
    ($($name:ident: $value:expr,)*) => {
        /// All constants.
        pub fn constants() -> Vec<Constant> {
            vec![$(Constant {
                c_name: stringify!($name),
                value: Value::from($value),
                rust: stringify!($value),
            }),*]
        }
    };
}

/// A member of a structure of the ABI.
pub struct Field {
    pub c_name: &'static str,
    pub rust_name: &'static str,
    pub offset: usize,
    pub size: usize,
}

/// A structure of the ABI.
pub struct Struct {
    pub c_name: &'static str,
    pub rust_name: &'static str,
    pub size: usize,
    pub align: usize,
    pub fields: Vec<Field>,
    /// Members of the C structure that follow the Rust structure.
    pub c_only: &'static [&'static str],
}

/// Size of what a pointer leads to.
fn size_of_target<T>(_: *const T) -> usize {
    size_of::<T>()
}

macro_rules! structs {
    ($($c_struct:ident: $rust:path {
        $($c_name:ident $(= $rust_name:ident)?),* $(; then $($c_only:ident),*)?
    })*) => {
        /// All structures.
        pub fn structs() -> Vec<Struct> {
            vec![$(Struct {
                c_name: stringify!($c_struct),
                rust_name: stringify!($rust),
                size: size_of::<$rust>(),
                align: align_of::<$rust>(),
                fields: vec![$(structs!(@ $rust, $c_name $(= $rust_name)?)),*],
                c_only: &[$($(stringify!($c_only)),*)?],
            }),*]
        }
    };
    (@ $rust:path, $c_name:ident) => { structs!(@ $rust, $c_name = $c_name) };
    (@ $rust:path, $c_name:ident = $rust_name:ident) => {
        Field {
            c_name: stringify!($c_name),
            rust_name: stringify!($rust_name),
            offset: offset_of!($rust, $rust_name),
            size: {
                let item = core::mem::MaybeUninit::<$rust>::uninit();
                // SAFETY: the address of a member is taken and nothing is read.
                size_of_target(unsafe { &raw const (*item.as_ptr()).$rust_name })
            },
        }
    };
}

constants! {
    BOOTMARK_ABI_MAJOR: markers::abi::ABI_MAJOR,
    BOOTMARK_ABI_MINOR: markers::abi::ABI_MINOR,
    BOOTMARK_SECTION: markers::abi::SECTION,
    BOOTMARK_DESC_SIZE: markers::abi::DESC_SIZE,
    BOOTMARK_DESC_ALIGN: markers::abi::DESC_ALIGN,
    BOOTMARK_PROVIDER_LEN: markers::abi::PROVIDER_LEN,
    BOOTMARK_NAME_LEN: markers::abi::NAME_LEN,
    BOOTMARK_MAX_FIELDS: markers::abi::MAX_FIELDS,
    BOOTMARK_STRINGS_LEN: markers::abi::STRINGS_LEN,
    BOOTMARK_MAX_BYTES: markers::abi::MAX_BYTES,
    BOOTMARK_LEVEL_DEFAULT: markers::abi::LEVEL_DEFAULT,
    BOOTMARK_LEVEL_MAX: markers::abi::LEVEL_MAX,
    BOOTMARK_STATE_ENABLED: markers::abi::STATE_ENABLED,
    BOOTMARK_STATE_SLOT_SHIFT: markers::abi::STATE_SLOT_SHIFT,
    BOOTMARK_STATE_SLOT_MASK: markers::abi::STATE_SLOT_MASK,
    BOOTMARK_STATE_ID_SHIFT: markers::abi::STATE_ID_SHIFT,
    BOOTMARK_MAX_SLOT: markers::abi::MAX_SLOT,
    BOOTMARK_STATE_CALL: markers::abi::STATE_CALL,
    BOOTMARK_MAX_EVENT_ID: markers::abi::MAX_EVENT_ID,
    BOOTMARK_FIRST_USER_ID: markers::abi::FIRST_USER_ID,
    BOOTMARK_NOTE_OWNER: markers::abi::NOTE_OWNER,
    BOOTMARK_NOTE_TYPE: markers::abi::NOTE_TYPE,
    BOOTMARK_MAX_MARKERS: markers::abi::MAX_MARKERS,
    __NR_bootmark_marker_ctl: bootbuf::abi::NR_MARKER_CTL,
    __NR_bootmark_bootbuf_reserve: bootbuf::abi::NR_BOOTBUF_RESERVE,
    __NR_bootmark_bootbuf_open: bootbuf::abi::NR_BOOTBUF_OPEN,
    MARKER_RULE_MAX: markers::abi::RULE_MAX,
    MARKER_CTL_ARGS_SIZE_V1: size_of::<markers::abi::CtlArgs>(),
    MARKER_RULE_DISABLE: markers::abi::RULE_DISABLE,
    MARKER_RULE_BOOT: markers::abi::RULE_BOOT,
    MARKER_RULE_SCOPED: markers::abi::RULE_SCOPED,
    MARKER_RULE_PROCESS: markers::abi::RULE_PROCESS,
    MARKER_MAX_CALLS: markers::abi::MAX_CALLS,
    MARKER_CALLS_TEXT_MAX: markers::abi::CALLS_TEXT_MAX,
    MARKER_STATUS_FOLLOW: markers::abi::STATUS_FOLLOW,
    MARKER_STATUS_GATED: markers::abi::STATUS_GATED,
    BOOTMARK_INSTANT: markers::abi::KIND_INSTANT,
    BOOTMARK_SPAN_BEGIN: markers::abi::KIND_SPAN_BEGIN,
    BOOTMARK_SPAN_END: markers::abi::KIND_SPAN_END,
    BOOTMARK_COUNTER: markers::abi::KIND_COUNTER,
    BOOTMARK_U8: markers::abi::TYPE_U8,
    BOOTMARK_U16: markers::abi::TYPE_U16,
    BOOTMARK_U32: markers::abi::TYPE_U32,
    BOOTMARK_U64: markers::abi::TYPE_U64,
    BOOTMARK_I8: markers::abi::TYPE_I8,
    BOOTMARK_I16: markers::abi::TYPE_I16,
    BOOTMARK_I32: markers::abi::TYPE_I32,
    BOOTMARK_I64: markers::abi::TYPE_I64,
    BOOTMARK_F32: markers::abi::TYPE_F32,
    BOOTMARK_F64: markers::abi::TYPE_F64,
    BOOTMARK_BOOL: markers::abi::TYPE_BOOL,
    BOOTMARK_STR: markers::abi::TYPE_STR,
    BOOTMARK_BYTES: markers::abi::TYPE_BYTES,
    BOOTMARK_CLOCK: markers::abi::TYPE_CLOCK,
    BOOTMARK_HINT_NONE: markers::abi::HINT_NONE,
    BOOTMARK_HINT_HEX: markers::abi::HINT_HEX,
    BOOTMARK_HINT_ENUM: markers::abi::HINT_ENUM,
    BOOTMARK_HINT_ERRNO: markers::abi::HINT_ERRNO,
    BOOTMARK_HINT_NSECS: markers::abi::HINT_NSECS,
    BOOTMARK_HINT_SIZE: markers::abi::HINT_SIZE,
    MARKER_CTL_RULE_ADD: markers::abi::CTL_RULE_ADD,
    MARKER_CTL_RULE_DEL: markers::abi::CTL_RULE_DEL,
    MARKER_CTL_RULE_LIST: markers::abi::CTL_RULE_LIST,
    MARKER_CTL_MARKER_LIST: markers::abi::CTL_MARKER_LIST,
    MARKER_CTL_STATUS: markers::abi::CTL_STATUS,
    MARKER_CTL_SLOT_TEXT: markers::abi::CTL_SLOT_TEXT,
    MARKER_CTL_CALLS_SET: markers::abi::CTL_CALLS_SET,
    MARKER_CTL_CALLS_GET: markers::abi::CTL_CALLS_GET,
    BOOTBUF_RECORD_ALIGN: bootbuf::abi::RECORD_ALIGN,
    BOOTBUF_RECORD_HEADER: bootbuf::abi::RECORD_HEADER,
    BOOTBUF_WORD_LEN_SHIFT: bootbuf::abi::WORD_LEN_SHIFT,
    BOOTBUF_WORD_COMMITTED: bootbuf::abi::WORD_COMMITTED,
    BOOTBUF_WORD_END: bootbuf::abi::WORD_END,
    BOOTBUF_LOST_TAKEN: bootbuf::abi::LOST_TAKEN,
    BOOTBUF_HEADER_SIZE: bootbuf::abi::HEADER_SIZE,
    BOOTBUF_MIN_CHUNK: bootbuf::abi::MIN_CHUNK,
    BOOTBUF_MAX_CHUNK: bootbuf::abi::MAX_CHUNK,
    BOOTBUF_MAX_RECORD: bootbuf::abi::MAX_RECORD,
    BOOTBUF_CTF_MAGIC: bootbuf::abi::CTF_MAGIC,
    BOOTBUF_PACKET_PREVIOUS: bootbuf::abi::PACKET_PREVIOUS,
    BOOTBUF_PATH_MAX: bootbuf::abi::PATH_MAX,
    BOOTBUF_BUILD_ID_MAX: bootbuf::abi::BUILD_ID_MAX,
    BOOTBUF_RESERVE_ARGS_SIZE_V1: size_of::<bootbuf::abi::ReserveArgs>(),
    BOOTBUF_OPEN_PEEK: bootbuf::abi::OPEN_PEEK,
    BOOTBUF_OPEN_NONBLOCK: bootbuf::abi::OPEN_NONBLOCK,
    BOOTBUF_OPEN_PREVIOUS: bootbuf::abi::OPEN_PREVIOUS,
    BOOTBUF_OPEN_ARGS_SIZE_V1: size_of::<bootbuf::abi::OpenArgs>(),
    BOOTBUF_IOC_ACK: bootbuf::abi::IOC_ACK,
    BOOTBUF_POOL_MAGIC: bootbuf::abi::POOL_MAGIC,
    BOOTBUF_POOL_VERSION: bootbuf::abi::POOL_VERSION,
    BOOTBUF_POOL_ALIGN: bootbuf::abi::POOL_ALIGN,
    BOOTBUF_POOL_COPY: bootbuf::abi::POOL_COPY,
    BOOTBUF_CLOCK_NONE: bootbuf::abi::CLOCK_NONE,
    BOOTBUF_CLOCK_TSC: bootbuf::abi::CLOCK_TSC,
    BOOTBUF_CLOCK_BOOTTIME: bootbuf::abi::CLOCK_BOOTTIME,
    BOOTBUF_STREAM_THREAD: bootbuf::abi::STREAM_THREAD,
    BOOTBUF_STREAM_CPU: bootbuf::abi::STREAM_CPU,
    BOOTBUF_STREAM_META: bootbuf::abi::STREAM_META,
    BOOTBUF_STREAM_AGGREGATE: bootbuf::abi::STREAM_AGGREGATE,
    BOOTBUF_SEAL_OPEN: bootbuf::abi::SEAL_OPEN,
    BOOTBUF_SEAL_FULL: bootbuf::abi::SEAL_FULL,
    BOOTBUF_SEAL_EXEC: bootbuf::abi::SEAL_EXEC,
    BOOTBUF_SEAL_EXIT: bootbuf::abi::SEAL_EXIT,
    BOOTBUF_SEAL_RECOVERED: bootbuf::abi::SEAL_RECOVERED,
    BOOTBUF_META_CLOCK: bootbuf::abi::META_CLOCK,
    BOOTBUF_META_MODULE: bootbuf::abi::META_MODULE,
    BOOTBUF_META_MARKER: bootbuf::abi::META_MARKER,
    BOOTBUF_META_PROCESS: bootbuf::abi::META_PROCESS,
    BOOTBUF_META_EXIT: bootbuf::abi::META_EXIT,
    BOOTBUF_META_SLOT: bootbuf::abi::META_SLOT,
    BOOTBUF_META_KERNEL: bootbuf::abi::META_KERNEL,
    BOOTBUF_META_LOST: bootbuf::abi::META_LOST,
    BOOTBUF_LOST_PROCESS: bootbuf::abi::LOST_PROCESS,
    BOOTBUF_LOST_USER: bootbuf::abi::LOST_USER,
    BOOTBUF_LOST_POOL: bootbuf::abi::LOST_POOL,
    BOOTBUF_LOST_MEMORY: bootbuf::abi::LOST_MEMORY,
    BOOTBUF_KERNEL_RUNS: bootbuf::abi::KERNEL_RUNS,
    BOOTBUF_KERNEL_STOPS: bootbuf::abi::KERNEL_STOPS,
    BOOTBUF_KERNEL_PANICS: bootbuf::abi::KERNEL_PANICS,
    BOOTBUF_AGGREGATE_CELL: bootbuf::abi::AGGREGATE_CELL,
    BOOTBUF_CELL_HINTS: bootbuf::abi::CELL_HINTS,
    BOOTBUF_CELL_KEY_MAX: bootbuf::abi::CELL_KEY_MAX,
    BOOTBUF_CELL_MAX_ACTIONS: bootbuf::abi::CELL_MAX_ACTIONS,
    BOOTBUF_HIST_BUCKETS: bootbuf::abi::HIST_BUCKETS,
    BOOTBUF_RESERVE_AGGREGATE: bootbuf::abi::RESERVE_AGGREGATE,
}

structs! {
    bootmark_field: markers::abi::Field { type = ty, hint, name_off, name_len }
    bootmark_desc: markers::abi::Descriptor { size, abi_major, abi_minor, kind, level, nfields, flags, state, line, provider, name, fields, strings }
    bootmark_note: markers::abi::Note { abi, stride, start, stop }
    marker_ctl_args: markers::abi::CtlArgs { flags, id, buf, buf_size, result, err_pos }
    marker_clock: markers::abi::Clock { clock, reserved, freq_hz }
    marker_rule_info: markers::abi::RuleInfo { size, id, matched, flags, text_len; then text }
    marker_info: markers::abi::MarkerInfo { size, event_id, module_id, state, path_len, reserved; then desc, path }
    bootmark_status: markers::abi::Status { size, abi, boot_id, pool_bytes, free_bytes, open_chunks, sealed_chunks, events_lost, clock, rules, modules, markers, slots, flags, events_overwritten, meta_lost }
    bootbuf_record: bootbuf::abi::RecordHeader { word, timestamp }
    bootbuf_ctl: bootbuf::abi::ChunkCtl { pos, limit, size, clock, lost, pid, tid, uid, reserved0, comm, freq_hz, hints }
    bootbuf_packet: bootbuf::abi::PacketHeader { magic, stream_id, uuid, stream_instance, ts_begin, ts_end, content_bits, packet_bits, seq, discarded, pid, tid, cpu, uid, comm, exit_code, seal, clock, flags, seal_seq }
    bootbuf_meta_clock: bootbuf::abi::MetaClock { clock, reserved, freq_hz, reading, boottime_ns, realtime_ns }
    bootbuf_meta_module: bootbuf::abi::MetaModule { module_id, first_event_id, markers, build_id_len, path_len, dev, ino, build_id, reserved }
    bootbuf_meta_marker: bootbuf::abi::MetaMarker { event_id, module_id }
    bootbuf_meta_process: bootbuf::abi::MetaProcess { pid, ppid, uid, module_id, start_boottime_ns, build_id_len, path_len, build_id }
    bootbuf_meta_exit: bootbuf::abi::MetaExit { pid, exit_code }
    bootbuf_meta_kernel: bootbuf::abi::MetaKernel { state, text_len, reserved }
    bootbuf_meta_lost: bootbuf::abi::MetaLost { stream_instance, lost, overwritten, stream_id, threads, pid, tid, cpu, uid, why, reserved, comm }
    bootbuf_meta_slot: bootbuf::abi::MetaSlot { slot, text_len, reserved }
    bootbuf_cell: bootbuf::abi::Cell { event_id, slot, nvalues, key_len, reserved }
    bootbuf_reserve_args: bootbuf::abi::ReserveArgs { flags, chunk, want, lost, base }
    bootbuf_open_args: bootbuf::abi::OpenArgs { flags }
    bootbuf_pool: bootbuf::abi::PoolHeader { magic, version, page_shift, size, phys, table_off, data_off, boot_id, release, boot_nr, crc, reserved }
}
