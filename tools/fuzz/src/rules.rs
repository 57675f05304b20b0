//! Target `rules`: a line that is read as a rule, as a condition of `view --where`, and as a pattern; what is
//! behind it is the payload that filters and actions see.

use std::sync::LazyLock;

use bootmark_tools::expressions::{self, check_slot_fits};
use bootmark_tools::rule::Rule;
use bootmark_tools::trace::marker::Marker;
use bootmark_tools::view::{condition, filter};
use expr::{Context, Program, Shape, SlotText, Values};
use markers::__private::{FieldSpec, Spec, descriptor};
use markers::abi::*;
use markers::decode::{Kind, SPAN_END};
use zerocopy::IntoBytes;

/// Reads a line in every way, and runs what fits; the number of ways in which it made sense.
///
/// # Panics
/// When a mistake is said to be outside of the text, or two readers disagree.
pub fn run(data: &[u8]) -> u64 {
    let end = data.iter().position(|&octet| octet == b'\n');
    let (line, payload) = data.split_at(end.unwrap_or(data.len()));
    let Ok(text) = std::str::from_utf8(line) else {
        return 0;
    };
    let payload = payload.get(1..).unwrap_or_default();
    let ways = [
        rule(text),
        slot(text, payload),
        condition(text, payload),
        filter::event_pattern(text).is_ok(),
        filter::comm_pattern(text).is_ok(),
    ];
    ways.into_iter().map(u64::from).sum()
}

fn rule(text: &str) -> bool {
    let rule = match Rule::parse(text) {
        Ok(rule) => rule,
        Err(misfit) => {
            assert!(misfit.pos <= text.len(), "{text}: {misfit}");
            assert!(!misfit.with_caret(text).is_empty());
            return false;
        }
    };
    assert!(!rule.provider.is_empty() && !rule.name.is_empty());
    assert!(rule.level.is_none_or(|level| level <= 7));
    assert!(text.is_char_boundary(rule.patterns_end));
    for marker in MARKERS.iter() {
        for of_kernel in [false, true] {
            rule.matches(marker, of_kernel);
        }
        if let Some((at, slot)) = rule.slot {
            assert!(text[at..].starts_with(slot));
            assert!(SlotText::parse(slot).is_ok(), "{text}");
            let fits = check_slot_fits(slot, marker);
            assert!(fits.is_ok_and(|()| true) || marker.kind() != Kind::SpanEnd);
        }
    }
    true
}

fn slot(text: &str, payload: &[u8]) -> bool {
    let parsed = match SlotText::parse(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            assert!(error.pos <= text.len(), "{text}: {error}");
            return false;
        }
    };
    for marker in MARKERS.iter() {
        with_shape(marker, |shape| {
            if let Ok(program) = Program::compile(parsed, shape) {
                execute(&program, payload);
            }
        });
    }
    true
}

fn condition(text: &str, payload: &[u8]) -> bool {
    let sound = condition::parse(text).is_ok();
    for marker in MARKERS.iter() {
        with_shape(marker, |shape| match Program::condition(text, shape) {
            Ok(program) => execute(&program, payload),
            Err(error) => assert!(error.pos <= text.len(), "{text}: {error}"),
        });
    }
    sound
}

fn with_shape(marker: &Marker, run: impl FnOnce(&Shape<'_>)) {
    let fields = expressions::fields(marker);
    let span = marker.kind() == Kind::SpanBegin;
    run(&Shape {
        fields: &fields,
        end: if span { &SPAN_END } else { &[] },
        dur: span,
        thread: true,
    });
}

fn execute(program: &Program<'_>, payload: &[u8]) {
    let (begin, end) = payload.split_at(payload.len().min(64));
    let values = Values {
        payload: begin,
        end,
        context: Context {
            pid: 1,
            tid: 2,
            uid: 3,
            comm: &begin[..begin.len().min(16)],
            dur_ns: u64::MAX,
        },
    };
    program.eval_filter(&values);
    for (index, action) in program.actions().iter().enumerate() {
        program.eval_action(index, &values);
        assert!(program.text().contains(program.action_text(action)));
    }
    for (index, key) in program.keys().iter().enumerate() {
        program.eval_key(index, &values);
        assert!(program.text().contains(program.key_name(key)));
    }
}

/// One with fields of all kinds, and one of a span.
static MARKERS: LazyLock<[Marker; 2]> = LazyLock::new(|| {
    let field = |name, ty, hint, labels| FieldSpec {
        name,
        ty,
        hint,
        labels,
    };
    let of_all_kinds = [
        field("n", TYPE_U64, HINT_NONE, &[]),
        field("x", TYPE_F64, HINT_NONE, &[]),
        field("on", TYPE_BOOL, HINT_NONE, &[]),
        field("state", TYPE_I8, HINT_ENUM, &["off", "on"]),
        field("delta", TYPE_I16, HINT_NONE, &[]),
        field("s", TYPE_STR, HINT_NONE, &[]),
        field("data", TYPE_BYTES, HINT_NONE, &[]),
    ];
    let of_span = [
        field("target", TYPE_STR, HINT_NONE, &[]),
        field("flags", TYPE_U32, HINT_HEX, &[]),
    ];
    [
        (KIND_INSTANT, &of_all_kinds[..]),
        (KIND_SPAN_BEGIN, &of_span[..]),
    ]
    .map(|(kind, fields)| {
        let spec = Spec {
            provider: "svc",
            name: "event",
            kind,
            level: 6,
            line: 1,
            fields,
        };
        Marker::parse(256, 1, descriptor(&spec).as_mut_bytes()).expect("a sound descriptor")
    })
});
