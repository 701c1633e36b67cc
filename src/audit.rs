//! The audit trail: every event as one line of JSON. Never a field value, never a whole token.

use std::{
    io::Write,
    path::Path as FilePath,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

use crate::{
    clock::{Clock, StoreTime},
    entity::{EntityRef, Writer},
    error::{Error, Result},
    event::{Event, EventSink, LossReason},
    scope::Scope,
    token::HolderToken,
};

/// Lines that may wait to be written. More are dropped and counted: a slow disk never slows a save.
pub const WAITING_MAX: usize = 8_192;

/// Writes events from a thread of its own.
pub struct Audit {
    clock: Arc<dyn Clock>,
    lines: Mutex<Option<SyncSender<String>>>,
    dropped: Arc<AtomicU64>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Audit {
    /// Appends to a file, which is made for its owner only if it is not there.
    ///
    /// # Errors
    /// When the path is a symbolic link or cannot be opened.
    pub fn open(path: &FilePath, clock: Arc<dyn Clock>) -> Result<Self> {
        let fault = |cause: &str| {
            let message = format!("the audit file `{}` cannot be used: {cause}", path.display());
            Error::invalid("audit_file", message, "name a regular file that may be written")
        };
        if path.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
            return Err(fault("it is not a regular file"));
        }
        let mut options = std::fs::OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| fault(&error.to_string()))?;
        Self::new(Box::new(file), WAITING_MAX, clock)
    }

    /// Writes to `to`, with room for `waiting` lines.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn new(to: Box<dyn Write + Send>, waiting: usize, clock: Arc<dyn Clock>) -> Result<Self> {
        let (lines, received) = sync_channel(waiting);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        let writer = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write(to, &received, &lost))
            .map_err(|error| Error::unavailable(format!("no thread for the audit: {error}")))?;
        let (lines, writer) = (Mutex::new(Some(lines)), Mutex::new(Some(writer)));
        Ok(Self { clock, lines, dropped, writer })
    }

    /// How many lines were dropped since the start because too many waited or the file could not be written.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Writes what waits and ends the thread. Later events are dropped. Blocks until the last line is written.
    pub fn close(&self) {
        drop(self.lines.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()
            && writer.join().is_err()
        {
            tracing::error!("the audit writer ended early");
        }
    }
}

