//! Reading a record, and claiming its scopes.

use std::{collections::BTreeMap, sync::Arc};

use mysql_async::Value as Column;

use crate::{
    clock::StoreTime,
    commit::Refusal,
    database::mysql::{Cells, Fault, pool::Work, session},
    entity::EntityRef,
    record::Record,
    scope::{Scope, ScopeName},
    snapshot::{Snapshot, Stamp},
    store::{
        Claim, ClaimAsk, Claimed,
        mysql::{
            rows::{self, Sets},
            statements::Statements,
        },
        text as stored,
    },
    token::{Fence, Incarnation, ScopeVersion, VersionNumber},
};

type Done<T> = Result<T, Fault>;

pub(super) fn load(sql: &Arc<Statements>, entity: &EntityRef) -> Work<Option<Snapshot>> {
    let (sql, entity) = (sql.load.clone(), entity.clone());
    let params = key(&entity).to_vec();
    Arc::new(move |conn| {
        let (sql, entity, params) = (sql.clone(), entity.clone(), params.clone());
        Box::pin(async move {
            let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
            let Some(mut row) = sets.row() else { return Ok(None) };
            let _found = row.text()?;
            snapshot(&entity, row, &mut sets).map(|(snapshot, _)| Some(snapshot))
        })
    })
}

pub(super) fn claim(sql: &Arc<Statements>, ask: &ClaimAsk) -> Work<Claimed> {
    let (sql, ask) = (sql.claim.clone(), ask.clone());
    let names: Vec<String> = ask.scopes.names().iter().map(ToString::to_string).collect();
    let mut params = key(ask.scopes.entity()).to_vec();
    params.extend([
        rows::bytes(ask.generation.0),
        rows::bytes(ask.holder.0),
        Column::Int(i64::from(ask.whole)),
        rows::bytes(serde_json::Value::from(names).to_string()),
    ]);
    Arc::new(move |conn| {
        let (sql, ask, params) = (sql.clone(), ask.clone(), params.clone());
        Box::pin(async move {
            let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
            let mut row = sets.always()?;
            let outcome = row.text()?;
            if outcome != "found" {
                return refusal(&outcome, row).map(Claimed::Refused);
            }
            let entity = ask.scopes.entity();
            let (snapshot, mut fences) = snapshot(entity, row, &mut sets)?;
            fences.retain(|name, _| ask.scopes.names().contains(name));
            Ok(Claimed::Claimed(Box::new(Claim { snapshot, fences })))
        })
    })
}

pub(super) fn break_claim(sql: &Arc<Statements>, scope: &Scope) -> Work<Fence> {
    let sql = sql.break_claim.clone();
    let mut params = key(&scope.entity).to_vec();
    params.push(rows::bytes(scope.name.to_string()));
    Arc::new(move |conn| {
        let (sql, params) = (sql.clone(), params.clone());
        Box::pin(async move {
            let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
            sets.always()?.number().map(Fence)
        })
    })
}

pub(super) fn key(entity: &EntityRef) -> [Column; 2] {
    [rows::bytes(entity.kind.as_str()), rows::bytes(entity.id.as_str())]
}

/// Why a claim was refused; the rules in force are the next column.
fn refusal(outcome: &str, mut row: Cells) -> Done<Refusal> {
    match outcome {
        "stale_registry" => rows::generation(&mut row).map(Refusal::StaleRegistry),
        "not_found" => Ok(Refusal::NotFound),
        "gone" => Ok(Refusal::Gone),
        other => Err(Fault::Broken(format!("a claim was answered `{other}`"))),
    }
}

/// The sets of `fl_load`, from the second column of the first on; with the fence of every scope.
fn snapshot(
    entity: &EntityRef,
    mut row: Cells,
    sets: &mut Sets,
) -> Done<(Snapshot, BTreeMap<ScopeName, Fence>)> {
    let incarnation = Incarnation(row.number()?);
    let deleted_at = row.signed_or_null()?.map(StoreTime);
    let number = VersionNumber(row.number()?);
    let entity_fence = Fence(row.number()?);
    let read_at = rows::time(&mut row)?;
    let (mut versions, mut fences) = (BTreeMap::new(), BTreeMap::new());
    for mut cells in sets.rows() {
        let name = rows::scope(&mut cells)?;
        versions.insert(name.clone(), ScopeVersion(cells.number()?));
        fences.insert(name, Fence(cells.number()?));
    }
    let stamps = sets.rows().map(stamp).collect::<Done<_>>()?;
    let leaf = |mut cells: Cells| Ok((rows::path(&mut cells)?, stored::json(&cells.text()?)?));
    let record = Record::from_stored(sets.rows().map(leaf).collect::<Done<_>>()?);
    let entity = entity.clone();
    let snapshot = Snapshot {
        entity,
        incarnation,
        deleted_at,
        record,
        stamps,
        versions,
        entity_fence,
        number,
        read_at,
    };
    Ok((snapshot, fences))
}

fn stamp(mut cells: Cells) -> Done<(crate::path::Path, Stamp)> {
    let path = rows::path(&mut cells)?;
    let stamp = Stamp {
        scope: rows::scope(&mut cells)?,
        version: ScopeVersion(cells.number()?),
        operation: rows::operation(&mut cells)?,
        at: rows::time(&mut cells)?,
        writer: rows::writer(&mut cells)?,
    };
    Ok((path, stamp))
}
