//! A worker that is killed anywhere in a job with a key: the next delivery does the work once, or is told it was done.

use std::path::Path as FilePath;

use fieldlease::{
    engine::{Engine, Outcome},
    error::Error,
    idempotency::KeyState,
    key::JobKey,
};
use rusqlite::Connection;
use serde_json::json;

use crate::{
    child::{Other, Stop, engine},
    killed_holder::file,
    support::{File, product},
    until,
};

/// The job both processes are given.
pub(crate) const KEY: &str = "thumbnail/42/1";

/// The next delivery of the job the other process was killed in.
async fn delivered(engine: &Engine) -> Outcome {
    let key = JobKey::text(KEY).unwrap();
    let job = |job: fieldlease::engine::Job| async move {
        Ok::<_, Error>(job.changes().set("thumbnail", "second"))
    };
    engine.worker("first").run(&product("42"), ["media"], job).job_key(key).await.unwrap()
}

fn killed_at(stop: Stop, path: &FilePath) {
    let mut other = Other::start(&format!("keyed {stop:?}"), path);
    other.heard("reached");
    if stop == Stop::AfterCommit {
        let connection = Connection::open(path).unwrap();
        until("the save takes effect", || {
            let sql = "SELECT count(*) FROM fl_operation WHERE writer_name = 'first'";
            connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() == 1
        });
    }
    other.kill();
}

/// The lease of an attempt nobody renews any more ends.
fn lease_ends(path: &FilePath) {
    let sql = "UPDATE fl_key SET until_at = until_at - 120000000 WHERE state = 'pending'";
    assert_eq!(Connection::open(path).unwrap().execute(sql, []).unwrap(), 1);
}

async fn taken_over(file: &File, path: &FilePath) {
    let (engine, _) = engine(path).await;
    assert_eq!(delivered(&engine).await.code(), "in_progress", "its lease is not over");
    lease_ends(path);

    let outcome = delivered(&engine).await;

    assert_eq!(outcome.code(), "applied");
    assert_eq!(delivered(&engine).await.code(), "replayed");
    let keys = engine.keys(None, 10).await.unwrap();
    assert_eq!((keys[0].state, keys[0].attempt), (KeyState::Completed, 2));
    assert_eq!(file.counts(&product("42")).await, (1, 1), "one version, one operation record");
    assert_eq!(file.value(&product("42"), "thumbnail").await, json!("second"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_killed_between_claim_and_commit_doubles_nothing() {
    for stop in [Stop::BeforeClaim, Stop::BeforeCommit] {
        let (file, path) = file().await;

        killed_at(stop, &path);

        taken_over(&file, &path).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_killed_inside_its_transaction_leaves_the_key_to_the_next() {
    let (file, path) = file().await;
    crate::killed_holder::slow_down(&path, u64::MAX >> 1);
    let mut other = Other::start(&format!("keyed {:?}", Stop::Never), &path);
    other.heard("reached");

    crate::killed_holder::until_writing(&path);
    other.kill();

    crate::killed_holder::speed_up(&path);
    taken_over(&file, &path).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_killed_after_its_commit_has_done_the_work_for_every_later_delivery() {
    let (file, path) = file().await;

    killed_at(Stop::AfterCommit, &path);

    let (engine, _) = engine(&path).await;
    let again = match delivered(&engine).await {
        Outcome::Replayed(replayed) => *replayed,
        other => panic!("{other:?}"),
    };
    let by = file.history(&product("42")).await[0].operation;
    assert_eq!(again.effect.unwrap().operation, by);
    assert_eq!(file.counts(&product("42")).await, (1, 1));
    assert_eq!(file.value(&product("42"), "thumbnail").await, json!("first"));
}
