use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::string::{String, ToString};
use std::sync::Mutex;
use std::thread;

use super::event::RawEvent;
use super::table::Table;
use super::{Event, RegisterError, pattern};
use crate::abi::{self, Clock, Descriptor};
use crate::decode::{Kind, Value};
use crate::descriptor::{FieldSpec, SPAN_END_FIELDS, Spec, descriptor};

static MOUNT: Descriptor = descriptor(&Spec {
    provider: "init",
    name: "mount",
    kind: abi::KIND_INSTANT,
    level: 5,
    line: 7,
    fields: &[
        FieldSpec {
            name: "target",
            ty: abi::TYPE_STR,
            hint: abi::HINT_NONE,
            labels: &[],
        },
        FieldSpec {
            name: "flags",
            ty: abi::TYPE_U32,
            hint: abi::HINT_NONE,
            labels: &[],
        },
        FieldSpec {
            name: "ret",
            ty: abi::TYPE_I8,
            hint: abi::HINT_NONE,
            labels: &[],
        },
    ],
});

static END: Descriptor = descriptor(&Spec {
    provider: "init",
    name: "span",
    kind: abi::KIND_SPAN_END,
    level: 6,
    line: 8,
    fields: &SPAN_END_FIELDS,
});

const PAYLOAD: &[u8] = b"\x04\0/run\x06\0\0\0\xff";

fn table() -> &'static Table {
    let table = Table::map(Clock::default()).unwrap();
    // SAFETY: a mapping that stays.
    unsafe { &*table }
}

fn event<'a>(desc: &'a Descriptor, payload: &'a [u8]) -> RawEvent {
    RawEvent {
        size: size_of::<RawEvent>() as u32,
        clock: 1,
        desc,
        timestamp: 3_000_000,
        begin: super::event::begin_of(desc, payload),
        freq_hz: 1_000_000,
        payload: payload.as_ptr(),
        payload_len: payload.len(),
    }
}

fn accept(_: &Table, _: &[u8]) -> Result<(), (RegisterError, usize)> {
    Ok(())
}

#[test]
fn an_event_has_its_values_by_name_and_type() {
    let raw = event(&MOUNT, PAYLOAD);
    // SAFETY: the pointers are those of statics.
    let event = unsafe { Event::new(&raw) }.unwrap();
    assert_eq!((event.provider(), event.name()), ("init", "mount"));
    assert_eq!(
        (event.kind(), event.level(), event.line()),
        (Kind::Instant, 5, 7)
    );
    assert_eq!(event.str("target"), Some("/run"));
    assert_eq!(event.octets("target"), Some(b"/run".as_slice()));
    assert_eq!(event.unsigned("flags"), Some(6));
    assert_eq!(event.signed("flags"), Some(6));
    assert_eq!(event.signed("ret"), Some(-1));
    assert_eq!(event.unsigned("ret"), None);
    assert_eq!(event.value("none"), None);
    let fields: std::vec::Vec<_> = event
        .fields()
        .map(|(field, value)| (field.name, value))
        .collect();
    assert_eq!(
        fields,
        [
            ("target", Value::Str(b"/run")),
            ("flags", Value::Unsigned(6)),
            ("ret", Value::Signed(-1)),
        ]
    );
    assert_eq!(event.begin(), None);
    assert_eq!(event.duration(), None);
}

#[test]
fn the_end_of_a_span_knows_its_begin() {
    let mut payload = 1_000_000_u64.to_le_bytes().to_vec();
    payload.extend((-5_i32).to_le_bytes());
    let raw = event(&END, &payload);
    // SAFETY: the pointers are those of a static and a vector that live on.
    let event = unsafe { Event::new(&raw) }.unwrap();
    assert_eq!(event.begin(), Some(1_000_000));
    assert_eq!(event.duration(), Some(core::time::Duration::from_secs(2)));
    assert_eq!(event.signed("ret"), Some(-5));
}

