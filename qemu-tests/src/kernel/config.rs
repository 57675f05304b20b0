//! Kernel configurations: fragments on top of one of the kernel's own smallest ones, and the check
//! that every line of them holds in the end.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::digest::Key;

/// A named configuration.
#[derive(Debug)]
struct Known {
    name: &'static str,
    /// Its fragments, later ones winning.
    fragments: &'static [&'static str],
    start: &'static str,
    goal: Goal,
    /// What guests need on it; none when the guest tests cannot run there.
    needs: Option<Needs>,
}

const fn image(name: &'static str, fragments: &'static [&'static str]) -> Known {
    Known {
        name,
        fragments,
        start: "tinyconfig",
        goal: Goal::Image,
        needs: None,
    }
}

const CONFIGS: &[Known] = &[
    Known {
        needs: Some(Needs::ONCE),
        ..image("small", &["base", "bootmark"])
    },
    image("off", &["base", "off"]),
    Known {
        needs: Some(Needs { time: 8, memory: 2 }),
        ..image("debug", &["base", "bootmark", "debug"])
    },
    Known {
        start: "allnoconfig",
        ..image("allno", &["allno", "bootmark"])
    },
    Known {
        start: "allnoconfig",
        ..image("kunit", &["allno", "bootmark", "kunit"])
    },
    image("step", &["step", "bootmark"]),
    image("step-off", &["step", "off"]),
    Known {
        goal: Goal::Objects,
        ..image("up", &["base", "bootmark", "up"])
    },
];

/// What is built of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// The whole kernel.
    Image,
    /// Only the objects of the patch's own folder.
    Objects,
}

/// What a guest needs on a kernel, as a multiple of what it needs on `small`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Its time limit.
    pub time: u32,
    /// Its memory.
    pub memory: u32,
}

impl Needs {
    const ONCE: Self = Self { time: 1, memory: 1 };

    /// Those of the configuration `name`; an unknown one is refused by [`Config::read`].
    pub fn of(name: &str) -> Self {
        CONFIGS
            .iter()
            .find(|known| known.name == name)
            .and_then(|known| known.needs)
            .unwrap_or(Self::ONCE)
    }
}

/// The names of the configurations that the guest tests can run on.
pub fn for_guests() -> impl Iterator<Item = &'static str> {
    CONFIGS
        .iter()
        .filter(|known| known.needs.is_some())
        .map(|known| known.name)
}

/// One line of a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The option with its `CONFIG_` prefix.
    pub option: String,
    /// Its value as Kconfig writes it, or `None` for "not set".
    pub value: Option<String>,
}

impl Requirement {
    /// The line as Kconfig writes it.
    pub fn line(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={value}", self.option),
            None => format!("# {} is not set", self.option),
        }
    }
}

/// A configuration read from its fragments.
#[derive(Debug, Clone)]
pub struct Config {
    name: String,
    start: &'static str,
    goal: Goal,
    /// What must hold, one entry an option.
    requirements: Vec<Requirement>,
    /// The fragments' bytes, for the key.
    fragments: Vec<(String, String)>,
}

impl Config {
    /// Reads the fragments of the configuration `name` from `dir`.
    ///
    /// # Errors
    /// When there is no such configuration or a fragment is missing or malformed.
    pub fn read(dir: &Path, name: &str) -> Result<Self> {
        let Some(known) = CONFIGS.iter().find(|known| known.name == name) else {
            let known: Vec<&str> = CONFIGS.iter().map(|known| known.name).collect();
            bail!(
                "no kernel configuration `{name}`: there are {}",
                known.join(", ")
            );
        };
        let mut config = Self {
            name: name.to_owned(),
            start: known.start,
            goal: known.goal,
            requirements: Vec::new(),
            fragments: Vec::new(),
        };
        for fragment in known.fragments {
            let path = dir.join(format!("{fragment}.config"));
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read the config fragment {}", path.display()))?;
            let lines = parse_fragment(&text).with_context(|| format!("in {}", path.display()))?;
            for line in lines {
                config.requirements.retain(|old| old.option != line.option);
                config.requirements.push(line);
            }
            config.fragments.push(((*fragment).to_owned(), text));
        }
        Ok(config)
    }

