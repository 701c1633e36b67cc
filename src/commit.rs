//! What crosses the store border: one value per save, applied whole or not at all.

use std::collections::BTreeMap;

use crate::{
    entity::{EntityRef, Value, Writer},
    path::{Path, Pattern},
    record::{Patch, Record},
    scope::ScopeName,
    token::{
        Fence, Generation, HolderToken, Incarnation, OperationId, ScopeVersion, VersionNumber,
    },
};

/// What must still be true of one scope when the commit is applied. Exactly one per scope written.
#[derive(Clone, Debug, PartialEq)]
pub enum Expect {
    /// Optimistic scope: the version is equal and nobody holds it (RULES 14).
    Version(ScopeVersion),
    /// Leased scope: version, fence and holder are all *equal*, never `<=` (RULES 12).
    Claimed {
        /// The version the claim returned.
        version: ScopeVersion,
        /// The fence the claim returned.
        fence: Fence,
        /// The token the claim wrote.
        holder: HolderToken,
    },
    /// `apply`: nothing is compared in this scope, its version rises (RULES 30).
    Unread,
}

/// What happens to the entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// It exists and goes on existing.
    Update,
    /// It does not exist, or was deleted; its incarnation rises.
    Create,
    /// Its values and stamps go; scope rows stay and their versions and fences rise (RULES 28).
    Delete,
}

/// One unit that changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// The unit.
    pub path: Path,
    /// Its scope.
    pub scope: ScopeName,
    /// The value before.
    pub old: Value,
    /// The value after.
    pub new: Value,
    /// The strategy that decided, for a shared unit.
    pub strategy: Option<String>,
}

/// What a save leaves in the history. Chosen by the writer's kind alone (RULES 34).
#[derive(Clone, Debug, PartialEq)]
pub enum Trace {
    /// An editor's save: a version.
    Version {
        /// Every editor-owned value after the save.
        state: Record,
        /// Why a refusal was overridden, when it was (RULES 42).
        reason: Option<String>,
    },
    /// A worker's save: an operation record.
    Operation(OperationDetail),
}

/// What an operation record says beside its paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OperationDetail {
    /// The worker's own name for the job, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Milliseconds spent waiting for leases.
    pub waited_ms: u64,
    /// Milliseconds the leases had been held when the save was sent.
    pub held_ms: u64,
    /// How often the save was planned again.
    pub retries: u32,
    /// Paths left out, each with the reason's code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<Path, String>,
    /// Why a refusal was overridden, when it was (RULES 42).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One save, ready to be applied in one transaction.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Unique for ever; written in the same transaction.
    pub operation: OperationId,
    /// Who writes.
    pub writer: Writer,
    /// The record.
    pub entity: EntityRef,
    /// What happens to it.
    pub lifecycle: Lifecycle,
    /// The incarnation the plan was made on; 0 when the id never existed.
    pub incarnation: Incarnation,
    /// The rules the plan was made under; refused when others are in force (RULES 29).
    pub generation: Generation,
    /// The entity fence the plan was made on; compared when any scope is [`Expect::Claimed`] (RULES 21).
    pub entity_fence: Fence,
    /// Scopes written, locked in this order.
    pub scopes: BTreeMap<ScopeName, Expect>,
    /// Inputs of a derived result: the operation that last changed each, `None` for a unit without a stamp (RULES 24).
    pub inputs: BTreeMap<Path, Option<OperationId>>,
    /// Patterns of inputs that may gain units: a stamp at a path they cover that is not among `inputs` refuses the save
    /// as one that moved.
    pub input_patterns: Vec<Pattern>,
    /// Items that must exist (RULES 25).
    pub parents: Vec<Path>,
    /// Leaves to write and remove.
    pub patch: Patch,
    /// Items removed with everything in them, on all values of axes they do not name; their stamps go too.
    pub removed_items: Vec<Path>,
    /// Units that changed: they are stamped with their scope's new version.
    pub changed: Vec<Changed>,
    /// Version or operation record.
    pub trace: Trace,
}

/// Why a store did not apply a commit or a claim.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// Scope versions moved: load and plan again.
    Stale(Vec<ScopeName>),
    /// Another claim took these scopes, or a holder is on an optimistic one: claim again.
    Fenced(Vec<ScopeName>),
    /// Inputs of a derived result changed.
    InputMoved(Vec<Path>),
    /// Collection items that are gone.
    ParentGone(Vec<Path>),
    /// The id was never created.
    NotFound,
    /// The id exists already.
    Exists,
    /// The entity was deleted.
    Gone,
    /// The id was deleted and created again.
    Recreated,
    /// Other rules are in force: the generation they have.
    StaleRegistry(Generation),
}

impl Refusal {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Stale(_) => "stale",
            Self::Fenced(_) => "fenced",
            Self::InputMoved(_) => "input_moved",
            Self::ParentGone(_) => "parent_gone",
            Self::NotFound => "not_found",
            Self::Exists => "exists",
            Self::Gone => "gone",
            Self::Recreated => "recreated",
            Self::StaleRegistry(_) => "stale_registry",
        }
    }
}

/// A store's answer to a commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Committed {
    /// It took effect.
    Applied {
        /// New versions of the scopes written.
        versions: BTreeMap<ScopeName, ScopeVersion>,
        /// The version made, for an editor's save.
        number: Option<VersionNumber>,
        /// The incarnation after the commit.
        incarnation: Incarnation,
    },
    /// This operation id had taken effect before; nothing was done now.
    AlreadyApplied,
    /// Nothing was done.
    Refused(Refusal),
}
