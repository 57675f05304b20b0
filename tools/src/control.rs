//! `marker_ctl()`: the running kernel's rules and markers.

use std::io;

use bootbuf::sys;
use markers::abi::{
    CTL_MARKER_LIST, CTL_RULE_ADD, CTL_RULE_DEL, CTL_RULE_LIST, CTL_STATUS, CtlArgs, DESC_SIZE,
    MarkerInfo, RULE_BOOT, RULE_DISABLE, RULE_MAX, RULE_PROCESS, RULE_SCOPED, RuleInfo,
    STATE_ENABLED, Status,
};
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use crate::trace::marker::Marker;

/// Why the kernel did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The running kernel does not know the system call.
    #[error("this kernel has no Bootmark (marker_ctl: ENOSYS): boot a patched kernel")]
    NoBootmark,
    /// Not allowed.
    #[error("not allowed (marker_ctl: EPERM): run as root, or with CAP_PERFMON")]
    NotAllowed,
    /// A rule that cannot be understood.
    #[error("malformed rule, at character {}: {why}\n  {text}\n  {caret:>width$}", position + 1, caret = '^', width = position + 1)]
    Malformed {
        /// The rule.
        text: String,
        /// Characters before what is wrong.
        position: usize,
        /// What it is.
        why: String,
    },
    /// No rule of this text or number.
    #[error("there is no rule {0}: `bootmark status` shows them")]
    NoSuchRule(String),
    /// A rule for a process that does not exist.
    #[error("there is no process of the number that the rule {0:?} gives")]
    NoSuchProcess(String),
    /// The list is full.
    #[error("the kernel takes no more rules or filters: remove rules with `bootmark forget`")]
    TooMany,
    /// Longer than a rule may be.
    #[error("a rule has {RULE_MAX} octets at most, this one {0}")]
    TooLong(usize),
    /// The kernel's answer makes no sense.
    #[error("the kernel's list is damaged at octet {0}")]
    Answer(usize),
    /// Anything else.
    #[error("cannot {what}: {source}")]
    Other {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// A rule of the kernel's list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Rule {
    /// Its number.
    pub id: u32,
    /// Its text, a `!` in front included.
    pub text: String,
    /// Markers known now that its pattern matches.
    pub matched: u64,
    /// Whether it turns off.
    pub disables: bool,
    /// Whether it came from the kernel command line.
    pub boot: bool,
    /// Whether it decides for some processes only.
    pub scoped: bool,
    /// Whether it came through `/proc/PID/bootmark` and ends with the process.
    pub process: bool,
}

/// A marker that the kernel has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMarker {
    /// Its descriptor and id.
    pub marker: Marker,
    /// Whether it is on.
    pub enabled: bool,
    /// Path of its file, empty for the kernel's own.
    pub path: String,
}

fn call(
    op: u32,
    args: &mut CtlArgs,
    what: &'static str,
    buffer: &mut [u8],
) -> Result<(), ControlError> {
    args.buf = buffer.as_mut_ptr() as u64;
    args.buf_size = buffer.len() as u64;
    // SAFETY: `args` is the argument of every operation, and the one address in it is that of
    // `buffer`, which may be read and written for the length given.
    let result = unsafe { sys::marker_ctl(op, args.as_mut_bytes()) };
    match result {
        Ok(_) => Ok(()),
        Err(Errno::NOSYS) => Err(ControlError::NoBootmark),
        Err(Errno::PERM) => Err(ControlError::NotAllowed),
        Err(error) => Err(ControlError::Other {
            what,
            source: error.into(),
        }),
    }
}

/// Appends a rule; returns how many markers it decides now.
///
/// # Errors
/// When the rule is malformed, or the kernel refuses.
pub fn add_rule(text: &str) -> Result<u64, ControlError> {
    let mut octets = rule_octets(text)?;
    let mut args = CtlArgs::default();
    match call(CTL_RULE_ADD, &mut args, "add the rule", &mut octets) {
        Ok(()) => Ok(args.result),
        Err(error) => Err(refused(error, text, args.err_pos)),
    }
}

/// Removes the rule with the patterns and scopes of this one.
///
/// # Errors
/// When there is none, or the kernel refuses.
pub fn remove_rule(text: &str) -> Result<(), ControlError> {
    let mut octets = rule_octets(text)?;
    let mut args = CtlArgs::default();
    call(CTL_RULE_DEL, &mut args, "remove the rule", &mut octets)
        .map_err(|error| refused(error, text, args.err_pos))
}

