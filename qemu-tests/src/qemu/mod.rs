//! The machine: QEMU's command line, the console, and the end of a run.

mod accel;
mod alarm;
mod run;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::setup;

pub use accel::{Accelerator, accelerator};
pub use alarm::{Alarm, classify, is_warning};
pub use run::{Ending, Run, run, run_interactive};

/// The kernel's limit on its command line (bytes, `COMMAND_LINE_SIZE` of x86
/// without the closing zero).
const COMMAND_LINE_MAX: usize = 2047;

/// One virtual machine, ready to be started.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The kernel image.
    pub kernel: PathBuf,
    /// The initramfs, if any.
    pub initramfs: Option<PathBuf>,
    /// The disk, a raw image that the guest writes to, if any.
    pub disk: Option<PathBuf>,
    /// The kernel command line.
    pub command_line: String,
    /// Guest memory in MiB.
    pub memory: u32,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Whether time in the guest is the number of instructions that it has executed, a nanosecond each:
    /// then what it measures does not depend on what else the host does. Needs emulation.
    pub counted: bool,
    /// Whether the guest may reboot; otherwise a reset ends the run.
    pub reboots: bool,
    /// Alarms that do not end the run.
    pub tolerated: Vec<Alarm>,
    /// Time limit of the run.
    pub timeout: Duration,
    /// More arguments for QEMU.
    pub extra: Vec<String>,
    /// Where the console goes.
    pub console_log: PathBuf,
    /// What to type: once the console shows the first text (after the place
    /// where the entry before matched), the second one is typed.
    pub typing: Vec<(String, String)>,
}

impl Machine {
    /// A machine with this kernel and defaults for the rest.
    pub fn new(kernel: &Path, console_log: &Path) -> Self {
        Self {
            kernel: kernel.to_owned(),
            initramfs: None,
            disk: None,
            command_line: String::new(),
            memory: 512,
            cpus: 2,
            counted: false,
            reboots: false,
            tolerated: Vec::new(),
            timeout: Duration::from_secs(180),
            extra: Vec::new(),
            console_log: console_log.to_owned(),
            typing: Vec::new(),
        }
    }

    /// QEMU's command line. `interactive` gives the console to the terminal
    /// (and keeps a copy in the console log) instead of to the runner.
    fn command(&self, accel: Accelerator, interactive: bool) -> Result<Command> {
        let mut command_line = self.command_line.clone();
        // A counted nanosecond is one tick.
        let khz = if self.counted {
            Some(1_000_000)
        } else {
            accel.tsc_khz()
        };
        if let Some(khz) = khz {
            command_line += &format!(" tsc_early_khz={khz}");
        }
        if command_line.len() > COMMAND_LINE_MAX {
            bail!(
                "the kernel command line has {} bytes, and the kernel cuts it off after \
                 {COMMAND_LINE_MAX}: shorten the rules or --append",
                command_line.len()
            );
        }
        // setpriv: QEMU must not outlive us, however we end.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        command.arg(setup::find("qemu-system-x86_64").context(
            "no qemu-system-x86_64 on the PATH (Debian's package qemu-system-x86 has it)",
        )?);
        command.args(["-nodefaults", "-no-user-config", "-display", "none"]);
        let accel = if self.counted {
            command.args(["-icount", "shift=0,sleep=off"]);
            "tcg,thread=single"
        } else {
            accel.argument()
        };
        command.args(["-accel", accel, "-cpu", "max,migratable=no"]);
        command.args(["-smp", &self.cpus.to_string()]);
        command.args(["-m", &format!("{}M", self.memory)]);
        command.arg("-kernel").arg(&self.kernel);
        if let Some(initramfs) = &self.initramfs {
            command.arg("-initrd").arg(initramfs);
        }
        command.args(["-append", &command_line]);
        if let Some(disk) = &self.disk {
            // A comma in a value of QEMU's is written twice.
            let disk = disk.display().to_string().replace(',', ",,");
            command.args([
                "-drive",
                &format!("file={disk},if=virtio,format=raw,cache=writeback,discard=unmap"),
            ]);
        }
        command.args(["-device", "virtio-rng-pci"]);
        if !self.reboots {
            command.arg("-no-reboot");
        }
        if interactive {
            let log = self.console_log.display().to_string().replace(',', ",,");
            command.args([
                "-chardev",
                &format!("stdio,id=console,mux=on,signal=off,logfile={log}"),
                "-serial",
                "chardev:console",
                "-mon",
                "chardev=console",
            ]);
        } else {
            command.args(["-chardev", "stdio,id=console,signal=off"]);
            command.args(["-serial", "chardev:console"]);
            command.stdin(Stdio::piped());
            command.stdout(Stdio::piped());
            command.stderr(Stdio::piped());
        }
        command.args(&self.extra);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_that_the_kernel_would_cut_is_refused() {
        let mut machine = Machine::new(Path::new("bzImage"), Path::new("log"));
        machine.command_line = "x".repeat(COMMAND_LINE_MAX + 1);
        let error = machine.command(Accelerator::Tcg, false).unwrap_err();
        assert!(error.to_string().contains("2047"), "{error}");
    }
}
