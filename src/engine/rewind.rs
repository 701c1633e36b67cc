//! Restoring a version and undoing a job: both make an ordinary save, which is planned, refused and recorded like any
//! other.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    commit::{Lifecycle, Trace},
    engine::{Changes, IntoPath, Loaded, Save, Session, core::Core},
    entity::{Change, EntityRef, Value, WriterKind},
    error::{Error, Result},
    history::Entry,
    path::Path,
    plan::{Undoing, restore, value_of},
    registry::{Owner, Resolved},
    scope::ScopeName,
    token::{OperationId, ScopeVersion, VersionNumber},
};

/// Entries read at once.
const PAGE: u32 = 200;
/// Most entries looked at for one restore or undo.
const WALK_MAX: usize = 20_000;

/// A save that brings back what was, and what it leaves.
#[derive(Clone)]
#[must_use = "nothing is written until the save is sent"]
pub struct Rewind {
    /// The save, ready to be planned or sent. It compares with the record as it was when this was made: a path that
    /// somebody changes meanwhile is a conflict.
    pub save: Save,
    /// Paths that differ and stay as they are, each with a stable code: `changed_since`, `parent_gone`,
    /// `items_removed`, `rules_changed`.
    pub left: BTreeMap<Path, &'static str>,
}

/// A version to be restored.
#[must_use = "a restore does nothing until its save is sent"]
pub struct Restore {
    session: Session,
    entity: EntityRef,
    number: VersionNumber,
    only: Vec<Path>,
    shared: Vec<Path>,
    token: Option<String>,
    fault: Option<Error>,
}

/// What is undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoOf {
    /// One save.
    Operation(OperationId),
    /// Every save of a job, by the worker's own name for it.
    Job(String),
}

impl From<OperationId> for UndoOf {
    fn from(operation: OperationId) -> Self {
        Self::Operation(operation)
    }
}

impl Session {
    /// Brings editor-owned paths back to what they were in a version: an ordinary editor save that makes a version of
    /// its own. System-owned paths are never written; a removed item takes what is in it along, whoever wrote it. A
    /// deleted record is created again.
    pub fn restore(&self, entity: &EntityRef, number: VersionNumber) -> Restore {
        let (session, entity) = (self.clone(), entity.clone());
        let (only, shared) = (Vec::new(), Vec::new());
        Restore { session, entity, number, only, shared, token: None, fault: None }
    }

    /// Writes the values from before a save, or before every save of a job, back, and leaves what was changed since. It
    /// is a save of this session's writer, with its rights: an editor needs `force` for fields of workers.
    ///
    /// # Errors
    /// `operation_unknown` when the record's history has no such save or job; `undo_lifecycle` when it created or
    /// deleted the record; when the store cannot be reached.
    pub async fn undo(&self, entity: &EntityRef, what: impl Into<UndoOf>) -> Result<Rewind> {
        let what = what.into();
        let loaded = self.present(entity).await?;
        let (mut undoing, mut ours, mut touched) =
            (Undoing::default(), BTreeSet::new(), BTreeSet::new());
        let mut lifecycle = Lifecycle::Update;
        walk(&self.core, entity, |entry| {
            let own = what.is(entry);
            for change in &entry.changed {
                if own {
                    undoing.own(&change.path, &change.old, &change.new);
                    touched.insert(change.path.clone());
                } else {
                    undoing.other(&change.path);
                }
            }
            if own {
                ours.insert(entry.operation);
                lifecycle = entry.lifecycle;
            }
            let single = matches!(what, UndoOf::Operation(_));
            !(own && (single || entry.lifecycle != Lifecycle::Update))
        })
        .await?;
        if ours.is_empty() {
            let message = format!("the history of `{entity}` has no {what}");
            return Err(Error::invalid("operation_unknown", message, "copy it from the history"));
        }
        if lifecycle != Lifecycle::Update || loaded.deleted_at.is_some() {
            let message = format!("{what} created or deleted `{entity}`, or it was deleted since");
            let help = "restore a version, or delete the record";
            return Err(Error::invalid("undo_lifecycle", message, help));
        }
        let rewound = undoing.finish(&loaded.rules, &loaded.snapshot, &ours, &touched);
        let save = self.save(entity).changes(changes(rewound.changes)).seen(&loaded);
        Ok(Rewind { save: save.because(format!("undo of {what}")), left: rewound.left })
    }

