//! Target `packets`: octets as they may come from read() or stand in a file, into the packet reader.

use bootbuf::abi::{HEADER_SIZE, RECORD_HEADER, STREAM_AGGREGATE, STREAM_META};
use bootbuf::reader::{Cell, Check, Item, Meta, Packet, Record, packets};
use expr::SlotText;
use markers::decode::Marker;

/// Reads packets, records and what is in them; the number of records that made sense.
///
/// # Panics
/// When a record lies where it cannot lie, or a packet reads differently the second time.
pub fn run(data: &[u8]) -> u64 {
    let mut records = 0;
    for packet in packets(data) {
        let Ok(packet) = packet else { break };
        let (again, rest) = Packet::parse(packet.bytes()).expect("it was a packet");
        assert!(rest.is_empty());
        assert_eq!(again.bytes(), packet.bytes());
        assert!(packet.comm().len() <= packet.header().comm.len());
        records += walk(&packet);
    }
    records
}

fn walk(packet: &Packet<'_>) -> u64 {
    let mut check = Check::new(packet.header());
    let content = (packet.header().content_bits / 8) as usize;
    let mut before = HEADER_SIZE;
    let mut good = 0;
    let mut over = false;
    for item in packet.records() {
        assert!(!over, "something behind what is no record");
        let (offset, len) = match item {
            Item::Committed(record) => {
                let payload = record.offset + RECORD_HEADER;
                let len = RECORD_HEADER + record.payload.len();
                assert_eq!(
                    packet.bytes()[payload..record.offset + len],
                    *record.payload
                );
                good += u64::from(check.record(&record).is_ok() && read(packet, &record));
                (record.offset, len)
            }
            Item::Torn { offset, len, .. } => (offset, len),
            Item::Malformed { offset, reason } => {
                over = true;
                assert!(!reason.to_string().is_empty());
                (offset, 0)
            }
        };
        assert!(before <= offset && offset + len <= content);
        before = offset + len;
    }
    good
}

/// Whether the record is what its stream has.
fn read(packet: &Packet<'_>, record: &Record<'_>) -> bool {
    match packet.header().stream_id {
        STREAM_META => match Meta::decode(record) {
            Ok(Meta::Marker { descriptor, .. }) => Marker::parse(descriptor).is_ok(),
            Ok(Meta::Slot { text, .. }) => {
                std::str::from_utf8(text).is_ok_and(|text| SlotText::parse(text).is_ok())
            }
            Ok(Meta::Unknown { .. }) => false,
            Ok(_) => true,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                false
            }
        },
        STREAM_AGGREGATE => match Cell::decode(record) {
            Ok(cell) => {
                let octets = size_of::<bootbuf::abi::Cell>() + 8 * cell.values().len();
                assert_eq!(octets + cell.key.len(), record.payload.len());
                assert_eq!(Some(cell.count()), cell.values().next());
                true
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                false
            }
        },
        _ => true,
    }
}
