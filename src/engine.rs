//! The engine: sessions of editors and workers that save the same records at the same time.
//!
//! An [`Engine`] joins a registry, a store and leases. A [`Session`] speaks for one writer; its builders plan,
//! save, claim, run and apply. Being refused is an answer ([`Outcome`]), not an error.

mod builder;
mod changes;
mod claim;
mod core;
mod hold;
mod keyed;
mod outcome;
mod queue;
mod registry_sync;
mod request;
mod rewind;
mod run;
mod save;
mod saving;
mod session;
mod turn;
mod validator;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use self::core::Core;
#[cfg(feature = "server")]
pub(crate) use self::outcome::news_json;
pub use self::{
    builder::{EngineBuilder, OnChangedRegistry},
    changes::{Changes, IntoPath},
    claim::{Claim, ClaimBuilder, Claiming},
    outcome::{Busy, Outcome, Planned, Queued, Refused, Replayed, Saved, Unchanged, Waiting, Why},
    queue::Drained,
    rewind::{Restore, Rewind, UndoOf},
    run::{Failure, Job, Run, RunError},
    save::Save,
    session::{InputStamps, Loaded, Session},
    validator::{Objection, Proposal, Validator},
};
use crate::{
    entity::{EntityRef, EntityType, Writer},
    error::{Error, Result},
    event::Event,
    history::{Entry, HistoryStore},
    hold::ShutdownReport,
    idempotency::{IdempotencyStore, Listed},
    key::Key,
    lease::Holder,
    path::Path,
    queue::{Outbox, QueueStore},
    registry::{EntityRules, Registry},
    scope::{Scope, ScopeName},
    store::{RecordStore, RegistryStore},
    token::{OperationId, VersionNumber},
    upkeep::{Erase, EraseAsk, Erased, PruneAsk, Pruned, UpkeepStore},
};

/// Everything an engine keeps in the database. Implemented for whatever implements the ports.
pub trait Store:
    RecordStore + RegistryStore + HistoryStore + IdempotencyStore + UpkeepStore + QueueStore + Outbox
{
}

impl<T> Store for T where
    T: RecordStore
        + RegistryStore
        + HistoryStore
        + IdempotencyStore
        + UpkeepStore
        + QueueStore
        + Outbox
        + ?Sized
{
}

/// Saves records for editors and workers. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    core: Arc<Core>,
}

impl Engine {
    /// Starts an engine over these rules.
    pub fn builder(registry: Arc<Registry>) -> EngineBuilder {
        EngineBuilder::new(registry)
    }

    fn of(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// A session for any writer.
    #[must_use]
    pub fn session(&self, writer: Writer) -> Session {
        Session::new(Arc::clone(&self.core), writer)
    }

    /// A session for a person.
    #[must_use]
    pub fn editor(&self, name: &str) -> Session {
        self.session(Writer::editor(name))
    }

    /// A session for a background worker.
    #[must_use]
    pub fn worker(&self, name: &str) -> Session {
        self.session(Writer::worker(name))
    }

    /// The rules this process was started with.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.core.registry
    }

    /// The rules of one type that saves go by now; they change when another process has activated others (RULES 29).
    ///
    /// # Errors
    /// When the type is not in the registry.
    pub fn rules(&self, kind: &EntityType) -> Result<Arc<EntityRules>> {
        self.core.rules(kind)
    }

