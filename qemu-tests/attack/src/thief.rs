//! A second reader that frees: takes packets between two turns of the extractor, and notes which of the
//! control's events were in what it acknowledged.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use bootbuf::abi::{MAX_CHUNK, OPEN_NONBLOCK, STREAM_THREAD};
use bootbuf::reader::{Item, Packet};
use bootbuf::sys;
use fastrand::Rng;

use crate::control;
use crate::worker::events;

/// Until SIGTERM.
pub(crate) fn run(output: &Path) -> io::Result<()> {
    control::catch_term();
    let mut file = File::create(output)?;
    let mut rng = Rng::new();
    // Not for its own sake: the id of the control's marker is in this program's too.
    events(&mut rng);
    let id = control::event_id();
    let mut buffer = vec![0; MAX_CHUNK];
    while !control::stopped() {
        thread::sleep(Duration::from_millis(rng.u64(1..150)));
        let Ok(fd) = sys::open(OPEN_NONBLOCK) else {
            // Somebody else reads.
            continue;
        };
        let mut taken: Vec<(u64, String)> = Vec::new();
        for _ in 0..rng.usize(1..60) {
            // Sometimes with too little room, which must cost nothing.
            let room = if rng.u8(0..8) == 0 { 200 } else { MAX_CHUNK };
            let Ok(len) = sys::read_packet(&fd, &mut buffer[..room]) else {
                continue;
            };
            let (packet, _) = Packet::parse(&buffer[..len]).map_err(io::Error::other)?;
            let header = packet.header();
            let mut lines = String::new();
            if header.stream_id == STREAM_THREAD {
                for item in packet.records() {
                    if let Item::Committed(record) = item
                        && record.id == id
                        && let Ok(number) = record.payload.try_into()
                    {
                        lines += &format!("{} {}\n", header.pid, u64::from_le_bytes(number));
                    }
                }
            }
            if header.seal_seq != 0 {
                taken.push((header.seal_seq, lines));
            }
        }
        // Some of what was read, or all; the rest is offered again to whoever comes next.
        let Some(&(last, _)) = rng.choice(&taken) else {
            continue;
        };
        if sys::ack(&fd, last).is_ok() {
            for (_, lines) in taken.iter().filter(|(seq, _)| *seq <= last) {
                file.write_all(lines.as_bytes())?;
            }
        }
    }
    Ok(())
}
