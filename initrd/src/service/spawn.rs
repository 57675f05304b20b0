//! Starting a process in two steps: fork, so that its number is known, then let it go.
//!
//! `std::process::Command` reports a number only once the program runs; a span that covers the start and
//! names the process needs it before.

use crate::signals;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use std::ffi::CString;
use std::path::Path;
use std::ptr;

/// What to execute and how.
#[derive(Debug)]
pub struct Program {
    argv: Vec<CString>,
    envp: Vec<CString>,
    input: OwnedFd,
    output: OwnedFd,
}

/// A child that waits to be let go.
#[derive(Debug)]
pub struct Waiting {
    /// Its number, which is its process group's and its session's as well.
    pub pid: Pid,
    go: OwnedFd,
    failed: OwnedFd,
}

impl Program {
    /// Prepares a program: `argv[0]` is its path, `envp` has `NAME=value`; it reads from `/dev/null` and
    /// writes to `output`.
    ///
    /// # Errors
    /// `EINVAL` when there is no `argv[0]` or a text has a NUL in it; those of opening `/dev/null`.
    pub fn new(argv: &[String], envp: &[String], output: OwnedFd) -> Result<Program, Errno> {
        let text = |texts: &[String]| {
            texts
                .iter()
                .map(|t| CString::new(t.as_bytes()).map_err(|_| Errno::INVAL))
                .collect::<Result<Vec<_>, _>>()
        };
        if argv.is_empty() {
            return Err(Errno::INVAL);
        }
        Ok(Program {
            argv: text(argv)?,
            envp: text(envp)?,
            input: open(Path::new("/dev/null"), OFlags::RDONLY)?,
            output,
        })
    }

    /// Forks. The child has a session of its own and no signal blocked, and waits.
    ///
    /// # Errors
    /// Those of fork(2) and pipe(2).
    pub fn fork(self) -> Result<Waiting, Errno> {
        let (go_read, go) = pipe_with(PipeFlags::CLOEXEC)?;
        let (failed, failed_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let pointers = |texts: &[CString]| {
            let mut all: Vec<_> = texts.iter().map(|t| t.as_ptr()).collect();
            all.push(ptr::null());
            all
        };
        let (argv, envp) = (pointers(&self.argv), pointers(&self.envp));
        // SAFETY: everything that the child uses was made before; it makes system calls only and ends
        // in execve() or _exit(), so it neither returns nor runs destructors.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop(go);
            let e = self.child(&argv, &envp, go_read);
            let code = e.raw_os_error().to_ne_bytes();
            // Nobody left to tell if this fails; the parent then sees the exit status.
            let _ = rustix::io::write(&failed_write, &code);
            // SAFETY: ends this process and nothing else.
            unsafe { libc::_exit(127) }
        }
        match Pid::from_raw(pid) {
            Some(pid) if pid.as_raw_nonzero().get() > 0 => Ok(Waiting { pid, go, failed }),
            _ => {
                Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN))
            }
        }
    }

    /// The child's side; gives the reason when it cannot execute.
    fn child(
        &self,
        argv: &[*const libc::c_char],
        envp: &[*const libc::c_char],
        go: OwnedFd,
    ) -> Errno {
        let prepare = || -> Result<(), Errno> {
            rustix::process::setsid()?;
            rustix::stdio::dup2_stdin(&self.input)?;
            rustix::stdio::dup2_stdout(&self.output)?;
            rustix::stdio::dup2_stderr(&self.output)?;
            signals::unblock_all();
            // Nothing to read means that the parent is gone, or gave up.
            match rustix::io::read(go.as_fd(), &mut [0_u8; 1])? {
                0 => Err(Errno::CANCELED),
                _ => Ok(()),
            }
        };
        if let Err(e) = prepare() {
            return e;
        }
        // SAFETY: both lists end with a null pointer and point at texts that `self` owns.
        unsafe { libc::execve(argv[0], argv.as_ptr(), envp.as_ptr()) };
        Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOEXEC)
    }
}

impl Waiting {
    /// Lets the child execute its program and waits until it has.
    ///
    /// # Errors
    /// Why it could not; the child is about to end then, and has to be waited for as any other.
    pub fn release(self) -> Result<Pid, Errno> {
        rustix::io::write(&self.go, b"g")?;
        let mut code = [0_u8; 4];
        loop {
            return match rustix::io::read(self.failed.as_fd(), &mut code) {
                // Executing closed the other end.
                Ok(0) => Ok(self.pid),
                Ok(_) => Err(Errno::from_raw_os_error(i32::from_ne_bytes(code))),
                Err(Errno::INTR) => continue,
                Err(e) => Err(e),
            };
        }
    }
}

/// Opens a file for a child's streams: made when missing, closed in whatever is executed besides.
///
/// # Errors
/// Those of open(2).
pub fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    // dup2() onto itself would keep close-on-exec, hence never a standard descriptor.
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    rustix::io::fcntl_dupfd_cloexec(&fd, 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitOptions, waitpid};
    use std::fs;

    fn run(argv: &[&str], envp: &[&str], output: &Path) -> (Result<Pid, Errno>, Option<i32>) {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let own = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let program = Program::new(&own(argv), &own(envp), open(output, flags).unwrap()).unwrap();
        let waiting = program.fork().unwrap();
        let pid = waiting.pid;
        let result = waiting.release();
        let status = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap().1;
        (result, status.exit_status())
    }

    #[test]
    fn runs_with_arguments_environment_and_output() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let script = "echo $X $1; test $$ = $(ps -o sid= -p $$) && exit 7";
        let (result, status) = run(
            &["/bin/sh", "-c", script, "sh", "two"],
            &["X=one", "PATH=/usr/bin:/bin"],
            &out,
        );
        assert!(result.is_ok());
        assert_eq!(status, Some(7));
        assert_eq!(fs::read_to_string(&out).unwrap(), "one two\n");
    }

    #[test]
    fn signals_are_not_blocked_in_the_child() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let (result, _) = run(&["/bin/grep", "SigBlk", "/proc/self/status"], &[], &out);
        assert!(result.is_ok());
        assert_eq!(
            fs::read_to_string(&out).unwrap().trim(),
            "SigBlk:\t0000000000000000"
        );
    }

    #[test]
    fn says_why_it_cannot_execute() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let (result, status) = run(&["/no/such/program"], &[], &out);
        assert_eq!((result, status), (Err(Errno::NOENT), Some(127)));
        let (result, _) = run(&["/etc/passwd"], &[], &out);
        assert_eq!(result, Err(Errno::ACCESS));
    }

    #[test]
    fn a_child_that_is_not_let_go_ends() {
        let dir = tempfile::tempdir().unwrap();
        let output = open(&dir.path().join("o"), OFlags::WRONLY | OFlags::CREATE).unwrap();
        let program = Program::new(&["/bin/true".into()], &[], output).unwrap();
        let Waiting { pid, go, failed } = program.fork().unwrap();
        drop((go, failed));
        let status = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap().1;
        assert_eq!(status.exit_status(), Some(127));
    }

    #[test]
    fn texts_with_nul_are_refused() {
        let output = open(Path::new("/dev/null"), OFlags::WRONLY).unwrap();
        assert_eq!(
            Program::new(&["/bin/\0".into()], &[], output).unwrap_err(),
            Errno::INVAL
        );
    }
}
