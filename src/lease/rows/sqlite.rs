//! Leases in a SQLite file, for several processes of one machine.
//!
//! One connection behind a lock does everything. SQLite wakes nobody: waiters of other processes hear within 50 ms that
//! it is their turn, as each process looks for notices that often while one of its own waits, and twice a second while
//! one of its own holds.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::{BoxFuture, Clock, Moment},
    database::named,
    entity::{EntityId, EntityRef, EntityType},
    error::{Error, Result},
    lease::rows::{
        RowLeases, RowOptions,
        line::{Ear, Line, Lines, Page, Write},
        poll::{self, Notice, Notices},
    },
};

/// How long a step waits while another process writes to the file.
const BUSY: Duration = Duration::from_secs(5);
/// Whose file it is: the same number as of the record store, which may use the same file.
const APPLICATION_ID: i32 = 0x666c_6473;

/// Opens a file, or makes it; it may be the record store's. Blocks for a few milliseconds.
///
/// # Errors
/// [`Error::Invalid`] when it cannot be opened or is another program's.
pub fn open(path: impl AsRef<Path>, options: RowOptions) -> Result<RowLeases> {
    let path = path.as_ref().to_owned();
    let texts = named::split(include_str!("sql/sqlite.sql")).map_err(Error::internal)?;
    let connection = connect(&path, &texts)?;
    let namespace = options.namespace.clone();
    let file = Arc::new(Rows { connection: Mutex::new(connection), texts, path, namespace });
    let clock = options.clock.clone();
    Ok(RowLeases::new(Arc::new(SqliteLines { file, clock }), options))
}

struct SqliteLines {
    file: Arc<Rows>,
    clock: Arc<dyn Clock>,
}

struct Rows {
    connection: Mutex<Connection>,
    texts: BTreeMap<&'static str, String>,
    path: PathBuf,
    namespace: String,
}

type Sql<T> = std::result::Result<T, rusqlite::Error>;

fn connect(path: &Path, texts: &BTreeMap<&'static str, String>) -> Result<Connection> {
    let refused = |error: rusqlite::Error| {
        let message = format!("cannot open `{}` for leases: {error}", path.display());
        Error::invalid(
            "cannot_open",
            message,
            "name a file of our own in a folder that may be written to",
        )
    };
    let connection = Connection::open(path).map_err(refused)?;
    connection.busy_timeout(BUSY).map_err(refused)?;
    let owner: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(refused)?;
    let objects: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(refused)?;
    if owner != APPLICATION_ID && (owner != 0 || objects != 0) {
        return Err(Error::invalid(
            "foreign_file",
            format!("`{}` is a database of another program", path.display()),
            "name a file of our own; it is made when it does not exist",
        ));
    }
    connection.pragma_update(None, "journal_mode", "WAL").map_err(refused)?;
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(refused)?;
    let schema = texts.get("schema").map(String::as_str).unwrap_or_default();
    connection.execute_batch(schema).map_err(refused)?;
    if owner != APPLICATION_ID {
        connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(refused)?;
    }
    connection.set_prepared_statement_cache_capacity(texts.len());
    Ok(connection)
}

impl Rows {
    fn sql(&self, name: &str) -> &str {
        self.texts.get(name).map(String::as_str).unwrap_or_default()
    }

    fn read(&self, connection: &Connection, entities: &[EntityRef]) -> Sql<Vec<Line>> {
        let mut statement = connection.prepare_cached(self.sql("line"))?;
        let mut lines = Vec::with_capacity(entities.len());
        for entity in entities {
            let found = statement
                .query_row((&self.namespace, entity.kind.as_str(), entity.id.as_str()), |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .optional()?;
            let (revision, text) =
                found.map_or((0, None), |(revision, text)| (revision, Some(text)));
            lines.push(Line { entity: entity.clone(), revision, text });
        }
        Ok(lines)
    }

    fn page(
        &self,
        connection: &Connection,
        from: Option<&EntityRef>,
        most: usize,
    ) -> Sql<Vec<Line>> {
        let (kind, id) = from.map_or(("", ""), |from| (from.kind.as_str(), from.id.as_str()));
        let mut statement = connection.prepare_cached(self.sql("page"))?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = statement.query_map((&self.namespace, kind, id, most), |row| {
            let (kind, id): (String, String) = (row.get(0)?, row.get(1)?);
            Ok((kind, id, row.get(2)?, row.get(3)?))
        })?;
        let mut lines = Vec::new();
        for row in rows {
            let (kind, id, revision, text) = row?;
            // A name that is none of ours was not written by us.
            let (Ok(kind), Ok(id)) = (EntityType::new(&kind), EntityId::new(&id)) else { continue };
            lines.push(Line { entity: EntityRef { kind, id }, revision, text: Some(text) });
        }
        Ok(lines)
    }

    fn write(&self, connection: &mut Connection, writes: &[Write], now: i64) -> Sql<Vec<bool>> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut done = Vec::with_capacity(writes.len());
        for write in writes {
            let (kind, id) = (write.entity.kind.as_str(), write.entity.id.as_str());
            let space = &self.namespace;
            let changed = match (&write.text, write.was) {
                (Some(text), 0) => transaction
                    .prepare_cached(self.sql("insert"))?
                    .execute(params![space, kind, id, write.revision, text, write.until])?,
                (Some(text), was) => transaction
                    .prepare_cached(self.sql("update"))?
                    .execute(params![space, kind, id, write.revision, text, write.until, was])?,
                (None, was) => transaction
                    .prepare_cached(self.sql("delete"))?
                    .execute(params![space, kind, id, was])?,
            };
            if changed == 1 && !write.notice.is_empty() {
                transaction
                    .prepare_cached(self.sql("tell"))?
                    .execute(params![write.notice, now])?;
            }
            done.push(changed == 1);
        }
        transaction.commit()?;
        Ok(done)
    }

