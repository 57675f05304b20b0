//! `bootmark enable`, `bootmark disable` and `bootmark forget`.

use anyhow::Result;

use crate::cli::{Exit, ForgetArgs, RuleArgs};
use crate::control;

pub fn enable(args: &RuleArgs) -> Result<Exit> {
    add(args.rules.iter().map(|rule| rule.trim().to_owned()))
}

pub fn disable(args: &RuleArgs) -> Result<Exit> {
    // A rule that turns off goes to the end of the list, where it decides.
    add(args.rules.iter().map(|rule| format!("!{}", rule.trim())))
}

fn add(rules: impl Iterator<Item = String>) -> Result<Exit> {
    let mut matched = 0;
    for rule in rules {
        let count = control::add_rule(&rule)?;
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

pub fn forget(args: &ForgetArgs) -> Result<Exit> {
    let rules = if args.all {
        control::rules()?
            .into_iter()
            .map(|rule| rule.text)
            .collect()
    } else {
        args.rules.clone()
    };
    for rule in &rules {
        control::remove_rule(rule)?;
    }
    Ok(if rules.is_empty() {
        Exit::Nothing
    } else {
        Exit::Done
    })
}
