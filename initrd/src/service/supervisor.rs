//! Runs services: starts what can start, takes what ends, ends what takes too long.

use super::graph::{Graph, State};
use super::spawn::{self, Program};
use super::table::{OnFailure, Output, Service};
use crate::console::Console;
use crate::emergency::PATH;
use crate::power::Stop;
use crate::signals::{Event, Signals};
use crate::trace::{marker, span};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between the signal at the time limit and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Between SIGKILL and giving up. A loaded machine may take a while to end a process; one that is stuck in the
/// kernel (a dead disk, a frozen file system) never ends.
const LAST_GRACE: Duration = Duration::from_secs(10);

/// The signals that end processes in practice.
const NAMES: [(i32, &str); 15] = [
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGSYS, "SIGSYS"),
];

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Exit status, 0 when a signal ended it.
    pub status: i32,
    /// The signal, or 0.
    pub signal: i32,
}

impl Ending {
    fn of(status: WaitStatus) -> Ending {
        Ending {
            status: status.exit_status().unwrap_or(0),
            signal: status.terminating_signal().unwrap_or(0),
        }
    }

    /// Status 0 and no signal.
    pub fn is_good(self) -> bool {
        self == Ending {
            status: 0,
            signal: 0,
        }
    }

    /// As a shell has it in `$?`.
    pub fn shell_status(self) -> i32 {
        if self.signal != 0 {
            128 + self.signal
        } else {
            self.status
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.signal {
            0 => write!(f, "exit status {}", self.status),
            signal => match NAMES.iter().find(|(number, _)| *number == signal) {
                Some((_, name)) => f.write_str(name),
                None => write!(f, "signal {signal}"),
            },
        }
    }
}

/// One process of ours.
#[derive(Debug)]
struct Run {
    /// The service, or none for a task such as the script.
    service: Option<usize>,
    started: Instant,
    deadline: Option<Instant>,
    /// What the next deadline sends; none: it is given up then.
    signal: Option<Signal>,
    /// It was ended by us.
    timed_out: bool,
}

/// Services under way, and everybody else's children that PID 1 inherits.
#[derive(Debug)]
pub struct Supervisor<'a> {
    graph: Graph,
    runs: HashMap<Pid, Run>,
    tasks_ended: HashMap<Pid, Result<Ending, String>>,
    signals: &'a Signals,
    console: &'a Console,
    stop: Option<Stop>,
}

