//! Patterns of call-backs: `provider:name`, globs of the kind that rules have.

use super::RegisterError;
use crate::abi::Descriptor;
use crate::decode::text_before_nul;

/// Longest pattern, in octets: names of 23 and 39 octets, and room for classes.
pub(super) const MAX: usize = 96;

/// Refuses what is no pattern; the kernel's rules are the same.
pub(super) fn check(pattern: &[u8]) -> Result<(), RegisterError> {
    let wrong = |position, what| Err(RegisterError::Pattern { position, what });
    if pattern.len() > MAX {
        return wrong(MAX, "it is longer than 96 octets");
    }
    let mut at = 0;
    let mut colon = None;
    while let Some(&octet) = pattern.get(at) {
        match octet {
            b':' if colon.is_some() => return wrong(at, "a second `:`"),
            b':' if at == 0 => return wrong(at, "the provider's pattern is missing"),
            b':' => colon = Some(at),
            b'[' => {
                let start = at
                    + if pattern.get(at + 1) == Some(&b'!') {
                        2
                    } else {
                        1
                    };
                let mut end = start;
                while pattern.get(end).copied().is_some_and(is_name) {
                    end += 1;
                }
                match pattern.get(end) {
                    Some(b']') if end > start => at = end,
                    Some(b']') => return wrong(end, "an empty character class"),
                    Some(_) => return wrong(end, "a character that cannot be here"),
                    None => return wrong(at, "`[` without `]`"),
                }
            }
            b'*' | b'?' => {}
            _ if is_name(octet) => {}
            _ => return wrong(at, "a character that cannot be here"),
        }
        at += 1;
    }
    match colon {
        _ if pattern.is_empty() => wrong(0, "the provider's pattern is missing"),
        Some(colon) if colon + 1 == pattern.len() => wrong(at, "the name's pattern is missing"),
        _ => Ok(()),
    }
}

fn is_name(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'_' | b'-' | b'.')
}

/// Whether a pattern that passed [`check`] stands for this marker.
pub(super) fn matches(pattern: &[u8], desc: &Descriptor) -> bool {
    let (provider, name) = match pattern.iter().position(|&octet| octet == b':') {
        Some(colon) => (
            pattern.get(..colon).unwrap_or_default(),
            pattern.get(colon + 1..).unwrap_or_default(),
        ),
        None => (pattern, b"*".as_slice()),
    };
    expr::glob_matches(provider, text_before_nul(&desc.provider).as_bytes())
        && expr::glob_matches(name, text_before_nul(&desc.name).as_bytes())
}
