//! Names of the files of a trace directory.

use bootbuf::abi::{PacketHeader, STREAM_CPU};

/// The CTF metadata, where every CTF reader looks for it.
pub const METADATA: &str = "metadata";
/// The packets of the meta stream. CTF readers skip names that begin with a dot.
pub const META: &str = ".bootmark";
/// What the extractor noted: the machine, and the records that it left out.
pub const NOTES: &str = ".bootmark.json";

/// The file of a stream, whose last packet's header is given: the thread's name, process id,
/// thread id and the stream's number, or the CPU's number.
pub fn stream_file(header: &PacketHeader) -> String {
    if header.stream_id == STREAM_CPU {
        return format!("cpu{}.{}", header.cpu, header.stream_instance);
    }
    let comm = comm(&header.comm);
    let safe: String = comm
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "_-+:".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    let name = if safe.is_empty() { "thread" } else { &safe };
    format!(
        "{name}-{}-{}.{}",
        header.pid, header.tid, header.stream_instance
    )
}

/// Whether a directory entry is a stream's file.
pub fn is_stream(name: &str) -> bool {
    name != METADATA && !name.starts_with('.')
}

/// A thread's name as text.
pub fn comm(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
