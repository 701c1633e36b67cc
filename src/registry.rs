//! The registry: who owns which field, in which group, under which strategy.

mod ambiguous;
mod buckets;
mod chain;
mod cover;
mod decode;
mod diff;
mod extends;
mod groups;
mod hash;
mod index;
mod later;
mod lint;
mod load;
mod meaning;
mod places;
pub mod raw;
mod resolve;
mod rules;
mod scan;
pub mod schema;
mod shared;
mod split;
pub mod suggest;
mod twins;
mod yaml;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde_json::Value as Json;

pub use cover::{covers, inside, meet, takes};
pub use decode::{Limits, readable};
pub use diff::{Difference, diff};
pub use load::{load, read};
pub use resolve::resolve;
pub use rules::{EntityRules, ResolveError};
pub use split::Leaves;

use crate::{
    entity::{EntityType, GroupName, Writer, WriterKind},
    path::{Path, Pattern},
    scope::ScopeName,
    strategy::Strategy,
};

/// Whose a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// People, in a group of editors.
    Editor,
    /// A group of workers.
    System,
    /// Everybody, under a strategy.
    Shared,
    /// Nobody: it is not listed, and the default owner is `deny`.
    Deny,
}

/// How writers of one group are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Locking {
    /// One at a time, by a lease and a claim.
    Lease,
    /// All at once, by comparing versions.
    Optimistic,
}

/// What to do when a lease is held by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnBusy {
    /// Leave the work undone and say so.
    Skip,
    /// Answer `busy` at once.
    Fail,
    /// Wait in the queue, at most this long.
    Wait(Duration),
    /// Try again this often, with a growing pause.
    Retry {
        /// How often after the first try.
        times: u32,
        /// The first pause.
        from: Duration,
        /// The longest pause.
        to: Duration,
    },
    /// Store the save and apply it later (RULES 36).
    Enqueue,
}

/// A group of fields with one scope.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: GroupName,
    /// Whose it is.
    pub owner: Owner,
    /// Worker or editor names that may write it; `None` for everyone of the owner's kind. Ask [`Group::may_write`].
    pub writers: Option<Vec<Arc<str>>>,
    /// Lease or optimistic.
    pub locking: Locking,
    /// Time to live of its leases.
    pub ttl: Duration,
    /// A heartbeat never keeps a lease longer.
    pub max_hold: Duration,
    /// What a writer does when it is held.
    pub on_busy: OnBusy,
    /// Inputs of a computed result.
    pub derived_from: Vec<Pattern>,
    /// Axes that split it into scopes.
    pub split_by: Vec<Box<str>>,
}

/// A strategy with its options.
#[derive(Clone)]
pub struct StrategyUse {
    /// The strategy.
    pub strategy: Arc<dyn Strategy>,
    /// Its options: an object.
    pub options: Arc<Json>,
}

/// Who may create and delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// Group names or `editor`.
    pub create: Vec<GroupName>,
    /// Group names or `editor`.
    pub delete: Vec<GroupName>,
}

/// What the rules say about one path.
#[derive(Clone, PartialEq)]
pub struct Resolved {
    /// Whose it is.
    pub owner: Owner,
    /// Its group; `None` when denied.
    pub group: Option<Arc<Group>>,
    /// Its scope; `None` when denied.
    pub scope: Option<ScopeName>,
    /// The path that is compared, merged and stamped as one value.
    pub unit: Path,
    /// The winning pattern as canonical text; `None` when the default owner decided.
    pub pattern: Option<Arc<str>>,
    /// How it is merged; only for shared fields.
    pub strategy: Option<StrategyUse>,
    /// Whether rules lie further inside the path that was asked about.
    pub inner: bool,
}

/// What tells the items of a list apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The lists.
    pub pattern: Pattern,
    /// Members of an item that make up its key; several are joined by a comma.
    pub keys: Vec<String>,
}

/// One rule of an entity type.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it covers.
    pub pattern: Pattern,
    /// The group it gives it to.
    pub group: Arc<Group>,
    /// How it is merged; only for shared fields.
    pub strategy: Option<StrategyUse>,
    weight: cover::Weight,
    /// Place in the file, among the rules of its entity type.
    order: usize,
}

/// What history keeps of an entity type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryValues {
    /// Values before and after.
    #[default]
    Full,
    /// Only their hashes.
    HashOnly,
    /// Only which paths changed.
    None,
}

/// Every entity type's rules.
#[derive(Debug, Default)]
pub struct Registry {
    entities: BTreeMap<EntityType, Arc<EntityRules>>,
}

impl Group {
    /// Whether this writer may write the group's fields.
    #[must_use]
    pub fn may_write(&self, writer: &Writer) -> bool {
        let kind = match self.owner {
            Owner::Editor => writer.kind == WriterKind::Editor,
            Owner::System => writer.kind == WriterKind::Worker,
            Owner::Shared => true,
            Owner::Deny => false,
        };
        kind && self.writers.as_ref().is_none_or(|names| names.contains(&writer.name))
    }
}

impl Registry {
    /// The rules of one entity type.
    #[must_use]
    pub fn entity(&self, kind: &str) -> Option<&Arc<EntityRules>> {
        self.entities.get(kind)
    }

    /// Every entity type's rules, by name.
    pub fn entities(&self) -> impl ExactSizeIterator<Item = &Arc<EntityRules>> {
        self.entities.values()
    }
}

impl FromIterator<EntityRules> for Registry {
    fn from_iter<I: IntoIterator<Item = EntityRules>>(entities: I) -> Self {
        let entities = entities.into_iter().map(|rules| (rules.kind.clone(), Arc::new(rules)));
        Self { entities: entities.collect() }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Editor => "editor",
            Self::System => "system",
            Self::Shared => "shared",
            Self::Deny => "deny",
        })
    }
}

/// `editor`, or ``system `media` ``: whose a field is, in a message.
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&whose(self.owner, self.name.as_str()))
    }
}

fn whose(owner: Owner, group: &str) -> String {
    let section = owner.to_string();
    if section == group { section } else { format!("{section} `{group}`") }
}

impl PartialEq for StrategyUse {
    fn eq(&self, other: &Self) -> bool {
        self.strategy.name() == other.strategy.name() && self.options == other.options
    }
}

impl fmt::Debug for StrategyUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.strategy.name(), self.options)
    }
}

impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolved")
            .field("owner", &self.owner)
            .field("scope", &self.scope)
            .field("unit", &self.unit)
            .field("pattern", &self.pattern)
            .field("strategy", &self.strategy)
            .finish_non_exhaustive()
    }
}
