//! Files with markers that are almost right, executed, mapped and opened with dlopen(), and changed
//! meanwhile.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::calls;
use crate::shared::{Count, Shared};
use crate::values::{mutate, number, put_number};
use crate::worker::{Actor, Part, watchdog};

/// Where the files are made; everybody may.
const FOLDER: &str = "/tmp/fuzz-elf";
/// Files a worker.
const FILES: usize = 4;
/// Mappings that a worker keeps.
const MAPPINGS: usize = 12;
const PAGE: u64 = 4096;
const NOBODY: u32 = 65534;

/// A good file, and where it hurts.
struct Original {
    octets: Vec<u8>,
    /// ELF header, program headers, notes, descriptors: offset and length.
    places: Vec<(usize, usize)>,
    /// Offset and length of what a loader maps writable.
    data: (u64, u64),
}

impl Original {
    fn read(path: &Path) -> io::Result<Self> {
        let octets = fs::read(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        Self::new(octets).ok_or_else(|| {
            io::Error::other(format!("{} is no ELF file with markers", path.display()))
        })
    }

    fn new(octets: Vec<u8>) -> Option<Self> {
        let u16_at = |at: usize| Some(u16::from_le_bytes(octets.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_le_bytes(octets.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(octets.get(at..at + 8)?.try_into().ok()?));
        let headers = u64_at(32)? as usize;
        let count = usize::from(u16_at(56)?);
        let mut places = vec![(0, 64), (headers, count * 56)];
        let mut data = None;
        let mut loads = Vec::new();
        for header in (0..count).map(|i| headers + i * 56) {
            let (offset, address, len) = (
                u64_at(header + 8)?,
                u64_at(header + 16)?,
                u64_at(header + 32)?,
            );
            match u32_at(header)? {
                1 => {
                    loads.push((offset, address, len));
                    if u32_at(header + 4)? & 2 != 0 {
                        data = Some((offset, len));
                    }
                }
                4 => places.push((offset as usize, len as usize)),
                _ => {}
            }
        }
        // Owner, then ABI and stride, then where the descriptors are, from here.
        let note = octets
            .windows(9)
            .position(|window| window == b"bootmark\0")?;
        let start = note + 12 + 8;
        let address = loads.iter().find_map(|&(offset, address, len)| {
            (start as u64)
                .checked_sub(offset)
                .filter(|at| *at < len)
                .map(|at| address + at)
        })?;
        let array = address.wrapping_add(u64_at(start)?);
        let stop = (address + 8).wrapping_add(u64_at(start + 8)?);
        let at = loads.iter().find_map(|&(offset, first, len)| {
            array
                .checked_sub(first)
                .filter(|at| *at < len)
                .map(|at| at + offset)
        })?;
        // The places that count most come most.
        let descriptors = (at as usize, stop.checked_sub(array)? as usize);
        places.extend([descriptors, descriptors, (note - 12, 48), (note - 12, 48)]);
        Some(Self {
            octets,
            places,
            data: data?,
        })
    }

    /// A copy that is almost the same.
    fn changed(&self, rng: &mut Rng) -> Vec<u8> {
        let mut octets = self.octets.clone();
        for _ in 0..rng.u8(0..4) {
            let &(start, len) = rng.choice(&self.places).unwrap_or(&(0, 64));
            let Some(place) = octets
                .get_mut(start..start + len)
                .filter(|place| !place.is_empty())
            else {
                continue;
            };
            let at = rng.usize(0..place.len());
            match rng.u8(0..4) {
                0 => place[at] = rng.u8(..),
                1 => put_number(rng, place, at, 4),
                2 => put_number(rng, place, at, 8),
                _ => put_number(rng, place, at, 2),
            }
        }
        match rng.u8(0..12) {
            0 => mutate(rng, &mut octets),
            1 => octets.truncate(rng.usize(0..octets.len())),
            _ => {}
        }
        octets
    }
}

/// What one worker has.
struct Files {
    originals: Vec<Original>,
    loader: PathBuf,
    /// Addresses and lengths.
    mappings: Vec<(usize, usize)>,
    workers: usize,
}

pub(crate) fn run(part: &Part, shared: &'static Shared) -> io::Result<()> {
    let mut actor = Actor::new(part, shared, part.seed)?;
    // Somebody may have been faster, and it may be another user's.
    let _ = fs::create_dir(FOLDER);
    let _ = fs::set_permissions(FOLDER, fs::Permissions::from_mode(0o1777));
    let mut originals = Vec::new();
    for name in ["leaf", "plug.so", "leaf", "plug.so", "program"] {
        originals.push(Original::read(&part.files.join(name))?);
    }
    let mut files = Files {
        originals,
        loader: part.files.join("loader"),
        mappings: Vec::new(),
        workers: 8,
    };
    while Instant::now() < actor.until {
        watchdog(Duration::from_secs(5));
        actor.shared.count(Count::Steps);
        match actor.rng.u8(0..10) {
            0..3 => make(&mut actor, &files),
            3..6 => map(&mut actor, &mut files),
            6 => execute(&mut actor, None),
            7 => execute(&mut actor, Some(&files.loader)),
            8 => change(&mut actor, &files),
            _ => calls::marker_ctl(&mut actor),
        }
    }
    Ok(())
}

/// A file of this worker, or of any.
fn path(actor: &mut Actor, workers: Option<usize>) -> PathBuf {
    let worker = match workers {
        Some(workers) => actor.rng.usize(0..workers),
        None => actor.number,
    };
    Path::new(FOLDER).join(format!("{worker}-{}", actor.rng.usize(0..FILES)))
}

/// Makes a file anew: another inode, or other octets in the one that is mapped.
fn make(actor: &mut Actor, files: &Files) {
    let path = path(actor, None);
    let Some(original) = actor.rng.choice(&files.originals) else {
        return;
    };
    let octets = original.changed(&mut actor.rng);
    if actor.rng.u8(0..4) != 0 {
        // Not there the first time.
        let _ = fs::remove_file(&path);
    }
    // Busy when it is being executed, and what is not writable is another user's: both are tried.
    if fs::write(&path, octets).is_ok() {
        actor.shared.count(Count::Files);
        let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o755));
    }
}

/// Maps a file as a loader does, or otherwise.
fn map(actor: &mut Actor, files: &mut Files) {
    if files.mappings.len() >= MAPPINGS || (!files.mappings.is_empty() && actor.rng.u8(0..3) == 0) {
        let at = actor.rng.usize(0..files.mappings.len());
        let (start, len) = files.mappings.swap_remove(at);
        actor.call(libc::SYS_munmap as usize, [start, len, 0, 0, 0, 0]);
        return;
    }
    let path = path(actor, Some(files.workers));
    let Ok(file) = File::open(&path) else {
        return;
    };
    let rng = &mut actor.rng;
    let (offset, len) = rng
        .choice(&files.originals)
        .map_or((0, PAGE), |one| one.data);
    let skip = offset % PAGE;
    let (offset, len) = match rng.u8(0..4) {
        0 => (rng.u64(0..8) * PAGE, rng.u64(1..5) * PAGE),
        1 => (offset - skip, (number(rng) % (1 << 20)).max(1)),
        _ => (offset - skip, len + skip),
    };
    let (prot, flags) = match rng.u8(0..4) {
        0 => (rng.i32(0..8), libc::MAP_SHARED),
        1 => (rng.i32(0..8), libc::MAP_PRIVATE),
        _ => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE),
    };
    let start = actor.call(
        libc::SYS_mmap as usize,
        [
            0,
            len as usize,
            prot as usize,
            flags as usize,
            file.as_raw_fd() as usize,
            offset as usize,
        ],
    );
    if start <= 0 {
        return;
    }
    files.mappings.push((start as usize, len as usize));
    // Looked at without touching it: the file may be shorter by now.
    let to = actor.arena.address(&mut actor.rng, 16);
    let mut vectors = Vec::new();
    for word in [to as u64, 16, start as u64 + actor.rng.u64(0..len), 16] {
        vectors.extend_from_slice(&word.to_le_bytes());
    }
    let at = actor.arena.put(&mut actor.rng, &vectors);
    let pid = std::process::id() as usize;
    actor.call(
        libc::SYS_process_vm_readv as usize,
        [pid, at, 1, at.wrapping_add(16), 1, 0],
    );
}

