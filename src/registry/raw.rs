//! The registry as written: every value with its place, nothing resolved yet.
//!
//! The loader makes it from YAML and reports every fault of shape; `resolve` makes [`super::Registry`] from it
//! and reports every fault of meaning. An `Option` is `None` where the file says nothing, so that `extends` can
//! tell "not given" from a default.

use std::time::Duration;

use serde_json::Value as Json;

use super::{Locking, OnBusy, Owner};
use crate::{diagnostic::Spanned, path::Pattern};

/// A whole file.
#[derive(Clone, Debug, Default)]
pub struct RawRegistry {
    /// Entity types in file order.
    pub entities: Vec<RawEntity>,
}

/// What is done with a write that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Enforcement {
    /// It is let through and recorded.
    Observe,
    /// Denied paths are written and listed.
    Warn,
    /// It is refused. The default.
    Enforce,
}

/// One entity type.
#[derive(Clone, Debug)]
pub struct RawEntity {
    /// The type's name.
    pub name: Spanned<String>,
    /// Whether some of it could not be read: then nothing is said about what seems to be missing.
    pub faulty: bool,
    /// `deny`, `editor` or a group.
    pub default_owner: Option<Spanned<String>>,
    /// observe, warn, enforce.
    pub enforcement: Option<Spanned<Enforcement>>,
    /// Who may create.
    pub create: Option<Vec<Spanned<String>>>,
    /// Who may delete.
    pub delete: Option<Vec<Spanned<String>>>,
    /// The type whose rules are taken over.
    pub extends: Option<Spanned<String>>,
    /// Rules of the base that are left out.
    pub drop: Vec<Spanned<Pattern>>,
    /// Declared axes.
    pub axes: Option<Vec<RawAxis>>,
    /// List pattern to the item's key names.
    pub collections: Vec<(Spanned<Pattern>, Vec<Spanned<String>>)>,
    /// Editor and system groups in file order.
    pub groups: Vec<RawGroup>,
    /// Shared entries in file order.
    pub shared: Vec<RawShared>,
    /// Paths that move together.
    pub coupled: Vec<Spanned<Vec<Spanned<Pattern>>>>,
    /// `history: {editor, worker, values}`, words checked.
    pub history: RawHistory,
    /// `storage:` as checked JSON with the span of its key; used by mapped mode.
    pub storage: Option<Spanned<Json>>,
    /// The entries of its `places` with the span of their paths; the place as it is in `storage`.
    pub places: Vec<(Spanned<Pattern>, Json)>,
    /// `select:` as JSON with the span of its key.
    pub select: Option<Spanned<Json>>,
}

/// One declared axis.
#[derive(Clone, Debug)]
pub struct RawAxis {
    /// Its name.
    pub name: Spanned<String>,
    /// Its values; `None` for `any`.
    pub values: Option<Vec<Spanned<String>>>,
}

/// What history keeps.
#[derive(Clone, Debug, Default)]
pub struct RawHistory {
    /// `version`, the only word now.
    pub editor: Option<Spanned<String>>,
    /// `operation`, the only word now.
    pub worker: Option<Spanned<String>>,
    /// `full`, `hash_only` or `none`.
    pub values: Option<Spanned<String>>,
}

/// An editor or system group.
#[derive(Clone, Debug)]
pub struct RawGroup {
    /// [`Owner::Editor`] or [`Owner::System`].
    pub owner: Owner,
    /// Its name; the section's own name for a plain list.
    pub name: Spanned<String>,
    /// Whether the section was a plain list.
    pub plain: bool,
    /// Its patterns.
    pub fields: Vec<Spanned<Pattern>>,
    /// Who may write it.
    pub writers: Option<Vec<Spanned<String>>>,
    /// Lease or optimistic.
    pub locking: Option<Spanned<Locking>>,
    /// Time to live.
    pub ttl: Option<Spanned<Duration>>,
    /// Longest hold.
    pub max_hold: Option<Spanned<Duration>>,
    /// Policy.
    pub on_busy: Option<Spanned<OnBusy>>,
    /// Inputs.
    pub derived_from: Option<Vec<Spanned<Pattern>>>,
    /// `drop_and_requeue`, the only word now.
    pub on_stale: Option<Spanned<String>>,
    /// Axes it is split by.
    pub split_by: Option<Vec<Spanned<String>>>,
    /// `history:` of the group.
    pub history: RawHistory,
}

/// A shared entry.
#[derive(Clone, Debug)]
pub struct RawShared {
    /// The pattern.
    pub pattern: Spanned<Pattern>,
    /// The strategy word; `None` in a plain list or when left out (strategy `reject`, with a lint).
    pub strategy: Option<Spanned<String>>,
    /// Every key that is none of the others: options of the strategy.
    pub options: Vec<(Spanned<String>, Spanned<Json>)>,
    /// The named group it belongs to.
    pub group: Option<Spanned<String>>,
    /// Lease or optimistic, for the named group.
    pub locking: Option<Spanned<Locking>>,
    /// Time to live.
    pub ttl: Option<Spanned<Duration>>,
    /// Longest hold.
    pub max_hold: Option<Spanned<Duration>>,
    /// Policy.
    pub on_busy: Option<Spanned<OnBusy>>,
    /// `history:` of the entry.
    pub history: RawHistory,
}
