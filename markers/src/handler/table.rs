//! The table of a process's call-backs, which all copies of the library in it share, and who is inside
//! which.
//!
//! It is an anonymous mapping that is never unmapped, so no copy has to say where its own is. Its first
//! page holds the call-backs and is copied at fork like other memory; the second one says who is
//! changing them and who is inside, and is zero in the child of a fork, where nobody is.
//!
//! Who calls announces itself before it looks at the function; who removes takes the function away
//! before it looks at the announcements. Both in sequentially consistent order, so one of the two sees
//! the other: what is called is known to the remover, and waited for.

use core::arch::asm;
use core::arch::x86_64::_rdtsc;
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use bootbuf::abi::{CLOCK_BOOTTIME, CLOCK_TSC};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::{Pid, test_kill_process};
use rustix::thread::{Timespec, gettid, nanosleep};
use zerocopy::IntoBytes;

use super::event::begin_of;
use super::{Function, RawEvent, RegisterError, pattern};
use crate::abi::{self, Clock, CtlArgs, Descriptor, MAX_CALLS};

/// `bmcalls` and the major version: of another one nothing may be assumed.
const MAGIC: u64 = u64::from_le_bytes(*b"bmcalls\x01");
const PAGE: usize = 4096;
/// Threads that can be in call-backs at once.
pub(super) const ENTRIES: usize = 255;

#[repr(C)]
pub(super) struct Table {
    magic: u64,
    clock: Clock,
    /// Octets of a [`Slot`] and how many there are, so that a later version may have others.
    slot_size: u32,
    slots_len: u32,
    reserved: [u64; 4],
    slots: [Slot; MAX_CALLS],
    padding: [u8; PAGE - 64 - MAX_CALLS * size_of::<Slot>()],
    inside: Inside,
}

static_assertions::const_assert_eq!(core::mem::offset_of!(Table, inside), PAGE);
static_assertions::const_assert_eq!(size_of::<Table>(), 2 * PAGE);

/// One call-back.
#[repr(C)]
struct Slot {
    reserved: u32,
    /// Goes up with each call-back that gets the slot.
    generation: AtomicU32,
    /// Null while there is nothing to call.
    function: AtomicPtr<c_void>,
    data: AtomicPtr<c_void>,
    pattern_len: AtomicU32,
    /// Written while `function` is null and nobody announces this generation.
    pattern: UnsafeCell<[u8; pattern::MAX]>,
}

static_assertions::const_assert_eq!(size_of::<Slot>(), 128);

/// The part that fork wipes.
#[repr(C)]
struct Inside {
    /// Thread id of who is changing the slots, 0 for nobody.
    lock: AtomicU32,
    /// Entries that were ever used: no need to look behind.
    used: AtomicU32,
    reserved: u64,
    entries: [Entry; ENTRIES],
}

/// A thread inside call-backs.
#[repr(C)]
struct Entry {
    /// Address of its control block, 0 when the entry is free.
    thread: AtomicUsize,
    /// Its id.
    tid: AtomicU32,
    /// Which call-back, see [`Handle`]; 0 for none.
    call: AtomicU32,
}

impl Entry {
    /// Gives it to whoever comes next, who shall not be taken for this thread before it says who it is.
    fn free(&self) {
        self.call.store(0, Ordering::Release);
        self.tid.store(0, Ordering::Release);
        self.thread.store(0, Ordering::Release);
    }
}

/// A call-back: 1 plus its slot in the low 5 bits, its generation above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) u32);

impl Handle {
    /// Positive as an `int`.
    const GENERATIONS: u32 = (1 << 26) - 1;

    fn new(slot: usize, generation: u32) -> Self {
        Self((generation & Self::GENERATIONS) << 5 | (slot as u32 + 1))
    }

    fn slot(self) -> Option<usize> {
        (self.0 as usize & 31).checked_sub(1)
    }
}

// SAFETY: everything that more than one thread changes is an atomic, but for the patterns, whose rule
// is given above.
unsafe impl Sync for Table {}

/// The table as this copy knows it; never goes back to null.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(core::ptr::null_mut());

/// Runs the call-backs for an event. `timestamp` is that of its record, 0 when it has none; the
/// event's is returned.
#[cold]
#[inline(never)]
pub(super) fn call(desc: &Descriptor, payload: &[u8], timestamp: u64) -> u64 {
    let Ok(Some(table)) = shared() else {
        return timestamp;
    };
    let timestamp = if timestamp == 0 {
        table.now()
    } else {
        timestamp
    };
    let event = RawEvent {
        size: size_of::<RawEvent>() as u32,
        clock: table.clock.clock,
        desc,
        timestamp,
        begin: begin_of(desc, payload),
        freq_hz: table.clock.freq_hz,
        payload: payload.as_ptr(),
        payload_len: payload.len(),
    };
    table.call(desc, &event);
    timestamp
}