    /// The configuration's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The target of kbuild that the fragments come on top of.
    pub fn start(&self) -> &'static str {
        self.start
    }

    /// What is built of it.
    pub fn goal(&self) -> Goal {
        self.goal
    }

    /// Whether a build folder of the configuration `other` is a better start than none: kbuild
    /// makes anew what the differing options reach.
    pub(super) fn is_close_to(&self, other: &str) -> bool {
        CONFIGS.iter().any(|known| {
            known.name == other
                && known.start == self.start
                && (known.goal, self.goal) == (Goal::Image, Goal::Image)
        })
    }

    /// The lines to put after those of [`Self::start`].
    pub fn text(&self) -> String {
        self.requirements
            .iter()
            .map(|requirement| requirement.line() + "\n")
            .collect()
    }

    /// What must hold.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    pub(super) fn add_to(&self, key: &mut Key) {
        // Not the name: two names for the same fragments give the same kernel.
        for (name, text) in &self.fragments {
            key.item(name, text.as_bytes());
        }
        if self.start != "tinyconfig" {
            key.item("start", self.start.as_bytes());
        }
        if self.goal == Goal::Objects {
            key.item("goal", b"objects");
        }
    }
}

/// Reads a fragment's lines.
///
/// # Errors
/// On a line that is neither an option, nor "is not set", nor a comment.
pub fn parse_fragment(text: &str) -> Result<Vec<Requirement>> {
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(option) = line
            .strip_prefix("# ")
            .and_then(|rest| rest.strip_suffix(" is not set"))
            .filter(|option| option.starts_with("CONFIG_") && !option.contains(' '))
        {
            lines.push(Requirement {
                option: option.to_owned(),
                value: None,
            });
        } else if line.is_empty() || line.starts_with('#') {
        } else if let Some((option, value)) = line
            .split_once('=')
            .filter(|(option, value)| option.starts_with("CONFIG_") && !value.is_empty())
        {
            lines.push(Requirement {
                option: option.to_owned(),
                value: (value != "n").then(|| value.to_owned()),
            });
        } else {
            bail!(
                "line {}: `{line}` is neither CONFIG_X=value nor `# CONFIG_X is not set`",
                number + 1
            );
        }
    }
    Ok(lines)
}

/// The requirements that do not hold in a `.config`, each with what it has instead.
pub fn unmet(requirements: &[Requirement], dot_config: &str) -> Vec<(Requirement, String)> {
    let has = |option: &str| {
        dot_config
            .lines()
            .filter_map(|line| line.split_once('='))
            .find(|(name, _)| *name == option)
            .map(|(_, value)| value)
    };
    requirements
        .iter()
        .filter_map(|wanted| {
            let found = has(&wanted.option);
            (found != wanted.value.as_deref()).then(|| {
                let found = found.map_or("not set".to_owned(), |value| format!("={value}"));
                (wanted.clone(), found)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;

    #[test]
    fn every_line_is_checked() {
        let wanted =
            parse_fragment("# note\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x\"\n\n")
                .unwrap();
        assert_eq!(wanted.len(), 3);
        assert!(unmet(&wanted, "CONFIG_A=y\nCONFIG_C=\"x\"\n").is_empty());
        let bad = unmet(
            &wanted,
            "# CONFIG_A is not set\nCONFIG_B=m\nCONFIG_C=\"x\"\n",
        );
        let names: Vec<&str> = bad.iter().map(|(r, _)| r.option.as_str()).collect();
        assert_eq!(names, ["CONFIG_A", "CONFIG_B"]);
        assert_eq!(bad[1].1, "=m");
    }

    #[test]
    fn nonsense_in_a_fragment_is_named() {
        let error = parse_fragment("CONFIG_A=y\nCONFIG_B\n").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn the_configurations_of_the_tree_parse() {
        let dir = paths::kernel_patch().join("configs");
        for known in CONFIGS {
            let config = Config::read(&dir, known.name).unwrap();
            assert!(!config.requirements().is_empty(), "{}", known.name);
        }
        let error = Config::read(&dir, "huge").unwrap_err();
        assert!(error.to_string().contains("small, off, debug"), "{error}");
    }

    #[test]
    fn only_related_configurations_share_objects() {
        let dir = paths::kernel_patch().join("configs");
        let close = |name: &str, other: &str| Config::read(&dir, name).unwrap().is_close_to(other);
        assert!(close("step-off", "step") && close("kunit", "allno"));
        assert!(!close("small", "kunit") && !close("allno", "small"));
        assert!(!close("up", "small") && !close("small", "up"));
        assert!(!close("small", "debug2"));
    }
}
