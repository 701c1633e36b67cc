//! A connection or a statement that is ended in the middle of a save, a foreign transaction that locks in the other order,
//! a server without room for another connection: no half save, and an outcome that can be asked for.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    commit::{Commit, Committed, Refusal},
    entity::Value,
    snapshot::Snapshot,
    store::{
        RecordStore,
        mysql::{MysqlOptions, MysqlStore},
    },
};
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use super::{
    database,
    races::{alone, until_somebody_waits},
    save::*,
};
use crate::servers::{Database, DatabaseSetup, Dialect, Session, pause, until};

/// Everything a save of `1` writes, as the tables have it.
fn traces(database: &Database<'_>) -> String {
    let tables = ["fl_leaf", "fl_stamp", "fl_change", "fl_operation", "fl_version", "fl_outbox"];
    let counts = tables.map(|table| format!("SELECT '{table}', COUNT(*) FROM {table}"));
    let scopes = "SELECT scope, version FROM fl_scope ORDER BY scope";
    let leaves = "SELECT path, value FROM fl_leaf ORDER BY path";
    database.sql(&format!("{}; {scopes}; {leaves}", counts.join(" UNION ALL ")))
}

/// Where a save is when it is stopped: behind a row that somebody else holds.
const POINTS: [(&str, &str); 6] = [
    ("before it compares", "SELECT * FROM fl_registry FOR UPDATE"),
    ("at its entity", "SELECT * FROM fl_entity FOR UPDATE"),
    ("between its two scopes", "SELECT * FROM fl_scope WHERE scope = 'stock' FOR UPDATE"),
    ("with versions written", "SELECT * FROM fl_stamp WHERE path = 'price.sum' FOR UPDATE"),
    ("with one stamp written", "SELECT * FROM fl_stamp WHERE path = 'stock.sum' FOR UPDATE"),
    ("with all but the last leaf", "SELECT * FROM fl_leaf WHERE path = 'stock.sum' FOR UPDATE"),
];

fn both(before: &Snapshot, value: u64) -> Commit {
    let values = [("price.sum", json!(value)), ("stock.sum", json!(value))];
    save(before, &worker(), &values)
}

async fn stand(database: &Database<'_>) -> (Arc<MysqlStore>, Snapshot) {
    let store = database::store(database).await;
    let values = [("price.sum", json!(0)), ("stock.sum", json!(0))];
    let before = made(&store, "1", &values).await;
    database.sql("INSERT INTO fl_registry VALUES ('Product', REPEAT(CHAR(1), 32), '', 0, NULL)");
    (store, before)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_whose_statement_or_connection_is_killed_at_any_point_leaves_nothing_of_it() {
    let (server, name) = alone().await;
    let database = Database { server: &server, name };
    let (store, mut before) = stand(&database).await;

    for (at, lock) in POINTS {
        for kill in ["KILL QUERY", "KILL CONNECTION", "KILL HARD CONNECTION"] {
            let untouched = traces(&database);
            let mut holder: Session = database.session();
            holder.run(&format!("START TRANSACTION; {lock}"));
            let commit = both(&before, 7);
            let (sending, sent) = (store.clone(), commit.clone());
            let answer = tokio::spawn(async move { sending.commit(&sent).await });

            let waiting = until_somebody_waits(&database);
            database.sql(&format!("{kill} {waiting}"));

            let error = answer.await.unwrap().unwrap_err();
            assert_eq!(error.code(), "outcome_unknown", "{kill} {at}: {error}");
            holder.run("ROLLBACK");
            assert_eq!(store.resolve(commit.operation).await.unwrap(), None, "{kill} {at}");
            assert_eq!(traces(&database), untouched, "{kill} {at}");
            // The name is spent, the work is not.
            assert_eq!(store.commit(&commit).await.unwrap_err().code(), "unavailable");
            applied(&store, &both(&before, 8)).await;
            before = seen(&store, "1").await;
        }
    }
}

/// Adds one and asks for the operation whenever the outcome is not known, as the engine does. Answers how often it was
/// not known, and how often it then had taken effect.
async fn add_under_kills(store: &MysqlStore, id: &str, times: u64) -> (u64, u64) {
    let (mut left, mut unknown, mut was_made) = (times, 0, 0);
    while left > 0 {
        let Ok(Some(now)) = store.load(&product(id)).await else { continue };
        let sum = now.record.get(&path("price.sum")).json().and_then(Json::as_u64).unwrap_or(0);
        let commit = save(&now, &worker(), &[("price.sum", json!(sum + 1))]);
        match store.commit(&commit).await {
            Ok(Committed::Applied { .. }) => left -= 1,
            Ok(Committed::Refused(Refusal::Stale(_))) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) if error.code() == "outcome_unknown" => {
                unknown += 1;
                let outcome = loop {
                    if let Ok(outcome) = store.resolve(commit.operation).await {
                        break outcome;
                    }
                };
                was_made += u64::from(outcome.is_some());
                left -= u64::from(outcome.is_some());
            }
            Err(error) => assert_eq!(error.code(), "unavailable", "{error}"),
        }
    }
    (unknown, was_made)
}