/// Removes the rule of this number.
///
/// # Errors
/// When there is none, or the kernel refuses.
pub fn remove_rule_number(id: u32) -> Result<(), ControlError> {
    if id == 0 {
        return Err(ControlError::NoSuchRule("0".to_owned()));
    }
    let mut args = CtlArgs {
        id: id.into(),
        ..CtlArgs::default()
    };
    call(CTL_RULE_DEL, &mut args, "remove the rule", &mut [])
        .map_err(|error| refused(error, &id.to_string(), 0))
}

/// What the kernel's refusal means for a rule.
fn refused(error: ControlError, text: &str, position: u64) -> ControlError {
    let ControlError::Other { what, source } = error else {
        return error;
    };
    if is(&source, Errno::INVAL) {
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        let why = "the kernel log says what is wrong".to_owned();
        malformed(text, position, why)
    } else if is(&source, Errno::NOENT) {
        ControlError::NoSuchRule(format!("{text:?}"))
    } else if is(&source, Errno::SRCH) {
        ControlError::NoSuchProcess(text.to_owned())
    } else if is(&source, Errno::NOSPC) {
        ControlError::TooMany
    } else {
        ControlError::Other { what, source }
    }
}

/// A mistake in a rule, `position` octets behind its start.
pub fn malformed(text: &str, position: usize, why: String) -> ControlError {
    let octets = text.as_bytes();
    let before = octets.get(..position).unwrap_or(octets);
    ControlError::Malformed {
        text: text.to_owned(),
        // The terminal counts characters.
        position: String::from_utf8_lossy(before).chars().count(),
        why,
    }
}

fn rule_octets(text: &str) -> Result<Vec<u8>, ControlError> {
    if text.len() > RULE_MAX {
        Err(ControlError::TooLong(text.len()))
    } else {
        Ok(text.as_bytes().to_vec())
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// The kernel's rules, in order: the last that matches a marker decides.
///
/// # Errors
/// When the kernel refuses.
pub fn rules() -> Result<Vec<Rule>, ControlError> {
    let mut rules = Vec::new();
    list(CTL_RULE_LIST, "list the rules", &mut |entries| {
        parse_rules(entries, &mut rules)
    })?;
    Ok(rules)
}

/// The markers that the kernel has seen.
///
/// # Errors
/// When the kernel refuses.
pub fn markers() -> Result<Vec<KnownMarker>, ControlError> {
    let mut markers = Vec::new();
    list(CTL_MARKER_LIST, "list the markers", &mut |entries| {
        parse_markers(entries, &mut markers)
    })?;
    Ok(markers)
}

/// Parses one batch of a list.
type Parse<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), ControlError>;

fn list(op: u32, what: &'static str, parse: Parse<'_>) -> Result<(), ControlError> {
    let mut buffer = vec![0; 1 << 16];
    let mut args = CtlArgs::default();
    loop {
        let cursor = args.id;
        call(op, &mut args, what, &mut buffer)?;
        let len = usize::try_from(args.result).unwrap_or(usize::MAX);
        parse(
            buffer
                .get(..len)
                .ok_or(ControlError::Answer(buffer.len()))?,
        )?;
        if args.id == cursor || len == 0 {
            return Ok(());
        }
    }
}

/// Cuts the next entry off, whose first four octets are its size.
fn entry<'a>(bytes: &mut &'a [u8], least: usize) -> Option<&'a [u8]> {
    let size = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let (entry, rest) = bytes.split_at_checked(size).filter(|_| size >= least)?;
    *bytes = rest;
    Some(entry)
}

fn text(bytes: &[u8], len: u32) -> Option<String> {
    Some(String::from_utf8_lossy(bytes.get(..len as usize)?).into_owned())
}

