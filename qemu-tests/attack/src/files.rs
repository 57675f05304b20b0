//! `/proc/PID/bootmark`, and what else the kernel part shows as files.

use std::ffi::CString;
use std::fs;
use std::path::PathBuf;

use crate::rules;
use crate::values::number;
use crate::worker::{Actor, Open};

/// Opens one, or reads or writes one that is open.
pub(crate) fn proc(actor: &mut Actor) {
    if actor.rng.u8(0..40) == 0 {
        sysctl(actor);
        return;
    }
    let pid = actor.some_pid();
    let Ok(path) = CString::new(format!("/proc/{pid}/bootmark")) else {
        return;
    };
    let flags = actor
        .rng
        .choice([libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR]);
    // SAFETY: a string that outlives the call.
    let fd = unsafe { libc::open(path.as_ptr(), flags.unwrap_or(0) | libc::O_CLOEXEC) };
    if fd < 0 {
        return;
    }
    for _ in 0..actor.rng.u8(1..6) {
        use_file(actor, fd);
    }
    if actor.rng.u8(0..8) == 0 && actor.open.len() < 8 {
        // Kept over forks and changes of the user; it is no reader, but takes the same calls.
        actor.open.push(Open { fd, frees: false });
    } else {
        // SAFETY: a descriptor of ours.
        unsafe { libc::close(fd) };
    }
}

fn use_file(actor: &mut Actor, fd: i32) {
    let fd = fd as usize;
    let nr = |number: libc::c_long| number as usize;
    match actor.rng.u8(0..8) {
        0..4 => {
            let text = rules::lines(&mut actor.rng);
            let at = actor.arena.put(&mut actor.rng, &text);
            actor.call(nr(libc::SYS_write), [fd, at, text.len(), 0, 0, 0]);
        }
        4 => {
            let to = number(&mut actor.rng) as usize;
            actor.call(nr(libc::SYS_lseek), [fd, to, 0, 0, 0, 0]);
        }
        _ => {
            let len = actor.rng.choice([1, 7, 80, 4096, 100_000]).unwrap_or(1);
            let at = actor.arena.address(&mut actor.rng, len);
            actor.call(nr(libc::SYS_read), [fd, at, len, 0, 0, 0]);
        }
    }
}

/// Writes something to a sysctl of Bootmark's, and what it said back; for those who may.
fn sysctl(actor: &mut Actor) {
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("bootmark") || name.starts_with("bootbuf")
    };
    let Ok(entries) = fs::read_dir("/proc/sys/kernel") else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()).filter(ours) {
        let Ok(before) = fs::read(&path) else {
            continue;
        };
        let text = match actor.rng.u8(0..3) {
            0 => rules::rule(&mut actor.rng, 1),
            1 => number(&mut actor.rng).to_string().into_bytes(),
            _ => actor.rng.u8(0..3).to_string().into_bytes(),
        };
        // Refused in most cases, which is as good.
        let _ = fs::write(&path, text);
        let _ = fs::write(&path, before);
    }
}
