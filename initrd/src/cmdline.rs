//! The kernel command line, split by the kernel's own rules (`next_arg()` in `lib/cmdline.c`).

use std::fs;
use std::io;

/// One parameter: `name` or `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// As written, so `-` and `_` may stand for each other; see [`Param::is`].
    pub name: String,
    /// What follows the first `=`, without the quotes around it.
    pub value: Option<String>,
}

impl Param {
    /// Whether this is the parameter `name`; `-` and `_` are the same to the kernel.
    pub fn is(&self, name: &str) -> bool {
        let plain = |b: u8| if b == b'-' { b'_' } else { b };
        self.name.len() == name.len()
            && self
                .name
                .bytes()
                .zip(name.bytes())
                .all(|(a, b)| plain(a) == plain(b))
    }
}

/// Reads the command line of the running kernel. Octets that are not UTF-8 become U+FFFD.
///
/// # Errors
/// What reading `/proc/cmdline` gave; `/proc` has to be mounted.
pub fn read() -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read("/proc/cmdline")?).into_owned())
}

/// Splits a command line into parameters; what follows `--` belongs to init and is left out.
///
/// Space inside double quotes does not separate. Quotes around a whole parameter or around a whole
/// value go away, others stay: `a="b c"` and `"a=b c"` both set `a` to `b c`.
pub fn split(line: &str) -> Vec<Param> {
    let bytes = line.as_bytes();
    let mut params = Vec::new();
    let mut at = 0;
    while let Some(skip) = bytes[at..].iter().position(|b| !is_space(*b)) {
        at += skip;
        let (param, next) = next(line, at);
        if param.value.is_none() && param.name == "--" {
            break;
        }
        params.push(param);
        at = next;
    }
    params
}

/// The parameter that begins at `at`, and where to go on.
fn next(line: &str, at: usize) -> (Param, usize) {
    let bytes = line.as_bytes();
    let quoted = bytes[at] == b'"';
    let start = at + usize::from(quoted);
    let mut in_quote = quoted;
    let mut equals = None;
    let mut end = start;
    while end < bytes.len() && (in_quote || !is_space(bytes[end])) {
        match bytes[end] {
            b'=' if equals.is_none() && end > start => equals = Some(end),
            b'"' => in_quote = !in_quote,
            _ => {}
        }
        end += 1;
    }
    let next = end;
    let mut value_at = equals.map(|e| e + 1);
    let mut strip = quoted;
    if let Some(v) = value_at.as_mut().filter(|v| bytes.get(**v) == Some(&b'"')) {
        // The quote may be the last octet, which is then both the first and the last of the value.
        *v += 1;
        strip = true;
    }
    let floor = value_at.unwrap_or(start);
    if strip && end > floor && bytes[end - 1] == b'"' {
        end -= 1;
    }
    // All cuts are at ASCII octets, hence at character boundaries.
    let param = Param {
        name: line[start..equals.unwrap_or(end)].to_owned(),
        value: value_at.map(|v| line[v.min(end)..end].to_owned()),
    };
    (param, next)
}

/// `isspace()` for the octets that occur in command lines.
fn is_space(b: u8) -> bool {
    b.is_ascii_whitespace() || b == 0x0b
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(line: &str) -> Vec<(String, Option<String>)> {
        split(line).into_iter().map(|p| (p.name, p.value)).collect()
    }

    fn one(line: &str) -> (String, Option<String>) {
        let all = pairs(line);
        assert_eq!(all.len(), 1, "{line:?} gave {all:?}");
        all.into_iter().next().unwrap()
    }

    fn some(name: &str, value: &str) -> (String, Option<String>) {
        (name.to_owned(), Some(value.to_owned()))
    }

    #[test]
    fn words_and_values() {
        assert_eq!(
            pairs("  ro root=/dev/vda\tquiet\n"),
            [
                ("ro".into(), None),
                some("root", "/dev/vda"),
                ("quiet".into(), None)
            ]
        );
        assert_eq!(pairs(" \n"), []);
        assert_eq!(pairs(""), []);
    }

    #[test]
    fn only_the_first_equals_sign_separates() {
        assert_eq!(one("root=LABEL=boot=mark"), some("root", "LABEL=boot=mark"));
        assert_eq!(one("a="), some("a", ""));
        assert_eq!(one("=a"), ("=a".into(), None));
    }

    #[test]
    fn quotes_keep_spaces_and_go_away_at_the_ends() {
        assert_eq!(one("root=\"LABEL=my disk\""), some("root", "LABEL=my disk"));
        assert_eq!(one("\"root=LABEL=my disk\""), some("root", "LABEL=my disk"));
        assert_eq!(one("a=b\"c d\"e"), some("a", "b\"c d\"e"));
        assert_eq!(one("\"a b\""), ("a b".into(), None));
    }

    #[test]
    fn quotes_that_do_not_close() {
        assert_eq!(one("a=\"b c"), some("a", "b c"));
        assert_eq!(one("a=\""), some("a", ""));
        assert_eq!(one("a=\"\""), some("a", ""));
        assert_eq!(one("\""), ("".into(), None));
        assert_eq!(one("\"\""), ("".into(), None));
        assert_eq!(one("\"a=\""), some("a", ""));
    }

    #[test]
    fn what_follows_two_dashes_is_for_init() {
        assert_eq!(
            pairs("ro -- single root=x"),
            [("ro".to_owned(), None::<String>)]
        );
        assert_eq!(pairs("--=1 ro").len(), 2);
    }

    #[test]
    fn dash_and_underscore_are_the_same() {
        let p = &split("rd.on-fail=shell")[0];
        assert!(p.is("rd.on_fail") && p.is("rd.on-fail") && !p.is("rd.onfail"));
    }

    proptest! {
        #[test]
        fn any_line_is_split_without_panic(line in "\\PC*") {
            for p in split(&line) {
                prop_assert!(p.name.len() <= line.len());
            }
        }

        #[test]
        fn quoted_values_come_back(
            params in proptest::collection::vec(("[a-z.]{1,8}", "[a-z0-9 =/,]{0,12}"), 0..6)
        ) {
            let line: Vec<String> = params.iter().map(|(n, v)| format!("{n}=\"{v}\"")).collect();
            let want: Vec<_> = params.iter().map(|(n, v)| some(n, v)).collect();
            prop_assert_eq!(pairs(&line.join(" ")), want);
        }
    }
}