    /// The record, which must have existed.
    async fn present(&self, entity: &EntityRef) -> Result<Loaded> {
        let loaded = self.load(entity).await?;
        loaded.ok_or_else(|| {
            Error::invalid("not_found", format!("there is no record `{entity}`"), "")
        })
    }
}

impl Restore {
    /// Only fields at, above or below these paths. Default: every editor-owned one.
    pub fn only<P: IntoPath>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        Self::read(&mut self.only, &mut self.fault, paths);
        self
    }

    /// Shared fields to bring back too, each through its strategy. Default: none. Counters are refused: a count that is
    /// set back loses what was counted since.
    pub fn shared<P: IntoPath>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        Self::read(&mut self.shared, &mut self.fault, paths);
        self
    }

    /// What the person had been shown, so that what others changed since is a conflict. Default: the record as it is
    /// when the save is prepared.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Reads the version and makes the save.
    ///
    /// # Errors
    /// `version_unknown` when there is no such version (any more), `restore_worker` for a worker's session,
    /// `not_shared`, `restore_counter` and `history_gone` for a shared path that cannot be restored; when the store
    /// cannot be reached.
    pub async fn prepare(self) -> Result<Rewind> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let Self { session, entity, number, only, shared, token, .. } = self;
        if session.writer().kind != WriterKind::Editor {
            let help = "use an editor's session";
            return Err(Error::invalid("restore_worker", "restoring is for editors", help));
        }
        let loaded = session.present(&entity).await?;
        let core = &session.core;
        let deadline = core.after(core.settings.save_deadline);
        let version = core.ask(deadline, core.store.version(&entity, number)).await?;
        let Some(Trace::Version { state, .. }) = version.map(|entry| entry.trace) else {
            let message = format!("`{entity}` has no version {number}");
            return Err(Error::invalid("version_unknown", message, "see its history"));
        };
        let rewound = restore(&loaded.rules, &loaded.snapshot.record, &state, &only);
        let mut wanted = changes(rewound.changes);
        for path in shared {
            let value = shared_value(core, &loaded, &path, number).await?;
            let change = value.json().map_or(Change::Unset, |json| Change::Set(json.clone()));
            wanted = wanted.with(path, change);
        }
        let save = session.save(&entity).changes(wanted);
        let save = match (loaded.deleted_at, token) {
            (Some(_), _) => save.creating(),
            (None, Some(token)) => save.token(token),
            (None, None) => save.seen(&loaded),
        };
        let save = save.because(format!("version {number} restored"));
        Ok(Rewind { save, left: rewound.left })
    }

    fn read<P: IntoPath>(
        into: &mut Vec<Path>,
        fault: &mut Option<Error>,
        paths: impl IntoIterator<Item = P>,
    ) {
        for path in paths {
            match path.into_path() {
                Ok(path) => into.push(path),
                Err(error) => {
                    fault.get_or_insert(error);
                }
            }
        }
    }
}

impl UndoOf {
    fn is(&self, entry: &Entry) -> bool {
        match (self, &entry.trace) {
            (Self::Operation(operation), _) => entry.operation == *operation,
            (Self::Job(job), Trace::Operation(detail)) => detail.job.as_ref() == Some(job),
            (Self::Job(_), Trace::Version { .. }) => false,
        }
    }
}

impl std::fmt::Display for UndoOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Operation(operation) => write!(f, "operation {operation}"),
            Self::Job(job) => write!(f, "job `{}`", job.escape_debug()),
        }
    }
}