/// See [`super::register`].
///
/// # Safety
///
/// `function` may be called with `data` and any event, from any thread, until it has been removed.
pub(crate) unsafe fn register_raw(
    pattern: &[u8],
    function: Function,
    data: *mut c_void,
) -> Result<Handle, RegisterError> {
    pattern::check(pattern)?;
    let table = match shared()? {
        Some(table) => table,
        None => create()?,
    };
    table.register(pattern, function, data, set_patterns)
}

/// Removes a call-back, if it is still there. See [`super::Handler`].
pub(crate) fn unregister_raw(handle: Handle) -> bool {
    match shared() {
        Ok(Some(table)) => table.unregister(handle, set_patterns),
        _ => false,
    }
}

/// The table of this process; none before the first call-back of any copy.
fn shared() -> Result<Option<&'static Table>, RegisterError> {
    let mut table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        let mut args = CtlArgs::default();
        ctl(abi::CTL_CALLS_GET, &mut args)?;
        if args.id == 0 {
            return Ok(None);
        }
        table = known(args.id)?;
    }
    // SAFETY: `known` and `create` put tables in here, which are never unmapped.
    Ok(Some(unsafe { &*table }))
}

/// Remembers the table at an address that the kernel gave.
fn known(address: u64) -> Result<*mut Table, RegisterError> {
    let table: *mut Table = core::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: a copy of the library in this process gave the kernel the address of a mapping that
    // stays, and each version starts with such a word.
    if unsafe { (*table).magic } != MAGIC {
        return Err(RegisterError::OtherVersion);
    }
    TABLE.store(table, Ordering::Release);
    Ok(table)
}

/// Makes the process's table, or takes that of who was faster.
fn create() -> Result<&'static Table, RegisterError> {
    let mut clock = Clock::default();
    let mut args = CtlArgs {
        buf: (&raw mut clock).expose_provenance() as u64,
        buf_size: size_of::<Clock>() as u64,
        ..CtlArgs::default()
    };
    ctl(abi::CTL_CALLS_GET, &mut args)?;
    let mine = Table::map(clock).map_err(RegisterError::Kernel)?;
    let mut args = CtlArgs {
        id: mine.expose_provenance() as u64,
        ..CtlArgs::default()
    };
    let result = ctl(abi::CTL_CALLS_SET, &mut args);
    if result.is_err() || args.id != mine.expose_provenance() as u64 {
        // SAFETY: nobody else has heard of it.
        let _ = unsafe { munmap(mine.cast(), size_of::<Table>()) };
    }
    result?;
    // SAFETY: a table in a mapping that stays.
    Ok(unsafe { &*known(args.id)? })
}

/// Tells the kernel what is called from now on.
fn set_patterns(table: &Table, text: &[u8]) -> Result<(), (RegisterError, usize)> {
    let mut args = CtlArgs {
        id: core::ptr::from_ref(table).expose_provenance() as u64,
        buf: text.as_ptr().expose_provenance() as u64,
        buf_size: text.len() as u64,
        ..CtlArgs::default()
    };
    ctl(abi::CTL_CALLS_SET, &mut args).map_err(|error| (error, args.err_pos as usize))
}

fn ctl(op: u32, args: &mut CtlArgs) -> Result<(), RegisterError> {
    // SAFETY: the callers' `buf` is a structure or slice of theirs that outlives the call.
    match unsafe { bootbuf::sys::marker_ctl(op, args.as_mut_bytes()) } {
        Ok(_) => Ok(()),
        Err(Errno::NOSYS) => Err(RegisterError::Unsupported),
        Err(errno) => Err(RegisterError::Kernel(errno)),
    }
}

/// Tells the kernel the patterns, separated by commas. What fails says where in the text.
type Set = fn(&Table, &[u8]) -> Result<(), (RegisterError, usize)>;

impl Table {
    /// An empty table in memory of its own.
    pub(super) fn map(clock: Clock) -> Result<*mut Self, Errno> {
        let len = size_of::<Self>();
        let rw = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, wherever there is room.
        let table = unsafe { mmap_anonymous(core::ptr::null_mut(), len, rw, MapFlags::PRIVATE)? };
        let table: *mut Self = table.cast();
        // SAFETY: all zero is a valid table, and nobody else has the mapping.
        unsafe {
            madvise(
                (&raw mut (*table).inside).cast(),
                PAGE,
                Advice::LinuxWipeOnFork,
            )?;
            (*table).magic = MAGIC;
            (*table).clock = clock;
            (*table).slot_size = size_of::<Slot>() as u32;
            (*table).slots_len = MAX_CALLS as u32;
        }
        Ok(table)
    }

