//! Opening a file: is it ours, is it new enough, can it be written to.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::{
    clock::StoreTime,
    database::migration::Migration,
    error::{Error, Result},
};

/// In the file's header, so that `file` and we can tell it is ours.
const APPLICATION_ID: i32 = 0x666c_6473;

/// Applied in order, never changed after a release.
pub(super) const MIGRATIONS: [Migration; 6] = [
    Migration {
        number: 1,
        name: "init",
        sql: include_str!("../../../schemas/sql/sqlite/0001_init.sql"),
    },
    Migration {
        number: 2,
        name: "keys",
        sql: include_str!("../../../schemas/sql/sqlite/0002_keys.sql"),
    },
    Migration {
        number: 3,
        name: "mapped",
        sql: include_str!("../../../schemas/sql/sqlite/0003_mapped.sql"),
    },
    Migration {
        number: 4,
        name: "upkeep",
        sql: include_str!("../../../schemas/sql/sqlite/0004_upkeep.sql"),
    },
    Migration {
        number: 5,
        name: "queue",
        sql: include_str!("../../../schemas/sql/sqlite/0005_queue.sql"),
    },
    Migration {
        number: 6,
        name: "guard",
        sql: include_str!("../../../schemas/sql/sqlite/0006_guard.sql"),
    },
];

/// How often a commit reaches the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// At checkpoints: a power cut may take the last commits, a crash of the process takes none.
    #[default]
    Normal,
    /// At every commit: three to five times slower, and a power cut takes nothing.
    Full,
}

/// What every connection of a store is set to.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) synchronous: Synchronous,
    pub(super) busy: Duration,
    pub(super) size_max: Option<u64>,
    /// The file is the CMS's, and our tables stand beside its own.
    pub(super) guest: bool,
}

/// A clear word about a directory that is not there.
pub(super) fn check_directory(path: &Path) -> Result<()> {
    let shown = path.display();
    if let Some(directory) = path.parent()
        && !directory.as_os_str().is_empty()
        && !directory.is_dir()
    {
        let directory = directory.display();
        return Err(Error::invalid(
            "no_directory",
            format!("cannot open `{shown}`: there is no directory `{directory}`"),
            "make the directory, or name another file",
        ));
    }
    Ok(())
}

/// Opens a file for the first time in this process: makes it, checks it, brings it up to date.
pub(super) fn first(path: &Path, settings: &Settings, now: StoreTime) -> Result<Connection> {
    let shown = path.display();
    let failed = |error: rusqlite::Error| cannot_open(path, &error);
    let mut connection = connect(path, settings, true).map_err(failed)?;
    let writable = connection.is_readonly("main").map(|readonly| !readonly).map_err(failed)?;
    if !writable {
        return Err(read_only(path));
    }
    check_ours(&connection, path, settings.guest)?;
    let mode: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(failed)?;
    if mode != "wal" {
        return Err(Error::invalid(
            "no_wal",
            format!("cannot open `{shown}`: this file system allows no write-ahead log"),
            "use a local file system",
        ));
    }
    migrate(&mut connection, path, now, settings.guest)?;
    Ok(connection)
}

/// A database in memory, private to the connection.
pub(super) fn memory(settings: &Settings, now: StoreTime) -> Result<Connection> {
    let path = Path::new(":memory:");
    let mut connection = Connection::open_in_memory().map_err(|error| cannot_open(path, &error))?;
    adjust(&connection, settings).map_err(|error| cannot_open(path, &error))?;
    migrate(&mut connection, path, now, settings.guest)?;
    Ok(connection)
}

/// One more connection to a file that exists.
pub(super) fn connect(
    path: &Path,
    settings: &Settings,
    create: bool,
) -> std::result::Result<Connection, rusqlite::Error> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    adjust(&connection, settings)?;
    Ok(connection)
}

fn adjust(
    connection: &Connection,
    settings: &Settings,
) -> std::result::Result<(), rusqlite::Error> {
    connection.busy_timeout(settings.busy)?;
    let synchronous = match settings.synchronous {
        Synchronous::Normal => "NORMAL",
        Synchronous::Full => "FULL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    if let Some(bytes) = settings.size_max {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(1);
        let _in_force: i64 =
            connection
                .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get(0))?;
    }
    Ok(())
}

