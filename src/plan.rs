//! Deciding a save: one pure function from rules, writer, what was shown, what is stored and what is asked for, to a
//! [`Plan`]. The same plan is the dry run, the answer to a refused save and the audit record.

mod base;
mod decide;
mod decision;
mod expand;
mod inputs;
mod items;
mod lifecycle;
mod outcome;
mod report;
mod rewind;
mod rights;
mod token;
mod units;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    entity::{Change, EntityRef, GroupName, Value, Writer},
    path::{Path, Pattern},
    record::Patch,
    registry::{EntityRules, Locking},
    scope::{ScopeName, ScopeSet},
    snapshot::{EditToken, Snapshot},
    token::OperationId,
};

pub use self::{
    base::{MissingBase, needed_bases, news},
    decision::{Conflict, Decided, Decision, DenyRule, Written},
    inputs::{input_stamps, requeues},
    outcome::plan,
    report::{report_json, report_text},
    rewind::{Rewound, Undoing, editor_state, restore},
    token::{
        TOKEN_BYTES_MAX, TokenError, TokenSecret, check_token, decode_token, encode_token,
        next_token, token_of,
    },
    units::value_of,
};

/// What the writer had been shown; the base of paths that come without their own (RULES 9).
#[derive(Clone, Copy, Debug, Default)]
pub enum Seen<'a> {
    /// Nothing is known. Every value that is stored, or was removed, counts as never seen.
    #[default]
    Nothing,
    /// A form's edit token.
    Token(&'a EditToken),
    /// The record itself: a worker's claim, or a load of the same process.
    Record(&'a Snapshot),
}

/// What happens to the entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// It exists and goes on existing.
    #[default]
    Update,
    /// It does not exist, or was deleted.
    Create,
    /// It goes, with everything in it.
    Delete,
}

/// How the save is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Compared with what the writer had been shown.
    #[default]
    Save,
    /// A worker's own group without lease and comparison (RULES 30).
    Apply {
        /// The caller says that the order of such writes does not matter.
        unordered: bool,
    },
}

/// What `force` may override.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForceRight {
    /// Nothing: a forced path is decided like any other.
    #[default]
    None,
    /// Conflicts: mine is written, theirs is kept as lost.
    Conflicts,
    /// Conflicts, and fields that belong to somebody else.
    Takeover,
}

/// Everything a plan depends on. Build it with [`PlanInput::new`] and set what differs from the defaults.
#[derive(Clone)]
#[must_use]
pub struct PlanInput<'a> {
    /// The rules of the entity's type.
    pub rules: &'a EntityRules,
    /// Who writes.
    pub writer: &'a Writer,
    /// Groups the writer's credential allows; `None`: whatever its kind and name may write.
    pub groups: Option<&'a BTreeSet<GroupName>>,
    /// What is stored now. [`Snapshot::missing`] for an id that never existed.
    pub snapshot: &'a Snapshot,
    /// What the writer had been shown.
    pub seen: Seen<'a>,
    /// Base values the writer sent, by submitted path. They go before everything else.
    pub sent_bases: &'a BTreeMap<Path, Value>,
    /// Answers to [`needed_bases`], by unit: `None` when the history no longer knows.
    pub fetched_bases: &'a BTreeMap<Path, Option<Value>>,
    /// What is asked for, by path.
    pub changes: &'a BTreeMap<Path, Change>,
    /// Paths the form showed: without a change of their own they are unset (RULES 43).
    pub shown: &'a [Path],
    /// Paths to write in spite of a refusal (RULES 42), with everything below them.
    pub force: &'a [Path],
    /// What `force` may override.
    pub force_right: ForceRight,
    /// Refuse the whole save instead of leaving paths out. Editors' saves always do (RULES 4, 5).
    pub all_or_nothing: bool,
    /// Create, update or delete.
    pub intent: Intent,
    /// Save or apply.
    pub mode: Mode,
    /// Input stamps the job carries; `None`: those of [`Seen::Record`], else the stored ones (RULES 24).
    pub inputs: Option<&'a BTreeMap<Path, Option<OperationId>>>,
}

