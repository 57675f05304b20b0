//! The programs of this copy of the library: one for each marker and slot that an event was seen of.
//!
//! A text never changes while its slot's number stands in a state word, so a program is good until
//! the process ends. An entry is claimed with one exchange and published with one store. Whoever finds an
//! entry being filled in, be it another thread or a handler on top of the one that fills it, takes an
//! entry of its own; before it publishes that, it looks once more and gives way. What it gives back is
//! not empty again, as programs may stand behind it by now. A child of fork may find entries that a
//! thread of its parent was filling in: they stay unused.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use expr::Program;
use zerocopy::IntoBytes;

use super::shape;
use crate::abi::{self, CtlArgs, Descriptor};

/// Markers with slots, of this module. What finds no place records everything.
const ENTRIES: usize = 64;

/// Never used, so whoever looks for a program need not look behind.
const EMPTY: u32 = 0;
const BUSY: u32 = 1;
/// Whole, and not changed any more.
const READY: u32 = 2;
/// To be had again, but to be looked behind.
const GIVEN_BACK: u32 = 3;

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
    let claimed = Claimed::new(marker, slot)?;
    // SAFETY: this thread claimed the entry, and nobody else touches the text while it is BUSY.
    let text: &'static [u8] = unsafe { slot_text(slot, &mut *claimed.entry.text.get()) };
    claimed.publish(|place| program(place, marker, text))
}

/// An entry that this thread has made BUSY.
struct Claimed {
    entry: &'static Entry,
    marker: &'static Descriptor,
    slot: u32,
}

impl Claimed {
    /// `None` when no entry is to be had.
    fn new(marker: &'static Descriptor, slot: u32) -> Option<Self> {
        let entry = places(marker, slot).find(|entry| {
            [EMPTY, GIVEN_BACK].into_iter().any(|free| {
                entry
                    .state
                    .compare_exchange(free, BUSY, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            })
        })?;
        entry.slot.store(slot, Ordering::Relaxed);
        entry
            .marker
            .store(ptr::from_ref(marker).cast_mut(), Ordering::Relaxed);
        Some(Self {
            entry,
            marker,
            slot,
        })
    }

    /// Makes the program and puts it there for all to find, or gives way to one that is there by now.
    fn publish(
        self,
        make: impl FnOnce(&mut Option<Program<'static>>),
    ) -> Option<&'static Program<'static>> {
        // SAFETY: this thread claimed the entry, and nobody else touches the program while it is BUSY.
        let program = unsafe { (*self.entry.program.get()).write(None) };
        make(program);
        if let Some(found) = find(self.marker, self.slot) {
            self.entry.state.store(GIVEN_BACK, Ordering::Release);
            return found;
        }
        self.entry.state.store(READY, Ordering::Release);
        program.as_ref()
    }
}

/// Compiles a text, if it fits.
fn program(place: &mut Option<Program<'static>>, marker: &'static Descriptor, text: &'static [u8]) {
    if let Ok(text) = str::from_utf8(text)
        && let Some(fields) = shape::fields(marker)
    {
        let _ = Program::compile_in(place, text, &shape::shape(marker, &fields));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{Spec, descriptor};

    static MARKER: Descriptor = descriptor(&Spec {
        provider: "test",
        name: "programs",
        kind: abi::KIND_INSTANT,
        level: 0,
        line: 0,
        fields: &[],
    });

    /// A handler, or another thread, compiles while this one does.
    #[test]
    fn who_gives_way_hides_nothing() {
        let slow = Claimed::new(&MARKER, 7).unwrap();
        let given_back = ptr::from_ref(slow.entry);
        let fast = Claimed::new(&MARKER, 7).unwrap();
        assert!(find(&MARKER, 7).is_none());
        assert!(fast.publish(|_| ()).is_none());
        assert!(slow.publish(|_| ()).is_none());
        assert!(find(&MARKER, 7).is_some());
        // It is not lost to others.
        let next = Claimed::new(&MARKER, 7).unwrap();
        assert!(ptr::eq(next.entry, given_back));
    }
}
