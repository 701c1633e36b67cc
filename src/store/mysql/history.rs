//! Reading what saves left behind.

use std::{collections::BTreeMap, sync::Arc};

use mysql_async::{Conn, Value as Column};

use crate::{
    commit::{Changed, Trace},
    database::mysql::{Cells, Fault, pool::Work, session},
    entity::{EntityRef, Value},
    error::Error,
    history::{BaseQuery, Entry},
    path::Path,
    record::Record,
    store::{
        mysql::{
            load::key,
            rows::{self, Sets},
            statements::Statements,
        },
        text as stored,
    },
    token::{OperationId, VersionNumber},
};

type Done<T> = Result<T, Fault>;

/// Newest first. The cursor is an entry's operation.
pub(super) fn entries(
    sql: &Arc<Statements>,
    entity: &EntityRef,
    before: Option<OperationId>,
    most: u32,
) -> Work<Vec<Entry>> {
    let (sql, params) = (sql.clone(), key(entity).to_vec());
    Arc::new(move |conn| {
        let (sql, mut params) = (sql.clone(), params.clone());
        Box::pin(async move {
            params.push(match before {
                Some(operation) => Column::Int(save_of(conn, &sql, operation).await?),
                None => Column::NULL,
            });
            params.push(Column::UInt(most.into()));
            let sets = Sets::new(session::sets(conn, &sql.entries, params).await?);
            let entries = whole(conn, &sql, sets).await?;
            Ok(entries.into_iter().map(|(_, entry)| entry).collect())
        })
    })
}

async fn save_of(conn: &mut Conn, sql: &Statements, operation: OperationId) -> Done<i64> {
    let params = vec![rows::operation_bytes(operation)];
    let mut sets = Sets::new(session::sets(conn, &sql.operation, params).await?);
    let Some(mut row) = sets.row() else {
        return Err(Fault::Refused(Error::invalid(
            "bad_cursor",
            format!("there is no operation {operation} to go on from"),
            "begin with the newest entry",
        )));
    };
    row.signed()
}

/// The newest entry that changed each path.
pub(super) fn blame(
    sql: &Arc<Statements>,
    entity: &EntityRef,
    paths: &[Path],
) -> Work<BTreeMap<Path, Entry>> {
    let (sql, entity) = (sql.clone(), entity.clone());
    let paths: Vec<&str> = paths.iter().map(Path::as_str).collect();
    let list = serde_json::Value::from(paths).to_string();
    Arc::new(move |conn| {
        let (sql, entity, list) = (sql.clone(), entity.clone(), list.clone());
        Box::pin(async move {
            let mut params = vec![rows::bytes(list)];
            params.extend(key(&entity));
            let mut sets = Sets::new(session::sets(conn, &sql.newest_changes, params).await?);
            let mut saves = BTreeMap::new();
            for mut cells in sets.rows() {
                let path = rows::path(&mut cells)?;
                if let Some(save) = cells.signed_or_null()? {
                    saves.insert(path, save);
                }
            }
            let wanted = saves.values().copied().collect();
            let entries: BTreeMap<i64, Entry> =
                entries_of(conn, &sql, wanted).await?.into_iter().collect();
            let found =
                |(path, save): (Path, i64)| entries.get(&save).map(|entry| (path, entry.clone()));
            Ok(saves.into_iter().filter_map(found).collect())
        })
    })
}

/// The value before the first change after the version (RULES 9).
pub(super) fn bases(
    sql: &Arc<Statements>,
    entity: &EntityRef,
    queries: &[BaseQuery],
) -> Work<BTreeMap<Path, Value>> {
    let (sql, entity) = (sql.bases.clone(), entity.clone());
    let asked = queries.iter().map(|query| {
        serde_json::json!([query.path.as_str(), query.scope.to_string(), query.version.0])
    });
    let list = asked.collect::<serde_json::Value>().to_string();
    Arc::new(move |conn| {
        let mut params = vec![rows::bytes(&list)];
        params.extend(key(&entity));
        let sql = sql.clone();
        Box::pin(async move {
            let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
            let base = |mut cells: Cells| Ok((rows::path(&mut cells)?, rows::value(&mut cells)?));
            sets.rows().map(base).collect()
        })
    })
}