    fn now(&self) -> u64 {
        match self.clock.clock {
            // SAFETY: the kernel says that the TSC is the trace clock, so it may be read.
            CLOCK_TSC => unsafe { _rdtsc() },
            CLOCK_BOOTTIME => bootbuf::sys::boottime_ns().unwrap_or(0),
            _ => 0,
        }
    }

    /// Calls all call-backs whose patterns match.
    pub(super) fn call(&self, desc: &Descriptor, event: &RawEvent) {
        let Some(entry) = self.enter() else {
            return;
        };
        for (index, slot) in self.slots.iter().enumerate() {
            if slot.function.load(Ordering::Relaxed).is_null() {
                continue;
            }
            let generation = slot.generation.load(Ordering::SeqCst);
            entry
                .call
                .store(Handle::new(index, generation).0, Ordering::SeqCst);
            let function = slot.function.load(Ordering::SeqCst);
            let data = slot.data.load(Ordering::SeqCst);
            if function.is_null() || slot.generation.load(Ordering::SeqCst) != generation {
                continue;
            }
            // SAFETY: the function is there behind the announcement, so this generation stays in the
            // slot until the announcement is taken back, and its pattern is not written.
            if !pattern::matches(unsafe { slot.pattern() }, desc) {
                continue;
            }
            // SAFETY: `register` stored a function there.
            let function: Function = unsafe { core::mem::transmute(function) };
            // SAFETY: who registered it says that it may be called; the event is valid meanwhile.
            unsafe { function(event, data) };
        }
        // fork in a call-back: the child's page is wiped, and the entry may be somebody else's by now.
        if entry.thread.load(Ordering::Relaxed) == thread() {
            entry.free();
        }
    }

    /// An entry for the calling thread; none when it has one already, or when none is left.
    fn enter(&self) -> Option<&Entry> {
        let (me, tid) = (thread(), gettid().as_raw_nonzero().get() as u32);
        let used = self.inside.used.load(Ordering::Relaxed) as usize;
        for entry in self.inside.entries.iter().take(used) {
            if entry.thread.load(Ordering::Relaxed) == me {
                let other = entry.tid.load(Ordering::Relaxed);
                if other == tid || other == 0 || !is_gone(other) {
                    return None;
                }
                // A thread that ended inside; this one has got its memory.
                entry.free();
            }
        }
        for (index, entry) in self.inside.entries.iter().enumerate() {
            let free = entry.thread.load(Ordering::Relaxed) == 0
                && entry
                    .thread
                    .compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok();
            if free {
                entry.tid.store(tid, Ordering::SeqCst);
                self.inside
                    .used
                    .fetch_max(index as u32 + 1, Ordering::SeqCst);
                return Some(entry);
            }
        }
        None
    }

    /// Whether another thread is in a call-back; with `generation` none, in any of the slot.
    fn is_inside(&self, slot: usize, generation: Option<u32>) -> bool {
        let used = self.inside.used.load(Ordering::SeqCst) as usize;
        self.inside.entries.iter().take(used).any(|entry| {
            let call = Handle(entry.call.load(Ordering::SeqCst));
            let same = match generation {
                Some(generation) => call == Handle::new(slot, generation),
                None => call.slot() == Some(slot),
            };
            same && !is_gone(entry.tid.load(Ordering::SeqCst))
        })
    }

    /// Whether the calling thread is in a call-back.
    fn am_inside(&self) -> bool {
        let (me, used) = (thread(), self.inside.used.load(Ordering::Relaxed) as usize);
        let mut entries = self.inside.entries.iter().take(used);
        entries.any(|entry| entry.thread.load(Ordering::Relaxed) == me)
    }

    pub(super) fn register(
        &self,
        pattern: &[u8],
        function: Function,
        data: *mut c_void,
        set: Set,
    ) -> Result<Handle, RegisterError> {
        let lock = self.lock()?;
        let (index, slot) = self
            .slots
            .iter()
            .enumerate()
            .find(|(index, slot)| {
                slot.function.load(Ordering::SeqCst).is_null() && !self.is_inside(*index, None)
            })
            .ok_or(RegisterError::TooMany)?;
        // Only who holds the lock counts it up.
        let generation = slot.generation.load(Ordering::Relaxed).wrapping_add(1);
        slot.generation.store(generation, Ordering::SeqCst);
        // SAFETY: `function` is null and nobody is inside, so nobody reads the pattern.
        unsafe { slot.set_pattern(pattern) };

        let mut text = self.patterns(&lock);
        let offset = text.push(pattern);
        if let Err((error, position)) = set(self, &text) {
            return Err(match error {
                RegisterError::Kernel(Errno::INVAL) => RegisterError::Pattern {
                    position: position.saturating_sub(offset),
                    what: "the kernel does not take it",
                },
                other => other,
            });
        }
        slot.data.store(data, Ordering::SeqCst);
        slot.function
            .store(function as *mut c_void, Ordering::SeqCst);
        drop(lock);
        Ok(Handle::new(index, generation))
    }

