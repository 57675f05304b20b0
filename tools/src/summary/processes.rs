//! Processes: those that had a chunk are in the meta stream, all others are known when the kernel's
//! process events were on.

use std::collections::HashMap;

use markers::decode::Value;
use serde::Serialize;

use crate::trace::meta::Meta;
use crate::trace::reader::Event;
use crate::units::WaitStatus;

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's, when known.
    pub ppid: Option<u32>,
    /// The program it ran last, else its name.
    pub program: String,
    /// Those that had a chunk, in order: all but the last ended by exec.
    pub programs: Vec<Program>,
    /// The name of its first thread, as it was last.
    pub name: String,
    /// When it was forked, in nanoseconds since boot, else when it was seen first.
    pub start_ns: Option<i64>,
    /// When it ended.
    pub end_ns: Option<i64>,
    /// Wait status.
    pub wait_status: Option<u32>,
    /// The wait status in words.
    pub end: Option<String>,
    /// Its events.
    pub events: u64,
}

/// A program that a process ran, and that could write events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Path of the executable.
    pub path: String,
    /// Its GNU build id in hexadecimal digits; empty without one.
    pub build_id: String,
    /// When it was handed its first chunk, in nanoseconds since boot.
    pub first_chunk_ns: i64,
}

/// The processes of a trace. An id that is used again is a new process.
#[derive(Debug, Default)]
pub struct Processes {
    list: Vec<Process>,
    latest: HashMap<u32, usize>,
}

impl Processes {
    /// Processes kept at most, so that a trace of endless forks does not fill the memory.
    const LIMIT: usize = 1 << 18;

    /// Makes a new process of this id, if there is room.
    fn new_process(&mut self, pid: u32, start_ns: Option<i64>) -> Option<&mut Process> {
        if self.list.len() >= Self::LIMIT {
            return None;
        }
        self.latest.insert(pid, self.list.len());
        self.list.push(Process {
            pid,
            start_ns,
            ..Process::default()
        });
        self.list.last_mut()
    }

    /// The process that has this id now.
    fn current(&mut self, pid: u32, now_ns: i64) -> Option<&mut Process> {
        match self.latest.get(&pid) {
            Some(&index) => self.list.get_mut(index),
            None => self.new_process(pid, Some(now_ns)),
        }
    }

    /// Takes an event of a process.
    pub fn user_event(&mut self, event: &Event<'_>) {
        let header = event.header;
        if let Some(process) = self.current(header.pid, event.ns) {
            process.events += 1;
            if header.tid == header.pid {
                process.name = crate::trace::layout::comm(&header.comm);
            }
        }
    }

    /// Takes an event of the kernel: fork, exec and exit say something here. Threads have them too;
    /// those of the first thread are the process's.
    pub fn kernel_event(&mut self, event: &Event<'_>) {
        let number = |name: &str| match field(event, name)? {
            Value::Unsigned(value) => u32::try_from(value).ok(),
            Value::Signed(value) => u32::try_from(value).ok(),
            _ => None,
        };
        match event.marker.full_name.as_str() {
            "kernel:sched_process_fork" => {
                let (Some(pid), tid) = (number("child_pid"), number("child_tid")) else {
                    return;
                };
                if tid.is_some_and(|tid| tid != pid) {
                    return;
                }
                let ppid = number("parent_pid");
                let comm = text(event, "comm").unwrap_or_default();
                if let Some(process) = self.new_process(pid, Some(event.ns)) {
                    process.ppid = ppid;
                    process.name = comm;
                }
            }
            "kernel:sched_process_exec" => {
                let Some(pid) = number("pid") else { return };
                let file = text(event, "filename");
                if let Some(process) = self.current(pid, event.ns) {
                    process.program = file.unwrap_or_default();
                    // The kernel names it anew.
                    process.name.clear();
                }
            }
            "kernel:sched_process_exit" => {
                let (Some(pid), tid) = (number("pid"), number("tid")) else {
                    return;
                };
                if tid.is_some_and(|tid| tid != pid) {
                    return;
                }
                let comm = text(event, "comm");
                let status = match field(event, "exit_code") {
                    Some(Value::Signed(value)) => Some(value as u32),
                    Some(Value::Unsigned(value)) => Some(value as u32),
                    _ => None,
                };
                if let Some(process) = self.current(pid, event.ns) {
                    process.end_ns = Some(event.ns);
                    process.wait_status = status;
                    process.name = comm.unwrap_or_default();
                }
            }
            _ => {}
        }
    }

    /// Adds what the meta stream knows, and returns the processes in the order of their start.
    /// Kernel threads, which never ran a program, are left out.
    pub fn finish(mut self, meta: &Meta) -> Vec<Process> {
        for known in &meta.processes {
            let seen_ns = meta.clock.ns(known.first_seen);
            // Of the processes that had this id, the one that was alive when the chunk was given.
            let alive = |process: &Process| {
                process.pid == known.pid
                    && process.end_ns.is_none_or(|end| end >= seen_ns)
                    && process
                        .start_ns
                        .is_none_or(|start| start <= seen_ns || process.ppid.is_none())
            };
            let index = self.list.iter().rposition(alive);
            let index = index.unwrap_or_else(|| {
                self.list.push(Process {
                    pid: known.pid,
                    ..Process::default()
                });
                self.list.len() - 1
            });
            let process = &mut self.list[index];
            process.ppid.get_or_insert(known.ppid);
            process.program.clone_from(&known.path);
            process.programs.push(Program {
                path: known.path.clone(),
                build_id: known
                    .build_id
                    .iter()
                    .map(|octet| format!("{octet:02x}"))
                    .collect(),
                first_chunk_ns: seen_ns,
            });
            process.start_ns = Some(i64::try_from(known.start_ns).unwrap_or(i64::MAX));
            if let Some((status, reading)) = known.exit {
                process.wait_status = Some(status);
                process.end_ns.get_or_insert(meta.clock.ns(reading));
            }
        }
        for process in &mut self.list {
            if process.program.is_empty() {
                process.program.clone_from(&process.name);
            }
            process.end = process
                .wait_status
                .map(|status| WaitStatus(status).to_string());
        }
        const KTHREADD: u32 = 2;
        self.list.retain(|process| {
            let kernel =
                process.pid == KTHREADD || matches!(process.ppid, None | Some(0 | KTHREADD));
            process.events != 0 || process.program.starts_with('/') || !kernel
        });
        self.list.sort_by_key(|process| process.start_ns);
        self.list
    }
}

/// A field's value.
fn field<'a>(event: &'a Event<'_>, name: &str) -> Option<Value<'a>> {
    let named = |value: Result<(markers::decode::FieldInfo<'a>, Value<'a>), _>| {
        value
            .ok()
            .filter(|(field, _)| field.name == name)
            .map(|(_, value)| value)
    };
    event.marker.decode(event.payload).find_map(named)
}

/// A string field.
pub fn text(event: &Event<'_>, name: &str) -> Option<String> {
    match field(event, name)? {
        Value::Str(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

/// An integer field that holds a process id.
pub fn pid(event: &Event<'_>, name: &str) -> Option<u32> {
    match field(event, name)? {
        Value::Unsigned(value) => u32::try_from(value).ok(),
        Value::Signed(value) => u32::try_from(value).ok(),
        _ => None,
    }
}
