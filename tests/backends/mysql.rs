//! The store on MariaDB: the suites with the server's defaults and with hostile ones, and with procedures that lack a
//! comparison.

mod controls;
mod database;
mod engine;
mod faults;
mod queue;
mod races;
mod save;
mod server;
mod upkeep;
mod wire;

use std::time::Duration;

use fieldlease::testing::{
    key_suite::{self, Rig},
    queue_suite,
    store_suite::{self, Stores},
};

use crate::servers::{Database, DatabaseSetup, Dialect};

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_keeps_every_promise() {
    let (database, store) = database::fresh().await;
    let fresh = || {
        database::empty(&database);
        Stores::of(store.clone())
    };

    assert_eq!(store_suite::failures(store_suite::cases(), fresh).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_keeps_every_promise_about_keys() {
    let (database, store) = database::fresh().await;

    assert_eq!(key_suite::failures(key_suite::cases(), || rig(&database, &store)).await, []);
}

fn rig(
    database: &Database<'static>,
    store: &std::sync::Arc<fieldlease::store::mysql::MysqlStore>,
) -> Rig {
    database::empty(database);
    let (server, name) = (database.server, database.name.clone());
    let advance = move |time: Duration| -> fieldlease::clock::BoxFuture<'static, _> {
        let database = Database { server, name: name.clone() };
        let us = time.as_micros();
        Box::pin(async move {
            database.sql(&format!(
                "UPDATE fl_key SET until_at = until_at - {us}, created_at = created_at - {us}"
            ));
            Ok(())
        })
    };
    Rig::of(store.clone()).advancing(std::sync::Arc::new(advance))
}

/// Whatever the server's defaults are, a session of ours has its own, and so has what is written inside the procedures.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_hostile_settings_changes_nothing() {
    let hostile = [
        ("transaction_isolation", "REPEATABLE-READ"),
        ("sql_mode", "ANSI,SIMULTANEOUS_ASSIGNMENT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH"),
        ("innodb_snapshot_isolation", "1"),
        ("autocommit", "0"),
        ("character_set_server", "latin1"),
        ("collation_server", "latin1_swedish_ci"),
        ("default_time_zone", "-07:30"),
        ("lower_case_table_names", "1"),
        ("innodb_lock_wait_timeout", "1"),
        ("group_concat_max_len", "16"),
        ("log_bin", "log"),
        ("binlog_format", "MIXED"),
    ];
    let setup = DatabaseSetup::new(Dialect::MariaDb);
    let server =
        hostile.iter().fold(setup, |setup, (name, value)| setup.setting(name, value)).start();
    let database = server.database();
    let store = database::store(&database).await;
    let fresh = || {
        database.sql("SET autocommit = 1");
        empty_by_hand(&database);
        Stores::of(store.clone())
    };

    assert_eq!(store_suite::failures(store_suite::cases(), fresh).await, []);
}

/// The administrator's client commits nothing by itself there.
fn empty_by_hand(database: &Database<'_>) {
    let tables = database.rows("SHOW TABLES LIKE 'fl\\_%'");
    let names = tables.into_iter().flatten();
    let names = names.filter(|name| name != "fl_migration" && name != "fl_probe");
    let deletes: String = names.map(|name| format!("DELETE FROM {name};")).collect();
    database.sql(&format!("SET autocommit = 1; {deletes}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_keeps_every_promise_about_waiting_saves_and_events() {
    let (database, store) = database::fresh().await;
    let fresh = || {
        database::empty(&database);
        queue_suite::Rig::of(store.clone())
    };

    assert_eq!(queue_suite::failures(queue_suite::cases(), fresh).await, []);
}