#[tokio::test(flavor = "multi_thread")]
async fn saves_under_a_storm_of_kills_are_made_once_each_or_not_at_all() {
    let (server, name) = alone().await;
    let database = Database { server: &server, name };
    let store = database::store(&database).await;
    made(&store, "1", &[("price.sum", json!(0))]).await;
    let mut writers = JoinSet::new();
    for _ in 0..4 {
        let store = store.clone();
        writers.spawn(async move { add_under_kills(&store, "1", 60).await });
    }

    let ended = tokio::spawn(writers.join_all());
    let mut killer = database.session();
    let mut turn = 0_usize;
    while !ended.is_finished() {
        let victims: Vec<_> =
            database.connected().into_iter().filter(|it| it.state != "Sleep").collect();
        if let Some(victim) = victims.get(turn % victims.len().max(1)) {
            let what = ["QUERY", "CONNECTION"][turn % 2];
            killer.run(&format!("KILL {what} {}", victim.id));
        }
        turn += 1;
    }
    let counts = ended.await.unwrap();

    let after = seen(&store, "1").await;
    assert_eq!(after.record.get(&path("price.sum")), Value::Present(json!(240)));
    assert_eq!(after.version(&scope("price")).0, 241);
    assert_eq!(database.number("SELECT COUNT(*) FROM fl_operation"), 241);
    assert_eq!(database.number("SELECT COUNT(*) FROM fl_change WHERE path = 'price.sum'"), 241);
    let unknown: u64 = counts.iter().map(|(unknown, _)| unknown).sum();
    assert!(unknown > 0, "nobody was killed in the middle of a save");
}

