//! Judges a finished run: what each writer was told against what the store holds.
//!
//! No order has to be searched for. Every write names the value it replaced, and a scope's version *is* the order of
//! its writes; so the order is only verified, in time linear in the number of saves, up to a sort by version.
//!
//! The checker knows nothing of engines: whatever can produce a [`History`] can be judged, whole-record saves included.

mod chains;
mod saves;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use crate::{
    clock::Moment,
    commit::Changed,
    entity::{EntityRef, Value, Writer},
    history::Entry,
    path::Path,
    scope::ScopeName,
    snapshot::Snapshot,
    token::{Fence, HolderToken, OperationId, ScopeVersion, VersionNumber},
};

/// Everything about one run, in any order.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What was stored before the first save.
    pub start: BTreeMap<EntityRef, Standing>,
    /// What is stored after the last one.
    pub end: BTreeMap<EntityRef, Standing>,
    /// What writers lived through.
    pub saves: Vec<Save>,
    /// Loads whose versions and values are to be judged.
    pub reads: Vec<Read>,
    /// Claims, as the store answered them.
    pub claims: Vec<Claimed>,
    /// Versions and operation records, from the store.
    pub entries: Vec<Stored>,
}

/// A record at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// Values by unit; a missing one is absent.
    pub values: BTreeMap<Path, Value>,
    /// Scope versions; a missing one is 0.
    pub versions: BTreeMap<ScopeName, ScopeVersion>,
    /// The number of the newest version.
    pub number: VersionNumber,
}

impl Standing {
    /// The values of these units, and the versions, of a snapshot.
    #[must_use]
    pub fn of(snapshot: &Snapshot, units: &[Path]) -> Self {
        let values = units.iter().map(|unit| (unit.clone(), snapshot.record.get(unit))).collect();
        Self { values, versions: snapshot.versions.clone(), number: snapshot.number }
    }
}

/// One save, as its writer lived through it.
#[derive(Clone, Debug)]
pub struct Save {
    /// Which of the run's writers, by number.
    pub process: u32,
    /// Who.
    pub writer: Writer,
    /// The record.
    pub entity: EntityRef,
    /// The job's or request's key: it takes effect at most once.
    pub key: Option<Arc<str>>,
    /// When the load was sent whose answer the writer was shown.
    pub read: Moment,
    /// When the save was sent.
    pub invoked: Moment,
    /// When its answer came. Of no meaning for [`Told::Unknown`].
    pub returned: Moment,
    /// What the writer had been shown.
    pub shown: BTreeMap<Path, Value>,
    /// What the writer wants to have stored; nothing else may change.
    pub wanted: BTreeMap<Path, Value>,
    /// Fences it wrote under, when it had claimed.
    pub fences: BTreeMap<ScopeName, Fence>,
    /// What it was told.
    pub told: Told,
}

/// The answer to a save.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// It took effect.
    Applied(OperationId),
    /// There was nothing to change.
    Unchanged,
    /// It was refused.
    Refused {
        /// Its operation id, if the answer named one.
        operation: Option<OperationId>,
        /// Paths said to be in conflict with somebody else's change.
        conflicts: Vec<Path>,
    },
    /// No answer came: it took effect, or did not.
    Unknown(Option<OperationId>),
}

/// One load.
#[derive(Clone, Debug)]
pub struct Read {
    /// The record.
    pub entity: EntityRef,
    /// When it was sent.
    pub invoked: Moment,
    /// When its answer came.
    pub returned: Moment,
    /// Scope versions it saw.
    pub versions: BTreeMap<ScopeName, ScopeVersion>,
}

/// One claim.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The record.
    pub entity: EntityRef,
    /// The scope.
    pub scope: ScopeName,
    /// The fence it raised.
    pub fence: Fence,
    /// The version it saw.
    pub version: ScopeVersion,
    /// Who.
    pub holder: HolderToken,
}

/// One version or operation record.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The record.
    pub entity: EntityRef,
    /// The save.
    pub operation: OperationId,
    /// The version number; `None` for an operation record.
    pub number: Option<VersionNumber>,
    /// Scope versions after the save. Only those of scopes in `changed` count.
    pub versions: BTreeMap<ScopeName, ScopeVersion>,
    /// What changed.
    pub changed: Vec<Changed>,
}