    fn newest(&self, connection: &Connection) -> Sql<i64> {
        connection.prepare_cached(self.sql("newest"))?.query_row([], |row| row.get(0))
    }

    fn told(&self, connection: &Connection, after: i64) -> Sql<Vec<Notice>> {
        let mut statement = connection.prepare_cached(self.sql("told"))?;
        let rows = statement.query_map([after], |row| {
            // One writer at a time: numbers are committed in their order.
            Ok(Notice { number: row.get(0)?, told: row.get(1)?, old: true })
        })?;
        rows.collect()
    }

    fn sweep(&self, connection: &Connection, before: i64) -> Sql<()> {
        connection.prepare_cached(self.sql("sweep"))?.execute([before])?;
        connection.prepare_cached(self.sql("sweep_notices"))?.execute([before])?;
        Ok(())
    }
}

impl SqliteLines {
    /// Runs on a thread that may block.
    async fn run<T: Send + 'static>(
        &self,
        body: impl FnOnce(&Rows, &mut Connection) -> Sql<T> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(&self.file);
        let ran = tokio::task::spawn_blocking(move || {
            let mut connection = file.connection.lock().unwrap_or_else(PoisonError::into_inner);
            body(&file, &mut connection).map_err(|error| {
                let file = file.path.display();
                Error::unavailable(format!("leases in `{file}` are not available: {error}"))
            })
        });
        match ran.await {
            Ok(answer) => answer,
            Err(error) => Err(Error::unavailable(format!("leases were not asked: {error}"))),
        }
    }

    fn micros(&self) -> i64 {
        self.clock.wall().0
    }

    fn now(&self) -> Moment {
        Moment(Duration::from_micros(u64::try_from(self.micros()).unwrap_or(0)))
    }
}

impl Notices for SqliteLines {
    fn newest(&self) -> BoxFuture<'_, Result<i64>> {
        Box::pin(self.run(|file, connection| file.newest(connection)))
    }

    fn told(&self, after: i64) -> BoxFuture<'_, Result<Vec<Notice>>> {
        Box::pin(self.run(move |file, connection| file.told(connection, after)))
    }
}

impl Lines for SqliteLines {
    fn read<'a>(&'a self, entities: &'a [EntityRef]) -> BoxFuture<'a, Result<Page>> {
        Box::pin(async move {
            let entities = entities.to_vec();
            let lines = self.run(move |file, connection| file.read(connection, &entities)).await?;
            Ok(Page { now: self.now(), lines })
        })
    }

    fn page<'a>(&'a self, from: Option<&'a EntityRef>, most: usize) -> BoxFuture<'a, Result<Page>> {
        Box::pin(async move {
            let from = from.cloned();
            let page = self.run(move |file, connection| file.page(connection, from.as_ref(), most));
            Ok(Page { lines: page.await?, now: self.now() })
        })
    }

    fn write<'a>(&'a self, writes: &'a [Write]) -> BoxFuture<'a, Vec<Result<bool>>> {
        Box::pin(async move {
            if writes.is_empty() {
                return Vec::new();
            }
            let (owned, now) = (writes.to_vec(), self.micros());
            match self.run(move |file, connection| file.write(connection, &owned, now)).await {
                Ok(done) => done.into_iter().map(Ok).collect(),
                Err(error) => {
                    writes.iter().map(|_| Err(Error::unavailable(error.to_string()))).collect()
                }
            }
        })
    }

    fn listen<'a>(&'a self, ear: &'a dyn Ear, end: CancellationToken) -> BoxFuture<'a, Result<()>> {
        Box::pin(poll::listen(self, &*self.clock, ear, end))
    }

    fn sweep(&self, ended: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let before =
                self.micros().saturating_sub(i64::try_from(ended.as_micros()).unwrap_or(i64::MAX));
            self.run(move |file, connection| file.sweep(connection, before)).await
        })
    }
}
