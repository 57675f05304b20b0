//! `bootmark enable`, `bootmark disable` and `bootmark forget`.

use anyhow::Result;

use crate::cli::{Exit, ForgetArgs, RuleArgs};
use crate::control::{self, ControlError};
use crate::rule::Rule;

pub fn enable(args: &RuleArgs) -> Result<Exit> {
    add(args, "")
}

pub fn disable(args: &RuleArgs) -> Result<Exit> {
    // A rule that turns off goes to the end of the list, where it decides.
    add(args, "!")
}

fn add(args: &RuleArgs, prefix: &str) -> Result<Exit> {
    // All or none: a mistake in the second rule must not be found behind the first.
    let rules = args
        .rules
        .iter()
        .map(|rule| complete(args, &format!("{prefix}{}", rule.trim())))
        .collect::<Result<Vec<_>, _>>()?;
    let mut matched = 0;
    for rule in &rules {
        let count = control::add_rule(rule)?;
        if count == 0 {
            anstream::eprintln!(
                "bootmark: rule {rule:?} matches no marker known now; it stays, and is matched against programs as they start"
            );
        } else {
            let plural = if count == 1 { "" } else { "s" };
            anstream::println!("{rule}: {count} marker{plural}");
        }
        matched += count;
    }
    Ok(if matched == 0 {
        Exit::Nothing
    } else {
        Exit::Done
    })
}

/// The rule with the scopes that options give.
fn complete(args: &RuleArgs, text: &str) -> Result<String, ControlError> {
    let check = |text: &str| {
        Rule::parse(text)
            .map(|rule| rule.patterns_end)
            .map_err(|mistake| control::malformed(text, mistake.pos, mistake.reason))
    };
    let end = check(text)?;
    let mut scopes = String::new();
    if let Some(pid) = args.pid {
        scopes += &format!("@pid={pid}");
    }
    if let Some(uid) = args.uid {
        scopes += &format!("@uid={uid}");
    }
    if let Some(exe) = &args.exe {
        let quote = if exe.contains('\'') { '"' } else { '\'' };
        scopes += &format!("@exe={quote}{exe}{quote}");
    }
    if let Some(level) = &args.level {
        scopes += &format!("@level={level}");
    }
    if let Some(mode) = &args.mode {
        scopes += &format!("@mode={mode}");
    }
    if scopes.is_empty() {
        return Ok(text.to_owned());
    }
    let mut text = text.to_owned();
    text.insert_str(end, &scopes);
    check(&text)?;
    Ok(text)
}

pub fn forget(args: &ForgetArgs) -> Result<Exit> {
    let mut ids = args.id.clone();
    if args.all {
        ids = control::rules()?.iter().map(|rule| rule.id).collect();
    }
    for rule in &args.rules {
        control::remove_rule(rule.trim())?;
    }
    for id in &ids {
        match control::remove_rule_number(*id) {
            // It ended with its process, or somebody else was faster.
            Err(ControlError::NoSuchRule(_)) if args.all => {}
            result => result?,
        }
    }
    Ok(if args.rules.is_empty() && ids.is_empty() {
        Exit::Nothing
    } else {
        Exit::Done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_scopes() {
        let mut args = RuleArgs {
            pid: Some(7),
            uid: Some(0),
            exe: Some("/bin/*".to_owned()),
            level: Some("notice".to_owned()),
            mode: Some("flight".to_owned()),
            rules: Vec::new(),
        };
        assert_eq!(
            complete(&args, "svc:a /x/").unwrap(),
            "svc:a@pid=7@uid=0@exe='/bin/*'@level=notice@mode=flight /x/"
        );
        args.level = Some("loud".to_owned());
        let error = complete(&args, "svc").unwrap_err().to_string();
        assert!(error.contains("a level is 0 to 7"), "{error}");
        args.level = None;
        let error = complete(&args, "svc@pid=9").unwrap_err().to_string();
        assert!(error.contains("given twice"), "{error}");
    }
}
