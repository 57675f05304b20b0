//! Patterns of strings: `*`, `?` and classes, as in rules.

/// Whether `pattern` stands for the whole of `text`: `*` is any octets, `?` one octet, `[a-z]` one of a
/// class, `[!a-z]` one that is not. Nothing escapes these; `[*]` is a star.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when nothing fits: behind the last star, with one octet more under it.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() || p < pattern.len() {
        let step = match (pattern.get(p), text.get(t)) {
            (Some(b'*'), _) => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            (Some(b'?'), Some(_)) => Some(1),
            (Some(b'['), Some(&octet)) => class(&pattern[p..])
                .filter(|class| class.holds(octet))
                .map(|class| class.len),
            (Some(wanted), Some(octet)) if wanted == octet => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(step), _) => {
                p += step;
                t += 1;
            }
            (None, Some((behind, from))) if from < text.len() => {
                star = Some((behind, from + 1));
                (p, t) = (behind, from + 1);
            }
            (None, _) => return false,
        }
    }
    true
}

/// Whether every class of a pattern ends.
pub(crate) fn is_valid(pattern: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&octet) = pattern.get(at) {
        at += match octet {
            b'[' => match class(&pattern[at..]) {
                Some(class) => class.len,
                None => return false,
            },
            _ => 1,
        };
    }
    true
}

struct Class<'a> {
    members: &'a [u8],
    negated: bool,
    /// Octets with the brackets.
    len: usize,
}

/// The class at the start of `pattern`. A `]` right behind the bracket is a member.
fn class(pattern: &[u8]) -> Option<Class<'_>> {
    let negated = pattern.get(1) == Some(&b'!');
    let start = if negated { 2 } else { 1 };
    let members = pattern.get(start..)?;
    let end = 1 + members.get(1..)?.iter().position(|&octet| octet == b']')?;
    Some(Class {
        members: members.get(..end)?,
        negated,
        len: start + end + 1,
    })
}

impl Class<'_> {
    fn holds(&self, octet: u8) -> bool {
        let mut rest = self.members;
        let mut found = false;
        while let [first, tail @ ..] = rest {
            (found, rest) = match tail {
                [b'-', last, tail @ ..] => (found || (*first..=*last).contains(&octet), tail),
                _ => (found || *first == octet, tail),
            };
        }
        found != self.negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*b*c", "a--b--b-c", true),
            ("a*b*c", "a--b--b-", false),
            ("?", "", false),
            ("??", "ab", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[!a-c]x", "dx", true),
            ("[]]", "]", true),
            ("[*]", "*", true),
            ("[*]", "a", false),
            ("[a-]", "-", true),
            ("/run/*", "/run/user", true),
            ("*.service", "a.service", true),
            ("*a", "aaaaaaaa", true),
            ("*ab", "aaaaaaaa", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn classes_must_end() {
        assert!(is_valid(b"a[b]c*"));
        for pattern in ["[", "[a", "[]", "[!", "[!]", "a[b"] {
            assert!(!is_valid(pattern.as_bytes()), "{pattern}");
        }
    }

    proptest::proptest! {
        /// Against the definition.
        #[test]
        fn as_defined(pattern in "[ab*?]{0,8}", text in "[abc]{0,8}") {
            fn plain(pattern: &[u8], text: &[u8]) -> bool {
                match (pattern, text) {
                    ([], []) => true,
                    ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| plain(rest, &text[at..])),
                    ([b'?', rest @ ..], [_, tail @ ..]) => plain(rest, tail),
                    ([wanted, rest @ ..], [octet, tail @ ..]) => wanted == octet && plain(rest, tail),
                    _ => false,
                }
            }
            proptest::prop_assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                plain(pattern.as_bytes(), text.as_bytes())
            );
        }
    }
}
