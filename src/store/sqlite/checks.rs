//! Looks at a file before records are trusted to it; changes nothing.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::open::{MIGRATIONS, cannot_open};
use crate::{
    database::{
        finding::{BYPASSED_MAX, Finding, Level, bypassed},
        migration::{Applied, Migration, missing},
    },
    error::{Error, Result},
};

/// Problems of one file that are told; one that is damaged may have thousands.
const PROBLEMS_MAX: u32 = 5;

/// The migrations that are missing, all of them where there is no file.
pub(super) fn outstanding(path: &Path) -> Result<Vec<Migration>> {
    if !path.exists() {
        return Ok(MIGRATIONS.to_vec());
    }
    let failed = |error: rusqlite::Error| cannot_open(path, &error);
    let connection = connect(path)?;
    let there = connection
        .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'fl_migration'", [], |_| Ok(()))
        .optional()
        .map_err(failed)?;
    if there.is_none() {
        return Ok(MIGRATIONS.to_vec());
    }
    let mut statement = connection
        .prepare("SELECT number, checksum FROM fl_migration ORDER BY number")
        .map_err(failed)?;
    let rows = statement
        .query_map([], |row| Ok(Applied { number: row.get(0)?, checksum: row.get(1)? }))
        .map_err(failed)?;
    let applied: Vec<Applied> = rows.collect::<rusqlite::Result<_>>().map_err(failed)?;
    missing(&MIGRATIONS, &applied, &path.display().to_string())
}

/// Whether the file is whole, ours and up to date. Worst first.
pub(super) fn findings(path: &Path) -> Result<Vec<Finding>> {
    let mut all = match outstanding(path) {
        Ok(missing) if missing.is_empty() => Vec::new(),
        Ok(missing) => vec![old(&missing)],
        Err(Error::Invalid { code, message, help, .. }) => {
            return Ok(vec![Finding::new(Level::Refuse, code, message, help)]);
        }
        Err(error) => return Err(error),
    };
    let connection = connect(path)?;
    let problems = problems(&connection).unwrap_or_else(|error| vec![error.to_string()]);
    if !problems.is_empty() {
        let message = format!("the file is damaged: {}", problems.join("; "));
        let remedy = "stop the service, and restore a backup";
        all.push(Finding::new(Level::Refuse, "damaged_file", message, remedy));
    }
    // A file from before this table has none to tell of.
    all.extend(bypassed(&written_past(&connection).unwrap_or_default()));
    all.push(Finding::new(
        Level::Info,
        "one_machine",
        "the file serves processes of one machine, one writer at a time",
        "services on several machines need PostgreSQL or MariaDB",
    ));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    Ok(all)
}

fn old(missing: &[Migration]) -> Finding {
    let names: Vec<&str> = missing.iter().map(|file| file.name).collect();
    Finding::new(
        Level::Warn,
        "old_schema",
        format!("the file lacks {}", names.join(", ")),
        "open it with this version once, or run `fieldlease migrate`",
    )
}

fn problems(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = format!("PRAGMA integrity_check({PROBLEMS_MAX})");
    let mut statement = connection.prepare(&sql)?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let lines: Vec<String> = lines.collect::<rusqlite::Result<_>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

fn written_past(connection: &Connection) -> rusqlite::Result<Vec<(String, i64)>> {
    let sql = format!(
        "SELECT place, SUM(times) FROM fl_bypass GROUP BY place ORDER BY 2 DESC, 1 LIMIT {BYPASSED_MAX}"
    );
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|error| cannot_open(path, &error))
}
