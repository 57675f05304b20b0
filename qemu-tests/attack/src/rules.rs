//! Texts of rules, right and almost right.

use fastrand::Rng;
use markers::abi::RULE_MAX;

use crate::values::{mutate, number};

const PATTERNS: [&str; 18] = [
    "fuzzed:*",
    "fuzzed:plain",
    "fuzzed:text",
    "fuzzed:work",
    "fuzz*:*",
    "fuzz:control",
    "fuzzed:t?xt",
    "fuzzed:[a-p]*",
    "[!a-e]*:w*k",
    "*:*",
    "init:*",
    "kernel:sched_process_*",
    "kernel:sched_switch",
    "kernel:mount",
    "kernel:*",
    "nobody:nothing",
    "a:b",
    ":",
];

const FILTERS: [&str; 12] = [
    "number > 5",
    "number % 3 == 1",
    "number < 1 || name == 'a, b'",
    "name == \"x\" && pid != 0",
    "number & 0xff",
    "!(number == -1)",
    "((((((((number))))))))",
    "number == 18446744073709551615",
    "comm == 'x*'",
    "dur > 5ms",
    "number / 0",
    "",
];

const ACTIONS: [&str; 8] = [
    "count()",
    "sum(number)",
    "hist(number)",
    "min(number), max(number)",
    "avg(number) by name",
    "record(), count() by pid, name",
    "count(",
    "",
];

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    rng.choice(from).copied().unwrap_or_default()
}

/// A rule. `pid` is a process that there is.
pub(crate) fn rule(rng: &mut Rng, pid: i32) -> Vec<u8> {
    if rng.u8(0..10) == 0 {
        // Never the controls, whose oldest events would give way; so this is not changed, and cut
        // off anywhere it names no mode.
        return format!("{}@uid=65534@mode=flight", pick(rng, &PATTERNS)).into_bytes();
    }
    let mut text = String::new();
    if rng.u8(0..4) == 0 {
        text.push('!');
    }
    text += pick(rng, &PATTERNS);
    while rng.u8(0..3) == 0 {
        text += &match rng.u8(0..7) {
            0 => format!("@pid={pid}"),
            1 => format!("@uid={}", rng.choice([0, 1000, 65534]).unwrap_or(0)),
            2 => "@exe='/usr/bin/*'".to_owned(),
            3 => format!("@level={}", rng.u8(0..9)),
            4 => "@level=info".to_owned(),
            5 => format!("@pid={}", number(rng)),
            _ => "@exe=".to_owned(),
        };
    }
    if rng.u8(0..3) == 0 {
        text += &format!("/{}/", pick(rng, &FILTERS));
    }
    if rng.u8(0..4) == 0 {
        text += &format!("{{{}}}", pick(rng, &ACTIONS));
    }
    almost(rng, text)
}

/// What is written to `/proc/PID/bootmark`: a line or some.
pub(crate) fn lines(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..rng.u8(1..4) {
        text += pick(
            rng,
            &[
                "enable ",
                "disable ",
                "enable\t",
                "  disable  ",
                "remove ",
                "",
            ],
        );
        text += pick(rng, &PATTERNS);
        if rng.u8(0..3) == 0 {
            text += &format!("/{}/", pick(rng, &FILTERS));
        }
        text += pick(rng, &["\n", "\n\n", " \n", "", "\0\n"]);
    }
    almost(rng, text)
}

/// The patterns of call-backs.
pub(crate) fn patterns(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..rng.u8(0..20) {
        text += pick(rng, &PATTERNS);
        text += pick(rng, &[",", ",", ",,", " "]);
    }
    almost(rng, text)
}

fn almost(rng: &mut Rng, text: String) -> Vec<u8> {
    let mut octets = text.into_bytes();
    match rng.u8(0..8) {
        0 | 1 => mutate(rng, &mut octets),
        2 => {
            // Around the limit, and far behind it.
            let len = RULE_MAX + rng.usize(0..3) - 1 + rng.usize(0..2) * 8000;
            octets = octets.iter().copied().cycle().take(len).collect();
        }
        _ => {}
    }
    octets
}
