//! What `run` says beside its command: nothing but trouble to people, every step to programs that asked for JSON.

use std::io::Write;

use fieldlease::{
    event::{Event, EventSink, LossReason},
    lease::Holder,
    server::holder_json,
};
use serde_json::{Value as Json, json};

use crate::{
    exit::Exit,
    output::{Failure, Output},
};

/// Standard error, as standard output belongs to the command.
pub(super) struct Tell {
    output: Output,
}

impl Tell {
    pub(super) fn new(output: Output) -> Self {
        Self { output }
    }

    /// One step, as a line of JSON.
    pub(super) fn event(&self, name: &str, mut members: Json) {
        if !self.output.json {
            return;
        }
        if let Some(members) = members.as_object_mut() {
            members.insert("event".to_owned(), name.into());
        }
        // In one piece, as the command may be writing there too. There is nobody to tell when this fails.
        let _ = std::io::stderr().lock().write_all(format!("{members}\n").as_bytes());
    }

    /// One line for people, at once.
    pub(super) fn person(&self, text: std::fmt::Arguments<'_>) {
        if !self.output.json {
            self.output.note(text);
        }
    }

    /// Why nothing was run, or why it was stopped.
    pub(super) fn fail(&self, failure: &Failure) -> Exit {
        if self.output.json {
            let members = json!({
                "error": failure.code,
                "message": failure.message,
                "help": failure.help,
            });
            self.event("failed", members);
            return failure.exit();
        }
        self.output.fail(failure)
    }
}

impl EventSink for Tell {
    fn emit(&self, event: &Event) {
        match event {
            Event::LeaseRenewFailed { scope, .. } => {
                self.event("renew_failed", json!({"scope": scope.name}));
            }
            Event::HeartbeatLate { scope, late } => {
                let late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                self.event("heartbeat_late", json!({"scope": scope.name, "late_ms": late_ms}));
            }
            _ => {}
        }
    }
}

/// Why a lease ended, in a word.
pub(super) fn reason(reason: LossReason) -> &'static str {
    match reason {
        LossReason::Expired => "expired",
        LossReason::NotOurs => "not_ours",
        LossReason::MaxHold => "max_hold",
        LossReason::Broken => "broken",
        LossReason::Fenced => "fenced",
        LossReason::Shutdown => "shutdown",
        _ => "unknown",
    }
}

/// Why a lease ended, for people.
pub(super) fn why(reason: Option<LossReason>) -> &'static str {
    match reason {
        Some(LossReason::Expired) => "it could not be renewed before its time to live was over",
        Some(LossReason::NotOurs) => {
            "the server does not know it any more (it forgot or somebody took it)"
        }
        Some(LossReason::MaxHold) => "it was held for as long as --max-hold allows",
        Some(LossReason::Broken) => "somebody broke it",
        Some(LossReason::Fenced) => "a later holder has claimed",
        Some(LossReason::Shutdown) => "this process ends",
        _ => "nobody knows why",
    }
}

/// Who is in the way, for programs.
pub(super) fn holders(by: &[Holder]) -> Vec<Json> {
    by.iter().map(holder_json).collect()
}

/// Who is in the way, for people.
pub(super) fn people(by: &[Holder]) -> String {
    let named = by.iter().map(|holder| {
        let seconds = holder.held.as_secs();
        format!("{} ({}, for {seconds} s)", holder.label.escape_debug(), holder.scope.name)
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() { "somebody else".to_owned() } else { named.join(", ") }
}
