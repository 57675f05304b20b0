//! The kernel's own search for memory that nothing points to any more (`CONFIG_DEBUG_KMEMLEAK`).

use crate::console::Console;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

const FILE: &str = "/sys/kernel/debug/kmemleak";
/// The kernel tells of nothing that is younger than five seconds: a pointer to it may be in a register.
const AGE: Duration = Duration::from_millis(5_500);
/// Of a flood of them the first ones say enough.
const LINES: usize = 200;

/// Says on the console what the kernel has lost, and gives that in one line; nothing when all is well
/// or this kernel does not search.
///
/// It takes two searches: the first one only learns what the memory looks like.
pub fn report(console: &Console) -> Option<String> {
    let found = match search() {
        Ok(found) => found,
        Err(e) => return Some(format!("{FILE}: {e}")),
    };
    let count = found
        .lines()
        .filter(|line| line.starts_with("unreferenced object"))
        .count();
    if found.is_empty() {
        return None;
    }
    for line in found.lines().take(LINES) {
        console.alert(line);
    }
    Some(format!("the kernel has lost {count} pieces of memory"))
}

fn search() -> io::Result<String> {
    if !Path::new(FILE).exists() {
        match mount(
            "debugfs",
            "/sys/kernel/debug",
            "debugfs",
            MountFlags::empty(),
            None,
        ) {
            // A kernel without debugfs, or one whose debugfs is there already.
            Ok(()) | Err(Errno::NODEV | Errno::NOENT | Errno::BUSY) => {}
            Err(e) => return Err(e.into()),
        }
        if !Path::new(FILE).exists() {
            return Ok(String::new());
        }
    }
    fs::write(FILE, "scan")?;
    std::thread::sleep(AGE);
    fs::write(FILE, "scan")?;
    fs::read_to_string(FILE)
}
