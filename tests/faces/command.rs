//! The command line in processes of its own, in a folder of its own, over one server.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::{
    servers::{Flavour, Reply, Server, until},
    service::{binary, signal},
};

/// A folder, and the server that keeps its leases.
pub(crate) struct Place {
    pub(crate) server: Server,
    pub(crate) dir: TempDir,
}

/// How a command ended and what it said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A command under way.
pub(crate) struct Running(Option<Child>);

impl Place {
    pub(crate) fn new() -> Self {
        Self { server: Server::start(Flavour::Redis7, &[]), dir: tempfile::tempdir().unwrap() }
    }

    /// A command line that knows the server from its surroundings.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = binary(self.dir.path());
        command.env("FIELDLEASE_REDIS", self.server.url()).args(args).stdin(Stdio::null());
        command
    }

    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut command = self.command(args);
        Running(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    pub(crate) fn ran(&self, args: &[&str]) -> Ran {
        self.start(args).ended()
    }

    /// `run` of `Job/a` with a shell.
    pub(crate) fn shell(&self, args: &[&str], script: &str) -> Running {
        let all = [&["run", "Job/a", "main"], args, &["--", "sh", "-c", script]].concat();
        self.start(&all)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default().trim().to_owned()
    }

    /// Waits until a command has written this file.
    pub(crate) fn written(&self, name: &str) -> String {
        until(name, || !self.text(name).is_empty());
        self.text(name)
    }

    /// Leases held, as the server tells.
    pub(crate) fn leases(&self) -> Vec<Json> {
        self.ran(&["leases", "show", "Job/a", "main", "--json"]).lines()
    }

    /// Nothing of ours is left in the server but the last fence of an entity, which goes by itself.
    pub(crate) fn is_clean(&self) {
        let goes = |key: &String| {
            let left = self.server.command(&["PTTL", key]);
            key.ends_with(":o") && matches!(left, Reply::Int(1..=86_400_000))
        };
        until("keys, channels and connections are gone", || {
            self.server.keys().iter().all(goes)
                && self.server.channels().is_empty()
                && self.server.clients().is_empty()
        });
    }
}

impl Ran {
    /// What it said in JSON, one value per line.
    pub(crate) fn lines(&self) -> Vec<Json> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What `run --json` said of its steps.
    pub(crate) fn steps(&self) -> Vec<Json> {
        let lines = self.err.lines().filter(|line| line.starts_with('{'));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The step of this name.
    pub(crate) fn step(&self, name: &str) -> Json {
        let found = self.steps().into_iter().find(|step| step["event"] == name);
        found.unwrap_or_else(|| panic!("no `{name}`: {self:?}"))
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    pub(crate) fn ended(mut self) -> Ran {
        let ended = self.0.take().unwrap().wait_with_output().unwrap();
        Ran {
            code: ended.status.code(),
            signal: ended.status.signal(),
            out: String::from_utf8(ended.stdout).unwrap(),
            err: String::from_utf8(ended.stderr).unwrap(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether a process is there and has not ended.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}
