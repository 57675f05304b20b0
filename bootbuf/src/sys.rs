//! The system calls: the three new ones by number, the others through rustix.
//!
//! None of them touches `errno`, so that tracing a program never changes what it sees.

use core::arch::asm;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{DynamicClockId, clock_gettime_dynamic};
use zerocopy::IntoBytes;

use crate::abi::{IOC_ACK, NR_BOOTBUF_OPEN, NR_MARKER_CTL, OpenArgs, ReserveArgs};

const NR_IOCTL: usize = 16;

/// A system call of three arguments.
///
/// # Safety
///
/// The arguments must be what the call expects; addresses among them must be valid for what the
/// kernel reads and writes there.
unsafe fn syscall(nr: usize, first: usize, second: usize, third: usize) -> Result<usize, Errno> {
    let result: isize;
    // SAFETY: the caller's promise. The kernel changes rax, rcx, r11 and memory that the arguments
    // name, all of which the compiler is told of.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if result < 0 {
        Err(Errno::from_raw_os_error(-result as i32))
    } else {
        Ok(result as usize)
    }
}

/// `marker_ctl(op, args, size)`: rules and markers, see `markers::abi`. Returns what the call returns.
///
/// Errors: `ENOSYS` without the patch, `EPERM` without `CAP_PERFMON`, and those of the operation.
///
/// # Safety
///
/// `args` must be the bytes of the operation's argument structure, and addresses in it must be valid
/// for the number of octets given with them: for writing where the operation answers, for reading
/// elsewhere.
pub unsafe fn marker_ctl(op: u32, args: &mut [u8]) -> Result<usize, Errno> {
    #[cfg(feature = "stand-in")]
    if let Some(answer) = crate::stand_in::marker_ctl() {
        // SAFETY: it relies on what the caller promises.
        return unsafe { answer(op, args) };
    }
    // SAFETY: the slice is valid for reading and writing, the rest is the caller's promise.
    unsafe {
        syscall(
            NR_MARKER_CTL,
            op as usize,
            args.as_mut_ptr() as usize,
            args.len(),
        )
    }
}

/// `bootbuf_reserve(args, size)`: a chunk for the calling thread, at `args.base`.
///
/// Errors: `ENOSPC` no room now, `ENODEV` no pool, `ENOMEM` no address space, `EPERM` not allowed,
/// `EINVAL`, `ENOSYS` without the patch.
pub fn reserve(args: &mut ReserveArgs) -> Result<(), Errno> {
    #[cfg(feature = "stand-in")]
    return crate::stand_in::reserve(args);
    #[cfg(not(feature = "stand-in"))]
    {
        let bytes = args.as_mut_bytes();
        let nr = crate::abi::NR_BOOTBUF_RESERVE;
        // SAFETY: the structure is valid for reading and writing; the call only ever adds mappings
        // and changes memory that it handed out itself.
        unsafe { syscall(nr, bytes.as_mut_ptr() as usize, bytes.len(), 0)? };
        Ok(())
    }
}

/// `bootbuf_open(args, size)`: a descriptor to read packets from; `flags` are
/// [`OPEN_PEEK`](crate::abi::OPEN_PEEK) and the like.
///
/// Errors: `ENOSYS` without the patch, `EPERM` without `CAP_PERFMON`, `EBUSY` there is a reader,
/// `ENODEV` no pool, `ENODATA` nothing left of an earlier boot.
pub fn open(flags: u64) -> Result<OwnedFd, Errno> {
    let mut args = OpenArgs { flags };
    let bytes = args.as_mut_bytes();
    // SAFETY: the structure is valid for reading and writing.
    let fd = unsafe { syscall(NR_BOOTBUF_OPEN, bytes.as_mut_ptr() as usize, bytes.len(), 0)? };
    // SAFETY: a descriptor that the kernel has just made for us, and nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// One packet into `buffer`, which holds [`MAX_CHUNK`](crate::abi::MAX_CHUNK) octets to be sure of
/// it; 0 at the end of a descriptor that has one.
///
/// Errors: `EAGAIN` nothing yet, with [`OPEN_NONBLOCK`](crate::abi::OPEN_NONBLOCK); `EMSGSIZE` the
/// buffer is too small, and nothing was consumed.
pub fn read_packet(fd: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match rustix::io::read(&fd, &mut *buffer) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Frees the packets read from `fd` whose `seal_seq` is at most the given one.
pub fn ack(fd: impl AsFd, seal_seq: u64) -> Result<(), Errno> {
    let fd = fd.as_fd().as_raw_fd() as usize;
    // SAFETY: the request reads 8 octets at the address.
    unsafe { syscall(NR_IOCTL, fd, IOC_ACK as usize, &raw const seal_seq as usize)? };
    Ok(())
}

/// Waits until a packet can be read; `false` when `timeout_ms` passed first.
pub fn wait(fd: impl AsFd, timeout_ms: u32) -> Result<bool, Errno> {
    let timeout = Timespec {
        tv_sec: i64::from(timeout_ms / 1000),
        tv_nsec: i64::from(timeout_ms % 1000) * 1_000_000,
    };
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    Ok(poll(&mut fds, Some(&timeout))? != 0)
}

/// `CLOCK_BOOTTIME` in nanoseconds, through the vDSO when there is one. `None` when the kernel
/// refuses, as a seccomp filter may make it.
pub fn boottime_ns() -> Option<u64> {
    let now = clock_gettime_dynamic(DynamicClockId::Boottime).ok()?;
    Some(
        (now.tv_sec as u64)
            .wrapping_mul(1_000_000_000)
            .wrapping_add(now.tv_nsec as u64),
    )
}
