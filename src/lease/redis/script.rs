//! The scripts, and how they are called: by their digest, and with their text where a server does not know it.
//!
//! One execution per operation: a server that answers NOSCRIPT has executed nothing. `SCRIPT LOAD` is never sent: it
//! speaks to one node only, and least-privilege users may not.

use std::{io::Write, time::Duration};

use redis::{Cmd, RedisWrite, ToRedisArgs, Value};

use crate::lease::redis::{fault::Fault, link::Link};

/// A constant text and its digest.
pub(crate) struct Script {
    text: &'static str,
    digest: String,
}

/// All of them.
pub(crate) struct Scripts {
    pub(crate) acquire: Script,
    pub(crate) renew: Script,
    pub(crate) release: Script,
    pub(crate) inspect: Script,
    pub(crate) roster: Script,
}

/// One call of a script: the command with its digest.
pub(crate) struct Call {
    pub(crate) slot: u16,
    command: Cmd,
}

/// An argument in parts, so that it need not be put together first.
struct Parts<'a>(&'a [&'a str]);

impl ToRedisArgs for Parts<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut argument = out.writer_for_next_arg();
        for part in self.0 {
            // Into memory: cannot fail.
            let _written = argument.write_all(part.as_bytes());
        }
    }
}

macro_rules! with_common {
    ($name:literal) => {
        concat!(include_str!("common.lua"), include_str!($name))
    };
}

impl Default for Scripts {
    fn default() -> Self {
        let release = concat!(
            include_str!("release_one.lua"),
            include_str!("common.lua"),
            include_str!("release.lua")
        );
        Self {
            acquire: Script::new(with_common!("acquire.lua")),
            renew: Script::new(with_common!("renew.lua")),
            release: Script::new(release),
            inspect: Script::new(with_common!("inspect.lua")),
            roster: Script::new(include_str!("roster.lua")),
        }
    }
}

impl Call {
    /// One more key or argument.
    pub(crate) fn push(&mut self, arg: &(impl AsRef<[u8]> + ?Sized)) {
        self.command.arg(arg.as_ref());
    }

    /// One more key or argument, in parts.
    pub(crate) fn push_parts(&mut self, parts: &[&str]) {
        self.command.arg(Parts(parts));
    }

    /// One more argument that is a number.
    pub(crate) fn push_number(&mut self, number: u64) {
        self.command.arg(number);
    }

    /// The call as a command, for a pipeline of the caller's.
    pub(crate) fn command(&self) -> &Cmd {
        &self.command
    }
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, digest: redis::Script::new(text).get_hash().to_owned() }
    }

    /// A call with so many keys, which follow first, and arguments after them.
    pub(crate) fn call(&self, slot: u16, keys: usize) -> Call {
        let mut command = Cmd::with_capacity(16, 384);
        command.arg("EVALSHA").arg(&self.digest).arg(keys);
        Call { slot, command }
    }

    /// The same call with the text.
    fn with_text(&self, call: &Call) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.text);
        for arg in call.command.args_iter().skip(2) {
            if let redis::Arg::Simple(arg) = arg {
                command.arg(arg);
            }
        }
        command
    }

    /// Runs it once.
    pub(crate) async fn run(
        &self,
        link: &Link,
        call: &Call,
        within: Option<Duration>,
    ) -> Result<Value, Fault> {
        match link.send(call.slot, &call.command, within).await {
            Err(fault) if fault.code == "NOSCRIPT" => {
                let command = self.with_text(call);
                Box::pin(link.send(call.slot, &command, within)).await
            }
            answer => answer,
        }
    }

    /// Runs it once for each call, in one pipeline per node.
    pub(crate) async fn run_all(
        &self,
        link: &Link,
        calls: &[Call],
        within: Option<Duration>,
    ) -> Vec<Result<Value, Fault>> {
        let commands: Vec<(u16, Cmd)> =
            calls.iter().map(|call| (call.slot, call.command.clone())).collect();
        let mut answers = link.send_all(&commands, within).await;
        let unknown = |answer: &Result<Value, Fault>| matches!(answer, Err(fault) if fault.code == "NOSCRIPT");
        let again: Vec<usize> = answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| unknown(answer))
            .map(|(at, _)| at)
            .collect();
        if again.is_empty() {
            return answers;
        }
        // One text makes the node know it; the others follow in the same pipeline.
        let repeated = again.iter().filter_map(|at| calls.get(*at));
        let commands: Vec<(u16, Cmd)> =
            repeated.map(|call| (call.slot, self.with_text(call))).collect();
        let second = link.send_all(&commands, within).await;
        for (at, answer) in again.into_iter().zip(second) {
            if let Some(place) = answers.get_mut(at) {
                *place = answer;
            }
        }
        answers
    }
}
