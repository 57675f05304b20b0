//! The text of rules, read as the kernel reads it: docs/rules.md has the grammar. So a mistake can be
//! shown where it is before the kernel is asked, and a rule be matched against markers.

use markers::abi::RULE_MAX;
use markers::decode::Marker;

use crate::expressions::{Misfit, check_slot_text};

/// Names of levels, the most urgent first.
const LEVELS: [&str; 8] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug",
];

/// A rule taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<'t> {
    /// Whether it turns off.
    pub disables: bool,
    /// Pattern of the provider.
    pub provider: &'t str,
    /// Pattern of the name; `*` when the rule has none.
    pub name: &'t str,
    /// The least urgent level.
    pub level: Option<u8>,
    /// Whether processes in which it turns a marker on are flight recorders.
    pub overwrites: bool,
    /// Whether it singles out processes.
    pub scoped: bool,
    /// What is behind the patterns starts here: where a scope can be put in.
    pub patterns_end: usize,
    /// Filter and actions, and where they start.
    pub slot: Option<(usize, &'t str)>,
}

/// What stands behind an `@`. The last is written like the others, but is part of what a rule does.
const SCOPES: [&str; 5] = ["pid", "uid", "exe", "level", "mode"];
const MODE: usize = 4;

/// One of them.
struct Scope {
    /// Which.
    name: usize,
    level: Option<u8>,
    overwrites: bool,
}

/// A text and how far it was read.
struct Scan<'t> {
    text: &'t str,
    pos: usize,
}

fn misfit<T>(pos: usize, reason: &str) -> Result<T, Misfit> {
    Err(Misfit {
        pos,
        reason: reason.to_owned(),
    })
}