    /// Up to `most` saves of an entity older than `before`, newest first: versions and operation records.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn history(
        &self,
        entity: &EntityRef,
        before: Option<OperationId>,
        most: u32,
    ) -> Result<Vec<Entry>> {
        self.core.store.entries(entity, before, most).await
    }

    /// One version, with its state.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn version(
        &self,
        entity: &EntityRef,
        number: VersionNumber,
    ) -> Result<Option<Entry>> {
        self.core.store.version(entity, number).await
    }

    /// The save that last changed each path: why a value is there.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn blame(&self, entity: &EntityRef, paths: &[Path]) -> Result<BTreeMap<Path, Entry>> {
        self.core.store.blame(entity, paths).await
    }

    /// Prunes history, one bounded step per call: see [`UpkeepStore::prune`].
    ///
    /// # Errors
    /// When the store cannot be reached, or cannot prune.
    pub async fn prune(&self, ask: &PruneAsk) -> Result<Pruned> {
        self.core.store.prune(ask).await
    }

    /// Erases a record or a writer's name: see [`UpkeepStore::erase`].
    ///
    /// # Errors
    /// `reason_missing`; when the store cannot be reached, or cannot erase.
    pub async fn erase(&self, ask: &EraseAsk) -> Result<Option<Erased>> {
        if ask.reason.trim().is_empty() {
            let help = "say why: it is kept as the proof";
            return Err(Error::invalid("reason_missing", "erasing needs a reason", help));
        }
        let erased = self.core.store.erase(ask).await?;
        if erased.is_some() && !ask.dry_run {
            self.core.emit(&match &ask.what {
                Erase::Entity(entity) => Event::EntityErased { entity: entity.clone() },
                Erase::Writer(writer) => Event::WriterErased { writer: writer.clone() },
            });
        }
        Ok(erased)
    }

    /// Who holds which lease, in scope order: of one entity, or page by page of all. Of leases of this process, the
    /// holder of this moment and all its waiters.
    ///
    /// # Errors
    /// When the lease store cannot be reached.
    pub async fn leases(
        &self,
        entity: Option<&EntityRef>,
        cursor: Option<&str>,
        most: u32,
    ) -> Result<(Vec<Holder>, Option<String>)> {
        let (mut holders, next) = self.core.holds.store().inspect(entity, cursor, most).await?;
        self.core.holds.overlay(&mut holders);
        Ok((holders, next))
    }

    /// Ends a lease by force: the fence is raised in the database first, so that whoever held it can write no
    /// more, then the lease is removed (RULES 20). Answers who held it.
    ///
    /// # Errors
    /// When the reason is empty, or a store cannot be reached.
    pub async fn break_lease(
        &self,
        entity: &EntityRef,
        scope: &ScopeName,
        reason: &str,
    ) -> Result<Option<Holder>> {
        if reason.trim().is_empty() {
            let help = "say why: it is logged";
            return Err(Error::invalid("reason_missing", "breaking a lease needs a reason", help));
        }
        let scope = Scope { entity: entity.clone(), name: scope.clone() };
        self.core.store.break_claim(&scope).await?;
        let broken = self.core.holds.store().break_lease(&scope, reason).await?;
        // Between the two, the holder may have claimed again under a lease that was still there. A successor whose
        // claim this voids claims again, for its lease is there.
        self.core.store.break_claim(&scope).await?;
        Ok(broken)
    }

    /// Up to `most` idempotency keys after this one, for people.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn keys(&self, after: Option<&Key>, most: u32) -> Result<Vec<Listed>> {
        self.core.store.list(after, most).await
    }

    /// Removes up to `most` keys that nobody can ask for any more. A service does it by itself; a program that embeds
    /// the engine calls it now and then. Answers how many there were.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn sweep_keys(&self, most: u32) -> Result<u32> {
        self.core.store.sweep(most).await
    }

    /// Takes no more saves, sends away who waits for a lease, waits for the other saves under way, and gives back every lease of this process: at most this long.
    pub async fn shutdown(&self, timeout: Duration) -> ShutdownReport {
        let deadline = self.core.after(timeout);
        // What hangs must not use up the time in which leases are given back.
        let for_saves = self.core.after(timeout.saturating_sub(timeout / 4));
        self.core.closing.store(true, Ordering::Release);
        self.core.tasks.close();
        let waiters = self.core.holds.close();
        self.core.before(for_saves, self.core.tasks.wait()).await;
        let left = deadline.since(self.core.clock.now());
        let report = self.core.holds.shutdown(left).await;
        ShutdownReport { waiters: report.waiters + waiters, ..report }
    }
}
