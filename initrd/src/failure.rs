//! A boot step that failed, told so that somebody at the console can act on it.

use std::fmt;

/// A failed step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// What was being done: "mounting the root file system".
    pub step: &'static str,
    /// What went wrong, with the object and the system's words.
    pub what: String,
    /// What is there instead, if anything was looked for.
    pub found: Option<String>,
    /// What to do about it.
    pub advice: String,
    /// The error number for the trace, positive; `EIO` when there is none.
    pub errno: i32,
}

impl Failure {
    /// A failure without a list of what was found.
    pub fn new(step: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Failure {
        Failure {
            step,
            what: what.into(),
            found: None,
            advice: advice.into(),
            errno: rustix::io::Errno::IO.raw_os_error(),
        }
    }

    /// Adds what is there instead.
    pub fn found(mut self, found: impl Into<String>) -> Failure {
        self.found = Some(found.into());
        self
    }

    /// Adds the system's error number.
    pub fn errno(mut self, errno: rustix::io::Errno) -> Failure {
        self.errno = errno.raw_os_error();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "failed while {}", self.step)?;
        write!(f, "  error:  {}", self.what)?;
        if let Some(found) = &self.found {
            write!(f, "\n  found:  {found}")?;
        }
        write!(f, "\n  remedy: {}", self.advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_step_error_found_and_remedy() {
        let f = Failure::new("finding the root device", "no /dev/vdx", "check root=")
            .found("vda (ext4)");
        assert_eq!(
            f.to_string(),
            "failed while finding the root device\n  error:  no /dev/vdx\n  found:  vda (ext4)\n  \
             remedy: check root="
        );
    }
}
