//! Packets as the kernel would return them, made by hand.
#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;
use std::process::{Command, Output};

use bootbuf::abi::*;
use markers::__private::{FieldSpec, SPAN_END_FIELDS, Spec, descriptor};
use markers::abi::*;
use zerocopy::{FromZeros, IntoBytes};

/// Boot id of all packets made here.
pub const BOOT: [u8; 16] = *b"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef";
/// 2.5 GHz; its reading at boot is [`TSC_AT_BOOT`].
pub const FREQ: u64 = 2_500_000_000;
/// The machine counted for 8 s before the kernel's clock began.
pub const TSC_AT_BOOT: u64 = 8 * FREQ;

/// A reading of the clock at so many microseconds after boot.
pub fn tsc(us: u64) -> u64 {
    TSC_AT_BOOT + us * (FREQ / 1_000_000)
}

/// A packet in the making.
#[derive(Clone)]
pub struct Maker {
    pub header: PacketHeader,
    pub records: Vec<u8>,
    /// Octets of the last record's padding.
    pub padding: usize,
}

impl Maker {
    pub fn new(stream_id: u32, instance: u64, seq: u64) -> Self {
        let mut header = PacketHeader::new_zeroed();
        header.magic = CTF_MAGIC;
        header.stream_id = stream_id;
        header.uuid = BOOT;
        header.stream_instance = instance;
        header.seq = seq;
        header.clock = CLOCK_TSC as u8;
        header.ts_begin = tsc(0);
        header.ts_end = tsc(60_000_000);
        Self {
            header,
            records: Vec::new(),
            padding: 0,
        }
    }

    /// A thread's packet.
    pub fn thread(instance: u64, seq: u64, pid: u32, comm: &str) -> Self {
        let mut maker = Self::new(STREAM_THREAD, instance, seq);
        maker.header.pid = pid;
        maker.header.tid = pid;
        maker.header.comm[..comm.len()].copy_from_slice(comm.as_bytes());
        maker.header.seal = SEAL_FULL;
        maker
    }

    pub fn times(mut self, begin_us: u64, end_us: u64) -> Self {
        self.header.ts_begin = tsc(begin_us);
        self.header.ts_end = tsc(end_us);
        self
    }

    pub fn sealed(mut self, seal: u8, seal_seq: u64) -> Self {
        self.header.seal = seal;
        self.header.seal_seq = seal_seq;
        self
    }

    pub fn word(
        mut self,
        id: u32,
        len: usize,
        committed: bool,
        timestamp: u64,
        payload: &[u8],
    ) -> Self {
        let word = u64::from(id) | (len as u64) << 32 | if committed { WORD_COMMITTED } else { 0 };
        self.records.extend(word.to_le_bytes());
        self.records.extend(timestamp.to_le_bytes());
        self.records.extend(payload);
        let whole = self.records.len().next_multiple_of(8);
        self.padding = whole - self.records.len();
        self.records.resize(whole, 0);
        self
    }

    pub fn record(self, id: u32, us: u64, payload: &[u8]) -> Self {
        self.word(id, 16 + payload.len(), true, tsc(us), payload)
    }

    pub fn torn(self, id: u32, us: u64, payload: &[u8]) -> Self {
        self.word(id, 16 + payload.len(), false, tsc(us), payload)
    }

    pub fn bytes(mut self) -> Vec<u8> {
        let whole = 128 + self.records.len();
        self.header.packet_bits = 8 * whole as u64;
        self.header.content_bits = 8 * (whole - self.padding) as u64;
        let mut bytes = self.header.as_bytes().to_vec();
        bytes.extend(self.records);
        bytes
    }

    pub fn clock(self) -> Self {
        let clock = MetaClock {
            clock: CLOCK_TSC,
            reserved: 0,
            freq_hz: FREQ,
            reading: TSC_AT_BOOT + FREQ,
            boottime_ns: 1_000_000_000,
            realtime_ns: 0,
        };
        self.record(META_CLOCK, 0, clock.as_bytes())
    }

    pub fn marker(self, id: u32, spec: &Spec<'_>) -> Self {
        let mut payload = MetaMarker {
            event_id: id,
            module_id: u32::from(id >= FIRST_USER_ID),
        }
        .as_bytes()
        .to_vec();
        // Programs may not make markers of the provider "kernel".
        let kernel = spec.provider == "kernel";
        let provider = if kernel { "program" } else { spec.provider };
        let mut descriptor = descriptor(&Spec { provider, ..*spec });
        if kernel {
            descriptor.provider = [0; PROVIDER_LEN];
            descriptor.provider[..6].copy_from_slice(b"kernel");
        }
        payload.extend_from_slice(descriptor.as_mut_bytes());
        self.record(META_MARKER, 0, &payload)
    }

