//! What the inits say, and the terminal behind `/dev/console`.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where messages go: the console, and the kernel log besides, so that they are in `dmesg` and in
/// what the kernel saves when it panics.
#[derive(Debug)]
pub struct Console {
    name: &'static str,
    quiet: bool,
}

impl Console {
    /// For the program `name`.
    pub fn new(name: &'static str) -> Console {
        Console { name, quiet: false }
    }

    /// With `quiet`, only [`Console::alert`] is heard on the console; the kernel log has everything.
    pub fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
    }

    /// Something that people watching like to know.
    pub fn say(&self, text: &str) {
        self.put(text, self.quiet);
    }

    /// Something that must be seen.
    pub fn alert(&self, text: &str) {
        self.put(text, false);
    }

    /// Waits until what was said has left the machine. A serial line is slow: a panic or reset that
    /// follows at once would break into the last lines or lose them.
    pub fn drain(&self) {
        // Nothing to wait for when it is no terminal, or closed.
        let _ = rustix::termios::tcdrain(rustix::stdio::stderr());
    }

    fn put(&self, text: &str, quiet: bool) {
        let lines = text
            .lines()
            .map(|line| format!("{}: {line}\n", self.name))
            .collect::<String>();
        if !quiet {
            // A console that is gone is no reason to stop; the kernel log still has it.
            let _ = io::stderr().write_all(lines.as_bytes());
        }
        if let Ok(mut log) = File::options().write(true).open("/dev/kmsg") {
            for line in lines.lines() {
                // Facility 3 (daemon), level 7 (debug): kept, but not printed once more.
                let _ = log.write_all(format!("<31>{line}\n").as_bytes());
            }
        }
    }
}

/// Whether the file descriptors 0 to 2 are open.
fn has_standard_streams() -> bool {
    (0..3).all(|fd| {
        // SAFETY: the descriptor is borrowed for this one question, which is whether it is open.
        let fd = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
        rustix::io::fcntl_getfd(fd).is_ok()
    })
}

/// Opens `/dev/console`, or `/dev/null` where there is no console, as descriptors 0 to 2 when the
/// kernel could not: it does that before there is a `/dev`.
///
/// # Errors
/// When neither can be opened; then there is nobody to tell, either.
pub fn ensure_standard_streams() -> io::Result<()> {
    if has_standard_streams() {
        return Ok(());
    }
    let open = |path| rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
    let fd = open("/dev/console").or_else(|_| open("/dev/null"))?;
    rustix::stdio::dup2_stdin(&fd)?;
    rustix::stdio::dup2_stdout(&fd)?;
    rustix::stdio::dup2_stderr(&fd)?;
    // The low numbers are taken now, so this one is either one of them or closed with its owner.
    if std::os::fd::AsRawFd::as_raw_fd(&fd) <= 2 {
        std::mem::forget(fd);
    }
    Ok(())
}

/// The terminal to run a shell on: the device that `/dev/console` stands for, since `/dev/console`
/// itself becomes nobody's controlling terminal by being opened.
///
/// # Errors
/// `ENODEV` or the like when this machine has no console.
pub fn open_terminal() -> Result<(OwnedFd, PathBuf), Errno> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let named = active_console(Path::new("/sys/class/tty/console/active"));
    for path in named.into_iter().chain([PathBuf::from("/dev/console")]) {
        if let Ok(fd) = rustix::fs::open(&path, flags, Mode::empty())
            && rustix::termios::isatty(&fd)
        {
            return Ok((fd, path));
        }
    }
    Err(Errno::NODEV)
}

/// The kernel lists the one behind `/dev/console` last. `tty0` stands for the visible virtual terminal.
fn active_console(file: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(file).ok()?;
    let mut name = text.split_whitespace().last()?.to_owned();
    if name == "tty0" {
        name = fs::read_to_string("/sys/class/tty/tty0/active")
            .ok()?
            .trim()
            .to_owned();
    }
    Some(Path::new("/dev").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_console_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("active");
        fs::write(&file, "hvc0 ttyS0\n").unwrap();
        assert_eq!(active_console(&file), Some("/dev/ttyS0".into()));
        fs::write(&file, "\n").unwrap();
        assert_eq!(active_console(&file), None);
        assert_eq!(active_console(&dir.path().join("none")), None);
    }
}
