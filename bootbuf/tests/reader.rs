//! The reader on packets that are right, and on everything else.

use bootbuf::abi::{
    HEADER_SIZE, KERNEL_PANICS, MAX_CHUNK, MAX_RECORD, META_CLOCK, META_EXIT, META_KERNEL,
    META_MODULE, META_PROCESS, RECORD_HEADER, STREAM_META, WORD_COMMITTED,
};
use bootbuf::reader::{
    Check, CheckError, Item, MalformedReason, Meta, MetaError, Packet, PacketError, packets,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A record to be: id, time-stamp, payload, committed.
type Spec = (u32, u64, Vec<u8>, bool);

/// Builds a packet by hand, from the offsets in docs/records.md.
fn packet(stream: u32, records: &[Spec]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_SIZE];
    let mut content = bytes.len();
    for (id, timestamp, payload, committed) in records {
        let len = RECORD_HEADER + payload.len();
        let word =
            u64::from(*id) | (len as u64) << 32 | if *committed { WORD_COMMITTED } else { 0 };
        bytes.extend(word.to_le_bytes());
        bytes.extend(timestamp.to_le_bytes());
        bytes.extend(payload);
        content = bytes.len();
        bytes.resize(content.next_multiple_of(8), 0);
    }
    let bits = bytes.len() as u64 * 8;
    bytes[0..4].copy_from_slice(&0xC1FC_1FC1_u32.to_le_bytes());
    bytes[4..8].copy_from_slice(&stream.to_le_bytes());
    bytes[32..40].copy_from_slice(&0_u64.to_le_bytes());
    bytes[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
    bytes[48..56].copy_from_slice(&(content as u64 * 8).to_le_bytes());
    bytes[56..64].copy_from_slice(&bits.to_le_bytes());
    bytes[117] = 1;
    bytes
}

fn records() -> impl Strategy<Value = Vec<Spec>> {
    vec(
        (
            1_u32..,
            any::<u64>(),
            vec(any::<u8>(), 0..100),
            any::<bool>(),
        ),
        0..40,
    )
}

/// Reads everything there is to read; returns how many items.
fn exhaust(bytes: &[u8]) -> usize {
    let mut items = 0;
    for packet in packets(bytes).map_while(Result::ok) {
        let mut check = Check::new(packet.header());
        let mut end = HEADER_SIZE;
        for item in packet.records() {
            items += 1;
            let offset = match item {
                Item::Committed(record) => {
                    let _ = check.record(&record);
                    let _ = Meta::decode(&record);
                    record.offset
                }
                Item::Torn { offset, .. } | Item::Malformed { offset, .. } => offset,
            };
            assert!(offset >= end && offset < packet.bytes().len());
            end = offset + 8;
        }
        assert!(!packet.comm().contains(&0));
    }
    items
}

proptest! {
    #[test]
    fn what_was_written_is_read(specs in records()) {
        let bytes = packet(0, &specs);
        let (packet, rest) = Packet::parse(&bytes).unwrap();
        prop_assert!(rest.is_empty());
        let items: Vec<_> = packet.records().collect();
        prop_assert_eq!(items.len(), specs.len());
        for (item, (id, timestamp, payload, committed)) in items.iter().zip(&specs) {
            match item {
                Item::Committed(record) => {
                    prop_assert!(committed);
                    prop_assert_eq!(record.id, *id);
                    prop_assert_eq!(record.timestamp, *timestamp);
                    prop_assert_eq!(record.payload, &payload[..]);
                }
                Item::Torn { id: torn, len, .. } => {
                    prop_assert!(!committed);
                    prop_assert_eq!(torn, id);
                    prop_assert_eq!(*len, RECORD_HEADER + payload.len());
                }
                Item::Malformed { .. } => prop_assert!(false, "{item:?}"),
            }
        }
    }

    #[test]
    fn arbitrary_bytes_harm_nothing(bytes in vec(any::<u8>(), 0..2000)) {
        exhaust(&bytes);
    }

    #[test]
    fn a_sound_header_before_arbitrary_bytes_harms_nothing(
        stream in 0..3_u32,
        content in vec(any::<u8>(), 0..2000),
    ) {
        let mut bytes = packet(stream, &[]);
        bytes.extend(&content);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let bits = bytes.len() as u64 * 8;
        bytes[48..56].copy_from_slice(&((HEADER_SIZE + content.len()) as u64 * 8).to_le_bytes());
        bytes[56..64].copy_from_slice(&bits.to_le_bytes());
        exhaust(&bytes);
    }

    #[test]
    fn mutated_packets_harm_nothing(
        specs in records(),
        stream in 0..3_u32,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = packet(stream, &specs);
        bytes.extend(packet(STREAM_META, &specs));
        for (index, octet) in changes {
            let index = index.index(bytes.len());
            bytes[index] = octet;
        }
        exhaust(&bytes);
        exhaust(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn a_cut_loses_what_is_behind_it_only(specs in records(), cut in any::<prop::sample::Index>()) {
        let first = packet(0, &specs);
        let whole = [first.clone(), packet(1, &specs)].concat();
        let cut = first.len() + cut.index(whole.len() - first.len());
        let mut reader = packets(&whole[..cut]);
        prop_assert_eq!(reader.next().unwrap().unwrap().bytes(), &first[..]);
        if let Some(next) = reader.next() {
            let cut_off = matches!(
                next,
                Err(PacketError::Short { .. } | PacketError::ShortHeader { .. })
            );
            prop_assert!(cut_off);
        }
        prop_assert!(reader.next().is_none());
    }
}

fn items(bytes: &[u8]) -> Vec<Item<'_>> {
    Packet::parse(bytes)
        .expect("a packet")
        .0
        .records()
        .collect()
}

#[test]
fn malformed_words_end_the_packet_with_the_reason() {
    let good = packet(0, &[(1, 5, vec![7; 8], true), (2, 6, vec![8; 8], true)]);
    let second = HEADER_SIZE + 24;
    for (word, expected) in [
        (0, MalformedReason::Hole),
        (1 << 48, MalformedReason::Bits { word: 1 << 48 }),
        (15 << 32 | 1, MalformedReason::Length { len: 15 }),
        (
            (MAX_RECORD as u64 + 1) << 32,
            MalformedReason::Length {
                len: MAX_RECORD + 1,
            },
        ),
        (32 << 32, MalformedReason::Overrun { len: 32, left: 24 }),
    ] {
        let mut bytes = good.clone();
        bytes[second..second + 8].copy_from_slice(&u64::to_le_bytes(word));
        let items = items(&bytes);
        assert_eq!(items.len(), 2, "{expected}");
        assert!(matches!(items[0], Item::Committed(record) if record.id == 1));
        let reason = expected;
        assert_eq!(
            items[1],
            Item::Malformed {
                offset: second,
                reason
            }
        );
    }
}

#[test]
fn headers_that_make_no_sense_are_refused() {
    let good = packet(0, &[]);
    let with = |at: usize, octets: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + octets.len()].copy_from_slice(octets);
        Packet::parse(&bytes).map(|_| ()).expect_err("refused")
    };
    let bits = |octets: u64| (octets * 8).to_le_bytes();
    assert!(matches!(with(0, &[0]), PacketError::Magic { .. }));
    assert_eq!(with(4, &[4]), PacketError::Stream { found: 4 });
    assert_eq!(with(117, &[3]), PacketError::Clock { found: 3 });
    assert!(matches!(with(48, &bits(127)), PacketError::Sizes { .. }));
    assert!(matches!(with(48, &bits(136)), PacketError::Sizes { .. }));
    assert!(matches!(with(56, &bits(132)), PacketError::Sizes { .. }));
    assert!(matches!(
        with(56, &bits(MAX_CHUNK as u64 + 8)),
        PacketError::Sizes { .. }
    ));
    assert_eq!(
        with(56, &bits(136)),
        PacketError::Short {
            want: 136,
            have: 128
        }
    );
    assert_eq!(
        Packet::parse(&good[..100]).map(|_| ()),
        Err(PacketError::ShortHeader { have: 100 })
    );
}

