//! Many connections at once: nothing is lost, groups never conflict, and what waited sees what it waited for.

use std::sync::Arc;

use fieldlease::{
    commit::{Committed, Refusal},
    entity::{Value, Writer},
    store::{
        Claimed, RecordStore,
        mysql::{MysqlGuard, MysqlStore},
    },
    token::{ScopeVersion, VersionNumber},
};
use mysql_async::{Conn, prelude::Queryable};
use serde_json::json;
use tokio::task::JoinSet;

use super::{controls, database, save::*};
use crate::servers::{Database, DatabaseSetup, Dialect, until};

/// `FIELDLEASE_SAVES=500` is the long form.
#[tokio::test(flavor = "multi_thread")]
async fn twelve_connections_of_two_groups_lose_nothing() {
    let asked = std::env::var("FIELDLEASE_SAVES").ok();
    let saves: u64 = asked.and_then(|text| text.parse().ok()).unwrap_or(120);
    let (_database, store) = database::fresh().await;
    made(&store, "1", &[("price.sum", json!(0)), ("stock.sum", json!(0))]).await;

    let mut writers = JoinSet::new();
    for writer in 0..12 {
        let (store, text) = (store.clone(), ["price.sum", "stock.sum"][writer % 2]);
        writers.spawn(async move { add(&store, "1", text, saves).await });
    }
    let stale: u64 = writers.join_all().await.into_iter().sum();

    let after = seen(&store, "1").await;
    for group in ["price", "stock"] {
        let sum = after.record.get(&path(&format!("{group}.sum")));
        assert_eq!(sum, Value::Present(json!(6 * saves)));
        assert_eq!(after.version(&scope(group)), ScopeVersion(6 * saves + 1));
    }
    assert!(stale > 0, "they never met");
}

#[tokio::test(flavor = "multi_thread")]
async fn twelve_groups_of_one_record_never_conflict() {
    let (_database, store) = database::fresh().await;
    made(&store, "1", &[("editor.name", json!("a"))]).await;

    let mut writers = JoinSet::new();
    for writer in 0..12 {
        let store = store.clone();
        writers.spawn(async move { add(&store, "1", &format!("g{writer}.sum"), 60).await });
    }

    assert_eq!(writers.join_all().await, [0; 12]);
    let after = seen(&store, "1").await;
    for writer in 0..12 {
        assert_eq!(after.record.get(&path(&format!("g{writer}.sum"))), Value::Present(json!(60)));
    }
}

