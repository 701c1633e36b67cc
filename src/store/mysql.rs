//! Records, rules and history in a MariaDB or MySQL database.
//!
//! Loading, claiming and saving are one call of a procedure each: one round trip and one transaction, which locks what it
//! decides on before it decides. The procedures and tables come with the migrations of `schemas/sql/mysql`.
//!
//! Times are the server's. A save is as durable as the server makes a COMMIT: `innodb_flush_log_at_trx_commit` other than
//! 1 may lose the last saves in a crash of the server, and a failover to a replica that lags loses what it had not got.

mod commit;
mod encode;
mod guard;
mod history;
mod keys;
mod load;
mod mapped;
mod pattern;
mod queue;
mod registry;
mod rows;
mod statements;
mod upkeep;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub use self::guard::MysqlGuard;
use self::statements::Statements;
pub use crate::database::mysql::MysqlOptions;
use crate::{
    clock::BoxFuture,
    commit::{Commit, Committed},
    database::{
        finding::Finding,
        migration::Migration,
        mysql::{
            Fault, Pool, checks, migrate,
            pool::{Repeat, Work},
        },
    },
    entity::{EntityRef, EntityType, Value},
    error::{Error, Result},
    history::{BaseQuery, Entry, HistoryStore},
    mapping::{Layout, Mapping},
    path::Path,
    registry::EntityRules,
    scope::Scope,
    snapshot::Snapshot,
    store::{
        ClaimAsk, Claimed, RecordStore, RegistryStore,
        mapped::{Layouts, misfit},
        prepare::Prepared,
    },
    token::{Fence, Generation, OperationId, VersionNumber},
};

/// The store.
pub struct MysqlStore {
    pool: Pool,
    sql: Arc<Statements>,
    place: String,
    layouts: Layouts,
}

impl MysqlStore {
    /// Connects to a database whose schema [`MysqlStore::migrate`] has made.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the server cannot be reached; `denied`, `session_changed`, and `no_schema`,
    /// `newer_schema` or `changed_schema` when the schema is not the one of this version.
    pub async fn connect(options: MysqlOptions) -> Result<Self> {
        let store = Self::unchecked(options)?;
        let place = store.place.clone();
        let check: Work<()> = Arc::new(move |conn| {
            let place = place.clone();
            Box::pin(async move { migrate::check(conn, &place).await })
        });
        store.run(Repeat::Harmless, None, check).await?;
        Ok(store)
    }

    /// Applies the migrations that are missing and answers their names. A migration that was interrupted is taken up
    /// again, and two programs may migrate at once. The user needs CREATE, CREATE ROUTINE, ALTER ROUTINE, SELECT and
    /// INSERT.
    ///
    /// # Errors
    /// As [`MysqlStore::connect`].
    pub async fn migrate(options: MysqlOptions) -> Result<Vec<&'static str>> {
        let store = Self::unchecked(options)?;
        let place = store.place.clone();
        let work: Work<Vec<&'static str>> = Arc::new(move |conn| {
            let place = place.clone();
            Box::pin(async move { migrate::migrate(conn, &place).await })
        });
        let names = store.run(Repeat::Harmless, None, work).await?;
        store.close().await;
        Ok(names)
    }

    /// The files its tables are made by, in order.
    #[must_use]
    pub fn migrations() -> &'static [Migration] {
        &migrate::MIGRATIONS
    }

    /// The migrations that are missing, in order; empty when the schema is up to date.
    ///
    /// # Errors
    /// As [`MysqlStore::connect`].
    pub async fn outstanding(options: MysqlOptions) -> Result<Vec<&'static str>> {
        let store = Self::unchecked(options)?;
        let place = store.place.clone();
        let work: Work<Vec<&'static str>> = Arc::new(move |conn| {
            let place = place.clone();
            Box::pin(async move {
                let missing = migrate::outstanding(conn, &place).await?;
                Ok(missing.iter().map(|file| file.name).collect())
            })
        });
        let names = store.run(Repeat::Harmless, None, work).await?;
        store.close().await;
        Ok(names)
    }

    /// Looks at the server as closely as can be without harm: version, schema, rights, settings, clock. Worst first.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the server cannot be reached; `denied`, `session_changed`.
    pub async fn checks(options: MysqlOptions) -> Result<Vec<Finding>> {
        let store = Self::unchecked(options.clone())?;
        let work: Work<Vec<Finding>> = Arc::new(move |conn| {
            let options = options.clone();
            Box::pin(async move { Ok(checks::findings(&checks::gather(conn, &options).await?)) })
        });
        let findings = store.run(Repeat::Harmless, None, work).await?;
        store.close().await;
        Ok(findings)
    }

    fn unchecked(options: MysqlOptions) -> Result<Self> {
        let place = options.place();
        let sql = Arc::new(Statements::standard().map_err(Error::internal)?);
        Ok(Self { pool: Pool::new(options), sql, place, layouts: Layouts::default() })
    }

    /// Finishes what is under way and closes the connections. Later calls answer `unavailable`.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    async fn run<T: Send + 'static>(
        &self,
        repeat: Repeat,
        operation: Option<OperationId>,
        work: Work<T>,
    ) -> Result<T> {
        let done = self.pool.run(repeat, work).await;
        done.map_err(|fault: Fault| fault.into_error(&self.place, operation))
    }
}

