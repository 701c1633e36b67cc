//! Pruning and erasing.

use crate::{
    clock::BoxFuture,
    entity::{EntityRef, Writer},
    error::Result,
    store::{
        sqlite::{
            SqliteStore,
            fault::Fault,
            load::entity_row,
            rows,
            session::{End, Tx},
        },
        text as stored,
    },
    upkeep::{Erase, EraseAsk, Erased, PruneAsk, Pruned, UpkeepStore},
};

type Done<T> = std::result::Result<T, Fault>;

impl UpkeepStore for SqliteStore {
    fn prune<'a>(&'a self, ask: &'a PruneAsk) -> BoxFuture<'a, Result<Pruned>> {
        let ask = ask.clone();
        Box::pin(self.write(None, move |tx| ended(prune(tx, &ask)?, ask.dry_run)))
    }

    fn erase<'a>(&'a self, ask: &'a EraseAsk) -> BoxFuture<'a, Result<Option<Erased>>> {
        let ask = ask.clone();
        Box::pin(self.write(None, move |tx| ended(erase(tx, &ask)?, ask.dry_run)))
    }
}

/// A dry run does everything and takes it back.
fn ended<T>(answer: T, dry_run: bool) -> Done<End<T>> {
    Ok(if dry_run { End::Undo(answer) } else { End::Keep(answer) })
}

/// One record that may have something to prune.
struct Candidate {
    entity: i64,
    number: i64,
    deleted_at: Option<i64>,
}

fn prune(tx: &Tx<'_>, ask: &PruneAsk) -> Done<Pruned> {
    let most = i64::from(ask.most.max(1));
    if let Some(age) = ask.operations_older {
        let age = i64::try_from(age.max(ask.base_window).as_micros()).unwrap_or(i64::MAX);
        tx.change(&tx.sql.prune_events, (tx.now.0.saturating_sub(age), most))?;
    }
    let mut candidates = Vec::new();
    let kind = ask.kind.as_ref().map(|kind| kind.as_str().to_owned());
    tx.each(&tx.sql.upkeep_entities, (rows::column(ask.after)?, kind, most), |row| {
        let (entity, number, deleted_at) = (row.get(0)?, row.get(1)?, row.get(2)?);
        candidates.push(Candidate { entity, number, deleted_at });
        Ok(())
    })?;
    let mut pruned = Pruned::default();
    let mut left = most;
    let full = i64::try_from(candidates.len()).unwrap_or(i64::MAX) >= most;
    for candidate in &candidates {
        let row = u64::try_from(candidate.entity).unwrap_or_default();
        left -= prune_one(tx, ask, candidate, left, &mut pruned)?;
        if left <= 0 {
            // This record may have more.
            pruned.next = Some(row.saturating_sub(1));
            return Ok(pruned);
        }
        pruned.next = full.then_some(row);
    }
    Ok(pruned)
}

/// Answers how many saves went.
fn prune_one(
    tx: &Tx<'_>,
    ask: &PruneAsk,
    candidate: &Candidate,
    most: i64,
    pruned: &mut Pruned,
) -> Done<i64> {
    let before = |age: std::time::Duration| {
        tx.now.0.saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX))
    };
    let floor = before(ask.base_window);
    if let (Some(age), Some(deleted)) = (ask.tombstones_older, candidate.deleted_at)
        && deleted < before(age).min(floor)
    {
        let (saves, keyed): (i64, i64) =
            tx.always(&tx.sql.saves_of, [candidate.entity], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if keyed == 0 {
            forget(tx, candidate.entity)?;
            pruned.tombstones += 1;
            return Ok(saves.min(most));
        }
    }
    let keep = ask.keep_versions.map(|keep| rows::column(keep.max(1))).transpose()?;
    let (versions, operations) = (ask.versions_older.map(before), ask.operations_older.map(before));
    let params = (candidate.entity, candidate.number, keep, versions, operations, floor, most);
    let mut saves: Vec<(i64, bool)> = Vec::new();
    tx.each(&tx.sql.prunable, params, |row| {
        saves.push((row.get(0)?, row.get(1)?));
        Ok(())
    })?;
    for (save, version) in &saves {
        tx.change(&tx.sql.mark_pruned, (save, candidate.entity))?;
        tx.change(&tx.sql.prune_changes, [save])?;
        tx.change(&tx.sql.prune_version, [save])?;
        tx.change(&tx.sql.prune_operation, [save])?;
        match version {
            true => pruned.versions += 1,
            false => pruned.operations += 1,
        }
    }
    Ok(i64::try_from(saves.len()).unwrap_or(i64::MAX))
}

/// A record that was deleted long ago goes with its numbers.
fn forget(tx: &Tx<'_>, entity: i64) -> Done<()> {
    let sql = tx.sql;
    for statement in [
        &sql.drop_changes,
        &sql.drop_versions,
        &sql.drop_operations,
        &sql.remove_stamps,
        &sql.drop_scopes,
        &sql.forget_erased,
        &sql.drop_entity,
    ] {
        tx.change(statement, [entity])?;
    }
    Ok(())
}

fn erase(tx: &Tx<'_>, ask: &EraseAsk) -> Done<Option<Erased>> {
    match &ask.what {
        Erase::Entity(entity) => erase_entity(tx, ask, entity),
        Erase::Writer(writer) => erase_writer(tx, ask, writer).map(Some),
    }
}

fn erase_entity(tx: &Tx<'_>, ask: &EraseAsk, entity: &EntityRef) -> Done<Option<Erased>> {
    let (kind, id) = (entity.kind.as_str(), entity.id.as_str());
    let Some(row) = entity_row(tx, kind, id)? else { return Ok(None) };
    let saves: i64 = tx.always(&tx.sql.saves_of, [row.entity], |row| Ok(row.get(0)?))?;
    let sql = tx.sql;
    tx.change(&sql.erase_keys, [row.entity])?;
    tx.change(&sql.drop_changes, [row.entity])?;
    tx.change(&sql.erase_versions, [row.entity])?;
    tx.change(&sql.erase_operations, [row.entity])?;
    let values = tx.change(&sql.remove_stamps, [row.entity])?;
    tx.change(&sql.close_scopes, [row.entity])?;
    tx.change(&sql.close_entity, (row.entity, tx.now.0))?;
    tx.change(&sql.erase_queue_scopes, (kind, id))?;
    tx.change(&sql.erase_queue, (kind, id))?;
    tx.change(&sql.erase_events, (kind, id))?;
    let params = ("record", Some(kind), Some(id), saves, &ask.by, &ask.reason, tx.now.0);
    tx.change(&sql.prove_erasure, params)?;
    Ok(Some(Erased { saves: u64::try_from(saves).unwrap_or_default(), values: values as u64 }))
}

fn erase_writer(tx: &Tx<'_>, ask: &EraseAsk, writer: &Writer) -> Done<Erased> {
    let params = (&*writer.name, stored::kind_text(writer.kind));
    let saves = tx.change(&tx.sql.erase_writer_saves, params)?;
    let values = tx.change(&tx.sql.erase_writer_stamps, params)?;
    tx.change(&tx.sql.erase_writer_queue, params)?;
    let count = i64::try_from(saves).unwrap_or(i64::MAX);
    let none: Option<&str> = None;
    let proof = ("writer", none, none, count, &ask.by, &ask.reason, tx.now.0);
    tx.change(&tx.sql.prove_erasure, proof)?;
    Ok(Erased { saves: saves as u64, values: values as u64 })
}
