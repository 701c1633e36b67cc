//! One connection with its statements: runs transactions and says what became of them.

use std::{fs::File, sync::Arc};

use rusqlite::{Connection, Params, Row};

use crate::{
    clock::{Clock, StoreTime},
    error::Result,
    store::sqlite::{fault::Fault, place::Place, statements::Statements, words::Words},
    token::OperationId,
};

/// Statements a connection keeps prepared: more than there are, so that none is parsed twice.
const PREPARED_MAX: usize = 160;

/// A connection that belongs to one thread.
pub(super) struct Session {
    connection: Connection,
    statements: Arc<Statements>,
    clock: Arc<dyn Clock>,
    place: Place,
    words: Words,
    reopen: Reopen,
    /// A failed transaction could not be rolled back: the connection is opened again before the next one.
    broken: bool,
    /// Held as long as any session lives.
    _guard: Option<Arc<File>>,
}

/// Opens the connection again after it broke.
pub(super) type Reopen =
    Arc<dyn Fn() -> std::result::Result<Connection, rusqlite::Error> + Send + Sync>;

/// What a writing transaction ends with.
pub(super) enum End<T> {
    /// COMMIT, then answer.
    Keep(T),
    /// ROLLBACK, then answer.
    Undo(T),
}

/// A running transaction.
pub(super) struct Tx<'a> {
    connection: &'a Connection,
    pub(super) sql: &'a Statements,
    pub(super) words: &'a Words,
    pub(super) now: StoreTime,
}

impl Session {
    pub(super) fn new(
        connection: Connection,
        statements: Arc<Statements>,
        clock: Arc<dyn Clock>,
        place: Place,
        reopen: Reopen,
        guard: Option<Arc<File>>,
    ) -> Self {
        connection.set_prepared_statement_cache_capacity(PREPARED_MAX);
        Self {
            connection,
            statements,
            clock,
            place,
            words: Words::default(),
            reopen,
            broken: false,
            _guard: guard,
        }
    }

    /// A transaction that may write. It holds the write lock from its first statement, so it is never told
    /// half way that what it read is out of date.
    pub(super) fn write<T>(
        &mut self,
        operation: Option<OperationId>,
        body: impl FnOnce(&Tx<'_>) -> std::result::Result<End<T>, Fault>,
    ) -> Result<T> {
        let result = self.run("BEGIN IMMEDIATE", body);
        result.map_err(|fault| fault.into_error(&self.place.name(), operation))
    }

    /// A transaction that reads one moment.
    pub(super) fn read<T>(
        &mut self,
        body: impl FnOnce(&Tx<'_>) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        let result = self.run("BEGIN", |tx| body(tx).map(End::Undo));
        result.map_err(|fault| fault.into_error(&self.place.name(), None))
    }

    fn run<T>(
        &mut self,
        begin: &str,
        body: impl FnOnce(&Tx<'_>) -> std::result::Result<End<T>, Fault>,
    ) -> std::result::Result<T, Fault> {
        self.place.check()?;
        if self.broken {
            self.connection = (self.reopen)()?;
            self.connection.set_prepared_statement_cache_capacity(PREPARED_MAX);
            self.broken = false;
        }
        let result = self.transact(begin, body);
        if !self.connection.is_autocommit() && self.connection.execute_batch("ROLLBACK").is_err() {
            self.broken = true;
        }
        if matches!(result, Err(Fault::AtCommit(_))) {
            self.broken = true;
        }
        result
    }

    /// Leaves the transaction open when it fails, or ends with [`End::Undo`].
    fn transact<T>(
        &self,
        begin: &str,
        body: impl FnOnce(&Tx<'_>) -> std::result::Result<End<T>, Fault>,
    ) -> std::result::Result<T, Fault> {
        let connection = &self.connection;
        connection.prepare_cached(begin)?.execute([])?;
        let tx =
            Tx { connection, sql: &self.statements, words: &self.words, now: self.clock.wall() };
        match body(&tx)? {
            End::Undo(answer) => Ok(answer),
            End::Keep(answer) => {
                self.place.check()?;
                let mut commit = connection.prepare_cached("COMMIT")?;
                commit.execute([]).map_err(Fault::at_commit)?;
                Ok(answer)
            }
        }
    }
}

impl Tx<'_> {
    /// The first row, if there is one.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<Option<T>, Fault> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        match rows.next()? {
            Some(row) => read(row).map(Some),
            None => Ok(None),
        }
    }

    /// The only row of a statement that always answers one.
    pub(super) fn always<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Fault> {
        self.one(sql, params, read)?
            .ok_or_else(|| Fault::Broken(format!("a statement answered no row: {sql}")))
    }

    /// Every row.
    pub(super) fn each(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> std::result::Result<(), Fault>,
    ) -> std::result::Result<(), Fault> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            read(row)?;
        }
        Ok(())
    }

    /// A statement without rows; answers how many it changed.
    pub(super) fn change(
        &self,
        sql: &str,
        params: impl Params,
    ) -> std::result::Result<usize, Fault> {
        Ok(self.connection.prepare_cached(sql)?.execute(params)?)
    }
}