fn changes(changes: BTreeMap<Path, Change>) -> Changes {
    changes.into_iter().fold(Changes::new(), |all, (path, change)| all.with(path, change))
}

/// Entries newest first, until there are no more or the caller has seen enough.
async fn walk(core: &Core, entity: &EntityRef, mut see: impl FnMut(&Entry) -> bool) -> Result<()> {
    let mut before = None;
    for _ in 0..WALK_MAX.div_ceil(PAGE as usize) {
        let deadline = core.after(core.settings.save_deadline);
        let page = core.ask(deadline, core.store.entries(entity, before, PAGE)).await?;
        for entry in &page {
            if !see(entry) {
                return Ok(());
            }
        }
        match page.last() {
            Some(last) if page.len() >= PAGE as usize => before = Some(last.operation),
            _ => return Ok(()),
        }
    }
    let message = format!("`{entity}` has more than {WALK_MAX} saves to look through");
    Err(Error::invalid("history_too_long", message, "choose a newer version or operation"))
}

/// What a shared unit was in a version: the present value with everything taken back that was saved since. Every save
/// of the scope must still be there, or the value is not known.
async fn shared_value(
    core: &Core,
    loaded: &Loaded,
    path: &Path,
    number: VersionNumber,
) -> Result<Value> {
    let (_, scope) = shared_unit(loaded, path)?;
    let entity = &loaded.snapshot.entity;
    let mut back = Back {
        value: value_of(&loaded.snapshot.record, path, &loaded.rules),
        version: loaded.snapshot.version(&scope),
        passed: false,
        known: None,
    };
    walk(core, entity, |entry| back.see(entry, path, &scope, number)).await?;
    if back.known.unwrap_or(back.passed && back.version == ScopeVersion(0)) {
        return Ok(back.value);
    }
    let message = format!("what `{path}` was in version {number} is no longer known");
    Err(Error::invalid("history_gone", message, "leave it out, and set it by hand"))
}

/// The walk back along one unit.
struct Back {
    value: Value,
    /// The scope's version before everything seen so far.
    version: ScopeVersion,
    /// Whether the version that is restored was seen.
    passed: bool,
    known: Option<bool>,
}

impl Back {
    fn see(
        &mut self,
        entry: &Entry,
        path: &Path,
        scope: &ScopeName,
        number: VersionNumber,
    ) -> bool {
        self.passed = self.passed || entry.number == Some(number);
        let Some(version) = entry.versions.get(scope) else { return true };
        if self.passed || *version != self.version {
            self.known = Some(self.passed && *version == self.version);
            return false;
        }
        let raised = entry.lifecycle == Lifecycle::Delete
            || entry.changed.iter().any(|change| change.scope == *scope);
        if raised {
            self.version = ScopeVersion(self.version.0.saturating_sub(1));
        }
        if let Some(change) = entry.changed.iter().find(|change| change.path == *path) {
            self.value = change.old.clone();
        }
        true
    }
}

/// A path that is a shared unit, and may be restored.
fn shared_unit(loaded: &Loaded, path: &Path) -> Result<(Resolved, ScopeName)> {
    let resolved = loaded
        .rules
        .resolve(path)
        .map_err(|error| Error::invalid(error.code, error.message, error.help))?;
    let scope = resolved.scope.clone();
    let (Owner::Shared, Some(scope), true) = (resolved.owner, scope, resolved.unit == *path) else {
        let message = format!("`{path}` is not a shared field");
        let help = "editor-owned fields are restored without being named, system-owned ones never";
        return Err(Error::invalid("not_shared", message, help));
    };
    if resolved.strategy.as_ref().is_some_and(|used| used.strategy.name() == "counter") {
        let message = format!("`{path}` is a counter: setting it back would lose what was counted");
        return Err(Error::invalid("restore_counter", message, "add the difference instead"));
    }
    Ok((resolved, scope))
}
