//! The command of `run`: started, signalled, waited for, stopped.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path as FilePath, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use fieldlease::clock::{Clock, SystemClock};
use rustix::process::{
    Pid, Signal, getpgrp, kill_process, kill_process_group, test_kill_process_group,
};
use serde_json::{Value as Json, json};

use crate::{
    exec,
    output::{Failure, Result},
};

/// This program, also when its file was replaced since it started.
#[cfg(target_os = "linux")]
const SELF: &str = "/proc/self/exe";
/// How often a group of processes that was told to end is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A running command.
pub(super) struct Child {
    process: tokio::process::Child,
    pid: Pid,
    /// Whether it leads a group of its own. On a terminal it shares ours, so that it may read from the terminal.
    own_group: bool,
}

/// How a command ended.
#[derive(Clone, Copy)]
pub(super) enum Ended {
    Exit(u8),
    Signal(Signal),
}

impl Ended {
    fn of(status: ExitStatus) -> Self {
        let signal = status.signal().and_then(Signal::from_named_raw);
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        signal.map_or(Self::Exit(code.unwrap_or(u8::MAX)), Self::Signal)
    }

    pub(super) fn json(self) -> Json {
        match self {
            Self::Exit(code) => json!({"exit": code}),
            Self::Signal(signal) => json!({"signal": signal.as_raw()}),
        }
    }
}

impl Child {
    /// Starts the command with these variables beside those of this process.
    pub(super) fn spawn(
        command: &[OsString],
        environment: BTreeMap<&'static str, String>,
    ) -> Result<Self> {
        let own_group = !on_terminal();
        let mut starting = std::process::Command::new(this_program()?);
        starting.arg(exec::NAME).arg("--parent").arg(std::process::id().to_string());
        starting.arg("--").args(command);
        // They may hold passwords of every lease and every record there is; the command is not in need of them.
        starting.env_remove("FIELDLEASE_REDIS").env_remove("FIELDLEASE_STORE");
        starting.envs(environment);
        starting.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        if own_group {
            std::os::unix::process::CommandExt::process_group(&mut starting, 0);
        }
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new("not_executable", format!("cannot start a process: {error}"), "")
        };
        let process = tokio::process::Command::from(starting).spawn();
        let process = process.map_err(|error| failed(&error))?;
        let pid = process.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| failed(&"it has no number"))?;
        Ok(Self { process, pid, own_group })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// Sends on what this process was sent. What a key on a terminal sent was sent to the command as well.
    pub(super) fn pass_on(&self, signal: Signal) {
        let by_key = matches!(signal, Signal::INT | Signal::QUIT);
        if self.own_group || !by_key {
            self.send(signal);
        }
    }

    fn send(&self, signal: Signal) {
        // Fails only when there is nobody left, which is what waiting finds out.
        let _ = match self.own_group {
            true => kill_process_group(self.pid, signal),
            // Asked for again: a process that was waited for may have left its number to another.
            false if self.process.id().is_some() => kill_process(self.pid, signal),
            false => Ok(()),
        };
    }

    /// Waits for the end of the command itself. Safe to cancel.
    pub(super) async fn wait(&mut self) -> Result<Ended> {
        let status = self.process.wait().await.map_err(|error| {
            Failure::new("internal", format!("cannot wait for the command: {error}"), "")
        })?;
        Ok(Ended::of(status))
    }

    /// Asks the command, and what it started, to end; kills what is left after `patience`. Answers whether it had to.
    pub(super) async fn stop(&mut self, signal: Signal, patience: Duration) -> Result<bool> {
        let clock = SystemClock;
        let deadline = clock.now().plus(patience);
        self.send(signal);
        let gone = tokio::select! {
            ended = self.wait() => { ended?; true }
            () = clock.sleep_until(deadline) => false,
        };
        while self.own_group && clock.now() < deadline && test_kill_process_group(self.pid).is_ok()
        {
            clock.sleep_until(clock.now().plus(LOOK_AGAIN).min(deadline)).await;
        }
        let left = self.own_group && test_kill_process_group(self.pid).is_ok();
        if left || !gone {
            self.send(Signal::KILL);
        }
        self.wait().await?;
        Ok(left || !gone)
    }
}

/// Whether keys of a terminal reach this process: it is in the group in front.
fn on_terminal() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| {
        rustix::termios::tcgetpgrp(terminal).is_ok_and(|front| front == getpgrp())
    })
}

#[cfg(target_os = "linux")]
fn this_program() -> Result<PathBuf> {
    Ok(PathBuf::from(SELF))
}

#[cfg(not(target_os = "linux"))]
fn this_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| {
        Failure::new("unavailable", format!("cannot find this program: {error}"), "")
    })
}

/// Looks for the command before a lease is taken for it; what a shell would say is said here.
pub(super) fn find(command: Option<&OsString>) -> Result<()> {
    let name = command.map(OsString::as_os_str).unwrap_or_default();
    let shown = || name.display().to_string().escape_debug().to_string();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = if name.as_encoded_bytes().contains(&b'/') {
        vec![PathBuf::from(name)]
    } else {
        std::env::split_paths(&path).map(|folder| folder.join(name)).collect()
    };
    let files: Vec<&PathBuf> = places.iter().filter(|place| place.exists()).collect();
    if name == OsStr::new("") || files.is_empty() {
        let message = format!("there is no command `{}`", shown());
        return Err(Failure::new("not_a_command", message, "name it with its path"));
    }
    if files.iter().any(|file| is_executable(file)) {
        return Ok(());
    }
    let message = format!("`{}` cannot be executed", shown());
    Err(Failure::new("not_executable", message, "chmod +x, or name its interpreter first"))
}

fn is_executable(file: &FilePath) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
