//! The history port: versions, operation records, and the values they remember.

use std::collections::BTreeMap;

use crate::{
    clock::{BoxFuture, StoreTime},
    commit::{Changed, Lifecycle, Trace},
    entity::{EntityRef, Value, Writer},
    error::Result,
    path::Path,
    scope::ScopeName,
    token::{Incarnation, OperationId, ScopeVersion, VersionNumber},
};

/// One save, as it is remembered.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The version number; `None` for an operation record.
    pub number: Option<VersionNumber>,
    /// The save.
    pub operation: OperationId,
    /// When, on the store's clock.
    pub at: StoreTime,
    /// Who.
    pub writer: Writer,
    /// Create, update or delete.
    pub lifecycle: Lifecycle,
    /// The incarnation it belongs to.
    pub incarnation: Incarnation,
    /// Scope versions after the save.
    pub versions: BTreeMap<ScopeName, ScopeVersion>,
    /// What changed.
    pub changed: Vec<Changed>,
    /// Version or operation record.
    pub trace: Trace,
}

/// Which value is asked for: the one the unit had when its scope stood at `version`.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseQuery {
    /// The unit.
    pub path: Path,
    /// Its scope.
    pub scope: ScopeName,
    /// The scope version a form had seen.
    pub version: ScopeVersion,
}

/// Reads what saves left behind. Newest first.
pub trait HistoryStore: Send + Sync {
    /// Up to `most` entries older than `before`, newest first.
    fn entries<'a>(
        &'a self,
        entity: &'a EntityRef,
        before: Option<OperationId>,
        most: u32,
    ) -> BoxFuture<'a, Result<Vec<Entry>>>;
    /// The newest entry that changed each path.
    fn blame<'a>(
        &'a self,
        entity: &'a EntityRef,
        paths: &'a [Path],
    ) -> BoxFuture<'a, Result<BTreeMap<Path, Entry>>>;
    /// The `before` of the first record after the version that touched the path (RULES 9). A missing path: no longer known.
    fn bases<'a>(
        &'a self,
        entity: &'a EntityRef,
        queries: &'a [BaseQuery],
    ) -> BoxFuture<'a, Result<BTreeMap<Path, Value>>>;
    /// One version, with its state.
    fn version<'a>(
        &'a self,
        entity: &'a EntityRef,
        number: VersionNumber,
    ) -> BoxFuture<'a, Result<Option<Entry>>>;
}