#[test]
fn times_are_checked_against_packet_and_predecessor() {
    let spec = |timestamp| (1, timestamp, Vec::new(), true);
    let mut bytes = packet(0, &[9, 10, 20, 15, 20, 31].map(spec));
    bytes[32..40].copy_from_slice(&10_u64.to_le_bytes());
    bytes[40..48].copy_from_slice(&30_u64.to_le_bytes());
    let (packet, _) = Packet::parse(&bytes).expect("a packet");
    let mut check = Check::new(packet.header());
    let results = packet.records().map(|item| match item {
        Item::Committed(record) => check.record(&record),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        results.collect::<Vec<_>>(),
        [
            Err(CheckError::Early {
                timestamp: 9,
                begin: 10
            }),
            Ok(()),
            Ok(()),
            Err(CheckError::Backwards {
                timestamp: 15,
                before: 20
            }),
            Ok(()),
            Err(CheckError::Late {
                timestamp: 31,
                end: 30
            }),
        ]
    );
}

#[test]
fn the_meta_stream_is_decoded() {
    let mut module = vec![0; 56];
    module[0] = 3;
    module[12] = 4;
    module[14] = 6;
    module.extend(b"/bin/a");
    let mut process = vec![0; 48];
    process[0] = 77;
    process[24] = 20;
    process[26] = 2;
    process.extend(b"/a");
    let too_long = {
        let mut bytes = module.clone();
        bytes[14] = 7;
        bytes
    };
    let mut kernel = KERNEL_PANICS.to_le_bytes().to_vec();
    kernel.extend([4, 0, 0, 0]);
    kernel.extend(b"oops, and what is behind the text");
    let bad_id = {
        let mut bytes = process.clone();
        bytes[24] = 21;
        bytes
    };
    let bytes = packet(
        STREAM_META,
        &[
            (META_CLOCK, 1, vec![1; 40], true),
            (META_MODULE, 2, module, true),
            (META_PROCESS, 3, process, true),
            (META_EXIT, 4, vec![1; 8], true),
            (99, 5, vec![], true),
            (META_MODULE, 6, too_long, true),
            (META_PROCESS, 7, bad_id, true),
            (META_CLOCK, 8, vec![1; 39], true),
            (META_KERNEL, 9, kernel, true),
        ],
    );
    let decoded: Vec<_> = items(&bytes)
        .iter()
        .map(|item| match item {
            Item::Committed(record) => Meta::decode(record),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(matches!(decoded[0], Ok(Meta::Clock(clock)) if clock.clock == 0x0101_0101));
    assert!(
        matches!(decoded[1], Ok(Meta::Module { module, path: b"/bin/a" }) if module.module_id == 3)
    );
    assert!(matches!(decoded[2], Ok(Meta::Process { process, path: b"/a" }) if process.pid == 77));
    assert!(matches!(decoded[3], Ok(Meta::Exit(_))));
    assert!(matches!(decoded[4], Ok(Meta::Unknown { id: 99 })));
    assert!(matches!(
        decoded[5],
        Err(MetaError::Short {
            have: 62,
            want: 63,
            ..
        })
    ));
    assert!(matches!(
        decoded[6],
        Err(MetaError::BuildId { len: 21, .. })
    ));
    assert!(matches!(
        decoded[7],
        Err(MetaError::Short {
            have: 39,
            want: 40,
            ..
        })
    ));
    assert!(matches!(
        decoded[8],
        Ok(Meta::Kernel { kernel, text: b"oops" }) if kernel.state == KERNEL_PANICS
    ));
}
