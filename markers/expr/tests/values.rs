//! What programs come to, over payloads with known values.

use expr::{
    ActionKind, Context, Field, FieldType, KeyValue, Number, Program, Shape, SlotText, Values,
};

const FIELDS: [Field<'static>; 6] = [
    Field::new("target", FieldType::Str),
    Field::new("flags", FieldType::U64),
    Field::new("x", FieldType::F32),
    Field::new("on", FieldType::Bool),
    Field {
        name: "phase",
        ty: FieldType::U8,
        labels: "mount\0switch",
    },
    Field::new("delta", FieldType::I16),
];

const END: [Field<'static>; 2] = [
    Field::new("begin", FieldType::Clock),
    Field::new("ret", FieldType::I32),
];

fn payload() -> Vec<u8> {
    let mut octets = vec![4, 0];
    octets.extend(b"/run");
    octets.extend(u64::MAX.to_le_bytes());
    octets.extend(1.5_f32.to_le_bytes());
    octets.push(1);
    octets.push(1);
    octets.extend((-3_i16).to_le_bytes());
    octets
}

fn end() -> Vec<u8> {
    let mut octets = 77_u64.to_le_bytes().to_vec();
    octets.extend((-2_i32).to_le_bytes());
    octets
}

fn shape() -> Shape<'static> {
    Shape {
        fields: &FIELDS,
        end: &END,
        dur: true,
        thread: true,
    }
}

const CONTEXT: Context<'static> = Context {
    pid: 12,
    tid: 13,
    uid: 1000,
    comm: b"mounter\0\0\0",
    dur_ns: 6_000_000,
};

#[test]
fn conditions() {
    let (payload, end) = (payload(), end());
    let values = Values {
        payload: &payload,
        end: &end,
        context: CONTEXT,
    };
    for (text, expected) in [
        ("ret != 0 || dur > 5ms", true),
        ("ret == -ENOENT", true),
        ("ret == ENOENT", false),
        ("target == '/run' && on", true),
        ("target ~ '/r*' && target !~ '/run/*'", true),
        ("target < '/s'", true),
        ("flags == 0xffff_ffff_ffff_ffff", true),
        ("flags + 1 > flags && flags * flags > flags", true),
        ("flags & 6 == 6", true),
        ("flags << 200 == flags << 127", true),
        ("delta >> 200 == -1", true),
        ("delta << 1 == -6", true),
        ("delta << -1 == delta", true),
        ("x == 1.5 && x * 2 == 3", true),
        ("x > 1 && x < 2", true),
        ("on == true && !on == false || false", true),
        ("!(on && !on)", true),
        ("phase == 'switch' && phase != 'mount' && phase == 1", true),
        ("'mount' == phase", false),
        ("phase ~ 's*' && phase !~ 'm*'", true),
        (
            "comm == 'mounter' && pid == 12 && tid == 13 && uid == 1000",
            true,
        ),
        ("dur == 6ms && dur == 0.006s && dur < 6.5ms", true),
        ("1 | 2 * 3 == 7", true),
        ("1 + 2 & 3 == 3", true),
        ("-delta - -1 == 4", true),
        ("9223372036854775808 - 1 == 0x7fff_ffff_ffff_ffff", true),
    ] {
        let program = Program::condition(text, &shape()).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(program.eval_filter(&values), expected, "{text}");
    }
}

#[test]
fn what_is_needed_is_known() {
    let needs = |text| {
        let program = Program::condition(text, &shape()).unwrap();
        (program.needs_thread(), program.needs_end())
    };
    assert_eq!(needs("target == '/run'"), (false, false));
    assert_eq!(needs("comm == 'sh'"), (true, false));
    assert_eq!(needs("on && ret == 0"), (false, true));
    assert_eq!(needs("dur > 1 && pid == 1"), (true, true));
}

#[test]
fn actions_and_keys() {
    let (payload, end) = (payload(), end());
    let values = Values {
        payload: &payload,
        end: &end,
        context: CONTEXT,
    };
    let text = "/on/{count(), sum(flags * 2), avg(x + 1), record() by target, phase, comm, dur}";
    let program = Program::compile(SlotText::parse(text).unwrap(), &shape()).unwrap();
    assert!(program.records() && program.aggregates() && program.has_filter());
    assert!(program.eval_filter(&values));
    let kinds: Vec<_> = program.actions().iter().map(|action| action.kind).collect();
    assert_eq!(
        kinds,
        [
            ActionKind::Count,
            ActionKind::Sum,
            ActionKind::Avg,
            ActionKind::Record
        ]
    );
    assert!(!program.actions()[1].float && program.actions()[2].float);
    let numbers: Vec<_> = (0..5).map(|n| program.eval_action(n, &values)).collect();
    let twice = Number::Int(2 * i128::from(u64::MAX));
    assert_eq!(
        numbers,
        [None, Some(twice), Some(Number::Float(2.5)), None, None]
    );
    let keys: Vec<_> = (0..5).map(|n| program.eval_key(n, &values)).collect();
    assert_eq!(
        keys,
        [
            Some(KeyValue::Str(b"/run")),
            Some(KeyValue::Fixed([1, 0, 0, 0, 0, 0, 0, 0], 1)),
            Some(KeyValue::Str(b"mounter")),
            Some(KeyValue::Fixed(6_000_000_u64.to_le_bytes(), 8)),
            None,
        ]
    );

    let program = Program::compile(SlotText::parse("{count()}").unwrap(), &shape()).unwrap();
    assert!(!program.records() && program.aggregates() && !program.has_filter());
    let program = Program::compile(SlotText::parse("/on/").unwrap(), &shape()).unwrap();
    assert!(program.records() && !program.aggregates());
}

#[test]
fn octets_that_are_no_payload_pass() {
    let payload = payload();
    let program = Program::condition("delta == 5", &shape()).unwrap();
    for len in 0..payload.len() {
        let values = Values {
            payload: &payload[..len],
            ..Values::default()
        };
        assert!(program.eval_filter(&values), "{len}");
    }
    let long = [0xff; 40];
    let values = Values {
        payload: &long,
        ..Values::default()
    };
    assert!(program.eval_filter(&values));
}