    pub fn process(self, pid: u32, ppid: u32, start_us: u64, path: &str) -> Self {
        let mut process = MetaProcess::new_zeroed();
        process.pid = pid;
        process.ppid = ppid;
        process.start_boottime_ns = start_us * 1000;
        process.path_len = path.len() as u16;
        let mut payload = process.as_bytes().to_vec();
        payload.extend(path.as_bytes());
        self.record(META_PROCESS, start_us, &payload)
    }

    pub fn slot(self, slot: u32, text: &str) -> Self {
        let mut payload = MetaSlot {
            slot,
            text_len: text.len() as u16,
            reserved: 0,
        }
        .as_bytes()
        .to_vec();
        payload.extend(text.as_bytes());
        self.record(META_SLOT, 0, &payload)
    }

    pub fn cell(self, us: u64, event_id: u32, slot: u16, values: &[u64], key: &[u8]) -> Self {
        let cell = Cell {
            event_id,
            slot,
            nvalues: values.len() as u16,
            key_len: key.len() as u16,
            reserved: [0; 3],
        };
        let mut payload = cell.as_bytes().to_vec();
        payload.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        payload.extend(key);
        self.record(AGGREGATE_CELL, us, &payload)
    }

    pub fn exit(self, pid: u32, status: u32, us: u64) -> Self {
        self.record(
            META_EXIT,
            us,
            MetaExit {
                pid,
                exit_code: status,
            }
            .as_bytes(),
        )
    }
}

pub const fn field(name: &str, ty: u8, hint: u8) -> FieldSpec<'_> {
    FieldSpec {
        name,
        ty,
        hint,
        labels: &[],
    }
}

pub const fn spec<'a>(
    provider: &'a str,
    name: &'a str,
    kind: u8,
    fields: &'a [FieldSpec<'a>],
) -> Spec<'a> {
    Spec {
        provider,
        name,
        kind,
        level: 6,
        line: 10,
        fields,
    }
}

/// Ids of [`meta`]'s markers.
pub const INITCALL: u32 = 1;
pub const INITCALL_END: u32 = 2;
pub const EXEC: u32 = 3;
pub const START: u32 = 256;
pub const MOUNT: u32 = 257;
pub const MOUNT_END: u32 = 258;
pub const ALL: u32 = 259;
pub const COUNT: u32 = 260;
pub const STAGE: u32 = 261;
pub const STAGE_END: u32 = 262;

/// A meta packet with the clock and some markers.
pub fn meta() -> Maker {
    let labels = &["off", "on", "say \"x\"", "on"];
    let all = [
        field("flags", TYPE_U32, HINT_HEX),
        field("delta", TYPE_I16, HINT_NONE),
        field("ratio", TYPE_F64, HINT_NONE),
        field("ok", TYPE_BOOL, HINT_NONE),
        FieldSpec {
            name: "state",
            ty: TYPE_I8,
            hint: HINT_ENUM,
            labels,
        },
        field("data", TYPE_BYTES, HINT_NONE),
        field("at", TYPE_CLOCK, HINT_NONE),
        field("half", TYPE_F32, HINT_NONE),
    ];
    Maker::new(STREAM_META, 0, 0)
        .clock()
        .marker(
            INITCALL,
            &spec(
                "kernel",
                "initcall",
                KIND_SPAN_BEGIN,
                &[field("func", TYPE_STR, HINT_NONE)],
            ),
        )
        .marker(
            INITCALL_END,
            &spec(
                "kernel",
                "initcall",
                KIND_SPAN_END,
                &[
                    field("begin", TYPE_CLOCK, HINT_NONE),
                    field("ret", TYPE_I32, HINT_ERRNO),
                    field("func", TYPE_STR, HINT_NONE),
                ],
            ),
        )
        .marker(
            EXEC,
            &spec(
                "kernel",
                "sched_process_exec",
                KIND_INSTANT,
                &[
                    field("pid", TYPE_U32, HINT_NONE),
                    field("old_pid", TYPE_U32, HINT_NONE),
                    field("filename", TYPE_STR, HINT_NONE),
                ],
            ),
        )
        .marker(START, &spec("init", "start", KIND_INSTANT, &[]))
        .marker(
            MOUNT,
            &spec(
                "init",
                "mount",
                KIND_SPAN_BEGIN,
                &[
                    field("target", TYPE_STR, HINT_NONE),
                    field("flags", TYPE_U64, HINT_HEX),
                ],
            ),
        )
        .marker(
            MOUNT_END,
            &spec("init", "mount", KIND_SPAN_END, &SPAN_END_FIELDS),
        )
        .marker(ALL, &spec("svc", "all-types", KIND_INSTANT, &all))
        .marker(
            COUNT,
            &spec(
                "svc",
                "count",
                KIND_COUNTER,
                &[
                    field("size", TYPE_U64, HINT_SIZE),
                    field("took", TYPE_U64, HINT_NSECS),
                ],
            ),
        )
        .marker(
            STAGE,
            &spec(
                "init",
                "stage",
                KIND_SPAN_BEGIN,
                &[field("name", TYPE_STR, HINT_NONE)],
            ),
        )
        .marker(
            STAGE_END,
            &spec("init", "stage", KIND_SPAN_END, &SPAN_END_FIELDS),
        )
        .process(1, 0, 900_000, "/init")
        .process(77, 1, 1_300_000, "/usr/lib/svc")
        .exit(77, 0x0009, 1_900_000)
}

