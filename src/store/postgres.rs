//! Records, rules and history in PostgreSQL.
//!
//! Every call is one round trip to a routine of `schemas/sql/postgres`, which decides under the lock of the record's
//! row. Times are the server's clock. What a commit answered is as durable as the server's `synchronous_commit` says.

mod commit;
mod history;
mod keys;
mod load;
mod mapped;
mod rows;
mod statements;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio_postgres::types::Type;

use self::{mapped::Mapped, statements::Statements};
use crate::{
    clock::BoxFuture,
    commit::{Commit, Committed},
    database::{
        finding::Finding,
        migration::Migration,
        postgres::{
            Call, Class, Fault, Postgres, PostgresOptions, checks, migrate::FILES, no_schema,
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
pub struct PostgresStore {
    database: Postgres,
    statements: Arc<Statements>,
    layouts: Layouts,
}

impl PostgresStore {
    /// Connects, and sees that the database has our tables.
    ///
    /// # Errors
    /// `bad_url`, `store_options` and `bad_tls`; `denied`; `no_schema`,
    /// `changed_schema` and `newer_schema`; [`Error::Unavailable`] when the server cannot be reached.
    pub async fn connect(options: PostgresOptions) -> Result<Self> {
        let store = Self::new(options)?;
        let missing = store.database.missing().await?;
        if let Some(first) = missing.first() {
            let file = format!("{:04}_{}.sql is missing", first.number, first.name);
            return Err(no_schema(store.database.place(), &file));
        }
        Ok(store)
    }

    /// As [`PostgresStore::connect`], and makes the tables that are missing: for a role that may.
    ///
    /// # Errors
    /// As there, and `migration_failed`.
    pub async fn connect_and_migrate(options: PostgresOptions) -> Result<Self> {
        let store = Self::new(options)?;
        store.database.migrate().await?;
        Ok(store)
    }

    fn new(options: PostgresOptions) -> Result<Self> {
        let statements = Statements::standard().map_err(Error::internal)?;
        Ok(Self {
            database: Postgres::new(options)?,
            statements: Arc::new(statements),
            layouts: Layouts::default(),
        })
    }

    /// Applies the files of `schemas/sql/postgres` that are missing; answers their names. Two programs may migrate at once.
    ///
    /// # Errors
    /// `migration_failed`, `changed_schema`, `newer_schema`, and those of [`PostgresStore::connect`].
    pub async fn migrate(options: PostgresOptions) -> Result<Vec<&'static str>> {
        let done = Postgres::new(options)?.migrate().await?;
        Ok(done.iter().map(|file| file.name).collect())
    }

    /// The files its tables are made by, in order.
    #[must_use]
    pub fn migrations() -> &'static [Migration] {
        FILES
    }

    /// The migrations that are missing, in order; empty when the schema is up to date.
    ///
    /// # Errors
    /// As [`PostgresStore::migrate`].
    pub async fn outstanding(options: PostgresOptions) -> Result<Vec<&'static str>> {
        let missing = Postgres::new(options)?.missing().await?;
        Ok(missing.iter().map(|file| file.name).collect())
    }

    /// Looks at a server before records are trusted to it: what is in the way, and what would be lost; worst first.
    ///
    /// # Errors
    /// When it cannot be reached, and those of [`PostgresStore::migrate`].
    pub async fn checks(options: PostgresOptions) -> Result<Vec<Finding>> {
        let facts = checks::gather(&Postgres::new(options)?).await?;
        Ok(checks::findings(&facts))
    }

    /// Guard of a caller's own transaction: a commit inside it, in one round trip. A refusal is an answer and leaves
    /// the transaction as it was; nothing is durable before the caller commits, and locks are held until then.
    ///
    /// Under READ COMMITTED it behaves as [`RecordStore::commit`]. Under REPEATABLE READ and SERIALIZABLE a record that
    /// moved since the transaction began is an error of class 40001: roll back and begin again.
    ///
    /// # Errors
    /// [`Error::Contended`] for 40001 and 40P01, and those of a commit. After an error the transaction can only be
    /// rolled back.
    pub async fn commit_in(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        commit: &Commit,
    ) -> Result<Committed> {
        let save = Prepared::new(commit)?;
        let call = commit::call(&self.statements, &save).map_err(|fault| self.error(fault))?;
        let rows = transaction.query_typed(call.sql(), &call.typed()).await;
        let rows = rows.map_err(|error| match Fault::of(&error) {
            fault if fault.class == Class::Again => Error::Contended { attempts: 1 },
            fault => self.error(fault),
        })?;
        commit::answer(&save, rows.first()).map_err(|fault| self.error(fault))
    }

    /// Closes idle connections, and busy ones when they are done. Later calls answer `unavailable`.
    pub fn close(&self) {
        self.database.close();
    }

    fn mapped(&self, kind: &EntityType) -> Option<Mapped> {
        let (database, sql) = (self.database.clone(), self.statements.clone());
        self.layouts.of(kind).map(|layout| Mapped { database, sql, layout })
    }

    fn error(&self, fault: Fault) -> Error {
        fault.into_error(self.database.place(), None)
    }
}

