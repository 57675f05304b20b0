//! What the writer's tests share.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod step;

use std::sync::{Mutex, MutexGuard};

use bootbuf::abi::{PacketHeader, RECORD_HEADER, SEAL_OPEN};
use bootbuf::reader::{Check, Item, Packet};
use bootbuf::stand_in::{self, Config};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A fresh pool, and the right to be the only test that uses it.
pub fn pool(config: Config) -> MutexGuard<'static, ()> {
    let guard = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    stand_in::refuse_with(None);
    stand_in::install(config);
    guard
}

/// The octet that fills event `value` after the value itself.
fn filler(value: u64) -> u8 {
    (value as u8) | 1
}

/// Writes an event whose payload says whether it is whole. Returns whether there was room.
pub fn write_with(claim: Option<(*mut u8, impl FnOnce())>, value: u64, fill: usize) -> bool {
    let Some((payload, commit)) = claim else {
        return false;
    };
    // SAFETY: the caller claimed 8 + fill octets.
    unsafe {
        payload.cast::<u64>().write_unaligned(value);
        payload.add(8).write_bytes(filler(value), fill);
    }
    commit();
    true
}

/// [`write_with`] through this crate's writer.
pub fn write(id: u32, value: u64, fill: usize) -> bool {
    let claim = bootbuf::claim(id, RECORD_HEADER + 8 + fill);
    write_with(
        claim.map(|mut claim| (claim.payload(), || claim.commit())),
        value,
        fill,
    )
}

/// An event as read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: u32,
    pub value: u64,
    pub timestamp: u64,
    pub fill: usize,
}

/// A packet as read back.
pub struct Read {
    pub header: PacketHeader,
    pub events: Vec<Event>,
    pub torn: usize,
}

/// Reads a packet and insists on what an honest writer promises: nothing malformed, whole payloads,
/// time-stamps in the packet's time and in order.
pub fn read(packet: &[u8]) -> Read {
    let (packet, rest) = Packet::parse(packet).expect("a packet");
    assert!(rest.is_empty());
    let header = *packet.header();
    let mut check = Check::new(&header);
    let mut events = Vec::new();
    let mut torn = 0;
    for item in packet.records() {
        match item {
            Item::Committed(record) => {
                check
                    .record(&record)
                    .unwrap_or_else(|error| panic!("{record:?}: {error}"));
                let (value, rest) = record.payload.split_first_chunk().expect("the value");
                let value = u64::from_le_bytes(*value);
                assert!(
                    rest.iter().all(|&octet| octet == filler(value)),
                    "{record:?}"
                );
                let (id, timestamp) = (record.id, record.timestamp);
                events.push(Event {
                    id,
                    value,
                    timestamp,
                    fill: rest.len(),
                });
            }
            Item::Torn { .. } => torn += 1,
            Item::Malformed { offset, reason } => panic!("at {offset}: {reason}"),
        }
    }
    Read {
        header,
        events,
        torn,
    }
}

/// Ends the calling thread's stream and takes everything that was sealed.
pub fn finish() -> Vec<Read> {
    stand_in::seal_thread();
    let packets: Vec<_> = stand_in::take_sealed()
        .iter()
        .map(|packet| read(packet))
        .collect();
    for packet in &packets {
        assert_ne!(packet.header.seal, SEAL_OPEN);
        assert_eq!(packet.torn, 0);
    }
    packets
}

/// The values of all events, in the order of the packets.
pub fn values(packets: &[Read]) -> Vec<u64> {
    packets
        .iter()
        .flat_map(|packet| &packet.events)
        .map(|event| event.value)
        .collect()
}

/// Events lost in all streams: the last packet of each says it.
pub fn lost(packets: &[Read]) -> u64 {
    let mut last = std::collections::BTreeMap::new();
    for Read { header, .. } in packets {
        last.insert(header.stream_instance, header.discarded);
    }
    last.values().sum()
}