/// Version numbers come from the row of the entity, which the save holds.
async fn editors_of_four_groups(store: &Arc<MysqlStore>) -> Result<u64, String> {
    made(store, "1", &[("editor.name", json!("a"))]).await;
    let mut editors = JoinSet::new();
    for editor in 0..8 {
        let store = store.clone();
        editors.spawn(async move {
            let (anna, text) = (Writer::editor("anna"), format!("g{}.text", editor % 4));
            let mut left = 30;
            while left > 0 {
                let seen = seen(&store, "1").await;
                let commit = save(&seen, &anna, &[(&text, json!([editor, left]))]);
                match store.commit(&commit).await.map_err(|error| error.to_string())? {
                    Committed::Applied { .. } => left -= 1,
                    Committed::Refused(Refusal::Stale(_)) => {}
                    other => return Err(format!("{other:?}")),
                }
            }
            Ok(())
        });
    }
    editors.join_all().await.into_iter().collect::<Result<Vec<()>, String>>()?;
    Ok(seen(store, "1").await.number.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_editors_in_different_groups_are_numbered_without_gaps() {
    let (database, store) = database::fresh().await;

    assert_eq!(editors_of_four_groups(&store).await, Ok(240));

    let numbers = database.rows("SELECT number FROM fl_version ORDER BY number").concat();
    let wanted: Vec<String> = (1..=240).map(|number| number.to_string()).collect();
    assert_eq!(numbers, wanted);
    assert_eq!(VersionNumber(240), seen(&store, "1").await.number);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_taken_from_the_highest_one_collide() {
    let (database, store) = database::fresh().await;
    controls::put(&database, include_str!("../unfenced_mysql/number_from_the_highest.sql")).await;

    let ended = editors_of_four_groups(&store).await;

    assert!(ended.is_err_and(|error| error.contains("1062")), "nobody noticed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_that_is_compared_without_a_lock_loses_updates() {
    let (database, store) = database::fresh().await;
    controls::put(&database, include_str!("../unfenced_mysql/unlocked_comparison.sql")).await;
    made(&store, "1", &[("price.sum", json!(0))]).await;

    let mut writers = JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        writers.spawn(async move { add(&store, "1", "price.sum", 50).await });
    }
    // A panic is a sign too: two saves of one version.
    while writers.join_next().await.is_some() {}

    let sum = seen(&store, "1").await.record.get(&path("price.sum"));
    assert_ne!(sum, Value::Present(json!(400)), "nobody noticed");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_operation_sent_by_four_connections_at_once_is_applied_once() {
    let (_database, store) = database::fresh().await;
    made(&store, "1", &[("price.sum", json!(0))]).await;
    for round in 0..40 {
        let mut commit =
            save(&seen(&store, "1").await, &worker(), &[("price.sum", json!(round + 1))]);
        if round % 2 == 0 {
            commit.scopes.insert(scope("price"), fieldlease::commit::Expect::Unread);
        }
        let mut senders = JoinSet::new();
        for _ in 0..4 {
            let (store, commit) = (store.clone(), commit.clone());
            senders.spawn(async move { store.commit(&commit).await.unwrap() });
        }
        let answers = senders.join_all().await;

        let applied = |answer: &&Committed| matches!(answer, Committed::Applied { .. });
        assert_eq!(answers.iter().filter(applied).count(), 1, "{answers:?}");
        let again = |answer: &&Committed| **answer == Committed::AlreadyApplied;
        assert_eq!(answers.iter().filter(again).count(), 3, "{answers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_created_by_four_connections_at_once_is_created_once() {
    let (_database, store) = database::fresh().await;
    for round in 0..25 {
        let mut senders = JoinSet::new();
        for sender in 0..4 {
            let store = store.clone();
            let commit = creation(&round.to_string(), &[("editor.name", json!(sender))]);
            senders.spawn(async move { store.commit(&commit).await.unwrap() });
        }
        let answers = senders.join_all().await;

        let applied = |answer: &&Committed| matches!(answer, Committed::Applied { .. });
        assert_eq!(answers.iter().filter(applied).count(), 1, "{answers:?}");
        let lost = |answer: &&Committed| **answer == Committed::Refused(Refusal::Exists);
        assert_eq!(answers.iter().filter(lost).count(), 3, "{answers:?}");
    }
}

/// A connection in a transaction that is at `level`, as a CMS has one.
pub(super) async fn transaction(database: &Database<'_>, level: &str) -> Conn {
    let mut conn = Conn::from_url(database.url()).await.unwrap();
    conn.query_drop(format!("SET TRANSACTION ISOLATION LEVEL {level}")).await.unwrap();
    conn.query_drop("START TRANSACTION").await.unwrap();
    conn
}

/// Waits until a connection waits for a row, and answers its number. The tables of `information_schema` will not do: they
/// are not brought up to date for whoever asks more often than ten times a second.
pub(super) fn until_somebody_waits(database: &Database<'_>) -> String {
    let mut waiting = None;
    until("a statement waits for a row", || {
        let status = database.sql("SHOW ENGINE INNODB STATUS");
        // What stands before them is of the past: the last deadlock.
        let mut present = status.split("---TRANSACTION").skip(1);
        let waits = present.find(|one| one.contains("\nLOCK WAIT"));
        let number = waits.and_then(|one| one.split_once("thread id "));
        waiting = number.map(|(_, rest)| rest.split(',').next().unwrap().to_owned());
        waiting.is_some()
    });
    waiting.unwrap()
}

/// The former holder's save is under way while the successor claims: what the claim then sees.
async fn claim_behind_a_save(
    database: &Database<'_>,
    store: &Arc<MysqlStore>,
) -> (Value, ScopeVersion) {
    made(store, "1", &[("media.width", json!("old"))]).await;
    let (a, b) = (token(), token());
    let claim = claimed(store, "1", &["media"], a).await;
    let guard = MysqlGuard::new().unwrap();
    let mut conn = transaction(database, "READ COMMITTED").await;
    let commit = save_under(&claim, a, &[("media.width", json!("new"))]);
    let answer = guard.commit_in(&mut conn, &commit).await.unwrap();
    assert!(matches!(answer, Committed::Applied { .. }), "{answer:?}");

    let claiming = store.clone();
    let next = tokio::spawn(async move { claiming.claim(&claim_of("1", &["media"], b)).await });
    until_somebody_waits(database);
    conn.query_drop("COMMIT").await.unwrap();

    match next.await.unwrap().unwrap() {
        Claimed::Claimed(claim) => (
            claim.snapshot.record.get(&path("media.width")),
            claim.snapshot.version(&scope("media")),
        ),
        Claimed::Refused(refusal) => panic!("{refusal:?}"),
    }
}

/// A server whose lock waits nobody else causes.
pub(super) async fn alone() -> (crate::servers::DatabaseServer, String) {
    let server = DatabaseSetup::new(Dialect::MariaDb).start();
    let name = server.database().name.clone();
    (server, name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waited_for_the_former_holders_commit_sees_it() {
    let (server, name) = alone().await;
    let database = Database { server: &server, name };
    let store = database::store(&database).await;

    let seen = claim_behind_a_save(&database, &store).await;

    assert_eq!(seen, (Value::Present(json!("new")), ScopeVersion(2)));
}

/// The trap: a snapshot taken before the wait shows the record as it was before the former holder's last save.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_reads_a_snapshot_from_before_its_wait_sees_the_past() {
    let (server, name) = alone().await;
    let database = Database { server: &server, name };
    let store = database::store(&database).await;
    controls::put(&database, include_str!("../unfenced_mysql/claim_reads_a_snapshot.sql")).await;

    let (value, _) = claim_behind_a_save(&database, &store).await;

    assert_eq!(value, Value::Present(json!("old")));
}

/// Why a claim is a procedure here: the statement that would do it at once answers what it read before it waited.
#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_that_returns_a_selected_record_returns_it_as_it_was_before_the_wait() {
    let (server, name) = alone().await;
    let database = Database { server: &server, name };
    database.sql(
        "CREATE TABLE s (id INT PRIMARY KEY, fence INT, record TEXT); CREATE TABLE r (id INT PRIMARY KEY, record TEXT); \
         INSERT INTO s VALUES (1, 1, ''); INSERT INTO r VALUES (1, 'old'); GRANT ALL ON *.* TO fl@127.0.0.1",
    );
    let mut holder = transaction(&database, "READ COMMITTED").await;
    holder.query_drop("SELECT * FROM s WHERE id = 1 FOR UPDATE").await.unwrap();
    holder.query_drop("UPDATE r SET record = 'new' WHERE id = 1").await.unwrap();

    let url = database.url();
    let claim = tokio::spawn(async move {
        let mut conn = Conn::from_url(url).await.unwrap();
        conn.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
        let returned: Option<(i64, String)> = conn
            .query_first(
                "INSERT INTO s (id, fence, record) SELECT 1, 1, r.record FROM r WHERE r.id = 1 \
                 ON DUPLICATE KEY UPDATE fence = s.fence + 1, record = VALUES(record) RETURNING fence, record",
            )
            .await
            .unwrap();
        returned.unwrap()
    });
    until_somebody_waits(&database);
    holder.query_drop("COMMIT").await.unwrap();

    assert_eq!(claim.await.unwrap(), (2, "old".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_is_asked_for_while_it_is_under_way_is_waited_for() {
    let (server, name) = alone().await;
    let database = Database { server: &server, name };
    let store = database::store(&database).await;
    let seen = made(&store, "1", &[("price.sum", json!(0))]).await;
    let guard = MysqlGuard::new().unwrap();

    for (end, took_effect) in [("ROLLBACK", false), ("COMMIT", true)] {
        let commit = save(&seen, &worker(), &[("price.sum", json!(1))]);
        let mut conn = transaction(&database, "READ COMMITTED").await;
        guard.commit_in(&mut conn, &commit).await.unwrap();
        let (asking, operation) = (store.clone(), commit.operation);
        let answer = tokio::spawn(async move { asking.resolve(operation).await.unwrap() });
        until_somebody_waits(&database);
        conn.query_drop(end).await.unwrap();

        assert_eq!(answer.await.unwrap().is_some(), took_effect, "{end}");
    }
}

/// What was answered "it did not" stays true when the lost commit arrives after all.
#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_was_given_up_never_takes_effect() {
    let (database, store) = database::fresh().await;
    let before = made(&store, "1", &[("price.sum", json!(0))]).await;
    let late = save(&before, &worker(), &[("price.sum", json!(1))]);

    assert_eq!(store.resolve(late.operation).await.unwrap(), None);
    let answer = store.commit(&late).await;

    assert_eq!(answer.unwrap_err().code(), "unavailable");
    assert_eq!(seen(&store, "1").await.version(&scope("price")), ScopeVersion(1));
    assert_eq!(store.resolve(late.operation).await.unwrap(), None);
    assert_eq!(database.number("SELECT COUNT(*) FROM fl_void"), 1);
    let again = fieldlease::commit::Commit { operation: operation(), ..late };
    applied(&store, &again).await;
}