/// What becomes of the save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Commit it.
    Apply,
    /// It changes nothing: no version, no record, no event.
    Nothing,
    /// Nothing is written.
    Refuse {
        /// The stable code: `conflict`, `denied`, `invalid`, `stale_input`, `parent_gone`, `not_found`, `exists`,
        /// `gone`, `recreated`, `token_ahead`, `other_entity`, `not_yet`.
        code: &'static str,
        /// What is wrong, for the codes that concern the save as a whole; else empty.
        message: String,
    },
}

/// One unit that changes.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedUnit {
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

/// A decided save. Everything a commit needs is in it; it is empty where the verdict is not [`Verdict::Apply`].
#[derive(Clone, Debug)]
pub struct Plan {
    /// The record.
    pub entity: EntityRef,
    /// Who writes.
    pub writer: Writer,
    /// Create, update or delete.
    pub intent: Intent,
    /// What becomes of the save.
    pub verdict: Verdict,
    /// Every unit the save touches, in path order.
    pub decisions: Vec<Decided>,
    /// Scopes written, in the order they are locked, each with how its group is kept apart.
    pub written: BTreeMap<ScopeName, Locking>,
    /// Leaves to write and remove.
    pub patch: Patch,
    /// Units that change, in path order.
    pub changed: Vec<ChangedUnit>,
    /// Items removed with everything in them.
    pub removed_items: Vec<Path>,
    /// Items that must still exist when it is applied (RULES 25).
    pub parents: Vec<Path>,
    /// Input stamps that must still be true when it is applied (RULES 24).
    pub inputs: BTreeMap<Path, Option<OperationId>>,
    /// Patterns of inputs that may gain units before it is applied.
    pub input_patterns: Vec<Pattern>,
}

impl<'a> PlanInput<'a> {
    /// An update that compares with nothing seen; set the other fields as needed.
    pub fn new(
        rules: &'a EntityRules,
        writer: &'a Writer,
        snapshot: &'a Snapshot,
        changes: &'a BTreeMap<Path, Change>,
    ) -> Self {
        static NO_VALUES: BTreeMap<Path, Value> = BTreeMap::new();
        static NO_ANSWERS: BTreeMap<Path, Option<Value>> = BTreeMap::new();
        Self {
            rules,
            writer,
            groups: None,
            snapshot,
            seen: Seen::Nothing,
            sent_bases: &NO_VALUES,
            fetched_bases: &NO_ANSWERS,
            changes,
            shown: &[],
            force: &[],
            force_right: ForceRight::None,
            all_or_nothing: false,
            intent: Intent::Update,
            mode: Mode::Save,
            inputs: None,
        }
    }
}

impl Plan {
    /// The decision about a unit.
    #[must_use]
    pub fn decision(&self, unit: &Path) -> Option<&Decision> {
        let index = self.decisions.binary_search_by(|decided| decided.path.cmp(unit)).ok()?;
        self.decisions.get(index).map(|decided| &decided.decision)
    }

    /// Scopes written, in canonical order.
    #[must_use]
    pub fn scopes(&self) -> ScopeSet {
        ScopeSet::new(self.entity.clone(), self.written.keys().cloned())
    }

    /// Scopes written that must be leased and claimed for it, in canonical order (RULES 14, 16).
    #[must_use]
    pub fn leased(&self) -> ScopeSet {
        let leased = self.written.iter().filter(|(_, locking)| **locking == Locking::Lease);
        ScopeSet::new(self.entity.clone(), leased.map(|(scope, _)| scope.clone()))
    }

    /// Paths left out of a save that is applied, each with the reason's code: for the operation record.
    #[must_use]
    pub fn left_out(&self) -> BTreeMap<Path, String> {
        let out = self.decisions.iter().filter(|decided| decided.decision.is_left_out());
        out.map(|decided| (decided.path.clone(), decided.decision.code().to_owned())).collect()
    }

    /// True conflicts.
    pub fn conflicts(&self) -> impl Iterator<Item = (&Path, &Conflict)> {
        self.decisions.iter().filter_map(|decided| match &decided.decision {
            Decision::Conflict(conflict) => Some((&decided.path, &**conflict)),
            _ => None,
        })
    }
}