    pub(super) fn unregister(&self, handle: Handle, set: Set) -> bool {
        let Some((index, slot)) = handle
            .slot()
            .and_then(|index| self.slots.get(index).map(|slot| (index, slot)))
        else {
            return false;
        };
        let generation = slot.generation.load(Ordering::SeqCst);
        if Handle::new(index, generation) != handle {
            return false;
        }
        // Without the lock, since a signal handler may have interrupted who has it: the function's
        // absence is what counts, and the kernel hears of it with the next change.
        let gone = slot
            .function
            .swap(core::ptr::null_mut(), Ordering::SeqCst)
            .is_null();
        if gone {
            return false;
        }
        if let Ok(lock) = self.lock() {
            // A kernel that is short of memory leaves the bit set, and the events find nothing to call.
            let _ = set(self, &self.patterns(&lock));
            drop(lock);
        }
        if !self.am_inside() {
            while self.is_inside(index, Some(generation)) {
                pause();
            }
        }
        true
    }

    /// The patterns of what is there, with the lock held.
    fn patterns(&self, _lock: &Lock<'_>) -> Text {
        let mut text = Text::new();
        for slot in &self.slots {
            if !slot.function.load(Ordering::SeqCst).is_null() {
                // SAFETY: with the lock held nobody writes patterns.
                text.push(unsafe { slot.pattern() });
            }
        }
        text
    }

    fn lock(&self) -> Result<Lock<'_>, RegisterError> {
        let (lock, tid) = (&self.inside.lock, gettid().as_raw_nonzero().get() as u32);
        loop {
            let owner = lock.load(Ordering::Relaxed);
            if owner == tid {
                return Err(RegisterError::Interrupted);
            }
            let free = owner == 0 || is_gone(owner);
            if free
                && lock
                    .compare_exchange(owner, tid, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Ok(Lock(lock));
            }
            pause();
        }
    }
}

impl Slot {
    /// # Safety
    ///
    /// Nobody writes the pattern meanwhile.
    unsafe fn pattern(&self) -> &[u8] {
        let len = self.pattern_len.load(Ordering::Relaxed) as usize;
        // SAFETY: the caller's promise.
        let pattern = unsafe { &*self.pattern.get() };
        pattern.get(..len).unwrap_or_default()
    }

    /// # Safety
    ///
    /// Nobody reads or writes the pattern meanwhile; it is at most [`pattern::MAX`] long.
    unsafe fn set_pattern(&self, octets: &[u8]) {
        // SAFETY: the caller's promise.
        let room = unsafe { &mut *self.pattern.get() };
        for (to, from) in room.iter_mut().zip(octets) {
            *to = *from;
        }
        self.pattern_len
            .store(octets.len() as u32, Ordering::Relaxed);
    }
}

struct Lock<'a>(&'a AtomicU32);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// Patterns with commas between them.
struct Text {
    octets: [u8; MAX_CALLS * (pattern::MAX + 1)],
    len: usize,
}

impl Text {
    fn new() -> Self {
        Self {
            octets: [0; MAX_CALLS * (pattern::MAX + 1)],
            len: 0,
        }
    }

    /// Adds one and returns where it starts.
    fn push(&mut self, pattern: &[u8]) -> usize {
        let start = if self.len == 0 { 0 } else { self.len + 1 };
        let end = start + pattern.len();
        // There is room for as many as there are slots.
        if let Some(room) = self.octets.get_mut(self.len..end) {
            let (comma, room) = room.split_at_mut(start - self.len);
            comma.fill(b',');
            room.copy_from_slice(pattern);
            self.len = end;
        }
        start
    }
}

impl core::ops::Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }
}

/// What tells threads apart: the address of the thread control block, of which a child of vfork has
/// its parent's, as it has its stack.
fn thread() -> usize {
    let thread: usize;
    // SAFETY: the x86-64 ABI has the block's own address in its first word.
    unsafe {
        asm!(
            "mov {thread}, qword ptr fs:[0]",
            thread = out(reg) thread,
            options(nostack, readonly, preserves_flags),
        );
    }
    thread
}

/// Whether no thread of the machine has this id. A zombie has it still.
fn is_gone(tid: u32) -> bool {
    Pid::from_raw(tid as i32).is_some_and(|tid| test_kill_process(tid) == Err(Errno::SRCH))
}

/// Lets others run.
fn pause() {
    let _ = nanosleep(&Timespec {
        tv_sec: 0,
        tv_nsec: 50_000,
    });
}
