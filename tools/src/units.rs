//! Numbers as people read them, and their sums.

use std::fmt::{self, Display, Formatter};

/// The sum of counts that files give, which may be any: it stops at the largest number.
pub fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// A duration in nanoseconds: four digits that count and a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration(pub u64);

impl Display for Duration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        let text = match ns {
            0..1_000 => format!("{ns} ns"),
            1_000..1_000_000 => format!("{:.3} us", ns as f64 / 1e3),
            1_000_000..1_000_000_000 => format!("{:.3} ms", ns as f64 / 1e6),
            _ => format!("{:.3} s", ns as f64 / 1e9),
        };
        f.pad(&text)
    }
}

/// A point in time in nanoseconds since boot, as seconds with six digits behind the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub i64);

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let us = self.0.div_euclid(1000);
        let sign = if us < 0 { "-" } else { "" };
        let us = us.unsigned_abs();
        f.pad(&format!("{sign}{}.{:06}", us / 1_000_000, us % 1_000_000))
    }
}

/// A number of octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octets(pub u64);

impl Display for Octets {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut unit = "B";
        for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = next;
        }
        f.pad(&format!("{value:.1} {unit}"))
    }
}

/// Reads a time: `1.5` and `1.5s` (seconds), `20ms`, `300us`, `5ns`; the result in nanoseconds.
///
/// # Errors
/// When it is none, with words for a user.
pub fn parse_time(text: &str) -> Result<i64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[number.len()..] {
        "" | "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        "ns" => 1.0,
        "m" | "min" => 60e9,
        unit => return Err(format!("unit '{unit}' is none of s, ms, us, ns, min")),
    };
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((value * scale).round() as i64),
        _ => Err(format!("'{number}' is no number")),
    }
}

/// What became of a process, from its wait status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitStatus(pub u32);

impl WaitStatus {
    /// The exit status, when it ended by itself.
    pub fn code(self) -> Option<u32> {
        (self.0 & 0x7f == 0).then_some(self.0 >> 8 & 0xff)
    }

    /// The signal that ended it.
    pub fn signal(self) -> Option<u32> {
        (self.0 & 0x7f != 0).then_some(self.0 & 0x7f)
    }
}

impl Display for WaitStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = match (self.code(), self.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => {
                let core = if self.0 & 0x80 != 0 {
                    ", core dumped"
                } else {
                    ""
                };
                match signal_name(signal) {
                    Some(name) => format!("killed by {name}{core}"),
                    None => format!("killed by signal {signal}{core}"),
                }
            }
            (None, None) => format!("wait status {:#x}", self.0),
        };
        f.pad(&text)
    }
}

/// Name of a signal.
pub fn signal_name(signal: u32) -> Option<&'static str> {
    const NAMES: [&str; 31] = [
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    NAMES.get((signal as usize).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        assert_eq!(signal_name(9), Some("SIGKILL"));
        assert_eq!(signal_name(31), Some("SIGSYS"));
        assert_eq!(signal_name(34), None);
    }

    #[test]
    fn times_read_and_shown() {
        assert_eq!(parse_time("1.5"), Ok(1_500_000_000));
        assert_eq!(parse_time("20ms"), Ok(20_000_000));
        assert_eq!(parse_time("-3us"), Ok(-3_000));
        assert!(parse_time("5 parsecs").is_err());
        assert!(parse_time("inf").is_err());
        assert!(parse_time("").is_err());
        assert_eq!(Seconds(1_602_345_678).to_string(), "1.602345");
        assert_eq!(Seconds(-1).to_string(), "-0.000001");
        assert_eq!(Duration(1_500).to_string(), "1.500 us");
        assert_eq!(Duration(2_000_000_000).to_string(), "2.000 s");
        assert_eq!(Octets(1023).to_string(), "1023 B");
        assert_eq!(Octets(1536).to_string(), "1.5 KiB");
    }

    #[test]
    fn wait_statuses() {
        assert_eq!(WaitStatus(0x300).to_string(), "exit status 3");
        assert_eq!(WaitStatus(9).to_string(), "killed by SIGKILL");
        assert_eq!(
            WaitStatus(0x8b).to_string(),
            "killed by SIGSEGV, core dumped"
        );
    }
}
