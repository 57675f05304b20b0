//! Service files: `key = value` lines, one file a service.

use rustix::process::Signal;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the demo image has its services.
pub const DIR: &str = "/etc/bootmark/services";
/// What their names end with.
pub const SUFFIX: &str = "conf";

/// Limit of a oneshot service that names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// When a service counts as started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// When it has ended with status 0.
    Oneshot,
    /// When its program has started; it runs on.
    Simple,
}

/// Where what it prints goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// To the console.
    Console,
    /// Nowhere.
    Null,
    /// To a file, which is emptied first.
    File(PathBuf),
}

/// What a failure means for the boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// It is told, and the boot goes on.
    Report,
    /// The boot's outcome is a failure.
    Fatal,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The file's name without the suffix.
    pub name: String,
    /// Program, by its full path, and arguments.
    pub exec: Vec<String>,
    /// Starts when these have started, or failed to.
    pub after: Vec<String>,
    /// As `after`, but is skipped when one of them failed.
    pub requires: Vec<String>,
    /// When it counts as started.
    pub kind: Kind,
    /// How long a oneshot service may take, and whether there is a limit.
    pub timeout: Option<Duration>,
    /// The signal at the limit; SIGKILL follows if that does not help.
    pub kill_signal: Signal,
    /// Where its output goes.
    pub output: Output,
    /// What a failure means.
    pub on_failure: OnFailure,
}

/// A service file that makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// It cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{name}.{SUFFIX}:{line}: {what}")]
    Line {
        /// The service.
        name: String,
        /// Counted from 1; 0 is the file as a whole.
        line: usize,
        /// What is wrong, and what would be right.
        what: String,
    },
}

/// Reads all services of a folder, by name. A file that makes no sense is an error beside the others, not
/// instead of them; a folder that does not exist has no services.
pub fn load(dir: &Path) -> (Vec<Service>, Vec<TableError>) {
    let mut services = Vec::new();
    let mut errors = Vec::new();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return (services, errors),
        Err(source) => {
            let path = dir.to_owned();
            return (services, vec![TableError::Read { path, source }]);
        }
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == SUFFIX));
    paths.sort();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let parsed = fs::read_to_string(&path)
            .map_err(|source| TableError::Read {
                path: path.clone(),
                source,
            })
            .and_then(|text| parse(&name, &text));
        match parsed {
            Ok(service) => services.push(service),
            Err(e) => errors.push(e),
        }
    }
    (services, errors)
}

/// Parses one file.
///
/// # Errors
/// Names the line.
pub fn parse(name: &str, text: &str) -> Result<Service, TableError> {
    let mut service = Service {
        name: name.to_owned(),
        exec: Vec::new(),
        after: Vec::new(),
        requires: Vec::new(),
        kind: Kind::Oneshot,
        timeout: Some(DEFAULT_TIMEOUT),
        kill_signal: Signal::TERM,
        output: Output::Console,
        on_failure: OnFailure::Report,
    };
    let error = |line, what: String| TableError::Line {
        name: name.to_owned(),
        line,
        what,
    };
    let mut seen = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line
            .split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()))
            .ok_or_else(|| error(number, format!("`{line}` is not `key = value`")))?;
        if seen.contains(&key) {
            return Err(error(number, format!("{key} is set a second time")));
        }
        seen.push(key);
        set(&mut service, key, value).map_err(|what| error(number, what))?;
    }
    if service.exec.is_empty() {
        return Err(error(0, "exec is missing".into()));
    }
    if service.kind == Kind::Simple && !seen.contains(&"timeout") {
        service.timeout = None;
    }
    Ok(service)
}

fn set(service: &mut Service, key: &str, value: &str) -> Result<(), String> {
    let takes = |wanted: &str| Err(format!("{key} = {value}: it takes {wanted}"));
    match key {
        "exec" => match shlex::split(value) {
            Some(words) if words.iter().any(|w| w.contains('\0')) => {
                return takes("no NUL");
            }
            Some(words) if words.first().is_some_and(|p| p.starts_with('/')) => {
                service.exec = words;
            }
            _ => return takes("a program by its full path, and arguments, quoted as in a shell"),
        },
        "after" => service.after = value.split_whitespace().map(str::to_owned).collect(),
        "requires" => service.requires = value.split_whitespace().map(str::to_owned).collect(),
        "kind" => match value {
            "oneshot" => service.kind = Kind::Oneshot,
            "simple" => service.kind = Kind::Simple,
            _ => return takes("oneshot or simple"),
        },
        "timeout" => match duration(value) {
            Some(timeout) => service.timeout = timeout,
            None => return takes("a time such as 5s or 300ms, or none"),
        },
        "kill-signal" => match value {
            "TERM" => service.kill_signal = Signal::TERM,
            "INT" => service.kill_signal = Signal::INT,
            "ABRT" => service.kill_signal = Signal::ABORT,
            "KILL" => service.kill_signal = Signal::KILL,
            _ => return takes("TERM, INT, ABRT or KILL"),
        },
        "output" => match value {
            "console" => service.output = Output::Console,
            "null" => service.output = Output::Null,
            path if path.starts_with('/') => service.output = Output::File(path.into()),
            _ => return takes("console, null or a full path"),
        },
        "on-failure" => match value {
            "report" => service.on_failure = OnFailure::Report,
            "fatal" => service.on_failure = OnFailure::Fatal,
            _ => return takes("report or fatal"),
        },
        _ => {
            return Err(format!(
                "unknown key {key}; known are exec, after, requires, kind, timeout, kill-signal, \
                 output, on-failure"
            ));
        }
    }
    Ok(())
}

