//! One run: start QEMU, follow the console, and end it at once when it is over.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::alarm::{Alarm, classify};
use super::{Accelerator, Machine};
use crate::process;
use crate::progress::Step;

/// After an alarm: how long the console may be silent before the run is over,
/// and how long it may go on talking. The call trace comes after the alarm.
const QUIET: Duration = Duration::from_millis(400);
const LAST_WORDS: Duration = Duration::from_secs(3);

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The guest powered off.
    PowerOff,
    /// The guest reset itself, and was not allowed to reboot.
    Reset,
    /// The kernel reported that something is wrong.
    Alarm(Alarm),
    /// The time limit passed.
    TimeLimit(Duration),
    /// QEMU gave up, with this on its standard error.
    Qemu(String),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PowerOff => f.write_str("the guest powered off"),
            Self::Reset => f.write_str("the guest reset itself instead of powering off"),
            Self::Alarm(alarm) => alarm.fmt(f),
            Self::TimeLimit(limit) => {
                write!(f, "the time limit of {} s passed", limit.as_secs_f64())
            }
            Self::Qemu(text) => write!(f, "QEMU gave up: {}", text.trim_end()),
        }
    }
}

/// What is known after a run.
#[derive(Debug, Clone)]
pub struct Run {
    /// How it ended.
    pub ending: Ending,
    /// All that the console showed.
    pub console: String,
    /// From QEMU's start to its end.
    pub took: Duration,
}

enum Event {
    Console(Vec<u8>),
    Stderr(String),
    ConsoleEnd,
}