fn parse_rules(bytes: &[u8], rules: &mut Vec<Rule>) -> Result<(), ControlError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let offset = bytes.len() - rest.len();
        let rule = entry(&mut rest, size_of::<RuleInfo>()).and_then(|entry| {
            let (info, tail) = RuleInfo::read_from_prefix(entry).ok()?;
            Some(Rule {
                id: info.id,
                text: text(tail, info.text_len)?,
                matched: info.matched,
                disables: info.flags & RULE_DISABLE != 0,
                boot: info.flags & RULE_BOOT != 0,
                scoped: info.flags & RULE_SCOPED != 0,
                process: info.flags & RULE_PROCESS != 0,
            })
        });
        rules.push(rule.ok_or(ControlError::Answer(offset))?);
    }
    Ok(())
}

fn parse_markers(bytes: &[u8], markers: &mut Vec<KnownMarker>) -> Result<(), ControlError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let offset = bytes.len() - rest.len();
        let marker = entry(&mut rest, size_of::<MarkerInfo>() + DESC_SIZE).and_then(|entry| {
            let (info, tail) = MarkerInfo::read_from_prefix(entry).ok()?;
            Some(KnownMarker {
                marker: Marker::parse(info.event_id, info.module_id, tail.get(..DESC_SIZE)?)
                    .ok()?,
                enabled: info.state & STATE_ENABLED != 0,
                path: text(&tail[DESC_SIZE..], info.path_len)?,
            })
        });
        markers.push(marker.ok_or(ControlError::Answer(offset))?);
    }
    Ok(())
}

/// The state of the kernel's side.
///
/// # Errors
/// When the kernel refuses.
pub fn status() -> Result<Status, ControlError> {
    let mut buffer = [0; size_of::<Status>()];
    call(
        CTL_STATUS,
        &mut CtlArgs::default(),
        "ask for the status",
        &mut buffer,
    )?;
    Status::read_from_bytes(&buffer).map_err(|_| ControlError::Answer(0))
}

#[cfg(test)]
mod tests {
    use markers::__private::{Spec, descriptor};

    use super::*;

    fn rule_entry(rule_text: &str, flags: u32) -> Vec<u8> {
        let size = (size_of::<RuleInfo>() + rule_text.len()).next_multiple_of(8);
        let info = RuleInfo {
            size: size as u32,
            id: 7,
            matched: 3,
            flags,
            text_len: rule_text.len() as u32,
        };
        let mut bytes = info.as_bytes().to_vec();
        bytes.extend(rule_text.as_bytes());
        bytes.resize(size, 0);
        bytes
    }

    #[test]
    fn lists_are_taken_apart() {
        let bytes = [
            rule_entry("init:*", RULE_BOOT),
            rule_entry("!init:mount", RULE_DISABLE),
        ]
        .concat();
        let mut rules = Vec::new();
        parse_rules(&bytes, &mut rules).unwrap();
        assert_eq!(
            rules[0],
            Rule {
                id: 7,
                text: "init:*".into(),
                matched: 3,
                disables: false,
                boot: true,
                scoped: false,
                process: false,
            }
        );
        assert_eq!(rules[1].text, "!init:mount");
        assert!(rules[1].disables);
        for len in 1..bytes.len() {
            // Any cut gives an error or whole entries.
            let _ = parse_rules(&bytes[..len], &mut Vec::new());
        }
        assert!(matches!(
            parse_rules(&[0; 24], &mut rules),
            Err(ControlError::Answer(0))
        ));

        let spec = Spec {
            provider: "init",
            name: "start",
            kind: 1,
            level: 6,
            line: 1,
            fields: &[],
        };
        let mut info = MarkerInfo::read_from_bytes(&[0; 64]).unwrap();
        info.size = 64 + 256 + 8;
        info.event_id = 256;
        info.state = STATE_ENABLED;
        info.path_len = 5;
        let bytes = [
            info.as_bytes(),
            descriptor(&spec).as_mut_bytes(),
            b"/init\0\0\0",
        ]
        .concat();
        let mut markers = Vec::new();
        parse_markers(&bytes, &mut markers).unwrap();
        assert_eq!(
            (markers[0].path.as_str(), markers[0].enabled),
            ("/init", true)
        );
        assert_eq!(markers[0].marker.full_name, "init:start");
        assert!(parse_markers(&bytes[..64 + 256], &mut markers).is_err());
    }

    #[test]
    fn a_malformed_rule_is_pointed_at() {
        let error = malformed("init:é@b", 8, "what is this?".to_owned());
        assert_eq!(
            error.to_string(),
            "malformed rule, at character 8: what is this?\n  init:é@b\n         ^"
        );
    }
}
