//! `bootmark.panic_after=MS`: a kernel panic on order, to see what the next boot makes of it.

use crate::console::Console;
use bootbuf::abi::OPEN_PREVIOUS;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What panics the kernel when a `c` is written to it.
const TRIGGER: &str = "/proc/sysrq-trigger";

/// Starts a process that panics the kernel after this time, whatever becomes of PID 1 until then. Not
/// when there is an earlier boot's trace: the command line is the same in the boot after the panic.
pub fn arm(after: Duration, console: &Console) {
    match bootbuf::sys::open(OPEN_PREVIOUS) {
        Err(Errno::NODATA) => {}
        Ok(_) => {
            console.say("no panic: the boot before this one has left its trace");
            return;
        }
        Err(e) => {
            console.alert(&format!(
                "no panic: whether there was a boot before this one is not known ({e})"
            ));
            return;
        }
    }
    match start(after) {
        Ok(()) => console.say(&format!("the kernel panics in {} ms", after.as_millis())),
        Err(e) => console.alert(&format!("no panic: {TRIGGER}: {e}")),
    }
}

/// A shell, whose files are open already: the initramfs may be gone when it writes.
fn start(after: Duration) -> io::Result<()> {
    let trigger = File::options().write(true).open(TRIGGER)?;
    let script = format!("sleep {}; echo c", after.as_secs_f64());
    Command::new("/bin/sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(trigger)
        .spawn()
        .map(drop)
}