impl EventSink for Audit {
    fn emit(&self, event: &Event) {
        let line = line(event, self.clock.wall()).to_string();
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.as_ref().is_none_or(|lines| lines.try_send(line).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(mut to: Box<dyn Write + Send>, lines: &Receiver<String>, dropped: &AtomicU64) {
    let mut told = 0;
    while let Ok(line) = lines.recv() {
        let lost = dropped.load(Ordering::Relaxed);
        if lost > told {
            let gap = json!({"event": "dropped", "lines": lost.saturating_sub(told)});
            if writeln!(to, "{gap}").is_ok() {
                told = lost;
            }
        }
        if let Err(error) = writeln!(to, "{line}").and_then(|()| to.flush()) {
            // Told once per gap, not once per line.
            if dropped.fetch_add(1, Ordering::Relaxed) == told {
                tracing::error!(%error, "the audit file cannot be written; lines are dropped and counted");
            }
        }
    }
}

/// One event as JSON. `at` is the wall clock of this process.
#[must_use]
pub fn line(event: &Event, at: StoreTime) -> Json {
    let mut line = Map::new();
    line.insert("at".to_owned(), at.to_string().into());
    let mut add = |name: &str, value: Json| {
        line.insert(name.to_owned(), value);
    };
    match event {
        Event::LeaseGranted { scope, holder, label, waited } => {
            add("event", "lease_granted".into());
            add_lease(&mut add, scope, Some(*holder));
            add("label", (&**label).into());
            add("waited_ms", millis(*waited));
        }
        Event::LeaseBusy { scope, label, held_by } => {
            add("event", "lease_busy".into());
            add_lease(&mut add, scope, None);
            add("label", (&**label).into());
            add("held_by", (&**held_by).into());
        }
        Event::LeaseRenewed { scope, holder } => {
            add("event", "lease_renewed".into());
            add_lease(&mut add, scope, Some(*holder));
        }
        Event::LeaseRenewFailed { scope, holder } => {
            add("event", "lease_renew_failed".into());
            add_lease(&mut add, scope, Some(*holder));
        }
        Event::HeartbeatLate { scope, late } => {
            add("event", "heartbeat_late".into());
            add_lease(&mut add, scope, None);
            add("late_ms", millis(*late));
        }
        Event::LeaseReleaseFailed { scope, holder } => {
            add("event", "lease_release_failed".into());
            add_lease(&mut add, scope, Some(*holder));
        }
        Event::LeaseLost { scope, holder, reason } => {
            add("event", "lease_lost".into());
            add_lease(&mut add, scope, Some(*holder));
            add("reason", loss(*reason).into());
        }
        Event::LeaseReleased { scope, holder, held } => {
            add("event", "lease_released".into());
            add_lease(&mut add, scope, Some(*holder));
            add("held_ms", millis(*held));
        }
        Event::LeaseReleaseRefused { scope, holder } => {
            add("event", "lease_release_refused".into());
            add_lease(&mut add, scope, Some(*holder));
        }
        Event::LeaseTtlAnomaly { scope, found_ms } => {
            add("event", "lease_ttl_anomaly".into());
            add_lease(&mut add, scope, None);
            add("found_ms", (*found_ms).into());
        }
        other => add_save(&mut add, other),
    }
    Json::Object(line)
}

/// The word for a loss, the same in audit rows and metrics.
pub(crate) fn loss(reason: LossReason) -> &'static str {
    match reason {
        LossReason::Expired => "expired",
        LossReason::NotOurs => "not_ours",
        LossReason::MaxHold => "max_hold",
        LossReason::Broken => "broken",
        LossReason::Fenced => "fenced",
        LossReason::Shutdown => "shutdown",
    }
}

/// Events about saves.
fn add_save(add: &mut dyn FnMut(&str, Json), event: &Event) {
    match event {
        Event::Saved { entity, operation, writer, version, paths } => {
            add("event", "saved".into());
            add_entity(add, entity, writer);
            add("operation", operation.to_string().into());
            add("version", version.map(|version| version.0).into());
            add("paths", (*paths).into());
        }
        Event::Unchanged { entity, writer } => {
            add("event", "unchanged".into());
            add_entity(add, entity, writer);
        }
        Event::Refused { entity, operation, writer, code } => {
            add("event", "refused".into());
            add_entity(add, entity, writer);
            add("operation", operation.to_string().into());
            add("code", (*code).into());
        }
        Event::Replanned { entity, operation, code } => {
            add("event", "replanned".into());
            add("entity", entity.to_string().into());
            add("operation", operation.to_string().into());
            add("code", (*code).into());
        }
        _ => add("event", "other".into()),
    }
}

fn add_entity(add: &mut dyn FnMut(&str, Json), entity: &EntityRef, writer: &Writer) {
    add("entity", entity.to_string().into());
    add("writer", json!(writer));
}

fn add_lease(add: &mut dyn FnMut(&str, Json), scope: &Scope, holder: Option<HolderToken>) {
    add("entity", scope.entity.to_string().into());
    add("scope", scope.name.to_string().into());
    if let Some(holder) = holder {
        add("lease", fingerprint(holder).into());
    }
}

/// Tells leases apart without giving their tokens away: 8 bytes of a hash.
fn fingerprint(holder: HolderToken) -> String {
    let hash = Sha256::digest(holder.0);
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn millis(duration: std::time::Duration) -> Json {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).into()
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::*;
    use crate::{
        clock::SystemClock,
        entity::GroupName,
        scope::ScopeName,
        token::{OperationId, VersionNumber},
    };

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn events() -> Vec<Event> {
        let entity = EntityRef::new("Product", "4\n2\u{1b}[2J\u{202e}").unwrap();
        let name = ScopeName::group(GroupName::new("media").unwrap());
        let scope = Scope { entity: entity.clone(), name };
        let (holder, operation) = (HolderToken([0xab; 16]), OperationId(7));
        let writer = Writer::worker("thumbnailer");
        vec![
            Event::LeaseGranted {
                scope: scope.clone(),
                holder,
                label: "thumbnailer".into(),
                waited: Duration::from_millis(5),
            },
            Event::LeaseBusy { scope: scope.clone(), label: "b".into(), held_by: "a".into() },
            Event::LeaseRenewed { scope: scope.clone(), holder },
            Event::LeaseLost { scope: scope.clone(), holder, reason: LossReason::Expired },
            Event::LeaseReleased { scope: scope.clone(), holder, held: Duration::from_secs(1) },
            Event::LeaseReleaseRefused { scope: scope.clone(), holder },
            Event::LeaseRenewFailed { scope: scope.clone(), holder },
            Event::HeartbeatLate { scope: scope.clone(), late: Duration::from_secs(1) },
            Event::LeaseReleaseFailed { scope: scope.clone(), holder },
            Event::LeaseTtlAnomaly { scope, found_ms: -1 },
            Event::Saved {
                entity: entity.clone(),
                operation,
                writer: writer.clone(),
                version: Some(VersionNumber(3)),
                paths: 2,
            },
            Event::Unchanged { entity: entity.clone(), writer: writer.clone() },
            Event::Refused { entity: entity.clone(), operation, writer, code: "conflict" },
            Event::Replanned { entity, operation, code: "stale" },
        ]
    }

    #[test]
    fn every_event_is_one_line_without_control_characters_or_tokens() {
        let memory = Memory::default();
        let audit = Audit::new(Box::new(memory.clone()), 100, Arc::new(SystemClock)).unwrap();

        for event in events() {
            audit.emit(&event);
        }
        audit.close();
        audit.emit(&events()[0]);

        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), events().len());
        assert!(!text.contains("abab"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text}");
        for line in text.lines() {
            let line: Json = serde_json::from_str(line).unwrap();
            assert_ne!(line["event"], "other");
            assert!(line["at"].as_str().unwrap().starts_with("20"), "{line}");
        }
        assert_eq!(audit.dropped(), 1, "an event after the end is counted");
    }

    #[test]
    fn a_disk_that_hangs_drops_lines_and_says_how_many() {
        struct Gate(Receiver<()>, Memory);
        impl Write for Gate {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.recv();
                self.1.write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (open, gate) = std::sync::mpsc::channel();
        let memory = Memory::default();
        let audit =
            Audit::new(Box::new(Gate(gate, memory.clone())), 2, Arc::new(SystemClock)).unwrap();

        for _ in 0..10 {
            audit.emit(&events()[2]);
        }
        let dropped = audit.dropped();
        drop(open);
        audit.close();

        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        let written = text.lines().filter(|line| line.contains("lease_renewed")).count();
        assert!(dropped >= 7, "at most two wait and one is being written");
        assert_eq!(u64::try_from(written).unwrap() + dropped, 10);
        let told = text.lines().filter_map(|line| {
            serde_json::from_str::<serde_json::Value>(line).ok()?.get("lines")?.as_u64()
        });
        assert_eq!(told.sum::<u64>(), dropped, "{text}");
    }
}
