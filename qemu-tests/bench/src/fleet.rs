//! How long it takes to reach many processes: a rule against a uprobe with a reference counter, which is
//! the kernel's own way to turn on a probe in every process that maps a file.
//!
//! Prints one line of JSON a round, in milliseconds by the clock on the wall. After each step all
//! processes are looked at through `/proc/PID/mem`, so a step that left one out is an error.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, PipeWriter, Read, Write, pipe};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

use markers::abi::{CTL_RULE_ADD, CTL_RULE_DEL, CtlArgs};
use rustix::time::{ClockId, clock_gettime};
use zerocopy::IntoBytes;

use crate::measured;

const RULE: &str = "bench:fleet";
const TRACING: &str = "/sys/kernel/tracing";

/// What a uprobe with a reference counter counts in; in a section of its own, so that it is in the file.
#[used]
#[unsafe(link_section = ".data.bootmark_bench_counter")]
static COUNTER: [u16; 4] = [0; 4];

/// What the uprobe is put on.
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn bootmark_bench_probed(number: u64) -> u64 {
    std::hint::black_box(number)
}

/// The life of one of the processes: says that it is there, and waits until the pipe on its standard
/// input is closed.
pub(crate) fn wait() {
    println!("there");
    let mut nothing = Vec::new();
    // Whatever it ends by, the process has nothing else to do.
    let _ = std::io::stdin().read_to_end(&mut nothing);
    bootmark_bench_probed(0);
    measured::fleet(0);
}

/// What `/proc/PID/maps` says of the program's file: addresses and the offset in the file.
fn mappings(maps: &str) -> impl Iterator<Item = (Range<u64>, u64)> {
    maps.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
        // The inode number, of what is no file zero.
        let backed = words.nth(1)? != "0";
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        backed.then_some((start..end, offset))
    })
}

/// An address of this program as an offset in its file.
fn file_offset(address: u64) -> Result<u64, String> {
    let maps = fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
    mappings(&maps)
        .find(|(range, _)| range.contains(&address))
        .map(|(range, offset)| offset + (address - range.start))
        .ok_or_else(|| format!("{address:#x} is not of the program's file"))
}

/// Where a process has the begin of the program, which is position-independent.
fn base(maps: &str) -> Option<u64> {
    mappings(maps).next().map(|(range, _)| range.start)
}

/// The processes.
struct Fleet {
    children: Vec<Child>,
    /// Where each has the begin of the program.
    bases: Vec<u64>,
    /// Closed to end them.
    _stop: PipeWriter,
}

impl Fleet {
    fn start(count: u32) -> Result<Self, String> {
        let say = |what: &str, error: std::io::Error| format!("cannot {what}: {error}");
        let exe = std::env::current_exe().map_err(|error| say("find myself", error))?;
        let (reader, writer) = pipe().map_err(|error| say("make a pipe", error))?;
        let mut fleet = Self {
            children: Vec::new(),
            bases: Vec::new(),
            _stop: writer,
        };
        for _ in 0..count {
            let stdin = reader
                .try_clone()
                .map_err(|error| say("copy a descriptor", error))?;
            let mut child = Command::new(&exe)
                .arg("--wait")
                .stdin(Stdio::from(stdin))
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| say("start a process", error))?;
            let proc = format!("/proc/{}", child.id());
            let stdout = child.stdout.take();
            fleet.children.push(child);
            // Only now is it sure to have its program's memory.
            let mut there = String::new();
            if let Some(stdout) = stdout {
                BufReader::new(stdout)
                    .read_line(&mut there)
                    .map_err(|error| say("hear from a process", error))?;
            }
            let maps = fs::read_to_string(format!("{proc}/maps"))
                .map_err(|error| say("read a process's mappings", error))?;
            fleet
                .bases
                .push(base(&maps).ok_or("a process has no mappings")?);
        }
        Ok(fleet)
    }

    /// Whether the octets at `address` of this process, in all of them, are zero or not.
    fn check(&self, address: u64, octets: usize, zero: bool) -> Result<(), String> {
        let own = fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
        let own = base(&own).ok_or("I have no mappings")?;
        for (child, base) in self.children.iter().zip(&self.bases) {
            let mut word = [0_u8; 4];
            File::open(format!("/proc/{}/mem", child.id()))
                .and_then(|memory| {
                    memory.read_exact_at(&mut word[..octets], base + (address - own))
                })
                .map_err(|error| format!("cannot read a process's memory: {error}"))?;
            if (word == [0; 4]) != zero {
                return Err(format!("a process was left out at {address:#x}"));
            }
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It only waits; there is nothing to lose.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn rule(op: u32) -> Result<(), String> {
    let mut args = CtlArgs {
        buf: RULE.as_ptr() as u64,
        buf_size: RULE.len() as u64,
        ..CtlArgs::default()
    };
    // SAFETY: the arguments name a text of the size given with it, which is static.
    unsafe { bootbuf::sys::marker_ctl(op, args.as_mut_bytes()) }
        .map(drop)
        .map_err(|error| format!("marker_ctl: {error:?}"))
}

fn write_to(path: &str, text: &str) -> Result<(), String> {
    let write = || {
        let mut file = File::options().append(true).open(path)?;
        file.write_all(text.as_bytes())
    };
    write().map_err(|error| format!("cannot write `{text}` to {path}: {error}"))
}

/// Milliseconds that a step takes.
fn time(step: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    let now = || {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
    };
    let start = now();
    step()?;
    Ok(now() - start)
}

/// Measures `rounds` times, with `count` processes that wait.
pub(crate) fn measure(count: u32, rounds: u32) -> Result<(), String> {
    let marker = measured::fleet_state();
    let counter = (&raw const COUNTER) as u64;
    let probe = bootmark_bench_probed as *const () as u64;
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    write_to(
        &format!("{TRACING}/uprobe_events"),
        &format!(
            "p:bench/probed {}:{:#x}({:#x})",
            exe.display(),
            file_offset(probe)?,
            file_offset(counter)?
        ),
    )?;
    let enable = format!("{TRACING}/events/bench/probed/enable");
    let fleet = Fleet::start(count)?;
    for _ in 0..rounds {
        let rule_on = time(|| rule(CTL_RULE_ADD))?;
        fleet.check(marker, 4, false)?;
        let rule_off = time(|| rule(CTL_RULE_DEL))?;
        fleet.check(marker, 4, true)?;
        let uprobe_on = time(|| write_to(&enable, "1"))?;
        fleet.check(counter, 2, false)?;
        let uprobe_off = time(|| write_to(&enable, "0"))?;
        fleet.check(counter, 2, true)?;
        println!(
            r#"{{"rule_on":{rule_on:.3},"rule_off":{rule_off:.3},"uprobe_on":{uprobe_on:.3},"uprobe_off":{uprobe_off:.3}}}"#
        );
    }
    drop(fleet);
    write_to(&format!("{TRACING}/uprobe_events"), "-:bench/probed")
}