/// Refuses a file that is no database, another program's, or a newer version's.
fn check_ours(connection: &Connection, path: &Path, guest: bool) -> Result<()> {
    let failed = |error: rusqlite::Error| cannot_open(path, &error);
    let shown = path.display();
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    let objects: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failed)?;
    let fresh = application == 0 && objects == 0;
    if !fresh && application != APPLICATION_ID && !guest {
        return Err(Error::invalid(
            "foreign_file",
            format!("`{shown}` is a database of another program"),
            "name a file of our own; it is made when it does not exist. To keep records in tables of this file, map \
             them with `storage`",
        ));
    }
    let newest = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let mut has = version(connection).map_err(failed)?;
    if application == APPLICATION_ID {
        let header: i64 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(failed)?;
        has = has.max(header);
    }
    if has > newest {
        return Err(Error::invalid(
            "newer_file",
            format!(
                "`{shown}` was written by a newer version: schema {has}, and this one knows {newest}"
            ),
            "use the newer version, or restore a backup from before the upgrade",
        ));
    }
    Ok(())
}

/// The newest migration. In a file of the CMS the header's version is the CMS's.
fn version(connection: &Connection) -> std::result::Result<i64, rusqlite::Error> {
    let table = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'fl_migration'";
    let tables: i64 = connection.query_row(table, [], |row| row.get(0))?;
    if tables == 0 {
        return Ok(0);
    }
    let newest = "SELECT coalesce(max(number), 0) FROM fl_migration";
    connection.query_row(newest, [], |row| row.get(0))
}

/// Applies what is missing, in one transaction; two processes that open a new file at once are safe.
fn migrate(connection: &mut Connection, path: &Path, now: StoreTime, guest: bool) -> Result<()> {
    let failed = |error: rusqlite::Error| cannot_open(path, &error);
    let transaction = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(failed)?;
    let has = version(&transaction).map_err(failed)?;
    let application: i32 =
        transaction.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    let ours = !guest || application == APPLICATION_ID;
    for file in MIGRATIONS {
        let (number, checksum) = (i64::from(file.number), file.checksum().to_vec());
        let name = format!("{:04}_{}", file.number, file.name);
        if number <= has {
            let applied: Vec<u8> = transaction
                .query_row("SELECT checksum FROM fl_migration WHERE number = ?1", [number], |row| {
                    row.get(0)
                })
                .map_err(failed)?;
            if applied != checksum {
                return Err(Error::invalid(
                    "changed_schema",
                    format!("`{}` was made by another text of `{name}.sql`", path.display()),
                    "use the version that made the file, or a new file",
                ));
            }
            continue;
        }
        transaction.execute_batch(file.sql).map_err(failed)?;
        transaction
            .execute(
                "INSERT INTO fl_migration (number, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)",
                (number, &name, checksum, now.0),
            )
            .map_err(failed)?;
        if ours {
            transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
            transaction.pragma_update(None, "user_version", number).map_err(failed)?;
        }
    }
    transaction.commit().map_err(failed)
}

pub(super) fn cannot_open(path: &Path, error: &rusqlite::Error) -> Error {
    let shown = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Error::invalid(
            "not_a_database",
            format!("`{shown}` is not a database, or is damaged: {error}"),
            "name another file, or restore a backup",
        ),
        // What the first statement says where the file stands in need of its log.
        Some(ErrorCode::ReadOnly) => read_only(path),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Error::invalid(
            "cannot_open",
            format!("cannot open `{shown}`: {error}"),
            "check the permissions of the file and its directory",
        ),
        _ => Error::unavailable(format!("cannot open `{shown}`: {error}")),
    }
}

fn read_only(path: &Path) -> Error {
    Error::invalid(
        "read_only",
        format!("cannot open `{}`: it is read-only", path.display()),
        "give the process write permission for the file and its directory",
    )
}