/// Runs a machine to its end, showing the latest console line in `step`.
///
/// # Errors
/// When QEMU cannot be started or the console log cannot be written. A guest
/// that fails is no error here: see [`Run::ending`].
pub fn run(machine: &Machine, accel: Accelerator, step: &Step) -> Result<Run> {
    let mut log = File::create(&machine.console_log)
        .with_context(|| format!("cannot write {}", machine.console_log.display()))?;
    let mut command = machine.command(accel, false)?;
    let started = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{}`", process::show(&command)))?;
    let (sender, events) = channel();
    read_console(&mut child, sender.clone());
    read_stderr(&mut child, sender);
    let watched = Watch::new(machine, started, &mut log, step).follow(&mut child, &events);
    let closed = watched.as_ref().is_ok_and(|watch| watch.ending.is_none());
    let status = end(&mut child, closed)?;
    let mut watch = watched?;
    // What QEMU said last arrives when its streams are closed.
    for event in events.iter() {
        match event {
            Event::Console(bytes) => watch.take(&bytes)?,
            Event::Stderr(line) => watch.stderr.push(line),
            Event::ConsoleEnd => {}
        }
    }
    let ending = match watch.ending {
        Some(ending) => ending,
        None if !status.success() => Ending::Qemu(format!("{}\n{status}", watch.stderr.join("\n"))),
        None if watch.console.contains("reboot: Power down") => Ending::PowerOff,
        None => Ending::Reset,
    };
    Ok(Run {
        ending,
        console: watch.console,
        took: started.elapsed(),
    })
}

/// Runs a machine with its console on the terminal, until QEMU ends.
///
/// # Errors
/// When QEMU cannot be started or fails.
pub fn run_interactive(machine: &Machine, accel: Accelerator) -> Result<Run> {
    let mut command = machine.command(accel, true)?;
    let started = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", process::show(&command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", process::show(&command));
    }
    let console = fs::read(&machine.console_log).unwrap_or_default();
    Ok(Run {
        ending: Ending::PowerOff,
        console: String::from_utf8_lossy(&console).replace('\r', ""),
        took: started.elapsed(),
    })
}

/// Ends QEMU: one that has closed its console is leaving and gets the time for
/// it (it may still write to the disk image), any other is killed.
fn end(child: &mut Child, leaving: bool) -> Result<ExitStatus> {
    let patience = Instant::now() + Duration::from_secs(10);
    while leaving && Instant::now() < patience {
        if let Some(status) = child.try_wait().context("cannot wait for QEMU")? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    // It may have ended by itself by now; then there is nothing to kill.
    let _ = child.kill();
    child.wait().context("cannot wait for QEMU")
}

/// Follows one run.
struct Watch<'a> {
    machine: &'a Machine,
    deadline: Instant,
    log: &'a mut File,
    step: &'a Step,
    console: String,
    /// Start of the console's last, unfinished line.
    line_start: usize,
    /// How far the console has been searched for what to type after.
    typed_after: usize,
    typing: usize,
    stderr: Vec<String>,
    ending: Option<Ending>,
}

impl<'a> Watch<'a> {
    fn new(machine: &'a Machine, started: Instant, log: &'a mut File, step: &'a Step) -> Self {
        Self {
            machine,
            deadline: started + machine.timeout,
            log,
            step,
            console: String::new(),
            line_start: 0,
            typed_after: 0,
            typing: 0,
            stderr: Vec::new(),
            ending: None,
        }
    }

    /// Until the console closes, an alarm has had its last words, or time is up.
    fn follow(mut self, child: &mut Child, events: &Receiver<Event>) -> Result<Self> {
        let mut keyboard = child.stdin.take();
        let mut limit = self.deadline;
        let mut silence = Duration::MAX;
        loop {
            let wait = limit.saturating_duration_since(Instant::now()).min(silence);
            match events.recv_timeout(wait) {
                Ok(Event::Console(bytes)) => self.take(&bytes)?,
                Ok(Event::Stderr(line)) => {
                    // KVM stops the machine and leaves QEMU waiting.
                    let stuck = line.contains("KVM internal error");
                    self.stderr.push(line);
                    if stuck && self.ending.is_none() {
                        self.ending = Some(Ending::Qemu("KVM internal error".to_owned()));
                    }
                }
                Ok(Event::ConsoleEnd) | Err(RecvTimeoutError::Disconnected) => return Ok(self),
                Err(RecvTimeoutError::Timeout) => {
                    if self.ending.is_none() {
                        self.ending = Some(Ending::TimeLimit(self.machine.timeout));
                    }
                    return Ok(self);
                }
            }
            if self.ending.is_some() && silence == Duration::MAX {
                silence = QUIET;
                limit = Instant::now() + LAST_WORDS;
            }
            if let Some(keyboard) = &mut keyboard {
                self.type_what_is_due(keyboard)?;
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.log
            .write_all(bytes)
            .with_context(|| format!("cannot write {}", self.machine.console_log.display()))?;
        self.console
            .push_str(&String::from_utf8_lossy(bytes).replace('\r', ""));
        while let Some(length) = self.console[self.line_start..].find('\n') {
            let line = &self.console[self.line_start..self.line_start + length];
            self.step.detail(line);
            if self.ending.is_none()
                && let Some(alarm) = classify(line)
                && !self.machine.tolerated.contains(&alarm)
            {
                self.ending = Some(Ending::Alarm(alarm));
            }
            self.line_start += length + 1;
        }
        Ok(())
    }

    fn type_what_is_due(&mut self, keyboard: &mut impl Write) -> Result<()> {
        while let Some((seen, text)) = self.machine.typing.get(self.typing) {
            let Some(at) = self.console[self.typed_after..].find(seen.as_str()) else {
                return Ok(());
            };
            keyboard
                .write_all(text.as_bytes())
                .and_then(|()| keyboard.flush())
                .context("cannot type on the guest's console")?;
            self.typed_after += at + seen.len();
            self.typing += 1;
        }
        Ok(())
    }
}

fn read_console(child: &mut Child, sender: Sender<Event>) {
    let Some(mut stream) = child.stdout.take() else {
        return;
    };
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            if sender.send(Event::Console(buffer[..n].to_vec())).is_err() {
                return;
            }
        }
        let _ = sender.send(Event::ConsoleEnd);
    });
}

fn read_stderr(child: &mut Child, sender: Sender<Event>) {
    let Some(stream) = child.stderr.take() else {
        return;
    };
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if sender.send(Event::Stderr(line)).is_err() {
                return;
            }
        }
    });
}
