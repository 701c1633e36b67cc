//! A holder that is killed anywhere between its acquire and its release leaves a whole save or none, and blocks nobody.

use std::path::{Path as FilePath, PathBuf};

use fieldlease::{entity::Writer, scope::ScopeName, token::Fence};
use rusqlite::Connection;
use serde_json::json;

use crate::{
    child::{Other, Stop, claimed, engine},
    pause,
    support::{File, created, product, saved},
    until,
};

/// A file with one record.
pub(crate) async fn file() -> (File, PathBuf) {
    let file = File::new();
    created(&file.engine().await.editor("anna"), &product("42")).await;
    let path = file.folder.path().join("store.db");
    (file, path)
}

/// Makes every save that changes something last this many steps within its transaction.
pub(crate) fn slow_down(file: &FilePath, steps: u64) {
    let sql = format!(
        "CREATE TRIGGER slow BEFORE INSERT ON fl_change BEGIN
           SELECT count(*) FROM (WITH RECURSIVE step(n) AS
             (SELECT 1 UNION ALL SELECT n + 1 FROM step WHERE n < {steps}) SELECT n FROM step);
         END"
    );
    Connection::open(file).unwrap().execute_batch(&sql).unwrap();
}

pub(crate) fn speed_up(file: &FilePath) {
    Connection::open(file).unwrap().execute_batch("DROP TRIGGER slow").unwrap();
}

/// Waits until another process is inside a transaction that writes.
pub(crate) fn until_writing(file: &FilePath) {
    let connection = Connection::open(file).unwrap();
    connection.busy_timeout(std::time::Duration::ZERO).unwrap();
    until("the other process writes", || {
        let busy = connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err();
        if !busy {
            pause(std::time::Duration::from_millis(5));
        }
        busy
    });
}

/// What the killed holder's save must have left, and the fence its successor must get.
async fn successor_goes_on(file: &File, path: &FilePath, effect: bool, fence: Fence) {
    let chair = product("42");
    let media = ScopeName::parse("media").unwrap();
    let operations = usize::from(effect);
    assert_eq!(file.counts(&chair).await, (1, operations), "one version and {operations} record");
    let connection = Connection::open(path).unwrap();
    let whole: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");

    let (engine, _) = engine(path).await;
    let claim = claimed(&engine.worker("second"), None).await;

    assert_eq!(claim.fences()[&media], fence);
    let expected = if effect { (Some(json!("first")), Some(json!(1))) } else { (None, None) };
    assert_eq!((claim.get("thumbnail"), claim.get("width")), expected);
    assert_eq!(claim.record().version(&media).0, u64::from(effect));
    let save = saved(claim.save().set("thumbnail", "second").send().await.unwrap());
    assert_eq!(save.versions[&media].0, u64::from(effect) + 1);
    claim.release().await;
    let history = file.history(&chair).await;
    assert_eq!(history.len(), 2 + operations);
    assert_eq!(history[0].writer, Writer::worker("second"));
}

fn killed_at(stop: Stop, path: &FilePath) {
    let mut other = Other::start(&format!("stops {stop:?}"), path);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_killed_between_acquire_and_claim_leaves_nothing() {
    let (file, path) = file().await;

    killed_at(Stop::BeforeClaim, &path);

    successor_goes_on(&file, &path, false, Fence(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_killed_between_claim_and_commit_leaves_a_claim_that_blocks_nobody() {
    let (file, path) = file().await;

    killed_at(Stop::BeforeCommit, &path);

    successor_goes_on(&file, &path, false, Fence(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_killed_inside_its_transaction_leaves_nothing_of_it() {
    let (file, path) = file().await;
    slow_down(&path, u64::MAX >> 1);
    let mut other = Other::start(&format!("stops {:?}", Stop::Never), &path);
    other.heard("reached");

    until_writing(&path);
    other.kill();

    speed_up(&path);
    successor_goes_on(&file, &path, false, Fence(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_killed_between_commit_and_release_leaves_its_save_once() {
    let (file, path) = file().await;

    killed_at(Stop::AfterCommit, &path);

    successor_goes_on(&file, &path, true, Fence(2)).await;
}