impl<'a> Supervisor<'a> {
    /// Nothing starts yet.
    pub fn new(
        services: Vec<Service>,
        signals: &'a Signals,
        console: &'a Console,
    ) -> Supervisor<'a> {
        Supervisor {
            graph: Graph::new(services),
            runs: HashMap::new(),
            tasks_ended: HashMap::new(),
            signals,
            console,
            stop: None,
        }
    }

    /// What somebody asked for with a signal meanwhile.
    pub fn stop_asked(&self) -> Option<Stop> {
        self.stop
    }

    /// Starts services until all have ended, are up or will never start, or until a stop is asked for.
    pub fn run_services(&mut self) {
        for (service, state) in self.graph.iter() {
            if let State::Failed(why) = state {
                self.console
                    .alert(&format!("service {}: {why}", service.name));
            }
        }
        loop {
            self.start_ready();
            if self.graph.is_settled() || self.stop.is_some() {
                return;
            }
            self.wait_once();
        }
    }

    /// Starts a program that is no service, as `argv` says, and waits for its end; services go on meanwhile.
    ///
    /// # Errors
    /// When it cannot start, runs longer than `limit`, or a stop is asked for, in words.
    pub fn run_task(
        &mut self,
        argv: &[String],
        output: &Output,
        limit: Option<Duration>,
    ) -> Result<Ending, String> {
        let program = program(argv, output).map_err(|e| format!("{}: {e}", argv[0]))?;
        let waiting = program.fork().map_err(|e| format!("cannot fork: {e}"))?;
        let pid = waiting.pid;
        self.adopt(pid, limit);
        // Whether or not it could execute, it ends and is waited for.
        let released = waiting.release();
        let ending = self.wait_task(pid);
        match released {
            Err(e) => Err(format!("{}: {e}", argv[0])),
            Ok(_) => ending,
        }
    }

    /// Takes care of a child that somebody else started.
    pub fn adopt(&mut self, pid: Pid, limit: Option<Duration>) {
        let started = Instant::now();
        self.runs.insert(
            pid,
            Run {
                service: None,
                started,
                deadline: limit.map(|limit| started + limit),
                signal: Some(Signal::TERM),
                timed_out: false,
            },
        );
    }

    /// Waits for the end of an adopted child.
    ///
    /// # Errors
    /// As [`Supervisor::run_task`].
    pub fn wait_task(&mut self, pid: Pid) -> Result<Ending, String> {
        let stop_before = self.stop;
        loop {
            if let Some(result) = self.tasks_ended.remove(&pid) {
                return result;
            }
            if self.stop != stop_before {
                self.runs.remove(&pid);
                return Err("somebody asked for the machine to stop".into());
            }
            self.wait_once();
        }
    }

    /// The names and reasons of failed services that matter for the outcome.
    pub fn fatal_failures(&self) -> Vec<String> {
        self.graph
            .iter()
            .filter(|(service, _)| service.on_failure == OnFailure::Fatal)
            .filter_map(|(service, state)| match state {
                State::Failed(why) | State::Skipped(why) => {
                    Some(format!("service {}: {why}", service.name))
                }
                _ => None,
            })
            .collect()
    }

    /// One line: how many services are in which state.
    pub fn summary(&self) -> String {
        let count = |what: fn(&State) -> bool| self.graph.iter().filter(|(_, s)| what(s)).count();
        format!(
            "services: {} done, {} running, {} failed, {} skipped",
            count(|s| *s == State::Done),
            count(|s| matches!(s, State::Up | State::Running)),
            count(|s| matches!(s, State::Failed(_))),
            count(|s| matches!(s, State::Skipped(_)))
        )
    }

    fn start_ready(&mut self) {
        loop {
            let (skipped, ready) = self.graph.advance();
            for index in &skipped {
                let name = &self.graph.service(*index).name;
                if let State::Skipped(why) = self.graph.state(*index) {
                    marker!("init", "service_skipped", name: str = name, why: str = why);
                    self.console
                        .alert(&format!("service {name} is skipped: {why}"));
                }
            }
            // One that cannot even start may free or skip others at once.
            if ready.is_empty() {
                return;
            }
            for index in ready {
                self.start(index);
            }
        }
    }

    fn start(&mut self, index: usize) {
        let service = self.graph.service(index).clone();
        let started = Instant::now();
        let result = program(&service.exec, &service.output).and_then(Program::fork);
        let waiting = match result {
            Ok(waiting) => waiting,
            Err(e) => return self.failed(index, format!("cannot start: {e}")),
        };
        let pid = waiting.pid;
        let mut stage = span!(
            "init", "service",
            name: str = &service.name,
            pid: i32 = pid.as_raw_nonzero().get(),
            exec: str = &service.exec.join(" "),
            kind: u8 [enum "oneshot", "simple"] = service.kind as u8,
        );
        if let Err(e) = waiting.release() {
            stage.fail(e.raw_os_error());
            drop(stage);
            // Its end, which follows, is then nobody's.
            return self.failed(index, format!("{}: {e}", service.exec[0]));
        }
        drop(stage);
        self.runs.insert(
            pid,
            Run {
                service: Some(index),
                started,
                deadline: service.timeout.map(|limit| started + limit),
                signal: Some(service.kill_signal),
                timed_out: false,
            },
        );
        let state = self.graph.started(index);
        self.graph.set(index, state);
    }

    fn failed(&mut self, index: usize, why: String) {
        let name = &self.graph.service(index).name;
        marker!(
            "init", "service_failed",
            level = warning,
            name: str = name,
            why: str = &why,
        );
        self.console.alert(&format!("service {name} failed: {why}"));
        self.graph.set(index, State::Failed(why));
    }

    fn wait_once(&mut self) {
        let now = Instant::now();
        let next = self.runs.values().filter_map(|run| run.deadline).min();
        let event = self
            .signals
            .wait(next.map(|at| at.saturating_duration_since(now)));
        if let Event::Stop(stop) = event {
            marker!("init", "stop_asked", how: u8 [enum "poweroff", "reboot", "halt"] = stop as u8);
            self.stop = Some(stop);
        }
        // Whatever woke us: signals merge, so children are asked for in any case.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            self.ended(pid, Ending::of(status));
        }
        self.enforce_limits();
    }

    fn ended(&mut self, pid: Pid, ending: Ending) {
        let number = pid.as_raw_nonzero().get();
        let Some(run) = self.runs.remove(&pid) else {
            marker!(
                "init", "reaped",
                level = debug,
                pid: i32 = number,
                status: i32 = ending.status,
                signal: i32 = ending.signal,
            );
            return;
        };
        let run_time = run.started.elapsed();
        let timed_out = run.timed_out;
        let Some(index) = run.service else {
            let result = if timed_out {
                Err(format!(
                    "did not end in time, was ended after {} s ({ending})",
                    run_time.as_secs()
                ))
            } else {
                Ok(ending)
            };
            self.tasks_ended.insert(pid, result);
            return;
        };
        let service = self.graph.service(index);
        let limit = service.timeout.filter(|_| timed_out);
        marker!(
            "init", "service_exit",
            name: str = &service.name,
            pid: i32 = number,
            status: i32 = ending.status,
            signal: i32 = ending.signal,
            timed_out: bool = timed_out,
            run_time: u64 [ns] = u64::try_from(run_time.as_nanos()).unwrap_or(u64::MAX),
        );
        if ending.is_good() {
            self.graph.set(index, State::Done);
        } else if let Some(limit) = limit {
            let ran = run_time.as_secs_f32();
            self.failed(
                index,
                format!("{ending} after {ran:.1} s: its limit is {limit:?}"),
            );
        } else {
            self.failed(index, ending.to_string());
        }
    }

    fn enforce_limits(&mut self) {
        let now = Instant::now();
        let mut stuck = Vec::new();
        for (pid, run) in &mut self.runs {
            if run.deadline.is_none_or(|at| at > now) {
                continue;
            }
            let Some(signal) = run.signal else {
                stuck.push(*pid);
                continue;
            };
            run.timed_out = true;
            marker!(
                "init", "service_kill",
                pid: i32 = pid.as_raw_nonzero().get(),
                signal: i32 = signal.as_raw(),
            );
            // Each has a session of its own, so its children are meant as well.
            let _ = kill_process_group(*pid, signal);
            // Nothing is stronger than SIGKILL.
            let (next, grace) = if signal == Signal::KILL {
                (None, LAST_GRACE)
            } else {
                (Some(Signal::KILL), GRACE)
            };
            run.signal = next;
            run.deadline = Some(now + grace);
        }
        for pid in stuck {
            self.give_up(pid);
        }
    }

    /// Waits no longer for a run; should its process end after all, that is nobody's.
    fn give_up(&mut self, pid: Pid) {
        let Some(run) = self.runs.remove(&pid) else {
            return;
        };
        let run_time = run.started.elapsed();
        marker!(
            "init", "given_up",
            level = error,
            pid: i32 = pid.as_raw_nonzero().get(),
            run_time: u64 [ns] = u64::try_from(run_time.as_nanos()).unwrap_or(u64::MAX),
        );
        let why = format!(
            "does not end, not even of SIGKILL; given up after {:.1} s",
            run_time.as_secs_f32()
        );
        match run.service {
            Some(index) => self.failed(index, why),
            None => {
                self.tasks_ended.insert(pid, Err(why));
            }
        }
    }
}

/// A program with the environment and the output that services get.
fn program(argv: &[String], output: &Output) -> Result<Program, Errno> {
    let output = match output {
        Output::Console => spawn::open(Path::new("/dev/console"), OFlags::WRONLY)
            .or_else(|_| spawn::open(Path::new("/dev/null"), OFlags::WRONLY))?,
        Output::Null => spawn::open(Path::new("/dev/null"), OFlags::WRONLY)?,
        Output::File(path) => spawn::open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?,
    };
    let environment = [
        format!("PATH={PATH}"),
        "HOME=/root".to_owned(),
        "TERM=linux".to_owned(),
        "LANG=C.UTF-8".to_owned(),
    ];
    Program::new(argv, &environment, output)
}
