//! Signals that `run` passes on to its command.

use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::output::{Failure, Result};

/// What is passed on.
const PASSED_ON: [(&str, Signal); 6] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("TERM", Signal::TERM),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

/// Hears the signals above from here on.
pub(super) struct Signals {
    heard: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Those ignored when this process began stay ignored, as `nohup` and background jobs of a shell want it.
    pub(super) fn listen() -> Result<Self> {
        let ignored = ignored();
        let mut heard = Vec::new();
        for (name, signal) in PASSED_ON {
            let number = signal.as_raw();
            if ignored >> (number - 1) & 1 == 1 {
                continue;
            }
            let kind = SignalKind::from_raw(number);
            let stream = unix::signal(kind).map_err(|error| {
                Failure::new("unavailable", format!("SIG{name} cannot be heard: {error}"), "")
            })?;
            heard.push((signal, stream));
        }
        Ok(Self { heard })
    }

    /// The next one. Safe to cancel: what was not answered is answered next time.
    pub(super) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (signal, stream) in &mut self.heard {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The mask of ignored signals, bit 0 for signal 1; nothing where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// A signal named on the command line, with or without `SIG`.
pub(super) fn named(name: &str) -> Result<Signal> {
    let upper = name.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = PASSED_ON.iter().chain(&[("KILL", Signal::KILL)]);
    known.into_iter().find(|(known, _)| *known == bare).map(|(_, signal)| *signal).ok_or_else(
        || {
            let message = format!("`{}` is not a signal to stop with", name.escape_debug());
            Failure::new("bad_signal", message, "write TERM, INT, HUP, QUIT, USR1, USR2 or KILL")
        },
    )
}

/// What a shell answers for a command that a signal ended.
pub(super) fn exit_code(signal: Signal) -> u8 {
    u8::try_from(signal.as_raw()).map_or(u8::MAX, |number| number.saturating_add(128))
}
