//! A file that is not right is refused at open, in words.

use std::sync::Arc;

use fieldlease::{
    error::{Error, Result},
    store::{RecordStore, sqlite::SqliteStore},
};

use crate::sqlite::{add_one, count_in, counter, create, seen};

fn refusal(opened: Result<SqliteStore>) -> (&'static str, String) {
    match opened {
        Ok(_) => panic!("opened"),
        Err(error) => (error.code(), error.to_string()),
    }
}

#[tokio::test]
async fn what_was_saved_is_there_after_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let store = SqliteStore::open(&path).unwrap();
    create(&store).await;
    add_one(&store).await.unwrap();
    store.close().await;

    let store = SqliteStore::open(&path).unwrap();

    assert_eq!(count_in(&seen(&store).await), 1);
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(files.len() <= 3, "only the file and its log: {files:?}");
}

#[tokio::test]
async fn eight_that_make_the_file_at_once_all_open_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = Arc::new(directory.path().join("a.db"));

    let threads: Vec<_> = (0..8)
        .map(|_| (path.clone(), std::sync::Barrier::new(1)))
        .map(|(path, _)| std::thread::spawn(move || SqliteStore::open(&*path)))
        .collect();

    for thread in threads {
        thread.join().unwrap().unwrap();
    }
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        ("foreign_file", "is a database of another program", "CREATE TABLE theirs (a)"),
        ("newer_file", "was written by a newer version: schema 99", ""),
        (
            "changed_schema",
            "another text of `0001_init.sql`",
            "UPDATE fl_migration SET checksum = x'00'",
        ),
    ];

    for (code, says, sql) in cases {
        let path = directory.path().join(format!("{code}.db"));
        if code != "foreign_file" {
            drop(SqliteStore::open(&path).unwrap());
        }
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch(sql).unwrap();
        if code == "newer_file" {
            connection.pragma_update(None, "user_version", 99).unwrap();
        }
        let tables = "SELECT count(*) FROM sqlite_schema";
        let count =
            |c: &rusqlite::Connection| c.query_row(tables, [], |row| row.get::<_, i64>(0)).unwrap();
        let before = count(&connection);

        let (got, message) = refusal(SqliteStore::open(&path));

        assert_eq!(got, code);
        assert!(message.contains(says), "{message}");
        assert!(message.contains(path.to_str().unwrap()), "{message}");
        assert_eq!(count(&connection), before);
    }
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    std::fs::write(
        &path,
        "not a database, but longer than the hundred bytes of a header. ".repeat(9),
    )
    .unwrap();

    let (code, message) = refusal(SqliteStore::open(&path));

    assert_eq!(code, "not_a_database", "{message}");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("not a database"));
}

#[test]
fn a_place_that_cannot_be_written_to_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing").join("a.db");
    let (code, message) = refusal(SqliteStore::open_exclusive(&missing));
    assert_eq!(code, "no_directory");
    assert!(message.contains("there is no directory"), "{message}");

    let (code, _) = refusal(SqliteStore::open(directory.path()));
    assert_eq!(code, "cannot_open", "a directory is no file");

    // A place where even root cannot make a file.
    if cfg!(target_os = "linux") {
        let (code, message) = refusal(SqliteStore::open("/proc/a.db"));
        assert_eq!(code, "cannot_open", "{message}");
        assert_eq!(refusal(SqliteStore::open_exclusive("/proc/a.db")).0, "unavailable");
    }
}

#[tokio::test]
async fn one_service_per_file_and_any_number_of_libraries() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let service = SqliteStore::open_exclusive(&path).unwrap();
    create(&service).await;

    let (code, message) = refusal(SqliteStore::open_exclusive(&path));
    assert_eq!(code, "store_in_use");
    let process = format!("process {}", std::process::id());
    assert!(message.contains(&process), "{message} names {process}");
    let library = SqliteStore::open(&path).unwrap();
    add_one(&library).await.unwrap();
    assert_eq!(count_in(&seen(&service).await), 1);

    service.close().await;
    SqliteStore::open_exclusive(&path).unwrap();
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let in_a_file = SqliteStore::open(directory.path().join("a.db")).unwrap();
    for store in [SqliteStore::open_in_memory().unwrap(), in_a_file] {
        create(&store).await;
        store.close().await;
        store.close().await;

        let load = store.load(&counter().0).await.unwrap_err();
        let resolve = store.resolve(crate::sqlite::operation()).await.unwrap_err();

        for error in [load, resolve] {
            assert!(
                matches!(&error, Error::Unavailable { message } if message.contains("closed")),
                "{error}"
            );
        }
    }
}
