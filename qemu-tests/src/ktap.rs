//! KTAP, the kernel's test protocol, as KUnit prints it on the console.
//!
//! ```text
//! [    0.1] KTAP version 1
//! [    0.1] 1..1
//! [    0.1]     # Subtest: suite
//! [    0.1]     1..2
//! [    0.1]     ok 1 first
//! [    0.1]     not ok 2 second
//! [    0.1] # what failed, and where
//! [    0.1] not ok 1 suite
//! ```
//!
//! Other messages of the kernel may stand between the lines. What counts is that everything
//! that was announced is there, and is `ok`: a report that was cut off, a test that was skipped
//! and a suite without tests are failures.

use std::fmt::Write;

use anyhow::{Result, bail};

/// The result line of a test, of a suite, or of one parameter of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Point {
    depth: usize,
    ok: bool,
    skipped: bool,
    name: String,
}

/// A suite that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    /// As KUnit names it.
    pub name: String,
    /// Its tests, in order; those with parameters count once.
    pub tests: Vec<String>,
}

/// Reads the report out of a console's text.
///
/// # Errors
/// When there is none, it is cut off, or any test in it failed or was skipped; the message has
/// the report's lines from the failed tests on.
pub fn parse(console: &str) -> Result<Vec<Suite>> {
    let lines: Vec<&str> = console.lines().map(without_time).collect();
    let Some(start) = lines
        .iter()
        .position(|line| line.starts_with("KTAP version "))
    else {
        bail!("there is no KTAP report on the console: did the kernel come to run its tests?");
    };

    // For each depth: how many results were announced, and how many there are since.
    let mut plans: Vec<(Option<usize>, usize)> = vec![(None, 0)];
    let mut suites = Vec::new();
    let mut tests = Vec::new();
    let mut complaints = String::new();
    for (number, line) in lines.iter().enumerate().skip(start) {
        let text = line.trim_start_matches(' ');
        let depth = (line.len() - text.len()) / 4;
        if let Some(count) = text
            .strip_prefix("1..")
            .and_then(|count| count.trim().parse().ok())
        {
            plans.truncate(depth);
            plans.resize(depth, (None, 0));
            plans.push((Some(count), 0));
            continue;
        }
        let Some(point) = point(depth, text) else {
            continue;
        };
        // What was one deeper belongs to this line.
        if let Some((Some(count), seen)) = plans.get(depth + 1)
            && count != seen
        {
            writeln!(complaints, "{}: {seen} of {count} results", point.name)?;
        }
        plans.truncate(depth + 1);
        plans.resize(depth + 1, (None, 0));
        plans[depth].1 += 1;
        if !point.ok || point.skipped {
            // KUnit says why above the result.
            for line in &lines[number.saturating_sub(12).max(start)..=number] {
                writeln!(complaints, "{line}")?;
            }
        }
        match depth {
            0 if tests.is_empty() => writeln!(complaints, "{}: no tests", point.name)?,
            0 => suites.push(Suite {
                name: point.name,
                tests: std::mem::take(&mut tests),
            }),
            1 => tests.push(point.name),
            _ => {}
        }
    }
    match plans.first() {
        Some((Some(0), _)) => bail!("the kernel ran no suite at all"),
        Some((Some(count), seen)) if count != seen => {
            writeln!(complaints, "the report ends after {seen} of {count} suites")?;
        }
        Some((Some(_), _)) => {}
        _ => writeln!(complaints, "the report does not say how many suites it has")?,
    }
    if !complaints.is_empty() {
        bail!("KUnit reports failures:\n{}", complaints.trim_end());
    }
    Ok(suites)
}

/// The line without the kernel's time-stamp.
fn without_time(line: &str) -> &str {
    line.strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
        .filter(|(time, _)| time.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b' ')))
        .map_or(line, |(_, text)| text)
}

fn point(depth: usize, text: &str) -> Option<Point> {
    let (ok, rest) = match text.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, text.strip_prefix("ok ")?),
    };
    let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    number.parse::<u32>().ok()?;
    let (name, directive) = rest.split_once('#').unwrap_or((rest, ""));
    Some(Point {
        depth,
        ok,
        skipped: directive.trim_start().starts_with("SKIP"),
        name: name.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
[    0.000000] Linux version 6.12
[    0.100000] KTAP version 1
[    0.100000] 1..2
[    0.100000]     KTAP version 1
[    0.100000]     # Subtest: one
[    0.100000]     1..2
[    0.100000]     ok 1 a
[    0.100000] bootmark: rule 'x', position 1: wrong
[    0.100000]         KTAP version 1
[    0.100000]         # Subtest: b
[    0.100000]         ok 1 first
[    0.100000]         ok 2 second
[    0.100000]     # b: pass:2 fail:0 skip:0 total:2
[    0.100000]     ok 2 b
[    0.100000] # one: pass:2 fail:0 skip:0 total:2
[    0.100000] ok 1 one
[    0.100000]     KTAP version 1
[    0.100000]     # Subtest: two
[    0.100000]     1..1
[    0.100000]     ok 1 c
[    0.100000] ok 2 two
[    0.200000] reboot: Restarting system
";

    fn refused(text: &str) -> String {
        format!("{:#}", parse(text).unwrap_err())
    }

    #[test]
    fn a_good_report_names_its_suites() {
        let suites = parse(GOOD).unwrap();
        let names: Vec<(&str, Vec<&str>)> = suites
            .iter()
            .map(|suite| {
                let tests = suite.tests.iter().map(String::as_str).collect();
                (suite.name.as_str(), tests)
            })
            .collect();
        assert_eq!(names, [("one", vec!["a", "b"]), ("two", vec!["c"])]);
    }

    #[test]
    fn a_failure_anywhere_is_one() {
        for line in [
            "    ok 1 a\n",
            "    ok 2 b\n",
            "        ok 2 second\n",
            "] ok 1 one\n",
        ] {
            let failed = line.replacen("ok", "not ok", 1);
            let error = refused(&GOOD.replacen(line, &failed, 1));
            assert!(
                error.contains(failed.trim_start_matches("] ").trim()),
                "{error}"
            );
        }
        let skipped = GOOD.replacen("ok 1 c\n", "ok 1 c # SKIP needs a pool\n", 1);
        assert!(refused(&skipped).contains("needs a pool"));
    }

    #[test]
    fn a_report_that_is_cut_off_is_none() {
        assert!(refused("").contains("no KTAP report"));
        for (at, _) in GOOD.match_indices('\n') {
            let cut = &GOOD[..=at];
            if !cut.contains("ok 2 two") {
                assert!(parse(cut).is_err(), "{cut}");
            }
        }
        let without = GOOD.replacen("[    0.100000]     ok 1 a\n", "", 1);
        assert!(refused(&without).contains("one: 1 of 2 results"));
    }

    #[test]
    fn nothing_tested_is_nothing_passed() {
        let empty = "KTAP version 1\n1..0\n";
        assert!(refused(empty).contains("no suite"));
        let hollow = "KTAP version 1\n1..1\nok 1 one\n";
        assert!(refused(hollow).contains("one: no tests"));
    }
}
