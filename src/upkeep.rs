//! The upkeep port: history that goes away, by age and number, or because somebody must be forgotten.
//!
//! Every call is of bounded size, and what it does to one record is one transaction; whoever wants more calls again with
//! what the answer says.

use std::time::Duration;

use crate::{
    clock::BoxFuture,
    entity::{EntityRef, EntityType, Writer},
    error::{Error, Result},
};

/// How long records are kept whatever is asked: forms that were loaded within it find their base values (RULES 9).
pub const BASE_WINDOW: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What to prune. What is not set is not pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruneAsk {
    /// Only records of this type.
    pub kind: Option<EntityType>,
    /// How many of the newest versions of a record stay; at least the last one always does.
    pub keep_versions: Option<u64>,
    /// Versions younger than this stay. With both, a version goes only if neither keeps it.
    pub versions_older: Option<Duration>,
    /// Operation records younger than this stay.
    pub operations_older: Option<Duration>,
    /// Records that were deleted this long ago are forgotten whole, their numbers included.
    pub tombstones_older: Option<Duration>,
    /// Whatever is asked, nothing younger than this goes. Default [`BASE_WINDOW`].
    pub base_window: Duration,
    /// Where to go on: [`Pruned::next`] of the call before, 0 at first.
    pub after: u64,
    /// Most saves removed and most records looked at in this call.
    pub most: u32,
    /// Counts, and removes nothing.
    pub dry_run: bool,
}

/// What one call pruned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Pruned {
    /// Versions.
    pub versions: u64,
    /// Operation records.
    pub operations: u64,
    /// Records that had been deleted.
    pub tombstones: u64,
    /// Where to go on; `None`: everything was looked at.
    pub next: Option<u64>,
}

/// Who or what is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Erase {
    /// A record: its values wherever they are kept. It is deleted, if it was not yet.
    Entity(EntityRef),
    /// A writer: its name wherever it stands, also as the person somebody acted for. What it wrote stays.
    Writer(Writer),
}

/// An erasure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EraseAsk {
    /// What.
    pub what: Erase,
    /// Who asks for it; kept.
    pub by: String,
    /// Why; kept.
    pub reason: String,
    /// Counts, and erases nothing.
    pub dry_run: bool,
}

/// What an erasure reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Erased {
    /// Saves that lost their values, or their writer's name.
    pub saves: u64,
    /// Present values that lost their writer's name, or went.
    pub values: u64,
}

/// Takes history away.
pub trait UpkeepStore: Send + Sync {
    /// Prunes up to `most` saves. A save that a present value comes from, one that a key still answers with, the last
    /// version of a record and everything within the base window stay. A form whose base was pruned gets
    /// `base_unknown`, never a wrong base.
    fn prune<'a>(&'a self, _ask: &'a PruneAsk) -> BoxFuture<'a, Result<Pruned>> {
        Box::pin(async { Err(not_yet("pruned")) })
    }
    /// Erases, in one transaction, and leaves a proof that something was erased. `None`: there is no such record.
    fn erase<'a>(&'a self, _ask: &'a EraseAsk) -> BoxFuture<'a, Result<Option<Erased>>> {
        Box::pin(async { Err(not_yet("erased")) })
    }
}

fn not_yet(what: &str) -> Error {
    Error::NotYet { message: format!("history on this store cannot be {what} yet") }
}
