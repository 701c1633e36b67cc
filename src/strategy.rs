//! Strategies of shared fields: what becomes of a value that two writers changed.
//!
//! A strategy is a pure function of three values: what the writer had been shown, what the writer asks for, and what
//! is stored now. Before any strategy is asked, [`settled`] decides the two cases that are the same for all of them.

mod bounds;
mod counter;
mod fill;
mod ours;
mod set;
mod sides;

use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;

use crate::entity::{Change, Value, Writer};

pub use self::{
    bounds::{Max, Min},
    counter::Counter,
    fill::FillIfEmpty,
    set::{SetMerge, three_way as set_three_way},
    sides::{EditorWins, KeepCurrent, LastWriteWins, Reject, SystemWins},
};

/// Strategies the design names that come in a later version: known words, so a registry that uses one is told so.
pub const LATER: &[&str] = &[
    "priority",
    "editor_pin",
    "keyed_merge",
    "map_merge",
    "transition",
    "append_only",
    "text_merge",
    "first_come",
];

/// What a strategy decides on.
#[derive(Clone, Copy, Debug)]
pub struct MergeInput<'a> {
    /// What our writer had been shown; `None` when that is not known.
    pub base: Option<&'a Value>,
    /// What our writer asks for.
    pub ours: &'a Change,
    /// What is stored now.
    pub theirs: &'a Value,
    /// Who asks.
    pub our_writer: &'a Writer,
    /// Who last changed the stored value, where that is known.
    pub their_writer: Option<&'a Writer>,
    /// The strategy's options from the registry: an object.
    pub options: &'a Json,
}

/// A strategy's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Merged {
    /// The value to store. `lost` names foreign values it replaces.
    Take {
        /// What to store.
        value: Value,
        /// Foreign values that are gone afterwards.
        lost: Vec<Value>,
    },
    /// The stored value stays, by this rule.
    Keep {
        /// Which rule of the strategy kept it.
        rule: &'static str,
    },
    /// A person must decide.
    Conflict {
        /// Which rule of the strategy refused.
        rule: &'static str,
        /// Where inside the value, as paths relative to it; `""` is the value itself.
        at: Vec<String>,
    },
}

/// A way to merge one shared field. Pure: the same input gives the same answer.
pub trait Strategy: Send + Sync {
    /// The word in the registry.
    fn name(&self) -> &str;
    /// The option keys it knows, for "did you mean". None unless it says so.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }
    /// Every problem of the options, in the user's words; the key first, then what is wrong with it.
    fn check(&self, options: &Json) -> Vec<(&'static str, String)> {
        let _ = options;
        Vec::new()
    }
    /// Whether it cannot decide without the value the writer had been shown.
    fn needs_base(&self) -> bool;
    /// Decides. Called only when the submitted value differs from the stored one and from the base.
    fn merge(&self, input: MergeInput<'_>) -> Merged;
}

/// The strategies a registry may name.
#[derive(Clone)]
pub struct Strategies(Vec<Arc<dyn Strategy>>);

/// What is decided before a strategy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The writer asks for what is stored already.
    AsStored,
    /// The writer sends back what had been shown: no opinion.
    AsShown,
}

impl Merged {
    /// The value to store, with no foreign value lost.
    #[must_use]
    pub fn take(value: Value) -> Self {
        Self::Take { value, lost: Vec::new() }
    }

    /// A conflict about the value as a whole.
    #[must_use]
    pub fn conflict(rule: &'static str) -> Self {
        Self::Conflict { rule, at: vec![String::new()] }
    }
}

impl Strategies {
    /// The strategies of this version.
    #[must_use]
    pub fn standard() -> Self {
        Self(vec![
            Arc::new(Reject),
            Arc::new(LastWriteWins),
            Arc::new(KeepCurrent),
            Arc::new(EditorWins),
            Arc::new(SystemWins),
            Arc::new(FillIfEmpty),
            Arc::new(SetMerge),
            Arc::new(Counter),
            Arc::new(Max),
            Arc::new(Min),
        ])
    }

    /// Adds a strategy of the user's own. One of the same name is replaced.
    #[must_use]
    pub fn with(mut self, strategy: Arc<dyn Strategy>) -> Self {
        self.0.retain(|known| known.name() != strategy.name());
        self.0.push(strategy);
        self
    }

    /// The strategy of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Strategy>> {
        self.0.iter().find(|strategy| strategy.name() == name)
    }

    /// Every name, in the order they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|strategy| strategy.name())
    }

    /// Names of strategies that come in a later version.
    #[must_use]
    pub fn later(&self) -> &'static [&'static str] {
        LATER
    }
}

impl Default for Strategies {
    fn default() -> Self {
        Self::standard()
    }
}

impl std::fmt::Debug for Strategies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// `reject`, which fields with one owner go by when two writers of that owner meet.
#[must_use]
pub fn reject() -> &'static Arc<dyn Strategy> {
    static REJECT: OnceLock<Arc<dyn Strategy>> = OnceLock::new();
    REJECT.get_or_init(|| Arc::new(Reject))
}

/// What every strategy agrees on: asking for the stored value, or sending back the one shown, changes nothing.
#[must_use]
pub fn settled(base: Option<&Value>, ours: &Change, theirs: &Value) -> Option<Settled> {
    match ours {
        Change::Set(json) => {
            let same =
                |value: &Value| value.json().is_some_and(|v| crate::entity::same_json(v, json));
            if same(theirs) {
                return Some(Settled::AsStored);
            }
            base.is_some_and(same).then_some(Settled::AsShown)
        }
        Change::Unset if theirs.is_absent() => Some(Settled::AsStored),
        Change::Unset => base.is_some_and(Value::is_absent).then_some(Settled::AsShown),
        Change::Add(0) => Some(Settled::AsStored),
        Change::Add(_) => None,
        Change::Include(_) | Change::Exclude(_) => {
            set::no_member_moves(ours, theirs).then_some(Settled::AsStored)
        }
    }
}

/// The value a change asks for; a relative one is applied to what is stored.
///
/// # Errors
/// The rule that says why it cannot be applied: `not_an_integer`, `out_of_range`, `not_a_list`.
pub fn wanted(change: &Change, theirs: &Value) -> Result<Value, &'static str> {
    match ours::Wanted::of(change, theirs) {
        ours::Wanted::Whole(value) | ours::Wanted::Relative(value) => Ok(value),
        ours::Wanted::Wrong(rule) => Err(rule),
    }
}

/// Merges one value: what [`settled`] decides, else what the strategy does.
#[must_use]
pub fn merge(strategy: &dyn Strategy, input: MergeInput<'_>) -> Merged {
    match settled(input.base, input.ours, input.theirs) {
        Some(_) => Merged::take(input.theirs.clone()),
        None => strategy.merge(input),
    }
}