/// A string field's octets.
pub fn string(text: &str) -> Vec<u8> {
    let mut octets = (text.len() as u16).to_le_bytes().to_vec();
    octets.extend(text.as_bytes());
    octets
}

/// Octets of several fields.
pub fn fields(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// The end of a span.
pub fn end(begin_us: u64, ret: i32) -> Vec<u8> {
    fields(&[&tsc(begin_us).to_le_bytes(), &ret.to_le_bytes()])
}

/// The packets of a small boot: kernel, PID 1, a service that was killed.
pub fn boot() -> Vec<Vec<u8>> {
    let mount = |target: &str| fields(&[&string(target), &0x0eu64.to_le_bytes()]);
    let mut cpu = Maker::new(STREAM_CPU, 1, 0)
        .times(0, 1_200_000)
        .sealed(SEAL_FULL, 1);
    cpu.header.cpu = 0;
    let cpu = cpu
        .record(INITCALL, 100_000, &string("pci_init"))
        .record(
            INITCALL_END,
            350_000,
            &fields(&[&end(100_000, 0), &string("pci_init")]),
        )
        .record(
            EXEC,
            950_000,
            &fields(&[&1u32.to_le_bytes(), &1u32.to_le_bytes(), &string("/init")]),
        );
    let init = Maker::thread(2, 0, 1, "init")
        .times(1_000_000, 1_250_000)
        .sealed(SEAL_FULL, 2)
        .record(START, 1_000_001, &[])
        .record(STAGE, 1_000_010, &string("mounts"))
        .record(MOUNT, 1_000_020, &mount("/proc"))
        .record(MOUNT_END, 1_002_020, &end(1_000_020, 0))
        .record(MOUNT, 1_003_000, &mount("/sys"))
        .record(MOUNT_END, 1_003_500, &end(1_003_000, -16))
        .record(STAGE_END, 1_004_000, &end(1_000_010, 0))
        .record(STAGE, 1_100_000, &string("switch-root"));
    let all = fields(&[
        &0xdead_beefu32.to_le_bytes(),
        &(-5i16).to_le_bytes(),
        &0.25f64.to_le_bytes(),
        &[1],
        &[1],
        &[3, 0, 0xde, 0xad, 0x01],
        &tsc(1_299_000).to_le_bytes(),
        &1.5f32.to_le_bytes(),
    ]);
    let mut service = Maker::thread(3, 0, 77, "svc/\"x\"")
        .times(1_300_000, 1_900_000)
        .sealed(SEAL_EXIT, 3);
    service.header.exit_code = 9;
    let service = service
        .record(ALL, 1_300_001, &all)
        .record(
            COUNT,
            1_300_002,
            &fields(&[&4096u64.to_le_bytes(), &1_500_000u64.to_le_bytes()]),
        )
        .torn(COUNT, 1_300_003, &[0; 16])
        .record(ALL, 1_400_000, &all);
    let open = Maker::thread(2, 1, 1, "init")
        .times(1_249_990, 2_000_000)
        .sealed(SEAL_OPEN, 0)
        .record(STAGE_END, 1_900_000, &end(1_100_000, 0));
    vec![
        meta().bytes(),
        cpu.bytes(),
        init.bytes(),
        service.bytes(),
        open.bytes(),
    ]
}

/// Runs the program.
pub fn bootmark(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bootmark"))
        .args(args)
        .output()
        .expect("bootmark runs")
}

/// Runs it on packets written to a file: an extraction.
pub fn extract(dir: &Path, packets: &[Vec<u8>]) -> Output {
    let file = dir.with_extension("packets");
    std::fs::write(&file, packets.concat()).unwrap();
    bootmark(&[
        "extract",
        "--packets",
        file.to_str().unwrap(),
        "--output",
        dir.to_str().unwrap(),
    ])
}

/// Standard output as text, of a run that must have succeeded in silence.
pub fn silent(output: Output) -> String {
    let (out, err) = texts(&output);
    assert!(
        output.status.success() && err.is_empty(),
        "{:?}\n{out}\n{err}",
        output.status
    );
    out
}

/// Standard output and error as text.
pub fn texts(output: &Output) -> (String, String) {
    (
        String::from_utf8(output.stdout.clone()).unwrap(),
        String::from_utf8(output.stderr.clone()).unwrap(),
    )
}

/// Runs babeltrace2.
pub fn babeltrace2(args: &[&str]) -> Output {
    Command::new("babeltrace2")
        .args(args)
        .output()
        .expect("babeltrace2 is installed")
}