impl RecordStore for PostgresStore {
    fn load<'a>(&'a self, entity: &'a EntityRef) -> BoxFuture<'a, Result<Option<Snapshot>>> {
        Box::pin(async move {
            if let Some(mapped) = self.mapped(&entity.kind) {
                return mapped.load(entity.clone()).await.map_err(|fault| self.error(fault));
            }
            let row = self.database.row(load::load_call(&self.statements, entity)).await;
            let loaded = row.and_then(|row| row.map(|row| load::loaded(entity, &row)).transpose());
            loaded.map_err(|fault| self.error(fault))
        })
    }

    fn claim<'a>(&'a self, ask: &'a ClaimAsk) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(async move {
            if let Some(mapped) = self.mapped(&ask.scopes.entity().kind) {
                return mapped.claim(ask.clone()).await.map_err(|fault| self.error(fault));
            }
            let row = self.database.row(load::claim_call(&self.statements, ask)).await;
            row.and_then(|row| load::claimed(ask, row.as_ref())).map_err(|fault| self.error(fault))
        })
    }

    fn commit<'a>(&'a self, commit: &'a Commit) -> BoxFuture<'a, Result<Committed>> {
        Box::pin(async move {
            let save = Prepared::new(commit)?;
            if let Some(mapped) = self.mapped(&save.entity.kind) {
                return mapped.commit(save).await;
            }
            let call = commit::call(&self.statements, &save).map_err(|fault| self.error(fault))?;
            let row = self.database.row(call).await;
            row.and_then(|row| commit::answer(&save, row.as_ref()))
                .map_err(|fault| fault.into_error(self.database.place(), Some(save.operation)))
        })
    }

    fn resolve(&self, operation: OperationId) -> BoxFuture<'_, Result<Option<Committed>>> {
        Box::pin(async move {
            let call = Call::new(&self.statements.resolve)
                .with(Type::UUID, rows::operation_column(operation));
            let row = self.database.row(call).await;
            row.and_then(|row| row.map(|row| commit::resolved(&row)).transpose())
                .map_err(|fault| self.error(fault))
        })
    }

    fn break_claim<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<Fence>> {
        Box::pin(async move {
            let row = self.database.row(load::break_call(&self.statements, scope)).await;
            row.and_then(|row| rows::fence(rows::the_row(row.as_ref())?, 0))
                .map_err(|fault| self.error(fault))
        })
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
            let bound = mapped::bind(&self.database, &self.statements, &mapping).await;
            let bound = bound.map_err(|fault| self.error(fault))?;
            let layout = bound.map(Arc::new).map_err(|faults| misfit(&rules.kind, &faults))?;
            self.layouts.keep(&rules.kind, Some(Arc::clone(&layout)));
            Ok(Some(layout))
        })
    }
}

