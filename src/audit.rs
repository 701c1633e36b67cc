//! The audit trail: every event as one line of JSON. Never a field value, never a whole token.

mod erase;

use std::{
    io::Write,
    path::{Path as FilePath, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
    thread::JoinHandle,
};

use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

pub use self::erase::erase;
use crate::{
    clock::{Clock, StoreTime},
    entity::{EntityRef, Writer},
    error::{Error, Result},
    event::{Event, EventSink, LossReason},
    scope::Scope,
    token::HolderToken,
    upkeep::Erase,
};

/// Lines that may wait to be written. More are dropped and counted: a slow disk never slows a save.
pub const WAITING_MAX: usize = 8_192;

/// Writes events from a thread of its own.
pub struct Audit {
    clock: Arc<dyn Clock>,
    lines: Mutex<Option<SyncSender<String>>>,
    erasures: Arc<Mutex<Vec<Erase>>>,
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
        Self::start(Box::new(file), Some(path.to_owned()), WAITING_MAX, clock)
    }

    /// Writes to `to`, with room for `waiting` lines. What was written there is never erased.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn new(to: Box<dyn Write + Send>, waiting: usize, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::start(to, None, waiting, clock)
    }

    fn start(
        to: Box<dyn Write + Send>,
        path: Option<PathBuf>,
        waiting: usize,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let (lines, received) = sync_channel(waiting);
        let dropped = Arc::new(AtomicU64::new(0));
        let erasures = Arc::new(Mutex::new(Vec::new()));
        let mut trail = Trail {
            to,
            path,
            told: 0,
            dropped: Arc::clone(&dropped),
            erasures: Arc::clone(&erasures),
        };
        let writer = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || trail.follow(&received))
            .map_err(|error| Error::unavailable(format!("no thread for the audit: {error}")))?;
        let (lines, writer) = (Mutex::new(Some(lines)), Mutex::new(Some(writer)));
        Ok(Self { clock, lines, erasures, dropped, writer })
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
        let erasure = match event {
            Event::EntityErased { entity } => Some(Erase::Entity(entity.clone())),
            Event::WriterErased { writer } => Some(Erase::Writer(writer.clone())),
            _ => None,
        };
        // Not among the lines, which may be dropped: done when those before it are written.
        if let Some(erasure) = erasure {
            self.erasures.lock().unwrap_or_else(PoisonError::into_inner).push(erasure);
        }
        let line = line(event, self.clock.wall()).to_string();
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.as_ref().is_none_or(|lines| lines.try_send(line).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What the thread has.
struct Trail {
    to: Box<dyn Write + Send>,
    /// The file, if it is one.
    path: Option<PathBuf>,
    /// How many dropped lines were told.
    told: u64,
    dropped: Arc<AtomicU64>,
    erasures: Arc<Mutex<Vec<Erase>>>,
}

impl Trail {
    /// Writes line after line until nobody can send one any more.
    fn follow(&mut self, lines: &Receiver<String>) {
        loop {
            let line = match lines.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.erase();
                    lines.recv().ok()
                }
                line => line.ok(),
            };
            let Some(line) = line else { return self.erase() };
            self.write(&line);
        }
    }

    fn write(&mut self, line: &str) {
        let lost = self.dropped.load(Ordering::Relaxed);
        if lost > self.told {
            let gap = json!({"event": "dropped", "lines": lost.saturating_sub(self.told)});
            if writeln!(self.to, "{gap}").is_ok() {
                self.told = lost;
            }
        }
        if let Err(error) = writeln!(self.to, "{line}").and_then(|()| self.to.flush()) {
            // Told once per gap, not once per line.
            if self.dropped.fetch_add(1, Ordering::Relaxed) == self.told {
                tracing::error!(%error, "the audit file cannot be written; lines are dropped and counted");
            }
        }
    }

    /// Takes what was erased out of the file.
    fn erase(&self) {
        let erasures =
            std::mem::take(&mut *self.erasures.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(path) = &self.path else { return };
        for erasure in &erasures {
            if let Err(error) = erase(path, erasure) {
                tracing::error!(%error, "an erasure did not reach the audit file; repeat it");
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
        // Without the name that is to be forgotten.
        Event::EntityErased { entity } => {
            add("event", "entity_erased".into());
            add("entity", entity.kind.as_str().into());
        }
        Event::WriterErased { .. } => add("event", "writer_erased".into()),
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
            Event::Replanned { entity: entity.clone(), operation, code: "stale" },
            Event::EntityErased { entity },
            Event::WriterErased { writer: Writer::editor("anna") },
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
    fn what_is_erased_goes_from_lines_that_were_written_and_from_those_that_waited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        let audit = Audit::open(&path, Arc::new(SystemClock)).unwrap();
        let entity = EntityRef::new("Customer", "42").unwrap();
        let saved = |writer| Event::Unchanged { entity: entity.clone(), writer };

        for _ in 0..100 {
            audit.emit(&saved(Writer::editor("anna")));
        }
        audit.emit(&Event::WriterErased { writer: Writer::editor("anna") });
        audit.emit(&saved(Writer::editor("bo")));
        audit.emit(&Event::EntityErased { entity: entity.clone() });
        audit.close();

        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 103);
        assert!(!text.contains("anna") && !text.contains("42\""), "{text}");
        assert_eq!(text.matches("\"bo\"").count(), 1);
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