impl<'t> Scan<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.pos..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.pos += rest.len() - rest.trim_ascii_start().len();
    }

    fn take(&mut self, mark: char) -> bool {
        let found = self.rest().starts_with(mark);
        if found {
            self.pos += mark.len_utf8();
        }
        found
    }

    fn is_at(&self, marks: &[char]) -> bool {
        self.rest().starts_with(marks)
    }

    fn glob(&mut self) -> Result<&'t str, Misfit> {
        let start = self.pos;
        while let Some(c) = self.rest().chars().next() {
            if c == '[' {
                self.class()?;
            } else if is_name(c) || c == '*' || c == '?' {
                self.pos += 1;
            } else {
                break;
            }
        }
        Ok(self.text.get(start..self.pos).unwrap_or_default())
    }

    /// A class, from its bracket.
    fn class(&mut self) -> Result<(), Misfit> {
        let open = self.pos;
        self.pos += 1;
        self.take('!');
        if self.is_at(&[']']) {
            return misfit(self.pos, "an empty character class");
        }
        loop {
            match self.rest().chars().next() {
                Some(']') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(c) if is_name(c) => self.pos += 1,
                Some(_) => return misfit(self.pos, "a character that cannot be in a class"),
                None => return misfit(open, "'[' without ']'"),
            }
        }
    }

    fn number(&mut self, max: u32) -> Result<u32, Misfit> {
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let start = self.pos;
        self.pos += digits;
        match rest.get(..digits) {
            Some("") | None => misfit(start, "a number is missing"),
            Some(digits) => match digits.parse() {
                Ok(number) if number <= max => Ok(number),
                _ => misfit(start, "the number is too large"),
            },
        }
    }

    /// A word of letters, when it is one of these: which.
    fn word(&mut self, words: &[&str]) -> Option<usize> {
        let rest = self.rest();
        let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let found = words
            .iter()
            .position(|word| rest.get(..len) == Some(word))?;
        self.pos += len;
        Some(found)
    }

    fn path(&mut self) -> Result<(), Misfit> {
        let open = self.pos;
        let Some(quote) = self
            .rest()
            .chars()
            .next()
            .filter(|c| matches!(c, '\'' | '"'))
        else {
            return misfit(open, "a path is given in quotes");
        };
        let inner = self.text.get(open + 1..).unwrap_or_default();
        let Some((path, _)) = inner.split_once(quote) else {
            return misfit(open, "a quote without its end");
        };
        if let Some(control) = path.find(|c: char| c.is_ascii_control()) {
            return misfit(open + 1 + control, "a control character in a path");
        }
        if path.is_empty() {
            return misfit(open + 1, "the path is empty");
        }
        self.pos = open + path.len() + 2;
        Ok(())
    }

    fn level(&mut self) -> Result<u8, Misfit> {
        let start = self.pos;
        if let Some(level) = self.word(&LEVELS) {
            return Ok(level as u8);
        }
        if !self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return misfit(start, "a level is 0 to 7 or its name, such as 'warning'");
        }
        Ok(self.number(LEVELS.len() as u32 - 1)? as u8)
    }

    /// Whether the oldest records are overwritten.
    fn mode(&mut self) -> Result<bool, Misfit> {
        match self.word(&["discard", "flight"]) {
            Some(mode) => Ok(mode == 1),
            None => misfit(self.pos, "a mode is 'discard' or 'flight'"),
        }
    }

    /// A scope, behind its `@`.
    fn scope(&mut self, disables: bool) -> Result<Scope, Misfit> {
        self.skip_blanks();
        let Some(name) = self.word(&SCOPES) else {
            return misfit(
                self.pos,
                "a scope is one of pid=, uid=, exe=, level=, mode=",
            );
        };
        self.skip_blanks();
        if !self.take('=') {
            return misfit(self.pos, "'=' is missing");
        }
        self.skip_blanks();
        let start = self.pos;
        let mut scope = Scope {
            name,
            level: None,
            overwrites: false,
        };
        match name {
            0 if self.number(1 << 22)? == 0 => return misfit(start, "there is no process 0"),
            0 => {}
            1 => {
                self.number(u32::MAX - 1)?;
            }
            2 => self.path()?,
            MODE if disables => return misfit(start, "a rule with '!' has no mode"),
            MODE => scope.overwrites = self.mode()?,
            _ => scope.level = Some(self.level()?),
        }
        Ok(scope)
    }

    fn stray<T>(&self) -> Result<T, Misfit> {
        misfit(
            self.pos,
            match self.rest().chars().next() {
                Some('/' | '{') => "a filter needs a rule in front of it",
                Some('@') => "a scope needs a rule in front of it",
                Some(',') => "one rule at a time, without ','",
                Some(':') => "a second ':'",
                _ => "a character that cannot be here",
            },
        )
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

impl<'t> Rule<'t> {
    /// Takes a rule apart, filter and actions included.
    ///
    /// # Errors
    /// What is wrong with it, and how many octets behind its start.
    pub fn parse(text: &'t str) -> Result<Self, Misfit> {
        if text.len() > RULE_MAX {
            return misfit(RULE_MAX, "it is too long");
        }
        let mut scan = Scan {
            text: text.trim_ascii_end(),
            pos: 0,
        };
        scan.skip_blanks();
        let disables = scan.take('!');
        scan.skip_blanks();
        let provider = scan.glob()?;
        let mut patterns_end = scan.pos;
        if provider.is_empty() {
            return match scan.rest() {
                "" => misfit(scan.pos, "the provider's pattern is missing"),
                rest if rest.starts_with(':') => {
                    misfit(scan.pos, "the provider's pattern is missing")
                }
                _ => scan.stray(),
            };
        }
        scan.skip_blanks();
        let mut name = "*";
        if scan.take(':') {
            scan.skip_blanks();
            name = scan.glob()?;
            patterns_end = scan.pos;
            if name.is_empty() {
                return match scan.rest() {
                    "" => misfit(scan.pos, "the name's pattern is missing"),
                    _ => scan.stray(),
                };
            }
            scan.skip_blanks();
        }
        let mut given = [false; SCOPES.len()];
        let mut level = None;
        let mut overwrites = false;
        while scan.take('@') {
            let start = scan.pos;
            let scope = scan.scope(disables)?;
            let seen = given.get_mut(scope.name);
            if seen.is_some_and(|seen| std::mem::replace(seen, true)) {
                return misfit(start, "this scope is given twice");
            }
            level = scope.level.or(level);
            overwrites |= scope.overwrites;
            scan.skip_blanks();
        }
        let slot = if scan.is_at(&['/', '{']) {
            if disables {
                return misfit(scan.pos, "a rule with '!' has no filter or actions");
            }
            check_slot_text(scan.rest()).map_err(|mistake| Misfit {
                pos: mistake.pos + scan.pos,
                ..mistake
            })?;
            Some((scan.pos, scan.rest()))
        } else if scan.rest().is_empty() {
            None
        } else {
            return scan.stray();
        };
        Ok(Self {
            disables,
            provider,
            name,
            level,
            overwrites,
            scoped: matches!(given, [true, ..] | [_, true, ..] | [_, _, true, ..]),
            patterns_end,
            slot,
        })
    }

    /// Whether it means a marker, in some process at least.
    pub fn matches(&self, marker: &Marker, of_kernel: bool) -> bool {
        let matches =
            |pattern: &str, name: &str| expr::glob_matches(pattern.as_bytes(), name.as_bytes());
        !(of_kernel && self.scoped)
            && self.level.is_none_or(|level| marker.level() <= level)
            && matches(self.provider, marker.provider())
            && matches(self.name, marker.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let rule = Rule::parse(" svc : a* @pid=7 @ level = warning /x == ','/{count()} ").unwrap();
        assert_eq!((rule.provider, rule.name), ("svc", "a*"));
        assert_eq!((rule.level, rule.scoped), (Some(4), true));
        assert_eq!(rule.slot, Some((35, "/x == ','/{count()}")));
        assert_eq!(rule.patterns_end, 9);
        assert!(!rule.overwrites);
        let rule = Rule::parse("svc@mode=flight@uid=1").unwrap();
        assert!(rule.overwrites && rule.scoped);
        let rule = Rule::parse("svc @ mode = discard").unwrap();
        assert!(!rule.overwrites && !rule.scoped);
        let rule = Rule::parse("!init").unwrap();
        assert!(rule.disables && rule.name == "*" && !rule.scoped && rule.slot.is_none());
    }

    /// Where the kernel finds the mistake, too: rules_test has the same.
    #[test]
    fn mistakes() {
        for (text, pos) in [
            ("", 0),
            ("!", 1),
            (":a", 0),
            ("a:", 2),
            ("a:b:c", 3),
            ("a b", 2),
            ("a,b", 1),
            ("[ab", 0),
            ("[]", 1),
            ("a:[!]", 4),
            ("é", 0),
            ("a@", 2),
            ("a@pid", 5),
            ("a@pid=x", 6),
            ("a@pid=0", 6),
            ("a@pid=99999999", 6),
            ("a@pid=1x", 7),
            ("a@uid=4294967295", 6),
            ("a@exe=/bin/x", 6),
            ("a@exe='/bin/x", 6),
            ("a@exe=''", 7),
            ("a@level=loud", 8),
            ("a@mode=loop", 7),
            ("a@mode=flights", 7),
            ("!a@mode=flight", 8),
            ("a@uid=1@uid=2", 8),
            ("!a/x/", 2),
            ("a/x==1==2/", 6),
            ("a{count(),}", 10),
        ] {
            assert_eq!(Rule::parse(text).unwrap_err().pos, pos, "{text}");
        }
    }
}