impl RegistryStore for PostgresStore {
    fn active<'a>(
        &'a self,
        kind: &'a EntityType,
    ) -> BoxFuture<'a, Result<Option<(Generation, String)>>> {
        Box::pin(async move {
            let call =
                Call::new(&self.statements.registry).with(Type::TEXT, kind.as_str().to_owned());
            let row = self.database.row(call).await;
            let read = |row: tokio_postgres::Row| {
                Ok((rows::generation(&row, 0)?, rows::column::<String>(&row, 1)?))
            };
            row.and_then(|row| row.map(read).transpose()).map_err(|fault| self.error(fault))
        })
    }

    fn activate<'a>(
        &'a self,
        kind: &'a EntityType,
        was: Option<Generation>,
        generation: Generation,
        text: &'a str,
        delay: Duration,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let call = Call::new(&self.statements.activate)
                .with(Type::TEXT, kind.as_str().to_owned())
                .with(Type::BYTEA, was.map(|was| was.0.to_vec()))
                .with(Type::BYTEA, generation.0.to_vec())
                .with(Type::TEXT, rows::plain(text).map_err(|fault| self.error(fault))?)
                .with(Type::INT8, i64::try_from(delay.as_micros()).unwrap_or(i64::MAX));
            let row = self.database.row(call).await;
            row.and_then(|row| rows::column(rows::the_row(row.as_ref())?, 0))
                .map_err(|fault| self.error(fault))
        })
    }
}

impl HistoryStore for PostgresStore {
    fn entries<'a>(
        &'a self,
        entity: &'a EntityRef,
        before: Option<OperationId>,
        most: u32,
    ) -> BoxFuture<'a, Result<Vec<Entry>>> {
        Box::pin(async move {
            let found =
                self.database.rows(history::entries_call(&self.statements, entity, before, most));
            let found = found.await.and_then(|rows| history::entries(&rows));
            let found = found.map_err(|fault| self.error(fault))?;
            let Some(before) = before.filter(|_| found.is_empty()) else { return Ok(found) };
            let call = Call::new(&self.statements.operation)
                .with(Type::UUID, rows::operation_column(before));
            match self.database.row(call).await.map_err(|fault| self.error(fault))? {
                Some(_) => Ok(found),
                None => Err(Error::invalid(
                    "bad_cursor",
                    format!("there is no operation {before} to go on from"),
                    "begin with the newest entry",
                )),
            }
        })
    }

    fn blame<'a>(
        &'a self,
        entity: &'a EntityRef,
        paths: &'a [Path],
    ) -> BoxFuture<'a, Result<BTreeMap<Path, Entry>>> {
        Box::pin(async move {
            let rows =
                self.database.rows(history::blame_call(&self.statements, entity, paths)).await;
            rows.and_then(|rows| history::blamed(paths, &rows)).map_err(|fault| self.error(fault))
        })
    }

    fn bases<'a>(
        &'a self,
        entity: &'a EntityRef,
        queries: &'a [BaseQuery],
    ) -> BoxFuture<'a, Result<BTreeMap<Path, Value>>> {
        Box::pin(async move {
            let rows =
                self.database.rows(history::bases_call(&self.statements, entity, queries)).await;
            rows.and_then(|rows| history::bases(queries, &rows)).map_err(|fault| self.error(fault))
        })
    }

    fn version<'a>(
        &'a self,
        entity: &'a EntityRef,
        number: VersionNumber,
    ) -> BoxFuture<'a, Result<Option<Entry>>> {
        Box::pin(async move {
            let call = history::version_call(&self.statements, entity, number);
            let row = self.database.row(call.map_err(|fault| self.error(fault))?).await;
            row.and_then(|row| row.map(|row| history::entry(&row, 0)).transpose())
                .map_err(|fault| self.error(fault))
        })
    }
}

/// History is not shortened here yet.
impl crate::upkeep::UpkeepStore for PostgresStore {}

/// Saves do not wait here yet.
impl crate::queue::QueueStore for PostgresStore {}

/// Nobody is told here yet what has to be computed again.
impl crate::queue::Outbox for PostgresStore {}
