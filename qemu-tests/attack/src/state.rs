//! What the pool holds.

use std::io;

use bootbuf::abi::{HEADER_SIZE, MAX_CHUNK, OPEN_PEEK, STREAM_META};
use bootbuf::reader::Packet;
use bootbuf::sys;
use markers::abi::{CTL_STATUS, CtlArgs, Status};
use zerocopy::{FromZeros, IntoBytes};

/// Prints `free`, `sealed`, `meta` (octets in the meta stream) and for each open chunk
/// `open STREAM-KIND PID`.
pub(crate) fn print() -> io::Result<()> {
    let mut status = Status::new_zeroed();
    let mut args = CtlArgs {
        buf: status.as_mut_bytes().as_mut_ptr() as u64,
        buf_size: size_of::<Status>() as u64,
        ..CtlArgs::default()
    };
    // SAFETY: `args` is the operation's structure, and names `status` and its length.
    unsafe { sys::marker_ctl(CTL_STATUS, args.as_mut_bytes())? };
    println!(
        "free {}\nsealed {}",
        status.free_bytes, status.sealed_chunks
    );

    let fd = sys::open(OPEN_PEEK)?;
    let mut buffer = vec![0; MAX_CHUNK];
    let mut meta = 0;
    loop {
        let len = sys::read_packet(&fd, &mut buffer)?;
        if len == 0 {
            break;
        }
        let (packet, _) = Packet::parse(&buffer[..len]).map_err(io::Error::other)?;
        let header = packet.header();
        if header.stream_id == STREAM_META {
            meta += len - HEADER_SIZE;
        } else {
            println!("open {} {}", header.stream_id, header.pid);
        }
    }
    println!("meta {meta}");
    Ok(())
}
