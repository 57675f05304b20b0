//! Finding the init of the new root and making sure, while there is still a way back, that it can run.

use crate::failure::Failure;
use crate::trace::{marker, span};
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use rustix::fd::OwnedFd;
use rustix::fs::{Access, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

const STEP: &str = "looking for init in the new root";

/// What the kernel tries, in its order, when `init=` names nothing.
pub const DEFAULTS: [&str; 4] = ["/sbin/init", "/etc/init", "/bin/init", "/bin/sh"];

/// Octets looked at for an interpreter's name.
const HEAD: usize = 4096;

/// As the kernel's limit (`exec_binprm()`).
const MAX_INTERPRETERS: u32 = 5;

/// A path inside the new root, resolved as it will be after the switch.
struct Root(OwnedFd);

/// Gives the path, seen from the new root, of the init to run.
///
/// With `init=` it is that one or none, as in the kernel: whoever asks for a program does not want
/// another. Links are followed inside the new root, so an absolute link means what it will mean later.
///
/// # Errors
/// With the reason for each candidate: missing, no file, not executable, interpreter missing.
pub fn find(root: &Path, asked: Option<&str>) -> Result<String, Failure> {
    let mut stage = span!("init", "check_init", asked: str = asked.unwrap_or(""));
    let dir = rustix::fs::open(
        root,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map(Root)
    .map_err(|e| {
        Failure::new(
            STEP,
            format!("{}: {e}", root.display()),
            "mount the root file system there",
        )
        .errno(e)
    })?;
    // The kernel starts init from /.
    let asked = asked.map(|path| format!("/{}", path.trim_start_matches('/')));
    let one;
    let candidates: &[&str] = match &asked {
        Some(path) => {
            one = [path.as_str()];
            &one
        }
        None => &DEFAULTS,
    };
    let mut reasons = Vec::new();
    for path in candidates {
        match dir.check(path, 0) {
            Ok(()) => {
                marker!("init", "init_found", path: str = *path);
                return Ok((*path).to_owned());
            }
            Err(why) => reasons.push(format!("{path}: {why}")),
        }
    }
    stage.fail(Errno::NOENT.raw_os_error());
    let listing = names(root, 24).unwrap_or_else(|e| format!("unreadable: {e}"));
    let advice = if asked.is_some() {
        "correct init= on the kernel command line, or leave it out for /sbin/init"
    } else {
        "is this the right file system? See root= on the kernel command line"
    };
    Err(Failure::new(STEP, reasons.join("; "), advice)
        .found(format!("in the new root: {listing}"))
        .errno(Errno::NOENT))
}

impl Root {
    fn open(&self, path: &str) -> Result<OwnedFd, Errno> {
        rustix::fs::openat2(
            &self.0,
            path,
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK,
            Mode::empty(),
            ResolveFlags::IN_ROOT,
        )
    }

    /// Whether the kernel could execute this, as far as one can know without doing it; `depth` counts the
    /// interpreters of interpreters.
    fn check(&self, path: &str, depth: u32) -> Result<(), String> {
        if depth > MAX_INTERPRETERS {
            return Err("needs an interpreter for its interpreter, and so on".into());
        }
        let file = self.executable(path)?;
        let mut head = Vec::new();
        File::from(file)
            .take(HEAD as u64)
            .read_to_end(&mut head)
            .map_err(|e| format!("cannot be read: {e}"))?;
        let Some(interpreter) = interpreter(&head)? else {
            return Ok(());
        };
        self.check(&interpreter, depth + 1)
            .map_err(|why| format!("needs the interpreter {interpreter}, which: {why}"))
    }

    fn executable(&self, path: &str) -> Result<OwnedFd, String> {
        let file = self.open(path).map_err(|e| e.to_string())?;
        let stat = rustix::fs::fstat(&file).map_err(|e| e.to_string())?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err("is a directory".into()),
            _ => return Err("is not a file".into()),
        }
        // Root may execute what anybody may execute.
        if !Mode::from_raw_mode(stat.st_mode).intersects(Mode::XUSR | Mode::XGRP | Mode::XOTH) {
            return Err(format!(
                "is not executable (mode {:o})",
                stat.st_mode & 0o7777
            ));
        }
        Ok(file)
    }
}

/// The interpreter that a program's first octets ask for.
fn interpreter(head: &[u8]) -> Result<Option<String>, String> {
    if let Some(script) = head.strip_prefix(b"#!") {
        let line = script.split(|b| *b == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        return match line.split_whitespace().next() {
            Some(path) => Ok(Some(path.to_owned())),
            None => Err("is a script that names no interpreter".into()),
        };
    }
    if !head.starts_with(&elf::ELFMAG) {
        return Err("is neither an ELF program nor a script with #!".into());
    }
    let not_ours = || "is an ELF file that this machine cannot run".to_owned();
    let header = elf::FileHeader64::<object::Endianness>::parse(head).map_err(|_| not_ours())?;
    let endian = header.endian().map_err(|_| not_ours())?;
    if header.e_machine(endian) != elf::EM_X86_64 {
        return Err(not_ours());
    }
    // Headers or a name beyond the first page are for the kernel to judge.
    let Ok(segments) = header.program_headers(endian, head) else {
        return Ok(None);
    };
    Ok(segments
        .iter()
        .find_map(|segment| segment.interpreter(endian, head).ok().flatten())
        .map(|name| String::from_utf8_lossy(name).into_owned()))
}

/// The first names in a folder, for people.
fn names(dir: &Path, limit: usize) -> io::Result<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .take(1000)
        .collect();
    names.sort();
    let more = names.len().saturating_sub(limit);
    names.truncate(limit);
    Ok(match (names.is_empty(), more) {
        (true, _) => "nothing".into(),
        (false, 0) => names.join(" "),
        (false, more) => format!("{} and {more} more", names.join(" ")),
    })
}

/// Whether a program can be started here and now.
pub fn is_executable(path: &str) -> bool {
    rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn file(root: &Path, path: &str, content: &[u8], mode: u32) {
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn what(root: &Path, asked: Option<&str>) -> String {
        find(root, asked).unwrap_err().what
    }

    #[test]
    fn the_kernels_order_without_init() {
        let dir = tempfile::tempdir().unwrap();
        let me = fs::read(std::env::current_exe().unwrap()).unwrap();
        let loader = fs::read("/lib64/ld-linux-x86-64.so.2").unwrap();
        file(dir.path(), "/lib64/ld-linux-x86-64.so.2", &loader, 0o755);
        file(dir.path(), "/bin/sh", &me, 0o755);
        assert_eq!(find(dir.path(), None).unwrap(), "/bin/sh");
        file(dir.path(), "/sbin/init", b"#!/bin/sh -e\n", 0o755);
        assert_eq!(find(dir.path(), None).unwrap(), "/sbin/init");
    }

    #[test]
    fn absolute_links_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let loader = fs::read("/lib64/ld-linux-x86-64.so.2").unwrap();
        file(dir.path(), "/lib/loader", &loader, 0o755);
        file(dir.path(), "/usr/real", b"#!/lib/loader\n", 0o755);
        fs::create_dir(dir.path().join("sbin")).unwrap();
        symlink("/usr/real", dir.path().join("sbin/init")).unwrap();
        assert_eq!(find(dir.path(), None).unwrap(), "/sbin/init");
        // What exists outside only does not count.
        symlink("/bin/true", dir.path().join("sbin/outside")).unwrap();
        assert!(what(dir.path(), Some("/sbin/outside")).contains("No such file"));
    }

    #[test]
    fn reasons() {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), "/a", b"#!/bin/sh", 0o644);
        file(dir.path(), "/b", b"#!/bin/nosuch -x\n", 0o755);
        file(dir.path(), "/c", b"hello", 0o755);
        file(dir.path(), "/d", b"\x7fELF\x01", 0o755);
        file(dir.path(), "/e", b"#! \n", 0o755);
        assert!(what(dir.path(), Some("/a")).contains("not executable (mode 644)"));
        assert!(what(dir.path(), Some("/b")).contains("/bin/nosuch"));
        assert!(what(dir.path(), Some("/c")).contains("neither"));
        assert!(what(dir.path(), Some("/d")).contains("cannot run"));
        assert!(what(dir.path(), Some("/e")).contains("names no interpreter"));
        assert!(what(dir.path(), Some("/")).contains("directory"));
        file(dir.path(), "/f", b"#!/f", 0o755);
        assert!(what(dir.path(), Some("f")).contains("and so on"));
        let failure = find(dir.path(), None).unwrap_err();
        assert!(failure.what.contains("/sbin/init: No such file"));
        assert!(failure.found.unwrap().ends_with("a b c d e f"));
    }

    #[test]
    fn a_dynamic_program_needs_its_loader() {
        let dir = tempfile::tempdir().unwrap();
        let me = fs::read(std::env::current_exe().unwrap()).unwrap();
        file(dir.path(), "/sbin/init", &me, 0o755);
        assert!(
            what(dir.path(), Some("/sbin/init")).contains("needs the interpreter /lib64/ld-linux")
        );
    }

    proptest! {
        #[test]
        fn hostile_heads(tail in proptest::collection::vec(any::<u8>(), 0..300), at in 0..300_usize) {
            let mut head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0".to_vec();
            head.extend(&tail);
            let _ = interpreter(&head);
            head.truncate(at);
            let _ = interpreter(&head);
        }
    }
}
