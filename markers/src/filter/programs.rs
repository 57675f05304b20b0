//! The programs of this copy of the library: one for each marker and slot that an event was seen of.
//!
//! A text never changes while its slot's number stands in a state word, so a program is good until
//! the process ends. An entry is claimed with one exchange and published with one store. Whoever finds an
//! entry being filled in, be it another thread or a handler on top of the one that fills it, takes an
//! entry of its own; before it publishes that, it looks once more and gives way. A child of fork may find
//! entries that a thread of its parent was filling in: they stay unused.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use expr::{Program, SlotText};
use zerocopy::IntoBytes;

use super::shape;
use crate::abi::{self, CtlArgs, Descriptor};

/// Markers with slots, of this module. What finds no place records everything.
const ENTRIES: usize = 64;

const EMPTY: u32 = 0;
const BUSY: u32 = 1;
/// Whole, and not changed any more.
const READY: u32 = 2;

struct Entry {
    state: AtomicU32,
    /// With `marker` what the program is for; stored before `state` is READY.
    slot: AtomicU32,
    marker: AtomicPtr<Descriptor>,
    text: UnsafeCell<[u8; abi::RULE_MAX]>,
    /// None when the text does not fit the marker.
    program: UnsafeCell<MaybeUninit<Option<Program<'static>>>>,
}

// SAFETY: `text` and `program` are written by who claimed the entry, while it is BUSY, and read only
// when it is READY, after which nobody writes them.
unsafe impl Sync for Entry {}

static TABLE: [Entry; ENTRIES] = [const {
    Entry {
        state: AtomicU32::new(EMPTY),
        slot: AtomicU32::new(0),
        marker: AtomicPtr::new(ptr::null_mut()),
        text: UnsafeCell::new([0; abi::RULE_MAX]),
        program: UnsafeCell::new(MaybeUninit::uninit()),
    }
}; ENTRIES];

/// The program of a marker for a slot. `None`: record everything, since there is no slot, the text does
/// not fit, or there is no place.
pub fn get(marker: &'static Descriptor, slot: u32) -> Option<&'static Program<'static>> {
    if slot == 0 {
        return None;
    }
    match find(marker, slot) {
        Some(program) => program,
        None => compile(marker, slot),
    }
}

/// Entries in the order in which those for a marker are looked at.
fn places(marker: &'static Descriptor, slot: u32) -> impl Iterator<Item = &'static Entry> {
    let hash = (marker as *const Descriptor as usize / abi::DESC_SIZE).wrapping_add(slot as usize);
    (0..ENTRIES).map(move |step| &TABLE[hash.wrapping_add(step) % ENTRIES])
}

/// What stands in the table.
#[allow(
    clippy::option_option,
    reason = "there, or not; and there, it fits or not"
)]
fn find(marker: &'static Descriptor, slot: u32) -> Option<Option<&'static Program<'static>>> {
    for entry in places(marker, slot) {
        match entry.state.load(Ordering::Acquire) {
            EMPTY => return None,
            READY if entry.is_for(marker, slot) => {
                // SAFETY: READY, so the program was written and stays as it is.
                let program = unsafe { (*entry.program.get()).assume_init_ref() };
                return Some(program.as_ref());
            }
            _ => {}
        }
    }
    None
}

/// Asks for the text and compiles it into an entry.
#[cold]
fn compile(marker: &'static Descriptor, slot: u32) -> Option<&'static Program<'static>> {
    let entry = places(marker, slot).find(|entry| {
        let claimed =
            entry
                .state
                .compare_exchange(EMPTY, BUSY, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok()
    })?;
    entry.slot.store(slot, Ordering::Relaxed);
    entry
        .marker
        .store(ptr::from_ref(marker).cast_mut(), Ordering::Relaxed);
    // SAFETY: this thread claimed the entry, and nobody else touches these while it is BUSY.
    let text: &'static [u8] = unsafe { slot_text(slot, &mut *entry.text.get()) };
    let program = program(marker, text);
    if let Some(found) = find(marker, slot) {
        // Somebody was faster.
        entry.state.store(EMPTY, Ordering::Release);
        return found;
    }
    // SAFETY: as above.
    let program = unsafe { (*entry.program.get()).write(program) };
    entry.state.store(READY, Ordering::Release);
    program.as_ref()
}

fn program(marker: &'static Descriptor, text: &'static [u8]) -> Option<Program<'static>> {
    let text = SlotText::parse(str::from_utf8(text).ok()?).ok()?;
    let fields = shape::fields(marker)?;
    Program::compile(text, &shape::shape(marker, &fields)).ok()
}

/// The text of a slot; empty, which is no text, when the kernel does not tell.
fn slot_text(slot: u32, room: &mut [u8; abi::RULE_MAX]) -> &[u8] {
    let mut args = CtlArgs {
        id: slot.into(),
        buf: room.as_mut_ptr() as u64,
        buf_size: room.len() as u64,
        ..CtlArgs::default()
    };
    // SAFETY: the arguments name the room with its size.
    let answer = unsafe { bootbuf::sys::marker_ctl(abi::CTL_SLOT_TEXT, args.as_mut_bytes()) };
    let len = answer.map_or(0, |_| usize::try_from(args.result).unwrap_or(0));
    room.get(..len).unwrap_or_default()
}

impl Entry {
    fn is_for(&self, marker: &'static Descriptor, slot: u32) -> bool {
        self.slot.load(Ordering::Relaxed) == slot
            && ptr::eq(self.marker.load(Ordering::Relaxed), marker)
    }
}
