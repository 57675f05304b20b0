//! KVM or software emulation.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::{Alarm, Ending, Machine, run};
use crate::progress::Step;
use crate::{lock, paths, process};

/// The host's, in kHz.
#[cfg(target_arch = "x86_64")]
fn measure_tsc() -> Option<u64> {
    // Both clocks at one instant: of some tries the one with which nobody interfered.
    let reading = || {
        (0..20)
            .map(|_| {
                let before = Instant::now();
                // SAFETY: RDTSC is allowed to a process that has not forbidden it to itself.
                let ticks = unsafe { core::arch::x86_64::_rdtsc() };
                (before.elapsed(), before, ticks)
            })
            .min_by_key(|(took, ..)| *took)
    };
    let (_, start, first) = reading()?;
    thread::sleep(Duration::from_millis(50));
    let (_, end, last) = reading()?;
    let nanos = u64::try_from((end - start).as_nanos()).ok()?;
    last.checked_sub(first)?
        .checked_mul(1_000_000)?
        .checked_div(nanos)
}

#[cfg(not(target_arch = "x86_64"))]
fn measure_tsc() -> Option<u64> {
    None
}

/// What runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// The host's processor.
    Kvm,
    /// Software emulation, one host thread a virtual CPU.
    Tcg,
}

impl Accelerator {
    pub(super) fn argument(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg,thread=multi",
        }
    }

    /// Frequency of the guest's time-stamp counter in kHz, where we know it better than the guest: emulation
    /// passes the host's on, and a guest on a busy host that measures it may be wrong by a factor, as all
    /// its times are then.
    pub(super) fn tsc_khz(self) -> Option<u64> {
        static KHZ: OnceLock<Option<u64>> = OnceLock::new();

        match self {
            Self::Kvm => None,
            Self::Tcg => *KHZ.get_or_init(measure_tsc),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// KVM when it works, else software emulation; `BOOTMARK_ACCEL=kvm|tcg` decides
/// otherwise.
///
/// A `/dev/kvm` that opens is no proof: nested virtualisation may stop at the first
/// instruction it cannot do. So this kernel is booted once (without an
/// initramfs, until it panics over its missing root), and the answer is kept
/// until the host reboots or gets another QEMU.
///
/// # Errors
/// When `BOOTMARK_ACCEL` is something else, or QEMU does not run at all.
pub fn accelerator(kernel: &Path) -> Result<Accelerator> {
    match std::env::var("BOOTMARK_ACCEL").as_deref() {
        Ok("kvm") => return Ok(Accelerator::Kvm),
        Ok("tcg") => return Ok(Accelerator::Tcg),
        Ok("") | Err(_) => {}
        Ok(other) => bail!("BOOTMARK_ACCEL is `{other}`: it can be kvm or tcg"),
    }
    let opens = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_ok();
    if !opens {
        return Ok(Accelerator::Tcg);
    }
    let cache = paths::cache()?;
    let _lock = lock::exclusive(&cache.join("accel.lock"), "tries KVM")?;
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let version = process::output(Command::new("qemu-system-x86_64").arg("--version"))?;
    let identity = format!("{}{}", boot_id, version.lines().next().unwrap_or_default());
    let memo = cache.join("accel");
    let known = fs::read_to_string(&memo).unwrap_or_default();
    for accel in [Accelerator::Kvm, Accelerator::Tcg] {
        if known == format!("{} {identity}", accel.name()) {
            return Ok(accel);
        }
    }
    let accel = if kvm_boots(kernel)? {
        Accelerator::Kvm
    } else {
        Accelerator::Tcg
    };
    // Not kept: the next run tries again.
    let _ = fs::write(&memo, format!("{} {identity}", accel.name()));
    Ok(accel)
}

fn kvm_boots(kernel: &Path) -> Result<bool> {
    let step = Step::start("trying KVM");
    let dir = tempfile::tempdir()?;
    let mut machine = Machine::new(kernel, &dir.path().join("console.log"));
    machine.command_line = "console=ttyS0 panic=-1".to_owned();
    machine.timeout = Duration::from_secs(20);
    let tried = run(&machine, Accelerator::Kvm, &step);
    step.clear();
    Ok(matches!(
        tried,
        Ok(run) if run.ending == Ending::Alarm(Alarm::Panic)
            && run.console.contains("Unable to mount root fs")
    ))
}
