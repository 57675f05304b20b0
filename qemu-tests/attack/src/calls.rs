//! The three system calls, and what can be done with a reader's descriptor.

use bootbuf::abi::{
    IOC_ACK, MAX_CHUNK, NR_BOOTBUF_OPEN, NR_BOOTBUF_RESERVE, NR_MARKER_CTL, OPEN_NONBLOCK,
    OPEN_PEEK, OPEN_PREVIOUS, OpenArgs, RESERVE_AGGREGATE, ReserveArgs,
};
use markers::abi::{
    CTL_CALLS_GET, CTL_CALLS_SET, CTL_RULE_ADD, CTL_RULE_DEL, CTL_RULE_LIST, CTL_SLOT_TEXT, CtlArgs,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::rules;
use crate::shared::Count;
use crate::values::{mutate, number};
use crate::worker::{Actor, Open};

/// Passes a structure, or nearly: sometimes of another size, sometimes changed, sometimes not all there.
/// Returns what the call returns and where the structure is.
fn pass(actor: &mut Actor, nr: usize, first: Option<usize>, structure: &[u8]) -> (isize, usize) {
    let mut octets = structure.to_vec();
    let mut size = octets.len();
    match actor.rng.u8(0..12) {
        0 => mutate(&mut actor.rng, &mut octets),
        1 => size = number(&mut actor.rng) as usize,
        2 => {
            // What a newer program would pass.
            octets.resize(octets.len() + actor.rng.usize(1..5000), 0);
            size = octets.len();
            if actor.rng.bool() {
                mutate(&mut actor.rng, &mut octets);
            }
        }
        3 => size = actor.rng.usize(0..size + 1),
        _ => {}
    }
    let at = actor.arena.put(&mut actor.rng, &octets);
    let args = match first {
        Some(first) => [first, at, size, 0, 0, 0],
        None => [at, size, 0, 0, 0, 0],
    };
    (actor.call(nr, args), at)
}

/// What the structure is after the call.
fn back<T: FromBytes>(actor: &Actor, at: usize) -> Option<T> {
    let octets = actor.arena.get(at, size_of::<T>());
    T::read_from_bytes(&octets).ok()
}

pub(crate) fn marker_ctl(actor: &mut Actor) {
    let op = match actor.rng.u8(0..16) {
        0 => number(&mut actor.rng) as u32,
        1..6 => CTL_RULE_ADD,
        // As many as are added, or the list is soon full.
        6..10 => CTL_RULE_DEL,
        _ => actor.rng.u32(CTL_RULE_LIST..=CTL_CALLS_GET),
    };
    let pid = actor.some_pid();
    let text = match op {
        CTL_RULE_ADD | CTL_RULE_DEL => rules::rule(&mut actor.rng, pid),
        CTL_CALLS_SET => rules::patterns(&mut actor.rng),
        // Room for the answer.
        _ => vec![
            0;
            actor
                .rng
                .choice([0, 1, 8, 64, 100, 512, 4096, 70_000])
                .unwrap_or(0)
        ],
    };
    let mut args = CtlArgs {
        buf: actor.arena.put(&mut actor.rng, &text) as u64,
        buf_size: text.len() as u64,
        ..CtlArgs::default()
    };
    match (op, actor.rng.u8(0..4)) {
        (CTL_RULE_ADD, _) => {}
        (CTL_RULE_DEL, 0..3) => args.id = actor.rng.u64(1..200),
        (CTL_SLOT_TEXT, _) => args.id = actor.rng.u64(0..40),
        (_, 0) => args.id = number(&mut actor.rng),
        _ => {}
    }
    match actor.rng.u8(0..20) {
        0 => args.buf_size = number(&mut actor.rng),
        1 => args.flags = number(&mut actor.rng),
        2 => args.result = number(&mut actor.rng),
        _ => {}
    }
    pass(actor, NR_MARKER_CTL, Some(op as usize), args.as_bytes());
}

pub(crate) fn reserve(actor: &mut Actor) {
    let known = actor.chunks.last().copied().unwrap_or(0);
    let rng = &mut actor.rng;
    let chunk = match rng.u8(0..8) {
        0 => number(rng),
        1 => known.wrapping_add(number(rng)),
        2 => rng.choice(&actor.chunks).copied().unwrap_or(0),
        3 => 0,
        _ => known,
    };
    let args = ReserveArgs {
        flags: match rng.u8(0..10) {
            0 => number(rng),
            1..4 => RESERVE_AGGREGATE,
            _ => 0,
        },
        chunk,
        want: rng
            .choice([0, 1, 24, 64, 3968, 3969, 65536, u32::MAX])
            .unwrap_or(0),
        lost: if rng.u8(0..10) == 0 {
            number(rng) as u32
        } else {
            0
        },
        base: 0,
    };
    let (result, at) = pass(actor, NR_BOOTBUF_RESERVE, None, args.as_bytes());
    if result == 0
        && let Some(args) = back::<ReserveArgs>(actor, at)
        && args.base != 0
    {
        actor.chunks.push(args.base);
        if actor.chunks.len() > 16 {
            actor.chunks.remove(0);
        }
    }
}

/// Opens a reader, or does something with one that is open.
pub(crate) fn reader(actor: &mut Actor) {
    if actor.open.is_empty() || (actor.open.len() < 8 && actor.rng.u8(0..6) == 0) {
        open(actor);
    } else if let Some(&open) = actor.rng.choice(&actor.open) {
        use_reader(actor, open);
    }
}

fn open(actor: &mut Actor) {
    let rng = &mut actor.rng;
    let flags = match rng.u8(0..8) {
        0 => number(rng),
        1 => OPEN_NONBLOCK | OPEN_PREVIOUS,
        2 | 3 => OPEN_NONBLOCK,
        4 => OPEN_PEEK,
        _ => OPEN_PEEK | OPEN_NONBLOCK,
    };
    let (fd, at) = pass(actor, NR_BOOTBUF_OPEN, None, OpenArgs { flags }.as_bytes());
    if fd < 0 {
        return;
    }
    // The kernel took what is there, which may have been changed on the way.
    let peeks = back::<OpenArgs>(actor, at).is_some_and(|args| args.flags & OPEN_PEEK != 0);
    let fd = fd as i32;
    // A read may wait; not all are to be ended by the watchdog.
    // SAFETY: numbers.
    unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
    actor.open.push(Open { fd, frees: !peeks });
}

/// The control's events are to be found in the trace, so nothing is acknowledged that was read from a
/// descriptor that frees: a program of its own, the thief, does that, and says what it took.
fn use_reader(actor: &mut Actor, open: Open) {
    let fd = open.fd as usize;
    let rng = &mut actor.rng;
    let len = rng
        .choice([
            0,
            1,
            127,
            128,
            4096,
            16384,
            MAX_CHUNK,
            MAX_CHUNK + 1,
            1 << 20,
        ])
        .unwrap_or(0);
    let at = actor.arena.address(rng, len);
    let nr = |number: libc::c_long| number as usize;
    let any = number(rng) as usize;
    match rng.u8(0..16) {
        0..6 => drop(actor.call(nr(libc::SYS_read), [fd, at, len, 0, 0, 0])),
        6 | 7 => {
            let value = if open.frees { 0 } else { number(rng) };
            let at = actor.arena.put(&mut actor.rng, &value.to_le_bytes());
            actor.call(nr(libc::SYS_ioctl), [fd, IOC_ACK as usize, at, 0, 0, 0]);
        }
        8 => {
            let request = match rng.u8(0..3) {
                0 => (IOC_ACK as usize & !0xff) | usize::from(rng.u8(0..0xb0)),
                1 => IOC_ACK as usize ^ (1 << rng.u32(8..32)),
                _ => any & !(IOC_ACK as usize),
            };
            actor.call(nr(libc::SYS_ioctl), [fd, request, at, 0, 0, 0]);
        }
        9 => drop(actor.call(nr(libc::SYS_pread64), [fd, at, len, any, 0, 0])),
        10 => drop(actor.call(nr(libc::SYS_lseek), [fd, any, actor.number % 5, 0, 0, 0])),
        11 => {
            let (prot, flags) = (rng.usize(0..8), rng.usize(0..4));
            actor.call(nr(libc::SYS_mmap), [0, 4096 + len, prot, flags, fd, any]);
        }
        12 => {
            let mut poll = Vec::new();
            poll.extend_from_slice(&open.fd.to_le_bytes());
            poll.extend_from_slice(&u32::MAX.to_le_bytes());
            let at = actor.arena.put(&mut actor.rng, &poll);
            actor.call(nr(libc::SYS_poll), [at, 1, 0, 0, 0, 0]);
        }
        13 => {
            actor.call(nr(libc::SYS_write), [fd, at, len, 0, 0, 0]);
            actor.call(nr(libc::SYS_ftruncate), [fd, any, 0, 0, 0, 0]);
        }
        14 => {
            let to = actor.rng.usize(200..210);
            actor.call(nr(libc::SYS_dup2), [fd, to, 0, 0, 0, 0]);
        }
        _ => {
            actor.open.retain(|other| other.fd != open.fd);
            actor.call(nr(libc::SYS_close), [fd, 0, 0, 0, 0, 0]);
        }
    }
    actor.shared.count(Count::Steps);
}
