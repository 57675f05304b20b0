//! What a process can do to the mapping of its buffers, and to memory around it.

use std::fs;
use std::ops::Range;
use std::ptr;

use fastrand::Rng;

use crate::values::number;
use crate::worker::Actor;

const PAGE: usize = 4096;

/// Where this process has its chunks.
pub(crate) fn windows() -> Vec<Range<usize>> {
    fs::read_to_string("/proc/self/maps")
        .unwrap_or_default()
        .lines()
        .filter(|line| line.contains("[bootbuf]"))
        .filter_map(|line| {
            let (start, rest) = line.split_once('-')?;
            let (end, _) = rest.split_once(' ')?;
            let address = |text| usize::from_str_radix(text, 16).ok();
            Some(address(start)?..address(end)?)
        })
        .collect()
}

/// Some pages of the windows, or a little more.
fn pages(rng: &mut Rng) -> Range<usize> {
    let windows = windows();
    let Some(window) = rng.choice(&windows) else {
        return 0..0;
    };
    let count = window.len() / PAGE;
    let first = rng.usize(0..count);
    let len = if rng.bool() {
        rng.usize(1..=4)
    } else {
        rng.usize(1..=count - first)
    };
    let start = window.start + first * PAGE - usize::from(first == 0 && rng.u8(0..4) == 0) * PAGE;
    start..start + len * PAGE
}

/// Changes the mapping, or what the kernel thinks of it.
pub(crate) fn change(actor: &mut Actor) {
    let pages = pages(&mut actor.rng);
    if pages.is_empty() {
        return;
    }
    let nr = |number: libc::c_long| number as usize;
    let (start, len) = (pages.start, pages.len());
    let rng = &mut actor.rng;
    let any = number(rng) as usize;
    let small = rng.usize(0..8);
    // Places of its own are found for what is mapped anew, never somebody's memory.
    match rng.u8(0..16) {
        0 => drop(actor.call(nr(libc::SYS_munmap), [start, len, 0, 0, 0, 0])),
        1 => {
            let flags = libc::MREMAP_MAYMOVE as usize * (small % 2);
            actor.call(
                nr(libc::SYS_mremap),
                [start, len, len + PAGE * small, flags, 0, 0],
            );
        }
        2 => drop(actor.call(nr(libc::SYS_mremap), [start, 0, len, 1, 0, 0])),
        3 => drop(actor.call(nr(libc::SYS_mprotect), [start, len, small, 0, 0, 0])),
        4..8 => {
            let advice = match rng.u8(0..4) {
                0 => any,
                1 => rng.usize(0..26),
                2 => libc::MADV_DONTNEED as usize,
                _ => *rng
                    .choice(&[
                        libc::MADV_KEEPONFORK as usize,
                        libc::MADV_WIPEONFORK as usize,
                        libc::MADV_DONTFORK as usize,
                        libc::MADV_POPULATE_WRITE as usize,
                        libc::MADV_DODUMP as usize,
                    ])
                    .unwrap_or(&0),
            };
            actor.call(nr(libc::SYS_madvise), [start, len, advice, 0, 0, 0]);
        }
        8 => {
            actor.call(nr(libc::SYS_mlock), [start, len, 0, 0, 0, 0]);
            actor.call(nr(libc::SYS_munlock), [start, len, 0, 0, 0, 0]);
        }
        9 => drop(actor.call(nr(libc::SYS_msync), [start, len, small, 0, 0, 0])),
        10 => {
            let at = actor.arena.address(&mut actor.rng, len / PAGE);
            actor.call(nr(libc::SYS_mincore), [start, len, at, 0, 0, 0]);
        }
        11 => by_another_way(actor, start, len),
        12 => {
            // Pages that the kernel pins to move them to a pipe.
            let mut pipe = [0; 2];
            // SAFETY: an array of ours for two descriptors.
            if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) } == 0 {
                let mut vector = (start as u64).to_le_bytes().to_vec();
                vector.extend_from_slice(&(len as u64).to_le_bytes());
                let at = actor.arena.put(&mut actor.rng, &vector);
                let fd = pipe[1] as usize;
                actor.call(nr(libc::SYS_vmsplice), [fd, at, 1, small, 0, 0]);
                actor.call(nr(libc::SYS_write), [fd, start, len.min(8192), 0, 0, 0]);
                for fd in pipe {
                    // SAFETY: descriptors of ours.
                    unsafe { libc::close(fd) };
                }
            }
        }
        13 => drop(actor.call(nr(libc::SYS_remap_file_pages), [start, len, 0, small, 0, 0])),
        14 => {
            // What the kernel is asked to write itself, where a chunk is.
            actor.call(nr(libc::SYS_getrandom), [start + any % len, 64, 0, 0, 0, 0]);
            actor.call(nr(libc::SYS_futex), [start & !3, 1, small, 0, 0, 0]);
        }
        _ => {
            for name in ["smaps", "numa_maps", "pagemap"] {
                // Whatever it says, it was made to look.
                let file = fs::File::open(format!("/proc/self/{name}"));
                if let (Ok(mut file), true) = (file, name != "pagemap") {
                    let _ = std::io::copy(&mut file, &mut std::io::sink());
                }
            }
            let _ = fs::write("/proc/self/clear_refs", (1 + small % 5).to_string());
        }
    }
}

/// Reads and writes the pages as a debugger does.
fn by_another_way(actor: &mut Actor, start: usize, len: usize) {
    let mut buffer = vec![0_u8; len.min(3 * PAGE)];
    let vector = |at: usize, len: usize| libc::iovec {
        iov_base: ptr::with_exposed_provenance_mut(at),
        iov_len: len,
    };
    let local = vector(buffer.as_mut_ptr().expose_provenance(), buffer.len());
    let remote = vector(start, buffer.len());
    let pid = std::process::id() as i32;
    // SAFETY: the local side is `buffer`; the remote one is a window, which only fuzzers use.
    unsafe {
        libc::process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if actor.rng.bool() {
            libc::process_vm_writev(pid, &local, 1, &remote, 1, 0);
        }
    }
}