impl Stored {
    /// A history entry of this record.
    #[must_use]
    pub fn of(entity: &EntityRef, entry: &Entry) -> Self {
        Self {
            entity: entity.clone(),
            operation: entry.operation,
            number: entry.number,
            versions: entry.versions.clone(),
            changed: entry.changed.clone(),
        }
    }
}

/// What can be wrong. The letter and number are the ones the documentation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// C1: versions of a scope, or version numbers of a record, have a gap or come twice.
    Sequence,
    /// C2: a save replaced a value its writer had not been shown.
    LostUpdate,
    /// C2: a write does not name the value it replaced, or the stored record is not what the last write left.
    Chain,
    /// C3: an acknowledged save is not there once, a refused or unknown save is there too often, or nobody sent it.
    Effect,
    /// C3: a save changed a path it was not asked to change, or to another value than asked.
    Foreign,
    /// C4: a save that was answered before another was sent stands behind it.
    RealTime,
    /// C5: a load saw a value that was not written yet, or had long been replaced.
    StaleRead,
    /// C6: fences of a scope fell, or two holders had the same one.
    Fence,
    /// C7: a write was accepted under a claim that had a successor.
    AfterSuccessor,
    /// C8: an editor's save did not make one version and nothing else, or a worker's not one operation record.
    Trace,
    /// C9: a key took effect twice.
    Key,
    /// C13: a merged value is not what its strategy makes of the three values.
    Merge,
    /// A conflict was reported on a path that nobody else had changed.
    FalseConflict,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sequence => "C1 sequence",
            Self::LostUpdate => "C2 lost update",
            Self::Chain => "C2 chain",
            Self::Effect => "C3 effect",
            Self::Foreign => "C3 foreign path",
            Self::RealTime => "C4 real time",
            Self::StaleRead => "C5 stale read",
            Self::Fence => "C6 fence",
            Self::AfterSuccessor => "C7 after successor",
            Self::Trace => "C8 trace",
            Self::Key => "C9 key",
            Self::Merge => "C13 merge",
            Self::FalseConflict => "false conflict",
        })
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What was checked.
    pub check: Check,
    /// Where, and how the two sides differ.
    pub message: String,
}

/// Findings kept with their text; all are counted.
pub const FINDINGS_MAX: usize = 50;

/// What the checker found.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// How often each check failed; a check that held is missing.
    pub counts: BTreeMap<Check, u64>,
    /// The first findings, in the order of the checks.
    pub findings: Vec<Finding>,
    /// Saves that were acknowledged.
    pub saves: u64,
    /// Versions made.
    pub versions: u64,
    /// Operation records made.
    pub operations: u64,
}

impl Verdict {
    /// How often a check failed.
    #[must_use]
    pub fn count(&self, check: Check) -> u64 {
        self.counts.get(&check).copied().unwrap_or(0)
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.counts.is_empty()
    }

    fn found(&mut self, check: Check, message: impl FnOnce() -> String) {
        *self.counts.entry(check).or_default() += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { check, message: message() });
        }
    }
}

/// Checks a finished run.
#[must_use]
pub fn check(history: &History) -> Verdict {
    let mut verdict = Verdict::default();
    for entry in &history.entries {
        let made =
            if entry.number.is_some() { &mut verdict.versions } else { &mut verdict.operations };
        *made += 1;
    }
    let saves = by_operation(history);
    let chains = chains::Chains::new(history, &mut verdict);
    chains.check(&saves, &mut verdict);
    saves::check(history, &saves, &chains, &mut verdict);
    verdict
}

/// Saves by the operation they are known under.
type Saves<'a> = HashMap<OperationId, &'a Save>;

fn by_operation(history: &History) -> Saves<'_> {
    let named = |save| Some((operation_of(save)?, save));
    history.saves.iter().filter_map(named).collect()
}

fn operation_of(save: &Save) -> Option<OperationId> {
    match save.told {
        Told::Applied(operation) => Some(operation),
        Told::Refused { operation, .. } | Told::Unknown(operation) => operation,
        Told::Unchanged => None,
    }
}