/// The foreign transaction has the scope and wants the entity; the save has the entity and wants the scope.
async fn crossed(database: &Database<'_>, foreign_is_heavy: bool) -> (String, String) {
    let (store, before) = stand(database).await;
    database.sql("CREATE TABLE cms (id INT PRIMARY KEY)");
    let mut foreign = database.session();
    foreign.run("START TRANSACTION");
    if foreign_is_heavy {
        // The server ends the transaction that has changed less.
        let rows: Vec<String> = (0..200).map(|row| format!("({row})")).collect();
        foreign.run(&format!("INSERT INTO cms VALUES {}", rows.join(",")));
    }
    foreign.run("SELECT * FROM fl_scope WHERE scope = 'stock' FOR UPDATE");
    let commit = both(&before, 1);
    let (sending, sent) = (store.clone(), commit.clone());
    let answer = tokio::spawn(async move { sending.commit(&sent).await });
    until_somebody_waits(database);
    let said = foreign.run("SELECT entity FROM fl_entity FOR UPDATE");
    foreign.run("COMMIT");

    let outcome = match answer.await.unwrap().unwrap() {
        Committed::Applied { .. } => "applied".to_owned(),
        other => format!("{other:?}"),
    };
    let after = seen(&store, "1").await;
    for group in ["price", "stock"] {
        assert_eq!(after.version(&scope(group)), before.version(&scope(group)).next());
        let sum = after.record.get(&path(&format!("{group}.sum")));
        assert_eq!(sum, Value::Present(json!(1)));
    }
    assert_eq!(database.number("SELECT COUNT(*) FROM fl_operation"), 2);
    (outcome, said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_with_a_transaction_that_locks_in_the_other_order_costs_a_second_try() {
    let (server, name) = alone().await;
    let database = Database { server: &server, name };

    let (outcome, said) = crossed(&database, true).await;
    assert_eq!((outcome.as_str(), said.contains("1213")), ("applied", false), "{said}");
    let deadlocks = "SELECT variable_value FROM information_schema.global_status \
                     WHERE variable_name = 'Innodb_deadlocks'";
    assert!(database.number(deadlocks) > 0, "they never met");

    // And where it is the foreign one that is ended.
    let other = server.database();
    let (outcome, said) = crossed(&other, false).await;
    assert_eq!(outcome, "applied");
    assert!(database.number(deadlocks) > 1, "they never met: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_room_for_a_connection_is_unavailable_and_nothing_was_done() {
    // As few as the server lets one set; the administrator has one place more.
    let server = DatabaseSetup::new(Dialect::MariaDb).setting("max_connections", "10").start();
    let database = server.database();
    let store = database::store(&database).await;
    let before = made(&store, "1", &[("price.sum", json!(0))]).await;
    store.close().await;
    // The server counts a place as taken for a moment after its connection is gone.
    let mut others = Vec::new();
    for _ in 0..2_000 {
        match mysql_async::Conn::from_url(database.url()).await {
            Ok(other) => others.push(other),
            Err(_) if others.len() < 10 => pause(Duration::from_millis(2)),
            Err(_) => break,
        }
    }
    assert_eq!(others.len(), 10);
    let options = MysqlOptions::new(&database.url()).unwrap().connections(2);

    let refused = MysqlStore::connect(options.clone()).await;
    let error = refused.err().unwrap();
    assert_eq!(
        (error.code(), error.to_string().contains("1040")),
        ("unavailable", true),
        "{error}"
    );

    // One place: the first save has it, the second one wants another.
    others.pop().unwrap().disconnect().await.unwrap();
    let mut connected = MysqlStore::connect(options.clone()).await;
    for _ in 0..2_000 {
        if connected.is_ok() {
            break;
        }
        pause(Duration::from_millis(2));
        connected = MysqlStore::connect(options.clone()).await;
    }
    let store = Arc::new(connected.unwrap());
    let mut holder = database.session();
    holder.run("START TRANSACTION; SELECT * FROM fl_entity FOR UPDATE");
    let first = save(&before, &worker(), &[("price.sum", json!(1))]);
    let (sending, sent) = (store.clone(), first.clone());
    let answer = tokio::spawn(async move { sending.commit(&sent).await });
    until("the first save waits", || holder.run("SHOW ENGINE INNODB STATUS").contains("LOCK WAIT"));
    let second = save(&before, &worker(), &[("price.sum", json!(2))]);
    let error = store.commit(&second).await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().contains("1040")),
        ("unavailable", true),
        "{error}"
    );
    holder.run("ROLLBACK");
    assert!(matches!(answer.await.unwrap().unwrap(), Committed::Applied { .. }));
    assert_eq!(store.resolve(second.operation).await.unwrap(), None);

    drop(others);
    let sum = seen(&store, "1").await.record.get(&path("price.sum"));
    assert_eq!(sum, Value::Present(json!(1)));
}
