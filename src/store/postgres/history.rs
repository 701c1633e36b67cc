//! Reading what saves left behind.

use std::collections::BTreeMap;

use serde::Deserialize;
use tokio_postgres::{Row, types::Type};

use crate::{
    commit::{Changed, OperationDetail, Trace},
    database::postgres::{Call, Class, Fault},
    entity::{EntityRef, Value},
    history::{BaseQuery, Entry},
    path::Path,
    scope::ScopeName,
    store::{
        postgres::{load::of_entity, rows, statements::Statements},
        text::{self as stored, ScopeStep},
    },
    token::{OperationId, ScopeVersion, VersionNumber},
};

type Done<T> = Result<T, Fault>;

/// One member of `fl_operation.changes`.
#[derive(Deserialize)]
struct StoredChange {
    path: String,
    scope: String,
    old: Option<String>,
    new: Option<String>,
    strategy: Option<String>,
}

pub(super) fn entries_call(
    sql: &Statements,
    entity: &EntityRef,
    before: Option<OperationId>,
    most: u32,
) -> Call {
    of_entity(Call::new(&sql.entries), entity)
        .with(Type::UUID, before.map(rows::operation_column))
        .with(Type::INT8, i64::from(most))
}

/// Newest first.
pub(super) fn entries(found: &[Row]) -> Done<Vec<Entry>> {
    found.iter().map(|row| entry(row, 0)).collect()
}

pub(super) fn blame_call(sql: &Statements, entity: &EntityRef, paths: &[Path]) -> Call {
    let paths: Vec<String> = paths.iter().map(|path| path.as_str().to_owned()).collect();
    of_entity(Call::new(&sql.blame), entity).with(Type::TEXT_ARRAY, paths)
}

/// The newest entry that changed each path.
pub(super) fn blamed(paths: &[Path], found: &[Row]) -> Done<BTreeMap<Path, Entry>> {
    found.iter().map(|row| Ok((asked(paths, row)?.clone(), entry(row, 1)?))).collect()
}

pub(super) fn bases_call(sql: &Statements, entity: &EntityRef, queries: &[BaseQuery]) -> Call {
    let paths: Vec<String> = queries.iter().map(|query| query.path.as_str().to_owned()).collect();
    let scopes: Vec<String> =
        queries.iter().map(|query| rows::scope_column(&query.scope)).collect();
    // A version beyond the column is beyond every save.
    let versions: Vec<i64> =
        queries.iter().map(|query| i64::try_from(query.version.0).unwrap_or(i64::MAX)).collect();
    of_entity(Call::new(&sql.bases), entity)
        .with(Type::TEXT_ARRAY, paths)
        .with(Type::TEXT_ARRAY, scopes)
        .with(Type::INT8_ARRAY, versions)
}

/// The value before the first change after the version (RULES 9).
pub(super) fn bases(queries: &[BaseQuery], found: &[Row]) -> Done<BTreeMap<Path, Value>> {
    let read = |row: &Row| {
        let query = asked(queries, row)?;
        Ok((query.path.clone(), rows::value(rows::column(row, 1)?)?))
    };
    found.iter().map(read).collect()
}

/// What stood at the place a row begins with.
fn asked<'a, T>(all: &'a [T], row: &Row) -> Done<&'a T> {
    let place: i64 = rows::column(row, 0)?;
    let index = usize::try_from(place - 1).ok();
    index
        .and_then(|index| all.get(index))
        .ok_or_else(|| Fault::new(Class::Broken, format!("a statement answered for place {place}")))
}

pub(super) fn version_call(
    sql: &Statements,
    entity: &EntityRef,
    number: VersionNumber,
) -> Done<Call> {
    let number = rows::number_column(number.0)?;
    Ok(of_entity(Call::new(&sql.version), entity).with(Type::INT8, number))
}

/// From the columns of `entries`, which begin at `at`.
pub(super) fn entry(row: &Row, at: usize) -> Done<Entry> {
    let broken = |error: serde_json::Error| {
        Fault::new(Class::Broken, format!("a stored save is not readable: {error}"))
    };
    let changes: Vec<StoredChange> =
        serde_json::from_str(rows::column(row, at + 6)?).map_err(broken)?;
    let detail: OperationDetail =
        serde_json::from_str(rows::column(row, at + 7)?).map_err(broken)?;
    let state: Option<&str> = rows::column(row, at + 8)?;
    let trace = match state {
        Some(state) => Trace::Version { state: rows::record(state)?, reason: detail.reason },
        None => Trace::Operation(detail),
    };
    Ok(Entry {
        operation: rows::operation(row, at)?,
        incarnation: rows::incarnation(row, at + 1)?,
        number: rows::number(row, at + 2)?,
        lifecycle: stored::lifecycle(rows::column(row, at + 3)?)?,
        at: rows::time(row, at + 4)?,
        versions: versions_after(rows::column(row, at + 5)?)?,
        writer: rows::writer(row, at + 9)?,
        changed: changes.into_iter().map(changed).collect::<Done<_>>()?,
        trace,
    })
}

fn changed(change: StoredChange) -> Done<Changed> {
    Ok(Changed {
        path: rows::path(&change.path)?,
        scope: rows::scope(&change.scope)?,
        old: rows::value(change.old.as_deref())?,
        new: rows::value(change.new.as_deref())?,
        strategy: change.strategy,
    })
}

/// The versions of `fl_operation.scopes`.
pub(super) fn versions_after(text: &str) -> Done<BTreeMap<ScopeName, ScopeVersion>> {
    let steps: BTreeMap<String, ScopeStep> = serde_json::from_str(text).map_err(|error| {
        Fault::new(Class::Broken, format!("the stored scopes of a save are not readable: {error}"))
    })?;
    steps.into_iter().map(|(name, step)| Ok((rows::scope(&name)?, step.after))).collect()
}