/// One version.
pub(super) fn version(
    sql: &Arc<Statements>,
    entity: &EntityRef,
    number: VersionNumber,
) -> Work<Option<Entry>> {
    let (sql, entity) = (sql.clone(), entity.clone());
    Arc::new(move |conn| {
        let (sql, entity) = (sql.clone(), entity.clone());
        Box::pin(async move {
            let mut params = vec![rows::column(number.0)?];
            params.extend(key(&entity));
            let mut sets = Sets::new(session::sets(conn, &sql.version, params).await?);
            let Some(mut row) = sets.row() else { return Ok(None) };
            let entries = entries_of(conn, &sql, vec![row.signed()?]).await?;
            Ok(entries.into_iter().next().map(|(_, entry)| entry))
        })
    })
}

async fn entries_of(conn: &mut Conn, sql: &Statements, saves: Vec<i64>) -> Done<Vec<(i64, Entry)>> {
    let params = vec![rows::bytes(serde_json::Value::from(saves).to_string())];
    let sets = Sets::new(session::sets(conn, &sql.entries_of, params).await?);
    whole(conn, sql, sets).await
}

/// Entries with their changes: one more round trip, whatever their number.
async fn whole(conn: &mut Conn, sql: &Statements, mut sets: Sets) -> Done<Vec<(i64, Entry)>> {
    let mut entries = sets.rows().map(entry).collect::<Done<Vec<_>>>()?;
    if entries.is_empty() {
        return Ok(entries);
    }
    let saves: Vec<i64> = entries.iter().map(|(save, _)| *save).collect();
    let params = vec![rows::bytes(serde_json::Value::from(saves).to_string())];
    let mut sets = Sets::new(session::sets(conn, &sql.changes_of, params).await?);
    let mut changes: BTreeMap<i64, Vec<Changed>> = BTreeMap::new();
    for mut cells in sets.rows() {
        let save = cells.signed()?;
        changes.entry(save).or_default().push(Changed {
            path: rows::path(&mut cells)?,
            scope: rows::scope(&mut cells)?,
            old: rows::value(&mut cells)?,
            new: rows::value(&mut cells)?,
            strategy: cells.text_or_null()?,
        });
    }
    for (save, entry) in &mut entries {
        entry.changed = changes.remove(save).unwrap_or_default();
    }
    Ok(entries)
}

/// From the columns of `entries`, without what changed.
fn entry(mut cells: Cells) -> Done<(i64, Entry)> {
    let save = cells.signed()?;
    let operation = rows::operation(&mut cells)?;
    let incarnation = rows::incarnation(&mut cells)?;
    let number = rows::number(&mut cells)?;
    let lifecycle = stored::lifecycle(&cells.text()?)?;
    let at = rows::time(&mut cells)?;
    let versions = stored::versions_after(&stored::scope_steps(&cells.text()?)?);
    let detail = cells.text()?;
    let state = cells.text_or_null()?;
    let reason = cells.text_or_null()?;
    let trace = match state {
        Some(state) => {
            let state = Record::from_json(stored::json(&state)?).map_err(Fault::Broken)?;
            Trace::Version { state, reason }
        }
        None => Trace::Operation(
            serde_json::from_str(&detail)
                .map_err(|error| Fault::Broken(format!("a stored operation record: {error}")))?,
        ),
    };
    let (writer, changed) = (rows::writer(&mut cells)?, Vec::new());
    let entry =
        Entry { number, operation, at, writer, lifecycle, incarnation, versions, changed, trace };
    Ok((save, entry))
}
