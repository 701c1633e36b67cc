//! Reading a record, and claiming its scopes.

use std::collections::BTreeMap;

use crate::{
    clock::StoreTime,
    commit::Refusal,
    entity::{EntityRef, EntityType},
    mapping::Layout,
    record::Record,
    scope::Scope,
    snapshot::{Snapshot, Stamp},
    store::{
        Claim, ClaimAsk, Claimed,
        sqlite::{
            fault::Fault,
            mapped, rows,
            session::{End, Tx},
        },
    },
    token::{Fence, Generation, Incarnation, VersionNumber},
};

type Done<T> = Result<T, Fault>;

/// The entity row.
pub(super) struct EntityRow {
    pub(super) entity: i64,
    pub(super) incarnation: Incarnation,
    pub(super) deleted_at: Option<StoreTime>,
    pub(super) number: VersionNumber,
    pub(super) fence: Fence,
    pub(super) data: String,
}

pub(super) fn entity_row(tx: &Tx<'_>, kind: &str, id: &str) -> Done<Option<EntityRow>> {
    tx.one(&tx.sql.entity, (kind, id), |row| {
        let deleted_at: Option<i64> = row.get(2)?;
        Ok(EntityRow {
            entity: row.get(0)?,
            incarnation: rows::incarnation(row, 1)?,
            deleted_at: deleted_at.map(StoreTime),
            number: VersionNumber(rows::counter(row, 3)?),
            fence: rows::fence(row, 4)?,
            data: row.get(5)?,
        })
    })
}

/// The entity as of this transaction.
pub(super) fn load(
    tx: &Tx<'_>,
    layout: Option<&Layout>,
    entity: &EntityRef,
) -> Done<Option<Snapshot>> {
    let row = entity_row(tx, entity.kind.as_str(), entity.id.as_str())?;
    let Some(layout) = layout else {
        return row.map(|row| snapshot(tx, entity, &row, None)).transpose();
    };
    let stored = mapped::stored(tx, layout, entity)?;
    let row = mapped::seen(tx, row, stored.exists);
    row.map(|row| snapshot(tx, entity, &row, Some(stored.record))).transpose()
}

/// With `record` where the values are not in our own row.
fn snapshot(
    tx: &Tx<'_>,
    entity: &EntityRef,
    row: &EntityRow,
    record: Option<Record>,
) -> Done<Snapshot> {
    let mut versions = BTreeMap::new();
    tx.each(&tx.sql.scopes, [row.entity], |scope| {
        versions.insert(rows::scope(tx.words, scope, 0)?, rows::version(scope, 1)?);
        Ok(())
    })?;
    // Collected first: a map is built faster from rows that are nearly sorted.
    let mut stamps = Vec::new();
    tx.each(&tx.sql.stamps, [row.entity], |stamp| {
        let path = rows::path(tx.words, stamp, 0)?;
        let stamp = Stamp {
            scope: rows::scope(tx.words, stamp, 1)?,
            version: rows::version(stamp, 2)?,
            operation: rows::operation_id(stamp, 3)?,
            at: rows::time(stamp, 4)?,
            writer: rows::writer(tx.words, stamp, 5)?,
        };
        stamps.push((path, stamp));
        Ok(())
    })?;
    Ok(Snapshot {
        entity: entity.clone(),
        incarnation: row.incarnation,
        deleted_at: row.deleted_at,
        record: record.map_or_else(|| tx.words.record(row.entity, &row.data), Ok)?,
        stamps: stamps.into_iter().collect(),
        versions,
        entity_fence: row.fence,
        number: row.number,
        read_at: tx.now,
    })
}

/// Refuses a caller who goes by other rules than those in force, or by rules not in force yet (RULES 29).
pub(super) fn check_rules(
    tx: &Tx<'_>,
    kind: &EntityType,
    generation: Generation,
) -> Done<Option<Refusal>> {
    tx.one(&tx.sql.rules, [kind.as_str()], |row| {
        let active = rows::generation(row, 0)?;
        let effective = rows::time(row, 1)?;
        Ok((active != generation || tx.now < effective).then_some(Refusal::StaleRegistry(active)))
    })
    .map(Option::flatten)
}

/// Fences and holder first, then the record: it sees the former holder's last commit (RULES 13).
pub(super) fn claim(tx: &Tx<'_>, layout: Option<&Layout>, ask: &ClaimAsk) -> Done<End<Claimed>> {
    let refuse = |refusal| Ok(End::Undo(Claimed::Refused(refusal)));
    let entity = ask.scopes.entity();
    if let Some(refusal) = check_rules(tx, &entity.kind, ask.generation)? {
        return refuse(refusal);
    }
    let stored = layout.map(|layout| mapped::stored(tx, layout, entity)).transpose()?;
    if let Some(stored) = &stored {
        mapped::meet(tx, entity, stored.exists)?;
    }
    let Some(mut row) = entity_row(tx, entity.kind.as_str(), entity.id.as_str())? else {
        return refuse(Refusal::NotFound);
    };
    if row.deleted_at.is_some() {
        return refuse(Refusal::Gone);
    }
    if ask.whole {
        row.fence =
            tx.always(&tx.sql.raise_entity_fence, [row.entity], |row| rows::fence(row, 0))?;
    }
    let mut fences = BTreeMap::new();
    for name in ask.scopes.names() {
        let params = (row.entity, name.to_string(), ask.holder.0);
        let fence = tx.always(&tx.sql.claim_scope, params, |row| rows::fence(row, 0))?;
        fences.insert(name.clone(), fence);
    }
    let snapshot = snapshot(tx, entity, &row, stored.map(|stored| stored.record))?;
    Ok(End::Keep(Claimed::Claimed(Box::new(Claim { snapshot, fences }))))
}

/// A claim by nobody. An id that was never created has no claim to break: fence 0.
pub(super) fn break_claim(tx: &Tx<'_>, scope: &Scope) -> Done<End<Fence>> {
    let entity = &scope.entity;
    let Some(row) = entity_row(tx, entity.kind.as_str(), entity.id.as_str())? else {
        return Ok(End::Undo(Fence::default()));
    };
    let params = (row.entity, scope.name.to_string());
    tx.always(&tx.sql.break_scope, params, |row| rows::fence(row, 0)).map(End::Keep)
}
