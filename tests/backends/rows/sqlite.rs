use std::sync::Arc;

use fieldlease::{
    lease::{
        LeaseStore,
        rows::{RowLeases, RowOptions, sqlite::open},
    },
    store::sqlite::SqliteStore,
};

use crate::rows::shared;

#[tokio::test(flavor = "multi_thread")]
async fn leases_in_a_file_pass_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_owned();
    let failures = shared::suite(move |at| {
        let file = place.join(format!("{at}.sqlite"));
        async move { Arc::new(open(file, RowOptions::default()).unwrap()) as Arc<dyn LeaseStore> }
    })
    .await;

    assert!(failures.is_empty(), "{failures:#?}");
}

fn two(folder: &tempfile::TempDir) -> [Arc<RowLeases>; 2] {
    let file = folder.path().join("both.sqlite");
    // The record store may live in the same file.
    drop(SqliteStore::open(&file).unwrap());
    [0, 1].map(|_| Arc::new(open(&file, RowOptions::default()).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_over_one_file_hear_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let [here, there] = two(&folder);

    shared::two_processes_hear_each_other(here, there).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_one_file_nobody_holds_what_another_holds() {
    let folder = tempfile::tempdir().unwrap();

    shared::nobody_holds_what_another_holds(two(&folder).into(), 100).await;
}

#[test]
fn a_file_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("theirs.sqlite");
    rusqlite_of(&file, "CREATE TABLE theirs (x)");

    let error = open(&file, RowOptions::default()).err().unwrap();

    assert_eq!(error.code(), "foreign_file");
    let code =
        |file: &str| open(folder.path().join(file), RowOptions::default()).err().unwrap().code();
    assert_eq!(code("no/such/folder.sqlite"), "cannot_open");
}

fn rusqlite_of(file: &std::path::Path, sql: &str) {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.execute_batch(sql).unwrap();
}
