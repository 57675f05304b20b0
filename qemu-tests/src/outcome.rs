//! What came of a boot, and what tests ask of it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::qemu::{self, Ending};
use crate::{process, results};

/// How many console lines an error shows.
const TAIL_LINES: usize = 40;
/// How many lines of a kernel's report follow its first one.
const REPORT_LINES: usize = 60;

/// What came of a boot.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The result directory.
    pub dir: PathBuf,
    /// All that the console showed.
    pub console: String,
    /// How the run ended.
    pub ending: Ending,
    /// From QEMU's start to its end.
    pub took: Duration,
    /// What the script printed.
    pub script_log: String,
    /// The script's exit status, when there was a script and it came to run.
    pub script_status: Option<i32>,
    /// Why nothing could be fetched from the disk, when that failed.
    pub unfetched: Option<String>,
}

impl Outcome {
    /// The CTF directory (which need not exist).
    pub fn trace(&self) -> PathBuf {
        self.dir.join("trace")
    }

    /// The CTF directory of the boot before the last one, when there was one.
    pub fn previous(&self) -> PathBuf {
        self.dir.join("previous")
    }

    /// The disk image as the guest left it.
    pub fn disk(&self) -> PathBuf {
        self.dir.join("disk.ext4")
    }

    /// The console log.
    pub fn console_log(&self) -> PathBuf {
        self.dir.join("console.log")
    }

    /// What the guest itself says came of it.
    ///
    /// # Errors
    /// When it says nothing, or more than one thing.
    pub fn reported(&self) -> Result<std::result::Result<(), String>> {
        results::outcome_line(&self.console)
    }

    /// Refuses all but a boot that went well: the guest powered off, said
    /// `bootmark-outcome: ok` exactly once, and drew no warning from the kernel.
    /// The script's status is for the caller to judge.
    ///
    /// # Errors
    /// When it did not go well; the message has the console's tail.
    pub fn check(&self) -> Result<()> {
        self.judge().with_context(|| {
            format!(
                "the boot failed after {:.1} s; the end of {}:\n{}",
                self.took.as_secs_f64(),
                self.console_log().display(),
                process::tail(&self.console, TAIL_LINES).trim_end()
            )
        })
    }

    /// Refuses a boot in which the kernel's own checks found something: a warning, a report of lock
    /// order, memory or lifetimes. An alarm is not among them: it is how the run ended.
    ///
    /// # Errors
    /// When there is one; the message has that part of the console.
    pub fn unreported(&self) -> Result<()> {
        let mut lines = self.console.lines();
        let Some(line) = lines.find(|line| qemu::is_warning(line)) else {
            return Ok(());
        };
        let rest: Vec<&str> = lines.take(REPORT_LINES).collect();
        bail!(
            "the kernel warned, in {}:\n{line}\n{}",
            self.console_log().display(),
            rest.join("\n")
        );
    }

    fn judge(&self) -> Result<()> {
        if self.ending != Ending::PowerOff {
            bail!("{}", self.ending);
        }
        if let Err(reason) = self.reported()? {
            bail!("the guest reports a failure: {reason}");
        }
        self.unreported()?;
        if let Some(reason) = &self.unfetched {
            bail!("{reason}");
        }
        Ok(())
    }

    /// For tests: the console shows each of these texts.
    ///
    /// # Panics
    /// When one is missing; the message has the console.
    #[track_caller]
    pub fn shows(&self, texts: &[&str]) {
        for text in texts {
            assert!(
                self.console.contains(text),
                "the console does not show `{text}`:\n{}",
                self.console
            );
        }
    }

    /// For tests: one line of the console has all of these words.
    ///
    /// # Panics
    /// When none has; the message has the console.
    #[track_caller]
    pub fn tells(&self, words: &[&str]) {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(
            self.console.lines().any(has_all),
            "no line with {words:?}:\n{}",
            self.console
        );
    }

    /// For tests: what the script printed behind a line `== title`, up to the next such line.
    ///
    /// # Panics
    /// When there is no such line; the message has all that the script printed.
    #[track_caller]
    pub fn section(&self, title: &str) -> &str {
        let head = format!("== {title}\n");
        let Some((_, rest)) = self.script_log.split_once(&head) else {
            panic!("no section {title}:\n{}", self.script_log);
        };
        rest.split("\n== ").next().unwrap_or_default()
    }

    /// For tests: the value of a line `key value` that the script printed.
    ///
    /// # Panics
    /// When there is none; the message has all that the script printed.
    #[track_caller]
    pub fn printed(&self, key: &str) -> &str {
        self.script_log
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
            .unwrap_or_else(|| panic!("no `{key}` in:\n{}", self.script_log))
            .trim()
    }
}
