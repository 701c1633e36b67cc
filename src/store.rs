//! The record store's ports: the database is the authority on who may write (RULES 10).

#[cfg(feature = "postgres")]
pub(crate) mod expressions;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(crate) mod keys;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(crate) mod mapped;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(crate) mod prepare;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(crate) mod text;

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    clock::BoxFuture,
    commit::{Commit, Committed, Refusal},
    entity::{EntityRef, EntityType},
    error::{Error, Result},
    mapping::Layout,
    registry::EntityRules,
    scope::{Scope, ScopeName, ScopeSet},
    snapshot::Snapshot,
    token::{Fence, Generation, HolderToken, OperationId},
};

/// What a claim returns: the record as it is under the claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Read after the scope rows were locked; sees the former holder's last commit (RULES 13).
    pub snapshot: Snapshot,
    /// The fences this claim raised.
    pub fences: BTreeMap<ScopeName, Fence>,
}

/// The answer to a claim.
#[derive(Clone, Debug)]
pub enum Claimed {
    /// The token is the holder of every scope.
    Claimed(Box<Claim>),
    /// Nothing was claimed.
    Refused(Refusal),
}

/// One claim: the scopes of a lease become this token's in the database.
#[derive(Clone, Debug)]
pub struct ClaimAsk {
    /// The scopes.
    pub scopes: ScopeSet,
    /// Whether the entity fence is raised too: a whole-entity lease (RULES 21).
    pub whole: bool,
    /// The lease's token, written as holder.
    pub holder: HolderToken,
    /// The rules the caller goes by.
    pub generation: Generation,
}

/// Keeps records, scope rows and what saves leave behind.
pub trait RecordStore: Send + Sync {
    /// The entity as of one moment. `None`: never existed. A deleted one answers with `deleted_at`.
    fn load<'a>(&'a self, entity: &'a EntityRef) -> BoxFuture<'a, Result<Option<Snapshot>>>;
    /// Raises the fence of each scope by one, writes the holder, and returns the record read under that lock.
    /// Versions stay as they are.
    fn claim<'a>(&'a self, ask: &'a ClaimAsk) -> BoxFuture<'a, Result<Claimed>>;
    /// All of the commit or none of it. After [`crate::error::Error::OutcomeUnknown`] ask [`RecordStore::resolve`].
    fn commit<'a>(&'a self, commit: &'a Commit) -> BoxFuture<'a, Result<Committed>>;
    /// Did this operation take effect? `None`: it did not, and never will.
    fn resolve(&self, operation: OperationId) -> BoxFuture<'_, Result<Option<Committed>>>;
    /// Raises the fence of a scope and writes no holder: the claim of whoever held it is void (RULES 20).
    fn break_claim<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<Fence>>;
    /// From now on records of this type lie where `storage` of these rules says; with none, in the store's own table.
    /// The layout tells which forms of values the columns give back. Refused where the tables do not fit the rules,
    /// with everything in which they differ.
    fn map<'a>(
        &'a self,
        rules: &'a Arc<EntityRules>,
    ) -> BoxFuture<'a, Result<Option<Arc<Layout>>>> {
        Box::pin(async move {
            if rules.storage.is_none() {
                return Ok(None);
            }
            let message =
                format!("`{}` declares `storage`, and this store maps no tables", rules.kind);
            Err(Error::NotYet { message })
        })
    }
}

/// The rules in force, kept in the database (RULES 29).
pub trait RegistryStore: Send + Sync {
    /// The generation and text in force for an entity type.
    fn active<'a>(
        &'a self,
        kind: &'a EntityType,
    ) -> BoxFuture<'a, Result<Option<(Generation, String)>>>;
    /// Puts `text` in force if `was` still is; answers whether it did. Saves of the former generation are refused
    /// from then on, saves of the new one after `delay`.
    fn activate<'a>(
        &'a self,
        kind: &'a EntityType,
        was: Option<Generation>,
        generation: Generation,
        text: &'a str,
        delay: std::time::Duration,
    ) -> BoxFuture<'a, Result<bool>>;
}
