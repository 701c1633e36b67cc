//! Waiting saves and events where several connections write at once.

use std::sync::Arc;

use fieldlease::{
    commit::{Commit, Committed, Notice, Refusal},
    entity::Value,
    queue::{Item, Outbox, QueueStore},
    store::{
        RecordStore,
        mysql::{MysqlGuard, MysqlStore},
    },
    token::{OperationId, ScopeVersion},
};
use mysql_async::prelude::Queryable;
use serde_json::json;
use tokio::task::JoinSet;

use super::{
    controls, database,
    races::{alone, transaction, until_somebody_waits},
    save::*,
};
use crate::servers::Database;

fn notice(what: &str) -> Notice {
    Notice { kind: "requeue".to_owned(), body: json!({ "what": what }) }
}

fn item(operation: OperationId) -> Item {
    Item {
        place: 0,
        operation,
        writer: worker(),
        entity: product("1"),
        scopes: [scope("price")].into(),
        body: "{}".to_owned(),
        at: fieldlease::clock::StoreTime::default(),
    }
}

async fn told(store: &MysqlStore, after: u64) -> Vec<(u64, String)> {
    let told = store.pull(after, 10).await.unwrap();
    told.into_iter().map(|one| (one.event, one.body["what"].as_str().unwrap().to_owned())).collect()
}

