//! What a load sees of a record, and what a form remembers of it.

use std::collections::BTreeMap;

use crate::{
    clock::StoreTime,
    entity::{EntityRef, Writer},
    path::Path,
    record::Record,
    scope::ScopeName,
    token::{Fence, Generation, Incarnation, OperationId, ScopeVersion, VersionNumber},
};

/// Where a unit's value was last changed (RULES 7). A stamp from another scope than the path's present one
/// counts as newer than any token.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Stamp {
    /// The scope the path belonged to when it was written.
    pub scope: ScopeName,
    /// That scope's version after the change.
    pub version: ScopeVersion,
    /// The save that made the change.
    pub operation: OperationId,
    /// Who made it.
    pub writer: Writer,
    /// When, on the store's clock.
    pub at: StoreTime,
}

/// What one statement saw of an entity.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The record.
    pub entity: EntityRef,
    /// Which creation of the id this is.
    pub incarnation: Incarnation,
    /// When it was deleted; the data is empty then.
    pub deleted_at: Option<StoreTime>,
    /// The values.
    pub record: Record,
    /// Stamps by unit. A value without one is older than any token (RULES 45).
    pub stamps: BTreeMap<Path, Stamp>,
    /// Versions of scopes that have a row; a missing one is 0.
    pub versions: BTreeMap<ScopeName, ScopeVersion>,
    /// The entity fence, compared by every claimed commit (RULES 21).
    pub entity_fence: Fence,
    /// Number of the newest version; 0 before the first.
    pub number: VersionNumber,
    /// The store's time when this was read.
    pub read_at: StoreTime,
}

impl Snapshot {
    /// An id that was never created: what a create is planned on.
    #[must_use]
    pub fn missing(entity: EntityRef) -> Self {
        Self {
            entity,
            incarnation: Incarnation::default(),
            deleted_at: None,
            record: Record::new(),
            stamps: BTreeMap::new(),
            versions: BTreeMap::new(),
            entity_fence: Fence::default(),
            number: VersionNumber::default(),
            read_at: StoreTime::default(),
        }
    }

    /// The version of a scope; 0 when it has no row.
    #[must_use]
    pub fn version(&self, scope: &ScopeName) -> ScopeVersion {
        self.versions.get(scope).copied().unwrap_or_default()
    }
}

/// What a form saw: versions only. Base values come from stamps and records (RULES 8, 9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditToken {
    /// The record.
    pub entity: EntityRef,
    /// Which creation of the id the form showed.
    pub incarnation: Incarnation,
    /// The rules the form was loaded under.
    pub generation: Generation,
    /// Scope versions at that moment; a missing one is 0.
    pub versions: BTreeMap<ScopeName, ScopeVersion>,
}
