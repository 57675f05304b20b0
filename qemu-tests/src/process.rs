//! Running other programs, with errors that say what was run and show the end
//! of what it printed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::progress::Step;

/// How many of the last lines of a program's output an error shows.
const TAIL_LINES: usize = 25;

/// Runs a program to its end and returns its standard output.
///
/// # Errors
/// When it cannot be started or fails; the message has the end of its output.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let out = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
    if !out.status.success() {
        let stderr = String::from_utf8_lossy(&out.stderr);
        bail!(
            "`{shown}` failed ({}):\n{}{}",
            out.status,
            tail(&stdout, TAIL_LINES),
            tail(&stderr, TAIL_LINES)
        );
    }
    Ok(stdout)
}

/// Runs a long step: its output (both streams, in order) goes to `log` and,
/// line by line, to `step`.
///
/// # Errors
/// When the program cannot be started, or fails; the message names the log and
/// shows its end.
pub fn logged(command: &mut Command, log: &Path, step: &Step) -> Result<()> {
    let shown = show(command);
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write the log {}", log.display()))?;
    writeln!(file, "$ {shown}")?;
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    // The command keeps its copies of the pipe's writing end until it is given
    // other streams; with them open the reader would never see the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let last = thread::scope(|scope| {
        let reading = scope.spawn(|| -> std::io::Result<Vec<String>> {
            let mut last = Vec::new();
            for line in BufReader::new(reader).split(b'\n') {
                let line = String::from_utf8_lossy(&line?).into_owned();
                writeln!(file, "{line}")?;
                step.detail(line.trim());
                last.push(line);
                if last.len() > TAIL_LINES {
                    last.remove(0);
                }
            }
            Ok(last)
        });
        reading
            .join()
            .expect("the log reader has nothing to panic on")
    })
    .with_context(|| format!("cannot log the output of `{shown}`"))?;
    let status = child.wait()?;
    if !status.success() {
        bail!(
            "`{shown}` failed ({status}); the end of {}:\n{}",
            log.display(),
            last.join("\n")
        );
    }
    Ok(())
}

/// The last `lines` lines of a text, each ended.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..]
        .iter()
        .fold(String::new(), |mut out, line| {
            out.push_str(line);
            out.push('\n');
            out
        })
}

/// A command line as one would type it, for messages.
pub fn show(command: &Command) -> String {
    let mut text = quoted(command.get_program());
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&quoted(arg));
    }
    text
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_the_command_and_its_output() {
        let error = output(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("sh -c 'echo why >&2; exit 3'"), "{text}");
        assert!(text.contains("why\n") && text.contains('3'), "{text}");
    }

    #[test]
    fn a_log_has_both_streams() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let step = Step::start("test");
        logged(
            Command::new("sh").args(["-c", "echo out; echo err >&2"]),
            &log,
            &step,
        )
        .unwrap();
        let text = std::fs::read_to_string(log).unwrap();
        assert!(text.ends_with("out\nerr\n"), "{text}");
    }

    #[test]
    fn the_tail_is_the_end() {
        assert_eq!(tail("a\nb\nc", 2), "b\nc\n");
        assert_eq!(tail("a", 2), "a\n");
    }
}
