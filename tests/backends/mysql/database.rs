//! A database with our schema, on the server all tests share or on one with settings of its own.

use std::sync::Arc;

use fieldlease::store::mysql::{MysqlOptions, MysqlStore};

use crate::servers::{Database, Dialect};

/// Tables that saves fill.
const TABLES: [&str; 15] = [
    "fl_entity",
    "fl_leaf",
    "fl_scope",
    "fl_stamp",
    "fl_operation",
    "fl_void",
    "fl_change",
    "fl_version",
    "fl_registry",
    "fl_key",
    "fl_queue",
    "fl_queue_scope",
    "fl_outbox",
    "fl_outbox_reader",
    "fl_erasure",
];

/// A new database on the shared server, and its store.
pub(super) async fn fresh() -> (Database<'static>, Arc<MysqlStore>) {
    let database = Database::new(Dialect::MariaDb);
    let store = store(&database).await;
    (database, store)
}

/// The store of a database that gets our schema now.
pub(super) async fn store(database: &Database<'_>) -> Arc<MysqlStore> {
    MysqlStore::migrate(options(database)).await.unwrap();
    Arc::new(MysqlStore::connect(options(database)).await.unwrap())
}

pub(super) fn options(database: &Database<'_>) -> MysqlOptions {
    MysqlOptions::new(&database.url()).unwrap().connections(16)
}

/// Removes what saves have left.
pub(super) fn empty(database: &Database<'_>) {
    let statements: Vec<_> = TABLES.iter().map(|table| format!("DELETE FROM {table}")).collect();
    database.sql(&statements.join(";"));
}
