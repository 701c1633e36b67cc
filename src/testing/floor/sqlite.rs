//! The floor on SQLite: one connection per user, as other processes would have one.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rusqlite::{Connection, TransactionBehavior, params};

use crate::{
    clock::BoxFuture,
    database::named,
    error::{Error, Result},
    store::sqlite::Synchronous,
    testing::floor::{DATA, Floor, FloorUser, disturbed},
};

/// How long a connection waits for another one's transaction.
const BUSY_MAX: Duration = Duration::from_secs(30);

/// A file.
pub struct SqliteFloor {
    file: PathBuf,
    synchronous: Synchronous,
    sql: Arc<Statements>,
}

struct Statements {
    make: String,
    row: String,
    drop: String,
    update: String,
    select: String,
    insert: String,
}

impl SqliteFloor {
    /// In this file; `fl_bench..` are the only tables touched.
    ///
    /// # Errors
    /// When the statements of this library are damaged.
    pub fn new(file: impl AsRef<Path>, synchronous: Synchronous) -> Result<Self> {
        let all = named::split(include_str!("floor_sqlite.sql")).map_err(Error::internal)?;
        let get = |name: &str| all.get(name).cloned().unwrap_or_default();
        let sql = Statements {
            make: get("make"),
            row: get("row"),
            drop: get("drop"),
            update: get("update"),
            select: get("select"),
            insert: get("insert"),
        };
        Ok(Self { file: file.as_ref().to_owned(), synchronous, sql: Arc::new(sql) })
    }

    fn open(&self) -> Result<Connection> {
        let connection = Connection::open(&self.file).map_err(fault)?;
        connection.busy_timeout(BUSY_MAX).map_err(fault)?;
        connection.pragma_update(None, "journal_mode", "wal").map_err(fault)?;
        let synchronous = match self.synchronous {
            Synchronous::Normal => "normal",
            Synchronous::Full => "full",
        };
        connection.pragma_update(None, "synchronous", synchronous).map_err(fault)?;
        Ok(connection)
    }
}

impl Floor for SqliteFloor {
    fn prepare(&self, rows: u32) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let connection = self.open()?;
            connection.execute_batch(&self.sql.make).map_err(fault)?;
            for row in 0..rows {
                connection.execute(&self.sql.row, params![row]).map_err(fault)?;
            }
            Ok(())
        })
    }

    fn user(&self, row: u32) -> BoxFuture<'_, Result<Box<dyn FloorUser>>> {
        Box::pin(async move {
            let user =
                User { connection: Some(self.open()?), sql: self.sql.clone(), row, version: 0 };
            Ok(Box::new(user) as Box<dyn FloorUser>)
        })
    }

    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.open()?.execute_batch(&self.sql.drop).map_err(fault) })
    }
}

struct User {
    connection: Option<Connection>,
    sql: Arc<Statements>,
    row: u32,
    version: i64,
}

impl User {
    /// SQLite blocks: its work is done beside the runtime.
    async fn blocking(
        &mut self,
        work: impl FnOnce(&mut Connection, &Statements, u32, i64) -> rusqlite::Result<usize>
        + Send
        + 'static,
    ) -> Result<()> {
        let Some(mut connection) = self.connection.take() else { return Err(disturbed()) };
        let (sql, row, version) = (self.sql.clone(), self.row, self.version);
        let task = tokio::task::spawn_blocking(move || {
            let done = work(&mut connection, &sql, row, version);
            (connection, done)
        });
        let (connection, done) = task.await.map_err(|error| Error::internal(error.to_string()))?;
        self.connection = Some(connection);
        if done.map_err(fault)? != 1 {
            return Err(disturbed());
        }
        self.version += 1;
        Ok(())
    }
}

impl FloorUser for User {
    fn bare_update(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.blocking(|connection, sql, row, version| {
            connection.prepare_cached(&sql.update)?.execute(params![row, version, DATA])
        }))
    }

    fn transaction(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.blocking(|connection, sql, row, _| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let version: i64 =
                transaction.prepare_cached(&sql.select)?.query_row([row], |row| row.get(0))?;
            let updated =
                transaction.prepare_cached(&sql.update)?.execute(params![row, version, DATA])?;
            transaction.prepare_cached(&sql.insert)?.execute(params![row, version, DATA])?;
            transaction.commit()?;
            Ok(updated)
        }))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
fn fault(error: rusqlite::Error) -> Error {
    Error::unavailable(format!("the file of the benchmark: {error}"))
}
