//! What crosses the store border: one value per save, applied whole or not at all.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    entity::{EntityRef, Value, Writer},
    key::{Attempt, Finished, InputStamps, Key, Owner, RequestHash},
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
        /// Every editor-owned value after the save, and the items editors made; before it, where it is a delete.
        state: Record,
        /// Why a refusal was overridden (RULES 42), or which version was restored.
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
    /// Why a refusal was overridden (RULES 42), or what was undone.
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
    /// The key this save completes, in the same transaction.
    pub key: Option<KeyUse>,
    /// What others are told, in the same transaction (RULES 26).
    pub events: Vec<Notice>,
    /// The waiting save this is: its row goes in the same transaction, or nothing happens (RULES 36).
    pub queued: Option<OperationId>,
}

/// One event to be told of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// What it is: `requeue`, `queue_refused`, `queue_unchanged` or `queue_cancelled`.
    pub kind: String,
    /// What it says.
    pub body: serde_json::Value,
}

/// A key completed by a save. The key's row is locked first (RULES 24), and what is wrong with the key is told before
/// anything else. A save that is refused, for the key or for anything else, leaves the key as it was.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyUse {
    /// The key.
    pub key: Key,
    /// What the work is.
    pub hash: RequestHash,
    /// How the key comes to be this save's.
    pub mode: KeyMode,
    /// What repeats are answered, beside [`crate::key::Effect`].
    pub result: String,
    /// How long, from the commit on.
    pub retention: Duration,
    /// As [`Finished::inputs`].
    pub inputs: Option<InputStamps>,
}

/// How a key comes to be a save's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMode {
    /// It was begun before: this attempt must still have it, whether or not its lease has lapsed. Else
    /// [`Refusal::KeyLost`].
    Claimed(Attempt),
    /// Acquired and completed by the save itself, where [`crate::key::begin`] would acquire. Else
    /// [`Refusal::KeyReplay`], [`Refusal::KeyMismatch`] or [`Refusal::KeyBusy`] (RULES 31).
    Once(Owner),
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
    /// The waiting save was cancelled, or has run already.
    NotQueued,
    /// Other rules are in force: the generation they have.
    StaleRegistry(Generation),
    /// The key is no longer this attempt's: another took over.
    KeyLost,
    /// The work of the key had ended: this is what it answered.
    KeyReplay(Box<Finished>),
    /// The key was used for other work.
    KeyMismatch,
    /// Another attempt is at the work of the key, or it is not to be tried again yet: ask again after this time.
    KeyBusy(Duration),
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
            Self::NotQueued => "not_queued",
            Self::StaleRegistry(_) => "stale_registry",
            Self::KeyLost => "key_lost",
            Self::KeyReplay(_) => "key_replay",
            Self::KeyMismatch => "key_mismatch",
            Self::KeyBusy(_) => "key_busy",
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