/// One event is written and its transaction goes on; another one is written later, committed and read.
async fn late_commit(database: &Database<'_>, store: &Arc<MysqlStore>) -> Vec<String> {
    let first = made(store, "1", &[("price.sum", json!(0))]).await;
    let second = made(store, "2", &[("price.sum", json!(0))]).await;
    let events = vec![notice("early")];
    let early = Commit { events, ..save(&first, &worker(), &[("price.sum", json!(1))]) };
    let events = vec![notice("late")];
    let late = Commit { events, ..save(&second, &worker(), &[("price.sum", json!(1))]) };
    let mut conn = transaction(database, "READ COMMITTED").await;
    MysqlGuard::new().unwrap().commit_in(&mut conn, &early).await.unwrap();
    applied(store, &late).await;

    let mut read = Vec::new();
    let mut after = 0;
    for end in ["", "COMMIT"] {
        if !end.is_empty() {
            conn.query_drop(end).await.unwrap();
        }
        for (event, what) in told(store, after).await {
            after = store.ack("reader", Some(event)).await.unwrap();
            read.push(what);
        }
    }
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_whose_transaction_commits_late_is_not_passed_over() {
    let (database, store) = database::fresh().await;

    assert_eq!(late_commit(&database, &store).await, ["late", "early"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_by_numbers_drawn_when_events_are_written_passes_one_over() {
    let (database, store) = database::fresh().await;
    let control = include_str!("../unfenced_mysql/events_numbered_when_written.sql");
    controls::put(&database, control).await;

    assert_eq!(late_commit(&database, &store).await, ["late"]);
}

/// Somebody tells of a record while a save of it, which tells too, is under way.
async fn tell_behind_a_save(
    database: &Database<'_>,
    store: &Arc<MysqlStore>,
    waits: bool,
) -> Vec<String> {
    let before = made(store, "1", &[("price.sum", json!(0))]).await;
    let events = vec![notice("first")];
    let first = Commit { events, ..save(&before, &worker(), &[("price.sum", json!(1))]) };
    let mut conn = transaction(database, "READ COMMITTED").await;
    MysqlGuard::new().unwrap().commit_in(&mut conn, &first).await.unwrap();
    let telling = store.clone();
    let second = tokio::spawn(async move {
        telling.tell(&product("1"), operation(), &[notice("second")]).await.unwrap();
    });
    if waits {
        until_somebody_waits(database);
    } else {
        second.await.unwrap();
        assert_eq!(told(store, 0).await.len(), 1);
        conn.query_drop("COMMIT").await.unwrap();
        return told(store, 0).await.into_iter().map(|(_, what)| what).collect();
    }
    assert_eq!(told(store, 0).await, []);
    conn.query_drop("COMMIT").await.unwrap();
    second.await.unwrap();
    told(store, 0).await.into_iter().map(|(_, what)| what).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_one_record_are_in_the_order_of_its_commits() {
    let (server, name) = alone().await;
    let database = Database { server: &server, name };
    let store = database::store(&database).await;

    assert_eq!(tell_behind_a_save(&database, &store, true).await, ["first", "second"]);

    // The control: who does not wait is read first, though it was written second.
    database::empty(&database);
    controls::put(&database, include_str!("../unfenced_mysql/events_pass_each_other.sql")).await;
    assert_eq!(tell_behind_a_save(&database, &store, false).await, ["second", "first"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_at_once_see_every_event_once_and_in_one_order() {
    let (_database, store) = database::fresh().await;
    let mut tasks = JoinSet::new();
    for teller in 0..4 {
        let store = store.clone();
        tasks.spawn(async move {
            made(&store, &teller.to_string(), &[("price.sum", json!(0))]).await;
            for turn in 0..25 {
                let what = notice(&format!("{teller}.{turn}"));
                let entity = product(&teller.to_string());
                store.tell(&entity, operation(), &[what]).await.unwrap();
            }
            Vec::new()
        });
    }
    for _ in 0..3 {
        let store = store.clone();
        tasks.spawn(async move {
            let mut read: Vec<(u64, String)> = Vec::new();
            while read.len() < 100 {
                let after = read.last().map_or(0, |(event, _)| *event);
                read.extend(told(&store, after).await);
            }
            read
        });
    }
    let mut read: Vec<_> = tasks.join_all().await;
    read.retain(|read| !read.is_empty());

    assert_eq!(read.len(), 3);
    assert!(read.iter().all(|one| *one == read[0]), "{read:?}");
    for teller in 0..4 {
        let own = read[0].iter().filter(|(_, what)| what.starts_with(&format!("{teller}.")));
        let own: Vec<&str> = own.map(|(_, what)| what.as_str()).collect();
        let wanted: Vec<String> = (0..25).map(|turn| format!("{teller}.{turn}")).collect();
        assert_eq!(own, wanted);
    }
}

/// How often one waiting save takes effect that several processes take at once, each under a name of its own.
async fn taken_at_once(store: &Arc<MysqlStore>) -> (usize, usize) {
    let before = made(store, "1", &[("price.sum", json!(0))]).await;
    let queued = operation();
    assert_eq!(store.push(&item(queued)).await.unwrap(), 0);
    let mut senders = JoinSet::new();
    for sender in 0..4 {
        let mut commit = save(&before, &worker(), &[("price.sum", json!(sender))]);
        commit.scopes.insert(scope("price"), fieldlease::commit::Expect::Unread);
        let commit = Commit { queued: Some(queued), ..commit };
        let store = store.clone();
        senders.spawn(async move { store.commit(&commit).await.unwrap() });
    }
    let answers = senders.join_all().await;
    let many = |wanted: fn(&Committed) -> bool| answers.iter().filter(|it| wanted(it)).count();
    (
        many(|it| matches!(it, Committed::Applied { .. })),
        many(|it| *it == Committed::Refused(Refusal::NotQueued)),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_save_that_several_take_at_once_is_made_once() {
    let (database, store) = database::fresh().await;

    assert_eq!(taken_at_once(&store).await, (1, 3));
    assert!(store.waiting(None, 0, 9).await.unwrap().is_empty());
    assert_eq!(database.number("SELECT COUNT(*) FROM fl_queue_scope"), 0);

    database::empty(&database);
    controls::put(&database, include_str!("../unfenced_mysql/queue_row_ignored.sql")).await;
    assert_eq!(taken_at_once(&store).await, (4, 0), "the control");
}

/// The outcome of its first trial was not known, and it was asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_save_is_made_under_its_name_after_somebody_asked_for_it() {
    let (_database, store) = database::fresh().await;
    let before = made(&store, "1", &[("price.sum", json!(0))]).await;
    let queued = operation();
    store.push(&item(queued)).await.unwrap();

    assert_eq!(store.resolve(queued).await.unwrap(), None);
    let commit = save(&before, &worker(), &[("price.sum", json!(1))]);
    let commit = Commit { operation: queued, queued: Some(queued), ..commit };
    applied(&store, &commit).await;

    assert_eq!(store.commit(&commit).await.unwrap(), Committed::AlreadyApplied);
    assert!(store.resolve(queued).await.unwrap().is_some());
    assert_eq!(seen(&store, "1").await.version(&scope("price")), ScopeVersion(2));
}

/// A push whose transaction goes on keeps later ones of its record from being seen first.
#[tokio::test(flavor = "multi_thread")]
async fn places_of_one_record_are_given_out_in_the_order_of_commits() {
    let (server, name) = alone().await;
    let database = Database { server: &server, name };
    let store = database::store(&database).await;
    made(&store, "1", &[("price.sum", json!(0))]).await;
    let mut holder = database.session();
    holder.run("START TRANSACTION; SELECT * FROM fl_entity FOR UPDATE");
    let (pushing, first) = (store.clone(), operation());
    let push = tokio::spawn(async move { pushing.push(&item(first)).await.unwrap() });
    until_somebody_waits(&database);

    assert!(store.waiting(None, 0, 9).await.unwrap().is_empty());
    assert_eq!(database.number("SELECT COUNT(*) FROM fl_queue"), 0);
    holder.run("ROLLBACK");

    assert_eq!(push.await.unwrap(), 0);
    assert_eq!(store.push(&item(operation())).await.unwrap(), 1);
    assert_eq!(store.ready(0, 9).await.unwrap()[0].operation, first);
}

/// Names that were given up are remembered for a week, and no longer.
#[tokio::test(flavor = "multi_thread")]
async fn names_that_were_given_up_are_forgotten_after_a_week() {
    let (database, store) = database::fresh().await;
    let before = made(&store, "1", &[("price.sum", json!(0))]).await;
    let young = save(&before, &worker(), &[("price.sum", json!(1))]);
    for _ in 0..40 {
        store.resolve(operation()).await.unwrap();
    }
    let week: i64 = 7 * 24 * 60 * 60 * 1_000_000;
    database.sql(&format!("UPDATE fl_void SET at = at - {week} - 1000000"));
    assert_eq!(store.resolve(young.operation).await.unwrap(), None);
    database.sql(&format!(
        "UPDATE fl_void SET at = at - {week} + 60000000 WHERE at > 0 ORDER BY at DESC LIMIT 1"
    ));
    for _ in 0..4 {
        store.resolve(operation()).await.unwrap();
    }

    // The old ones went, a few with each call; the one that is a minute short of a week is still there, and refuses.
    assert_eq!(database.number("SELECT COUNT(*) FROM fl_void"), 5);
    assert_eq!(store.commit(&young).await.unwrap_err().code(), "unavailable");
    let sum = seen(&store, "1").await.record.get(&path("price.sum"));
    assert_eq!(sum, Value::Present(json!(0)));
}