/// `5s`, `300ms` or `none`; the outer `None` is anything else.
fn duration(text: &str) -> Option<Option<Duration>> {
    if text == "none" {
        return Some(None);
    }
    let (number, unit): (&str, fn(u64) -> Duration) = match text.strip_suffix("ms") {
        Some(number) => (number, Duration::from_millis),
        None => (text.strip_suffix('s')?, Duration::from_secs),
    };
    // A day: longer than a boot, short enough to be added to any clock.
    let number: u64 = number.trim_end().parse().ok().filter(|n| *n > 0)?;
    Some(Some(unit(number).min(Duration::from_secs(24 * 60 * 60))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_keys() {
        let s = parse(
            "demo",
            "# a comment\n\nexec = /bin/echo \"two words\" 'x y'\nafter=a  b\nrequires = c\n\
             kind = simple\ntimeout = 300ms\nkill-signal = KILL\noutput = /run/log\n\
             on-failure = fatal\n",
        )
        .unwrap();
        assert_eq!(s.exec, ["/bin/echo", "two words", "x y"]);
        assert_eq!((s.after.len(), s.requires.len()), (2, 1));
        assert_eq!(s.kind, Kind::Simple);
        assert_eq!(s.timeout, Some(Duration::from_millis(300)));
        assert_eq!(s.kill_signal, Signal::KILL);
        assert_eq!(s.output, Output::File("/run/log".into()));
        assert_eq!(s.on_failure, OnFailure::Fatal);
    }

    #[test]
    fn defaults() {
        let s = parse("demo", "exec=/bin/true").unwrap();
        assert_eq!(s.kind, Kind::Oneshot);
        assert_eq!(s.timeout, Some(DEFAULT_TIMEOUT));
        assert_eq!(s.output, Output::Console);
        let s = parse("demo", "exec=/bin/true\nkind=simple").unwrap();
        assert_eq!(s.timeout, None);
    }

    #[test]
    fn mistakes_name_the_line() {
        for (text, wanted) in [
            ("", "demo.conf:0: exec is missing"),
            ("exec=true", "demo.conf:1: exec = true: it takes a program"),
            ("exec=/bin/sh 'x", "demo.conf:1: exec"),
            ("exec=/bin/sh\nnonsense", "demo.conf:2: `nonsense`"),
            ("exec=/bin/sh\ntimeout=5", "demo.conf:2: timeout = 5"),
            ("exec=/bin/sh\ntimeout=0s", "demo.conf:2: timeout = 0s"),
            ("exec=/bin/sh\nkind=forked", "demo.conf:2: kind"),
            (
                "exec=/bin/sh\n\nrestart=no",
                "demo.conf:3: unknown key restart",
            ),
            (
                "exec=/bin/sh\nexec=/bin/sh",
                "demo.conf:2: exec is set a second",
            ),
        ] {
            let e = parse("demo", text).unwrap_err().to_string();
            assert!(e.starts_with(wanted), "{text:?} gave {e}");
        }
    }

    #[test]
    fn a_bad_file_does_not_hide_the_others() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("b.conf"), "exec=/bin/b").unwrap();
        fs::write(dir.path().join("a.conf"), "exec=/bin/a").unwrap();
        fs::write(dir.path().join("bad.conf"), "?").unwrap();
        fs::write(dir.path().join("README"), "?").unwrap();
        let (services, errors) = load(dir.path());
        let names: Vec<_> = services.iter().map(|s| s.name.as_str()).collect();
        assert_eq!((names, errors.len()), (vec!["a", "b"], 1));
        assert!(load(&dir.path().join("none")).1.is_empty());
    }

    #[test]
    fn the_images_own_services_are_right() {
        let dir = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/image/root/etc/bootmark/services"
        );
        let (services, errors) = load(Path::new(dir));
        assert!(errors.is_empty(), "{errors:?}");
        assert!(services.len() >= 7);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "(?s).{0,200}") {
            let _ = parse("x", &text);
        }
    }
}
