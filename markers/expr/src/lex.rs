//! A text's tokens.

use crate::error::{Error, Found, What};

/// What a text is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'t> {
    End,
    Int(u64),
    Float(f64),
    /// Without its quotes.
    Str(&'t str),
    Name(&'t str),
    /// Operators, parentheses and the like.
    Mark(&'static str),
}

/// A token, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lexeme<'t> {
    pub token: Token<'t>,
    pub start: usize,
    pub end: usize,
}

/// The longer first, where one begins with another.
const MARKS: [&str; 26] = [
    "||", "&&", "==", "!=", "!~", "<<", "<=", ">>", ">=", "|", "&", "<", ">", "~", "!", "+", "-",
    "*", "(", ")", "{", "}", ",", "/", ":", ".",
];

/// Reads the token that begins at `at` or behind blanks there. Past the end there is
/// [`Token::End`].
pub(crate) fn next(text: &str, at: usize) -> Result<Lexeme<'_>, Error<'_>> {
    let octets = text.as_bytes();
    let mut start = at;
    while octets.get(start).is_some_and(u8::is_ascii_whitespace) {
        start += 1;
    }
    let rest = text.get(start..).unwrap_or_default();
    let lexeme = |token, len| Lexeme {
        token,
        start,
        end: start + len,
    };
    let error = |what| Err(Error { pos: start, what });
    let Some(first) = rest.chars().next() else {
        return Ok(lexeme(Token::End, 0));
    };
    if first.is_ascii_digit() {
        let word = word(rest);
        let (token, len) = number(rest, word).map_err(|what| Error { pos: start, what })?;
        return Ok(lexeme(token, len));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let name = word(rest);
        return Ok(lexeme(Token::Name(name), name.len()));
    }
    if first == '\'' || first == '"' {
        let inner = rest.get(1..).unwrap_or_default();
        return match inner.split_once(first) {
            Some((string, _)) => Ok(lexeme(Token::Str(string), string.len() + 2)),
            None => error(What::OpenString(first)),
        };
    }
    match MARKS.iter().find(|mark| rest.starts_with(**mark)) {
        Some(mark) => Ok(lexeme(Token::Mark(mark), mark.len())),
        None if first == '=' => error(What::OneEquals),
        None => error(What::Character(first)),
    }
}

/// What `lexeme` looks like in the text, for messages.
pub(crate) fn found<'t>(text: &'t str, lexeme: &Lexeme<'t>) -> Found<'t> {
    match lexeme.token {
        Token::End => Found::End,
        _ => Found::Text(text.get(lexeme.start..lexeme.end).unwrap_or_default()),
    }
}

/// Letters, digits and `_` at the start.
fn word(text: &str) -> &str {
    let len = text
        .bytes()
        .position(|octet| !octet.is_ascii_alphanumeric() && octet != b'_')
        .unwrap_or(text.len());
    text.get(..len).unwrap_or_default()
}

/// The number at the start of `rest`, whose first word is `first`.
fn number<'t>(rest: &'t str, first: &'t str) -> Result<(Token<'t>, usize), What<'t>> {
    if let Some(digits) = first.strip_prefix("0x") {
        if !digits.bytes().any(|octet| octet != b'_') {
            return Err(What::Number(first));
        }
        let value = digits_of(digits, 16).ok_or(What::Number(first))?;
        return Ok((Token::Int(value.ok_or(What::Overflow)?), first.len()));
    }
    let fraction = rest
        .get(first.len()..)
        .and_then(|tail| tail.strip_prefix('.'))
        .map(word)
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let len = match fraction {
        Some(fraction) => first.len() + 1 + fraction.len(),
        None => first.len(),
    };
    let whole = rest.get(..len).unwrap_or_default();
    let bad = What::Number(whole);
    let unit_at = whole
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(whole.len());
    let (digits, unit) = whole.split_at_checked(unit_at).ok_or(bad)?;
    let factor: u64 = match unit {
        "" | "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(bad),
    };
    if fraction.is_none() {
        let value = digits_of(digits, 10).ok_or(bad)?;
        let value = value.and_then(|value| value.checked_mul(factor));
        return Ok((Token::Int(value.ok_or(What::Overflow)?), len));
    }
    // Not by the standard library, which would bring its tables into every traced program.
    let (whole, fraction) = digits.split_once('.').ok_or(bad)?;
    let mut value = digits_of(whole, 10).ok_or(bad)?;
    let mut scale = 1.0;
    for c in fraction.chars().filter(|c| *c != '_') {
        let digit = u64::from(c.to_digit(10).ok_or(bad)?);
        value = value
            .and_then(|value| value.checked_mul(10))
            .and_then(|value| value.checked_add(digit));
        scale *= 10.0;
    }
    let value = value.ok_or(What::Digits)?;
    Ok((Token::Float(value as f64 * factor as f64 / scale), len))
}

/// The value of digits and underscores: `None` for another octet, `Some(None)` above `u64`.
fn digits_of(text: &str, radix: u32) -> Option<Option<u64>> {
    let mut value = Some(0_u64);
    for c in text.chars().filter(|c| *c != '_') {
        let digit = u64::from(c.to_digit(radix)?);
        value = value
            .and_then(|value| value.checked_mul(radix.into()))
            .and_then(|value| value.checked_add(digit));
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Token<'_>> {
        let mut at = 0;
        let mut tokens = Vec::new();
        loop {
            let lexeme = next(text, at).unwrap();
            if lexeme.token == Token::End {
                return tokens;
            }
            tokens.push(lexeme.token);
            at = lexeme.end;
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(
            all("1_000 0xff 5ms 1.5 2.5ms 3K 2s 1G 18446744073709551615"),
            [
                Token::Int(1000),
                Token::Int(255),
                Token::Int(5_000_000),
                Token::Float(1.5),
                Token::Float(2_500_000.0),
                Token::Int(3072),
                Token::Int(2_000_000_000),
                Token::Int(1 << 30),
                Token::Int(u64::MAX),
            ]
        );
        let bad = |text| next(text, 0).unwrap_err().what;
        assert_eq!(bad("18446744073709551616"), What::Overflow);
        assert_eq!(bad("99999999999s"), What::Overflow);
        assert_eq!(bad("5parsecs"), What::Number("5parsecs"));
        assert_eq!(bad("0x"), What::Number("0x"));
        assert_eq!(bad("0xg"), What::Number("0xg"));
        assert_eq!(bad("1.5e3"), What::Number("1.5e3"));
        assert_eq!(bad("0.123456789012345678901"), What::Digits);
    }

    #[test]
    fn operators_and_strings() {
        assert_eq!(
            all("a!='/}' || !b !~ \"it's\"<<1"),
            [
                Token::Name("a"),
                Token::Mark("!="),
                Token::Str("/}"),
                Token::Mark("||"),
                Token::Mark("!"),
                Token::Name("b"),
                Token::Mark("!~"),
                Token::Str("it's"),
                Token::Mark("<<"),
                Token::Int(1),
            ]
        );
        let bad = |text| next(text, 0).unwrap_err();
        assert_eq!(bad("  'a").what, What::OpenString('\''));
        assert_eq!(bad("  'a").pos, 2);
        assert_eq!(bad("= 1").what, What::OneEquals);
        assert_eq!(bad("€").what, What::Character('€'));
    }
}
