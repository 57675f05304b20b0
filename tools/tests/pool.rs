//! Pools in memory dumps, whose memory may hold anything.

use bootbuf::abi::*;
use bootbuf::reader::Packet;
use bootmark_tools::extract::pool::{self, PoolError};
use proptest::prelude::*;
use zerocopy::{FromZeros, IntoBytes};

const PAGE: usize = MIN_CHUNK;
const PAGES: usize = 16;
const DATA: usize = 2 * PAGE;
const SIZE: usize = DATA + PAGES * PAGE;
const AT: u64 = 5 << 20;

fn head() -> PoolHeader {
    let mut head = PoolHeader::new_zeroed();
    head.magic = POOL_MAGIC;
    head.version = POOL_VERSION;
    head.page_shift = 12;
    head.size = SIZE as u64;
    head.phys = AT;
    head.table_off = PAGE as u64;
    head.data_off = DATA as u64;
    head.boot_id = *b"a boot like any.";
    head.boot_nr = 3;
    seal(head)
}

fn seal(mut head: PoolHeader) -> PoolHeader {
    head.crc = !crc32fast::hash(&head.as_bytes()[..core::mem::offset_of!(PoolHeader, crc)]);
    head
}

fn with_head(head: &PoolHeader) -> Vec<u8> {
    let mut octets = vec![0; SIZE];
    for copy in [0, POOL_COPY] {
        octets[copy..copy + head.as_bytes().len()].copy_from_slice(head.as_bytes());
    }
    octets
}

fn entry(head: &PoolHeader, stream: u32, instance: u64, pages: usize) -> PacketHeader {
    let mut entry = PacketHeader::new_zeroed();
    entry.magic = CTF_MAGIC;
    entry.uuid = head.boot_id;
    entry.stream_id = stream;
    entry.stream_instance = instance;
    entry.packet_bits = (pages * PAGE * 8) as u64;
    entry.content_bits = (HEADER_SIZE * 8) as u64;
    entry.clock = CLOCK_TSC as u8;
    entry
}

fn put(octets: &mut [u8], page: usize, entry: &PacketHeader, records: &[(u64, u64)]) {
    let at = PAGE + page * HEADER_SIZE;
    octets[at..at + HEADER_SIZE].copy_from_slice(entry.as_bytes());
    let mut at = DATA + page * PAGE + HEADER_SIZE;
    for (word, timestamp) in records {
        octets[at..at + 8].copy_from_slice(&word.to_le_bytes());
        octets[at + 8..at + 16].copy_from_slice(&timestamp.to_le_bytes());
        at += 16;
    }
}

const fn word(id: u64, committed: bool) -> u64 {
    let word = id | (RECORD_HEADER as u64) << WORD_LEN_SHIFT;
    if committed {
        word | WORD_COMMITTED
    } else {
        word
    }
}

#[test]
fn a_head_is_believed_only_when_it_checks_out() {
    let good = head();
    let mut octets = with_head(&good);
    assert_eq!(pool::head(&octets, AT).unwrap().boot_nr, 3);
    assert_eq!(
        pool::head(&octets, AT + (1 << 20)).unwrap_err(),
        PoolError::Elsewhere(AT)
    );
    octets[40] ^= 1;
    assert_eq!(
        pool::head(&octets, AT).unwrap().boot_nr,
        3,
        "the second copy"
    );
    octets[POOL_COPY + 40] ^= 1;
    assert_eq!(pool::head(&octets, AT).unwrap_err(), PoolError::Damaged);
    assert_eq!(pool::head(&[0; 4096], AT).unwrap_err(), PoolError::None);
    assert_eq!(pool::head(&[], AT).unwrap_err(), PoolError::None);

    let newer = seal(PoolHeader {
        version: POOL_VERSION + 1,
        ..good
    });
    assert_eq!(
        pool::head(&with_head(&newer), AT).unwrap_err(),
        PoolError::Version(POOL_VERSION + 1)
    );
    for nonsense in [
        PoolHeader {
            data_off: SIZE as u64,
            ..good
        },
        PoolHeader {
            table_off: 0,
            ..good
        },
        PoolHeader {
            table_off: 2 * PAGE as u64,
            ..good
        },
        PoolHeader {
            size: !0xfff,
            ..good
        },
        PoolHeader {
            page_shift: 16,
            ..good
        },
    ] {
        let octets = with_head(&seal(nonsense));
        assert_eq!(pool::head(&octets, AT).unwrap_err(), PoolError::Nonsense);
    }
}

#[test]
fn chunks_come_back_as_packets_with_their_ends() {
    let head = head();
    let mut octets = with_head(&head);
    put(
        &mut octets,
        0,
        &entry(&head, STREAM_META, 1, 1),
        &[(word(1, true), 5)],
    );
    let mut sealed = entry(&head, STREAM_THREAD, 9, 2);
    sealed.seal = SEAL_FULL;
    sealed.content_bits = (HEADER_SIZE + 16) as u64 * 8;
    // The second record was claimed behind the seal and counts in the next chunk.
    put(
        &mut octets,
        2,
        &sealed,
        &[(word(300, true), 7), (word(300, true), 8)],
    );
    let open = entry(&head, STREAM_THREAD, 4, 1);
    put(
        &mut octets,
        5,
        &open,
        &[
            (word(300, true), 7),
            (word(300, false), 9),
            (word(300, true), 11),
        ],
    );
    // The same name twice, and a length that does not fit its place.
    put(&mut octets, 6, &open, &[]);
    put(&mut octets, 7, &entry(&head, STREAM_CPU, 5, 4), &[]);

    let contents = pool::contents(&head, &octets);
    assert_eq!(contents.damaged, 2);
    let packets: Vec<_> = contents
        .packets
        .iter()
        .map(|bytes| {
            let (packet, rest) = Packet::parse(bytes).unwrap();
            assert!(rest.is_empty());
            let header = packet.header();
            (
                header.stream_instance,
                header.seal,
                packet.records().count(),
                header.ts_end,
                header.seal_seq,
            )
        })
        .collect();
    assert_eq!(
        packets,
        [
            (1, SEAL_OPEN, 1, 0, 0),
            (4, SEAL_RECOVERED, 3, 11, 1),
            (9, SEAL_FULL, 1, 0, 2),
        ]
    );
}

proptest! {
    #[test]
    fn arbitrary_memory_gives_packets_or_damage(
        entries in prop::collection::vec(
            (0..PAGES, 0..5_u32, any::<u64>(), any::<u8>(), prop_oneof![
                any::<u64>(),
                (0..20_u64).prop_map(|pages| pages * PAGE as u64 * 8),
            ]),
            0..12,
        ),
        words in prop::collection::vec(
            prop_oneof![any::<u64>(), (any::<u32>(), any::<bool>()).prop_map(|(id, c)| word(id.into(), c))],
            0..300,
        ),
        cut in 0..=SIZE,
    ) {
        let head = head();
        let mut octets = with_head(&head);
        for (at, word) in words.iter().enumerate() {
            let at = DATA + HEADER_SIZE + at * 16;
            octets[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        for (page, stream, instance, seal, packet_bits) in entries {
            let mut entry = entry(&head, stream, instance, 1);
            entry.seal = seal;
            entry.packet_bits = packet_bits;
            entry.content_bits = instance;
            put(&mut octets, page, &entry, &[]);
        }
        for packet in pool::contents(&head, &octets[..cut]).packets {
            let (packet, rest) = Packet::parse(&packet).unwrap();
            prop_assert!(rest.is_empty());
            packet.records().for_each(drop);
        }
    }
}