/// Executes a file, or has it opened with dlopen(), by a user without rights: what runs then may do
/// anything.
fn execute(actor: &mut Actor, loader: Option<&Path>) {
    let path = path(actor, Some(8));
    let mut command = match loader {
        Some(loader) => Command::new(loader),
        None => Command::new(&path),
    };
    if loader.is_some() {
        command.arg(&path);
    } else {
        command.arg("leaf");
    }
    if actor.uid == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: between fork and exec: one system call. The timer stays over exec.
    unsafe {
        command.pre_exec(|| {
            watchdog(Duration::from_secs(1));
            Ok(())
        });
    }
    actor.shared.count(Count::Execs);
    // Not executable, killed, faulted: all of them are answers.
    let _ = command.status();
}

/// Changes a file that may be mapped or executed just now.
fn change(actor: &mut Actor, files: &Files) {
    let path = path(actor, Some(files.workers));
    let rng = &mut actor.rng;
    // Each may be refused: it is another user's, busy, or gone.
    match rng.u8(0..8) {
        0 | 1 => {
            if let Ok(file) = File::options().write(true).open(&path) {
                let len = rng.u64(0..40_000);
                let _ = file.set_len(len);
            }
        }
        2..5 => {
            let Some(original) = rng.choice(&files.originals) else {
                return;
            };
            let &(start, len) = rng.choice(&original.places).unwrap_or(&(0, 64));
            let mut octets = original
                .octets
                .get(start..start + len)
                .unwrap_or_default()
                .to_vec();
            mutate(rng, &mut octets);
            if let Ok(file) = File::options().write(true).open(&path) {
                let _ = file.write_at(&octets, start as u64);
            }
        }
        5 => {
            let mode = rng.choice([0o755, 0o700, 0o644, 0o4755, 0]).unwrap_or(0);
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        }
        6 => {
            let to = Path::new(FOLDER).join(format!("{}-{}", rng.usize(0..8), rng.usize(0..FILES)));
            let _ = fs::rename(&path, to);
        }
        _ => {
            let _ = fs::remove_file(&path);
        }
    }
}
