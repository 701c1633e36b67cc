//! Reading what saves left behind.

use std::collections::BTreeMap;

use rusqlite::Row;

use crate::{
    commit::{Changed, Trace},
    entity::{EntityRef, Value},
    error::Error,
    history::{BaseQuery, Entry},
    path::Path,
    store::{
        sqlite::{fault::Fault, rows, session::Tx},
        text as stored,
    },
    token::{OperationId, VersionNumber},
};

type Done<T> = Result<T, Fault>;

/// Newest first. The cursor is an entry's operation.
pub(super) fn entries(
    tx: &Tx<'_>,
    entity: &EntityRef,
    before: Option<OperationId>,
    most: u32,
) -> Done<Vec<Entry>> {
    let before = before.map(|operation| save_of(tx, operation)).transpose()?;
    let mut entries = Vec::new();
    let params = (entity.kind.as_str(), entity.id.as_str(), before, most);
    tx.each(&tx.sql.entries, params, |row| {
        entries.push(entry_of(tx, row)?);
        Ok(())
    })?;
    Ok(entries)
}

fn save_of(tx: &Tx<'_>, operation: OperationId) -> Done<i64> {
    let save =
        tx.one(&tx.sql.operation, [rows::operation_blob(operation)], |row| Ok(row.get(0)?))?;
    save.ok_or_else(|| {
        Fault::Invalid(Error::invalid(
            "bad_cursor",
            format!("there is no operation {operation} to go on from"),
            "begin with the newest entry",
        ))
    })
}

/// The newest entry that changed each path.
pub(super) fn blame(
    tx: &Tx<'_>,
    entity: &EntityRef,
    paths: &[Path],
) -> Done<BTreeMap<Path, Entry>> {
    let mut found = BTreeMap::new();
    for path in paths {
        let params = (entity.kind.as_str(), entity.id.as_str(), path.as_str());
        let save: Option<i64> = tx.always(&tx.sql.newest_change, params, |row| Ok(row.get(0)?))?;
        let entry = save.map(|save| tx.one(&tx.sql.entry, [save], |row| entry_of(tx, row)));
        if let Some(entry) = entry.transpose()?.flatten() {
            found.insert(path.clone(), entry);
        }
    }
    Ok(found)
}

/// The value before the first change after the version (RULES 9).
pub(super) fn bases(
    tx: &Tx<'_>,
    entity: &EntityRef,
    queries: &[BaseQuery],
) -> Done<BTreeMap<Path, Value>> {
    let mut found = BTreeMap::new();
    for query in queries {
        let (kind, id) = (entity.kind.as_str(), entity.id.as_str());
        let version = rows::column(query.version.0)?;
        let params = (kind, id, query.path.as_str(), query.scope.to_string(), version);
        if let Some(value) = tx.one(&tx.sql.base, params, |row| rows::value(row, 0))? {
            found.insert(query.path.clone(), value);
        }
    }
    Ok(found)
}

/// One version.
pub(super) fn version(
    tx: &Tx<'_>,
    entity: &EntityRef,
    number: VersionNumber,
) -> Done<Option<Entry>> {
    let params = (entity.kind.as_str(), entity.id.as_str(), rows::column(number.0)?);
    let save: Option<i64> = tx.one(&tx.sql.version, params, |row| Ok(row.get(0)?))?;
    let Some(save) = save else { return Ok(None) };
    tx.one(&tx.sql.entry, [save], |row| entry_of(tx, row))
}

/// From the columns of `entries`.
fn entry_of(tx: &Tx<'_>, row: &Row<'_>) -> Done<Entry> {
    let save: i64 = row.get(0)?;
    let mut changed = Vec::new();
    tx.each(&tx.sql.changes, [save], |row| {
        changed.push(Changed {
            path: rows::path(tx.words, row, 0)?,
            scope: rows::scope(tx.words, row, 1)?,
            old: rows::value(row, 2)?,
            new: rows::value(row, 3)?,
            strategy: row.get(4)?,
        });
        Ok(())
    })?;
    let state: Option<String> = row.get(8)?;
    let trace = match state {
        Some(state) => Trace::Version { state: tx.words.parse(&state)?, reason: row.get(9)? },
        None => {
            let detail = rows::text(row, 7)?;
            let detail = serde_json::from_str(detail)
                .map_err(|error| Fault::Broken(format!("a stored operation record: {error}")))?;
            Trace::Operation(detail)
        }
    };
    Ok(Entry {
        operation: rows::operation_id(row, 1)?,
        incarnation: rows::incarnation(row, 2)?,
        number: rows::number(row, 3)?,
        lifecycle: stored::lifecycle(rows::text(row, 4)?)?,
        at: rows::time(row, 5)?,
        versions: stored::versions_after(&stored::scope_steps(rows::text(row, 6)?)?),
        writer: rows::writer(tx.words, row, 10)?,
        changed,
        trace,
    })
}