#[test]
fn a_pattern_is_refused_where_it_is_wrong() {
    for (text, position) in [
        ("", 0),
        (":x", 0),
        ("a:", 2),
        ("a:b:c", 3),
        ("a b", 1),
        ("a:b,c", 3),
        ("!a", 0),
        ("a:[]", 3),
        ("a:[!]", 4),
        ("a:[b", 2),
        ("a:[b/]", 4),
        ("a:b@pid=1", 3),
        ("a:b/c/", 3),
    ] {
        match pattern::check(text.as_bytes()) {
            Err(RegisterError::Pattern { position: at, .. }) => assert_eq!(at, position, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(pattern::check(&[b'x'; pattern::MAX + 1]).is_err());
    for (text, matches) in [
        ("init", true),
        ("init:mount", true),
        ("in*:m?unt", true),
        ("[!a-h]nit:[m]*", true),
        ("init:moun", false),
        ("ini:mount", false),
        ("*:mount.x", false),
    ] {
        pattern::check(text.as_bytes()).unwrap();
        assert_eq!(pattern::matches(text.as_bytes(), &MOUNT), matches, "{text}");
    }
}

/// # Safety
///
/// `data` is an `AtomicU32`.
unsafe extern "C" fn count(_: *const RawEvent, data: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn what_matches_is_called_until_it_is_removed_and_the_kernel_hears_of_it() {
    static TOLD: Mutex<String> = Mutex::new(String::new());
    fn tell(_: &Table, text: &[u8]) -> Result<(), (RegisterError, usize)> {
        *TOLD.lock().unwrap() = String::from_utf8(text.to_vec()).unwrap();
        Ok(())
    }
    let told = || TOLD.lock().unwrap().to_string();

    let table = table();
    let (here, there) = (AtomicU32::new(0), AtomicU32::new(0));
    let data = |count: &AtomicU32| core::ptr::from_ref(count).cast_mut().cast();
    let first = table
        .register(b"init:m*", count, data(&here), tell)
        .unwrap();
    assert_eq!(told(), "init:m*");
    let second = table.register(b"svc", count, data(&there), tell).unwrap();
    assert_eq!(told(), "init:m*,svc");
    let raw = event(&MOUNT, PAYLOAD);
    table.call(&MOUNT, &raw);
    table.call(&END, &event(&END, &[]));
    assert_eq!(
        (here.load(Ordering::Relaxed), there.load(Ordering::Relaxed)),
        (1, 0)
    );

    assert!(table.unregister(first, tell));
    assert_eq!(told(), "svc");
    assert!(!table.unregister(first, tell), "removed twice");
    table.call(&MOUNT, &raw);
    assert_eq!(here.load(Ordering::Relaxed), 1);
    let third = table
        .register(b"*:mount", count, data(&there), tell)
        .unwrap();
    assert_ne!(third, first, "a handle is used again");
    table.call(&MOUNT, &raw);
    assert_eq!(there.load(Ordering::Relaxed), 1);
    assert!(table.unregister(second, tell) && table.unregister(third, tell));
    assert_eq!(told(), "");
}

#[test]
fn there_are_sixteen_and_a_refusal_leaves_its_place_free() {
    fn refuse(_: &Table, text: &[u8]) -> Result<(), (RegisterError, usize)> {
        Err((
            RegisterError::Kernel(rustix::io::Errno::INVAL),
            text.len() - 1,
        ))
    }
    let table = table();
    let zero = core::ptr::null_mut();
    let mut all: std::vec::Vec<_> = (1..abi::MAX_CALLS)
        .map(|_| table.register(b"init:x", count, zero, accept).unwrap())
        .collect();
    match table.register(b"ab:cd", count, zero, refuse) {
        Err(RegisterError::Pattern { position, .. }) => assert_eq!(position, 4),
        other => panic!("{other:?}"),
    }
    all.push(table.register(b"init:x", count, zero, accept).unwrap());
    assert_eq!(
        table.register(b"init:x", count, zero, accept),
        Err(RegisterError::TooMany)
    );
    for handle in all {
        assert!(table.unregister(handle, accept));
    }
}

/// What [`visit`] is given.
struct Visit {
    table: &'static Table,
    alive: AtomicBool,
    inside: AtomicU32,
    visits: AtomicU32,
}

/// # Safety
///
/// `data` is a `Visit`.
unsafe extern "C" fn visit(raw: *const RawEvent, data: *mut c_void) {
    // SAFETY: the caller's promise.
    let (raw, visit) = unsafe { (&*raw, &*data.cast::<Visit>()) };
    assert!(
        visit.alive.load(Ordering::SeqCst),
        "called after its removal"
    );
    visit.inside.fetch_add(1, Ordering::SeqCst);
    // An event inside is not called.
    visit.table.call(&MOUNT, raw);
    visit.visits.fetch_add(1, Ordering::SeqCst);
    visit.inside.fetch_sub(1, Ordering::SeqCst);
}

#[test]
fn after_its_removal_nobody_is_inside() {
    let table = table();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let raw = event(&MOUNT, PAYLOAD);
                while !stop.load(Ordering::Relaxed) {
                    table.call(&MOUNT, &raw);
                }
            });
        }
        let mut visits = 0;
        for _ in 0..500 {
            let visit_data = Visit {
                table,
                alive: AtomicBool::new(true),
                inside: AtomicU32::new(0),
                visits: AtomicU32::new(0),
            };
            let data = (&raw const visit_data).cast_mut().cast();
            let handle = table.register(b"init:mount", visit, data, accept).unwrap();
            while visit_data.visits.load(Ordering::Relaxed) < 3 {
                core::hint::spin_loop();
            }
            assert!(table.unregister(handle, accept));
            visit_data.alive.store(false, Ordering::SeqCst);
            assert_eq!(visit_data.inside.load(Ordering::SeqCst), 0);
            visits += visit_data.visits.load(Ordering::SeqCst);
        }
        assert!(visits >= 1500);
        stop.store(true, Ordering::Relaxed);
    });
}

/// Removes itself: `data` is what it needs for that.
struct Once {
    table: &'static Table,
    handle: Mutex<Option<super::Handle>>,
    calls: AtomicU32,
}

/// # Safety
///
/// `data` is an `Once`.
unsafe extern "C" fn once(_: *const RawEvent, data: *mut c_void) {
    // SAFETY: the caller's promise.
    let once = unsafe { &*data.cast::<Once>() };
    once.calls.fetch_add(1, Ordering::Relaxed);
    let handle = once.handle.lock().unwrap().take().unwrap();
    assert!(once.table.unregister(handle, accept));
}

#[test]
fn a_call_back_can_remove_itself() {
    let data = Once {
        table: table(),
        handle: Mutex::new(None),
        calls: AtomicU32::new(0),
    };
    let mut handle = data.handle.lock().unwrap();
    let pointer = (&raw const data).cast_mut().cast();
    *handle = Some(data.table.register(b"init", once, pointer, accept).unwrap());
    drop(handle);
    let raw = event(&MOUNT, PAYLOAD);
    data.table.call(&MOUNT, &raw);
    data.table.call(&MOUNT, &raw);
    assert_eq!(data.calls.load(Ordering::Relaxed), 1);
}

#[test]
fn without_bootmark_registering_says_so() {
    assert_eq!(
        super::register("init:mount", &|_: &Event<'_>| ()).unwrap_err(),
        RegisterError::Unsupported
    );
}
