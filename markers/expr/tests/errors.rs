//! What is refused, and in which words.

use expr::{Field, FieldType, Program, Shape, SlotText};

const FIELDS: [Field<'static>; 8] = [
    Field::new("n", FieldType::U32),
    Field::new("big", FieldType::U64),
    Field::new("x", FieldType::F64),
    Field::new("on", FieldType::Bool),
    Field::new("name", FieldType::Str),
    Field::new("raw", FieldType::Bytes),
    Field {
        name: "phase",
        ty: FieldType::U8,
        labels: "mount\0switch\0run",
    },
    Field::new("uid", FieldType::I64),
];

const END: [Field<'static>; 2] = [
    Field::new("begin", FieldType::Clock),
    Field::new("ret", FieldType::I32),
];

fn shape() -> Shape<'static> {
    Shape {
        fields: &FIELDS,
        end: &END,
        dur: true,
        thread: true,
    }
}

/// The message of a condition that does not fit the fields above, with a caret under its place.
fn refused(text: &str) -> String {
    match Program::condition(text, &shape()) {
        Ok(_) => panic!("{text}: accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn misfits_say_what_they_are() {
    let table = [
        ("", "position 0: expected a value, found the end"),
        ("n ==", "position 4: expected a value, found the end"),
        ("n = 1", "position 2: `=` compares nothing: write `==`"),
        (
            "n == 1 )",
            "position 7: expected an operator or the end, found `)`",
        ),
        (
            "(n == 1",
            "position 7: expected an operator or `)`, found the end",
        ),
        (
            "n",
            "position 0: a condition is true or false, and this is an integer: compare it with something",
        ),
        (
            "n / 2 == 1",
            "position 2: expected an operator or the end, found `/`",
        ),
        (
            "what == 1",
            "position 0: no field is called `what`, and it is none of pid, tid, uid, comm, dur and the errno names",
        ),
        (
            "n == 'a'",
            "position 0: `==` compares an integer with a string",
        ),
        (
            "name == 1",
            "position 0: `==` compares a string with an integer",
        ),
        (
            "on == 1",
            "position 0: `==` compares a truth value with an integer",
        ),
        (
            "on < true",
            "position 0: `<` compares a truth value with a truth value",
        ),
        (
            "n && on",
            "position 0: `&&` takes truth values, and this is an integer",
        ),
        (
            "on || name",
            "position 6: `||` takes truth values, and this is a string",
        ),
        (
            "!n == 1 && !n",
            "position 12: `!` takes truth values, and this is an integer",
        ),
        (
            "-name == 1",
            "position 1: `-` takes numbers, and this is a string",
        ),
        (
            "n + name == 1",
            "position 4: `+` takes numbers, and this is a string",
        ),
        (
            "x & 1 == 1",
            "position 0: `&` takes integers, and this is a floating-point number",
        ),
        (
            "n < 1 < 2",
            "position 6: comparisons do not chain: write `a < b && b < c`",
        ),
        (
            "!on == !on",
            "position 7: `!` stands before a whole comparison: put it in parentheses",
        ),
        (
            "n * !on == 1",
            "position 4: `!` stands before a whole comparison: put it in parentheses",
        ),
        (
            "raw == 'a'",
            "position 0: field `raw` is a sequence of bytes, which expressions cannot use",
        ),
        (
            "begin > 1",
            "position 0: field `begin` is a reading of the trace clock, which expressions cannot use (a span's duration is `dur`)",
        ),
        (
            "phase == 'halt'",
            "position 9: field `phase` has no label 'halt'",
        ),
        (
            "'halt' != (phase)",
            "position 0: field `phase` has no label 'halt'",
        ),
        (
            "phase ~ 'h*'",
            "position 8: field `phase` has no label 'h*'",
        ),
        (
            "phase < 'run'",
            "position 0: `<` compares an integer with a string",
        ),
        (
            "name ~ name",
            "position 7: behind `~` stands a pattern in quotes",
        ),
        (
            "name !~ '[a'",
            "position 8: `[` of the pattern '[a' has no `]`",
        ),
        (
            "n ~ 'a'",
            "position 0: `~` takes strings, and this is an integer",
        ),
        (
            "name == 'a",
            "position 8: string without an end: ' is missing",
        ),
        (
            "n == 5x",
            "position 5: `5x` is no number; units are ns us ms s K M G, on decimal numbers",
        ),
        (
            "n == 99999999999999999999",
            "position 5: number is above 18446744073709551615",
        ),
        (
            "n == 1 and on",
            "position 7: expected an operator or the end, found `and`",
        ),
        ("n # 1", "position 2: unexpected character '#'"),
    ];
    for (text, message) in table {
        assert_eq!(refused(text), message, "{text}");
    }
}

#[test]
fn what_is_not_there_is_said() {
    let instant = Shape {
        fields: &FIELDS,
        ..Shape::default()
    };
    let message =
        |text, shape: &Shape<'_>| Program::condition(text, shape).unwrap_err().to_string();
    assert_eq!(
        message("dur > 5ms", &instant),
        "position 0: `dur` is known at the end of a span only"
    );
    let kernel = Shape {
        thread: false,
        ..instant
    };
    assert_eq!(
        message("n == 1 || comm == 'sh'", &kernel),
        "position 10: kernel events belong to a CPU: they have no `comm`"
    );
    // A field hides the context.
    Program::condition("uid == -1", &kernel).unwrap();
}

#[test]
fn limits_are_named() {
    let nested = |levels: usize| format!("{}on{}", "(".repeat(levels), ")".repeat(levels));
    Program::condition(&nested(16), &shape()).unwrap();
    assert_eq!(refused(&nested(17)), "position 16: nested deeper than 16");
    assert_eq!(
        refused(&"!".repeat(17)),
        "position 16: nested deeper than 16"
    );
    let sum = |terms: usize| format!("n == {}", vec!["1"; terms].join(" + "));
    Program::condition(&sum(31), &shape()).unwrap();
    assert_eq!(refused(&sum(33)), "position 133: longer than 64 operations");
    let long = format!("name == '{}'", "x".repeat(512));
    assert_eq!(refused(&long), "position 512: longer than 512 octets");
    let labels = ["phase == 'run'"; 5].join(" || ");
    assert_eq!(
        refused(&labels),
        "position 81: more than 4 comparisons with labels"
    );
}

#[test]
fn slots_are_read_whole() {
    for text in [
        "/ret != 0 || dur > 5ms/",
        "/name == '/}' && name != \"it's /\"/{count(), hist(dur) by name}",
        "{count()}",
        " / on / { sum ( n ) , avg(x * 2) by phase , comm , uid , on } ",
        "/on/{record(), min(n), max(n), count()}",
        // Nobody knows yet what fits.
        "/whatever == 'a' && other + 1 < 5/{hist(third) by fourth}",
    ] {
        let slot = SlotText::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(slot.as_str(), text);
    }
    for (text, message) in [
        (
            "",
            "position 0: neither a filter `/.../` nor actions `{...}`",
        ),
        ("on", "position 0: expected `/` or `{`, found `on`"),
        (
            "/on",
            "position 3: expected an operator or `/`, found the end",
        ),
        ("/on/ x", "position 5: expected `{` or the end, found `x`"),
        (
            "/1 + 'a' == 2/",
            "position 5: `+` takes numbers, and this is a string",
        ),
        (
            "/1/",
            "position 1: a condition is true or false, and this is an integer: compare it with something",
        ),
        ("{}", "position 1: expected an action, found `}`"),
        ("{count}", "position 6: expected `(`, found `}`"),
        (
            "{count(n)}",
            "position 7: expected an operator or `)`, found `n`",
        ),
        (
            "{total(n)}",
            "position 1: no action is called `total`; there are count() sum(x) min(x) max(x) avg(x) hist(x) record()",
        ),
        ("{sum()}", "position 5: expected a value, found `)`"),
        (
            "{count() by}",
            "position 11: expected the name of a field, found `}`",
        ),
        (
            "{count() by a, 1}",
            "position 15: expected the name of a field, found `1`",
        ),
        (
            "{count() by a b}",
            "position 14: expected `,`, `by` or `}`, found `b`",
        ),
        (
            "{count() by a,b,c,d,e}",
            "position 20: more than 4 names behind `by`",
        ),
        (
            "{count(),count(),count(),count(),count()}",
            "position 33: more than 4 actions",
        ),
        (
            "{count()",
            "position 8: expected `,`, `by` or `}`, found the end",
        ),
        (
            "{count()}}",
            "position 9: expected `{` or the end, found `}`",
        ),
    ] {
        let error = SlotText::parse(text).expect_err(text);
        assert_eq!(error.to_string(), message, "{text}");
    }
}

#[test]
fn actions_must_fit() {
    let message = |text| {
        let slot = SlotText::parse(text).unwrap();
        Program::compile(slot, &shape()).unwrap_err().to_string()
    };
    assert_eq!(
        message("{sum(name)}"),
        "position 5: `sum` takes a number, and this is a string"
    );
    assert_eq!(
        message("{count() by raw}"),
        "position 12: `raw` cannot stand behind `by`: take an integer, a bool or a string"
    );
    assert_eq!(
        message("{count() by ENOENT}"),
        "position 12: no field is called `ENOENT`, and it is none of pid, tid, uid, comm, dur and the errno names"
    );
}
