//! A session daemon of LTTng's of our own, with one flight-recorder session, and the program that is
//! traced by it.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::{paths, process};

/// A running session daemon; ends when dropped.
pub(super) struct Session {
    home: TempDir,
    daemon: Child,
}

impl Session {
    /// Builds the traced program, starts the daemon, and turns `bench:event` on in a session that keeps
    /// the newest events in memory (`--overwrite`) and writes nothing to disk: the cheapest way that
    /// LTTng has.
    pub(super) fn start() -> Result<Self> {
        let home = tempfile::Builder::new()
            .prefix("bootmark-lttng-")
            .tempdir()
            .context("cannot make a folder for LTTng")?;
        // root's daemon would be the machine's, so everything runs as a user of its own.
        std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o777))?;
        let source = paths::workspace().join("qemu-tests/bench/lttng");
        process::output(
            Command::new("gcc")
                .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
                .arg(&source)
                .arg(source.join("lttng-bench.c"))
                .arg("-o")
                .arg(home.path().join("lttng-bench"))
                .args(["-llttng-ust", "-ldl"]),
        )
        .context("the traced program does not build")?;
        let log = std::fs::File::create(home.path().join("sessiond.log"))?;
        let daemon = as_user(&home, "lttng-sessiond")
            .args(["--no-kernel", "--verbose-consumer"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start lttng-sessiond")?;
        let mut session = Self { home, daemon };
        session.wait()?;
        for command in [
            "create bench --snapshot",
            "enable-channel -u -s bench --overwrite --subbuf-size=512k --num-subbuf=4 events",
            "enable-event -u -s bench -c events bench:event",
            "start bench",
        ] {
            process::output(session.lttng().args(command.split(' ')))?;
        }
        Ok(session)
    }

    fn wait(&mut self) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if process::output(self.lttng().arg("list")).is_ok() {
                return Ok(());
            }
            let ended = self.daemon.try_wait()?;
            if ended.is_some() || Instant::now() > end {
                let log = self.home.path().join("sessiond.log");
                let log = std::fs::read_to_string(log).unwrap_or_default();
                bail!(
                    "lttng-sessiond does not answer; the end of what it says:\n{}",
                    process::tail(&log, 20)
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn lttng(&self) -> Command {
        let mut command = as_user(&self.home, "lttng");
        command.arg("--no-sessiond");
        command
    }

    /// The command that runs the traced program.
    pub(super) fn program(&self) -> Result<Command> {
        let path = self.home.path().join("lttng-bench");
        let path = path
            .to_str()
            .context("the temporary folder's name is not UTF-8")?;
        Ok(as_user(&self.home, path))
    }

    /// The version.
    pub(super) fn version(&self) -> Result<String> {
        let text = process::output(Command::new("lttng").arg("--version"))?;
        Ok(text.trim().to_owned())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = process::output(self.lttng().args(["destroy", "bench"]));
        if let Some(pid) = rustix::process::Pid::from_raw(self.daemon.id().cast_signed()) {
            // Ends its consumer daemon too, which a kill would not.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.daemon.wait();
    }
}

/// A command of the user that LTTng's parts run as: nobody when we are root, else ourselves.
fn as_user(home: &TempDir, program: &str) -> Command {
    let mut command;
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .arg(program);
    } else {
        command = Command::new(program);
    }
    command
        .env("HOME", home.path())
        .env("LTTNG_HOME", home.path())
        .current_dir(home.path());
    command
}
