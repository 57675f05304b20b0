//! Which names a C header and a Rust module define: enough of both languages for the ABI's files, and a
//! panic for anything else.

use std::collections::{BTreeMap, BTreeSet};

/// A member of a C structure.
#[derive(Debug, PartialEq)]
pub struct Member {
    pub name: String,
    /// An array without a length.
    pub flexible: bool,
}

/// What C headers define.
#[derive(Debug, Default)]
pub struct Header {
    /// Macros with a value and enumerators.
    pub constants: BTreeSet<String>,
    pub structs: BTreeMap<String, Vec<Member>>,
}

impl Header {
    /// Adds what a header defines.
    pub fn add(&mut self, text: &str) {
        let text = without_comments(text);
        for line in text.lines() {
            let Some(definition) = line.strip_prefix("#define ") else {
                continue;
            };
            // A name without a value is an include guard.
            if let Some((name, _)) = definition.trim().split_once([' ', '\t']) {
                assert!(
                    !name.contains('('),
                    "a macro with arguments in the ABI: {line}"
                );
                assert!(
                    self.constants.insert(name.to_string()),
                    "{name} is defined twice"
                );
            }
        }
        for (_, body) in blocks(&text, "enum ") {
            for enumerator in body
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
            {
                let name = enumerator.split_whitespace().next().unwrap();
                assert!(
                    enumerator.contains('='),
                    "an enumerator without a value: {name}"
                );
                assert!(
                    self.constants.insert(name.to_string()),
                    "{name} is defined twice"
                );
            }
        }
        for (name, body) in blocks(&text, "struct ") {
            let members = body
                .split(';')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(member);
            assert!(
                self.structs
                    .insert(name.to_string(), members.collect())
                    .is_none(),
                "{name} twice"
            );
        }
    }
}

fn member(declaration: &str) -> Member {
    let declarator = declaration.split_whitespace().last().unwrap();
    let name = declarator.split('[').next().unwrap();
    assert!(
        name.chars().all(|c| c.is_alphanumeric() || c == '_'),
        "a strange member: {declaration}"
    );
    Member {
        name: name.to_string(),
        flexible: declarator.ends_with("[]"),
    }
}

/// Names and bodies of `enum NAME { ... }` and the like at the start of lines.
fn blocks<'a>(text: &'a str, keyword: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let starts = text
        .match_indices(keyword)
        .filter(|(at, _)| *at == 0 || text.as_bytes()[at - 1] == b'\n');
    starts.filter_map(move |(at, _)| {
        let (name, rest) = text[at + keyword.len()..].split_once('{')?;
        let name = name.trim();
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        is_name.then(|| (name, rest.split_once('}').expect("a block ends").0))
    })
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        out.push_str(before);
        rest = comment.split_once("*/").expect("a comment ends").1;
    }
    out + rest
}

/// What a Rust module defines.
#[derive(Debug, Default)]
pub struct RustModule {
    pub constants: BTreeSet<String>,
    pub structs: BTreeMap<String, BTreeSet<String>>,
}

impl RustModule {
    /// Reads a module as rustfmt leaves it.
    pub fn parse(text: &str) -> Self {
        let mut module = Self::default();
        let mut current: Option<String> = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("pub const ") {
                module
                    .constants
                    .insert(rest.split(':').next().unwrap().to_string());
            } else if let Some(rest) = line.strip_prefix("pub struct ") {
                let name = rest.split_whitespace().next().unwrap().to_string();
                module.structs.insert(name.clone(), BTreeSet::new());
                current = Some(name);
            } else if line == "}" {
                current = None;
            } else if let (Some(name), Some(rest)) = (&current, line.strip_prefix("    pub ")) {
                let field = rest.split(':').next().unwrap().to_string();
                module.structs.get_mut(name).unwrap().insert(field);
            } else {
                let other = [
                    "pub enum",
                    "pub union",
                    "pub type",
                    "pub static",
                    "pub fn",
                    "pub const fn",
                ];
                assert!(
                    !other.iter().any(|item| line.starts_with(item)),
                    "no way to compare: {line}"
                );
            }
        }
        assert!(!module.constants.is_empty() && !module.structs.is_empty());
        module
    }
}
