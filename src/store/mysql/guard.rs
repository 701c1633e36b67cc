//! Guard mode: a save of ours inside a transaction of the CMS.

use std::sync::Arc;

use mysql_async::{Conn, prelude::Queryable};

use crate::{
    commit::{Commit, Committed},
    database::mysql::{Fault, session},
    error::{Error, Result},
    store::{
        mysql::{commit, encode, rows::Sets, statements::Statements},
        prepare::Prepared,
    },
};

/// Saves inside transactions that others began, at any isolation level and any settings of the session.
///
/// The caller's transaction decides: what [`MysqlGuard::commit_in`] applied is there when it commits, and gone when it
/// rolls back. A refusal leaves nothing of the save and the caller's own work as it was.
#[derive(Clone)]
pub struct MysqlGuard {
    sql: Arc<Statements>,
}

impl MysqlGuard {
    /// Needs no connection of its own; the schema must be there.
    ///
    /// # Errors
    /// A defect of the build only.
    pub fn new() -> Result<Self> {
        Ok(Self { sql: Arc::new(Statements::standard().map_err(Error::internal)?) })
    }

    /// Applies the save inside the transaction that is open on this connection.
    ///
    /// # Errors
    /// `no_transaction` when none is open. `unavailable` after a deadlock or a lock timeout, or when rows changed since
    /// the snapshot of a transaction under `innodb_snapshot_isolation`: the transaction must be rolled back and begun
    /// anew. Everything else as [`crate::store::RecordStore::commit`]; after any error the caller has to roll back.
    pub async fn commit_in(&self, transaction: &mut Conn, save: &Commit) -> Result<Committed> {
        let save = Prepared::new(save)?;
        commit::check(&save)?;
        let fault = |fault: Fault| fault.into_error("the caller's connection", None);
        let params = encode::params(&save).map_err(fault)?;
        let open: Option<u8> = transaction
            .query_first("SELECT @@in_transaction")
            .await
            .or_else(|_| Ok::<_, mysql_async::Error>(Some(1)))
            .unwrap_or_default();
        if open == Some(0) {
            return Err(Error::invalid(
                "no_transaction",
                "a save inside a transaction was asked for, and none is open",
                "begin one first, or use `RecordStore::commit`",
            ));
        }
        let sets = session::sets(transaction, &self.sql.commit_in, params).await.map_err(fault)?;
        let mut sets = Sets::new(sets);
        commit::committed(&mut sets, save.operation).map_err(fault)
    }
}