impl RecordStore for MysqlStore {
    fn load<'a>(&'a self, entity: &'a EntityRef) -> BoxFuture<'a, Result<Option<Snapshot>>> {
        let work = match self.layouts.of(&entity.kind) {
            Some(layout) => mapped::load(&self.sql, layout, entity),
            None => load::load(&self.sql, entity),
        };
        Box::pin(self.run(Repeat::Harmless, None, work))
    }

    fn claim<'a>(&'a self, ask: &'a ClaimAsk) -> BoxFuture<'a, Result<Claimed>> {
        let work = match self.layouts.of(&ask.scopes.entity().kind) {
            Some(layout) => mapped::claim(&self.sql, layout, ask),
            None => load::claim(&self.sql, ask),
        };
        Box::pin(self.run(Repeat::Harmless, None, work))
    }

    fn commit<'a>(&'a self, commit: &'a Commit) -> BoxFuture<'a, Result<Committed>> {
        Box::pin(async move {
            let save = Prepared::new(commit)?;
            let operation = save.operation;
            let work = match self.layouts.of(&save.entity.kind) {
                Some(layout) => mapped::commit(&self.sql, layout, save)?,
                None => commit::commit(&self.sql, &save, self.pool.packet_max())?,
            };
            self.run(Repeat::Never, Some(operation), work).await
        })
    }

    fn resolve(&self, operation: OperationId) -> BoxFuture<'_, Result<Option<Committed>>> {
        Box::pin(self.run(Repeat::Harmless, None, commit::resolve(&self.sql, operation)))
    }

    fn break_claim<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<Fence>> {
        Box::pin(self.run(Repeat::Harmless, None, load::break_claim(&self.sql, scope)))
    }

    fn map<'a>(
        &'a self,
        rules: &'a Arc<EntityRules>,
    ) -> BoxFuture<'a, Result<Option<Arc<Layout>>>> {
        Box::pin(async move {
            let Some(mapping) = Mapping::of(rules) else {
                self.layouts.keep(&rules.kind, None);
                return Ok(None);
            };
            let bound = self.run(Repeat::Harmless, None, mapped::bind(&self.sql, mapping)).await?;
            let layout = bound.map(Arc::new).map_err(|faults| misfit(&rules.kind, &faults))?;
            self.layouts.keep(&rules.kind, Some(Arc::clone(&layout)));
            Ok(Some(layout))
        })
    }
}

impl RegistryStore for MysqlStore {
    fn active<'a>(
        &'a self,
        kind: &'a EntityType,
    ) -> BoxFuture<'a, Result<Option<(Generation, String)>>> {
        Box::pin(self.run(Repeat::Harmless, None, registry::active(&self.sql, kind)))
    }

    fn activate<'a>(
        &'a self,
        kind: &'a EntityType,
        was: Option<Generation>,
        generation: Generation,
        text: &'a str,
        delay: Duration,
    ) -> BoxFuture<'a, Result<bool>> {
        let work = registry::activate(&self.sql, kind, was, generation, text, delay);
        Box::pin(self.run(Repeat::Never, None, work))
    }
}

impl HistoryStore for MysqlStore {
    fn entries<'a>(
        &'a self,
        entity: &'a EntityRef,
        before: Option<OperationId>,
        most: u32,
    ) -> BoxFuture<'a, Result<Vec<Entry>>> {
        let work = history::entries(&self.sql, entity, before, most);
        Box::pin(self.run(Repeat::Harmless, None, work))
    }

    fn blame<'a>(
        &'a self,
        entity: &'a EntityRef,
        paths: &'a [Path],
    ) -> BoxFuture<'a, Result<BTreeMap<Path, Entry>>> {
        Box::pin(self.run(Repeat::Harmless, None, history::blame(&self.sql, entity, paths)))
    }

    fn bases<'a>(
        &'a self,
        entity: &'a EntityRef,
        queries: &'a [BaseQuery],
    ) -> BoxFuture<'a, Result<BTreeMap<Path, Value>>> {
        Box::pin(self.run(Repeat::Harmless, None, history::bases(&self.sql, entity, queries)))
    }

    fn version<'a>(
        &'a self,
        entity: &'a EntityRef,
        number: VersionNumber,
    ) -> BoxFuture<'a, Result<Option<Entry>>> {
        Box::pin(self.run(Repeat::Harmless, None, history::version(&self.sql, entity, number)))
    }
}
