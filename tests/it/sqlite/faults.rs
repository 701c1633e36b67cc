//! Busy, full, gone, and callers that leave: nothing is half done, and the error says what may be tried.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    commit::Committed,
    error::Error,
    store::{
        RecordStore,
        sqlite::{SqliteOptions, SqliteStore, Synchronous},
    },
};
use serde_json::json;

use crate::sqlite::{add_one, assert_whole, count_in, count_to, counter, create, seen, version_of};

fn assert_unavailable<T: std::fmt::Debug>(result: Result<T, Error>, says: &str) {
    match result {
        Err(Error::Unavailable { message }) => assert!(message.contains(says), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_save_behind_another_processs_transaction_gives_up_after_the_bound() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let options = SqliteOptions::default().busy_timeout(Duration::from_millis(20));
    let store = SqliteStore::open_with(&path, options).unwrap();
    create(&store).await;
    let commit = count_to(&seen(&store).await, json!(1));

    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_unavailable(store.commit(&commit).await, "another process is writing to it");
    assert_eq!(count_in(&seen(&store).await), 0, "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();

    assert!(matches!(store.commit(&commit).await, Ok(Committed::Applied { .. })));
    store.close().await;
    assert_whole(&path);
}

#[tokio::test]
async fn a_full_file_refuses_saves_whole_and_serves_reads() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let options = SqliteOptions::default().size_max(256 * 1_024).synchronous(Synchronous::Full);
    let store = SqliteStore::open_with(&path, options).unwrap();
    create(&store).await;

    let mut acknowledged = 0;
    let refusal = loop {
        match add_one(&store).await {
            Ok(_) => acknowledged += 1,
            Err(refusal) => break refusal,
        }
        assert!(acknowledged < 5_000, "the file has no largest size");
    };

    assert_unavailable::<()>(Err(refusal), "largest size");
    assert!(acknowledged > 10);
    let after = seen(&store).await;
    assert_eq!((count_in(&after), version_of(&after).0), (acknowledged, acknowledged + 1));
    store.close().await;
    assert_whole(&path);
    // With room again, it goes on.
    let store = SqliteStore::open(&path).unwrap();
    add_one(&store).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_vanished_or_was_replaced_takes_no_save_that_would_be_lost() {
    let cases: [fn(&std::path::Path); 3] = [
        |path| std::fs::remove_file(path).unwrap(),
        |path| std::fs::remove_dir_all(path.parent().unwrap()).unwrap(),
        |path| {
            std::fs::copy(path, path.with_extension("copy")).unwrap();
            std::fs::rename(path.with_extension("copy"), path).unwrap();
        },
    ];

    for vanish in cases {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data").join("a.db");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        let store = SqliteStore::open(&path).unwrap();
        create(&store).await;
        let commit = count_to(&seen(&store).await, json!(1));

        vanish(&path);

        let says = "was deleted, moved or replaced";
        assert_unavailable(store.commit(&commit).await, says);
        assert_unavailable(store.load(&counter().0).await, says);
        assert_unavailable(store.resolve(commit.operation).await, says);
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_a_whole_save_or_none() {
    let store = Arc::new(SqliteStore::open_in_memory().unwrap());
    create(&store).await;
    let (mut applied, mut dropped) = (0, 0);

    for round in 0..200 {
        let commit = count_to(&seen(&store).await, json!(1_000 + round));
        {
            let mut save = store.commit(&commit);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _sent = save.as_mut().poll(&mut context);
            // Every other caller leaves when the save is there and before it has read the answer.
            while round % 2 == 1 && count_in(&seen(&store).await) != 1_000 + round {
                tokio::task::yield_now().await;
            }
        }
        let resolved = store.resolve(commit.operation).await.unwrap();
        let now = seen(&store).await;
        match resolved {
            Some(_) => {
                applied += 1;
                assert_eq!(count_in(&now), 1_000 + round);
            }
            None => {
                dropped += 1;
                assert_ne!(now.record.get(&counter().1).json(), Some(&json!(1_000 + round)));
            }
        }
        assert_eq!(version_of(&now).0, applied + 1);
    }
    assert_eq!(applied + dropped, 200);
    assert!(applied >= 100, "no save had begun: the test shows nothing");
}

#[tokio::test]
async fn a_save_whose_caller_left_before_its_turn_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let store = SqliteStore::open(&path).unwrap();
    create(&store).await;
    let (first, second) =
        (count_to(&seen(&store).await, json!(1)), count_to(&seen(&store).await, json!(2)));
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());

    // The first save waits for the other process, the second waits behind it.
    let mut saving = store.commit(&first);
    assert!(saving.as_mut().poll(&mut context).is_pending());
    let mut leaving = store.commit(&second);
    assert!(leaving.as_mut().poll(&mut context).is_pending());
    drop(leaving);
    other.execute_batch("ROLLBACK").unwrap();

    assert!(matches!(saving.await, Ok(Committed::Applied { .. })));
    assert_eq!(store.resolve(second.operation).await.unwrap(), None);
    assert_eq!(count_in(&seen(&store).await), 1);
}

#[tokio::test]
async fn more_callers_than_the_queue_holds_wait_their_turn() {
    let options = SqliteOptions::default().queue(1);
    let store = Arc::new(SqliteStore::open_in_memory_with(options).unwrap());
    create(&store).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let store = store.clone();
        tasks.spawn(async move { add_one(&store).await.unwrap() });
    }

    tasks.join_all().await;

    assert_eq!(count_in(&seen(&store).await), 50);
}
