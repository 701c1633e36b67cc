//! One save in one transaction: compared, applied and remembered, or nothing.

use crate::{
    commit::{Committed, Expect, Lifecycle, Refusal},
    mapping::Layout,
    path::Path,
    record::Record,
    registry::covers,
    store::{
        mapped::objection,
        prepare::{Prepared, PreparedScope},
        sqlite::{
            fault::Fault,
            keys::{self, Completion},
            load::{EntityRow, check_rules, entity_row},
            mapped, queue, rows,
            session::{End, Tx},
        },
        text::{self as stored, ScopeStep, ScopeSteps},
    },
    token::{Fence, Incarnation, OperationId, ScopeVersion, VersionNumber},
};

/// Why a commit goes no further.
enum Stop {
    Refused(Refusal),
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Applies it. A refused commit ends in a rollback: nothing it wrote on the way stays.
pub(super) fn commit(
    tx: &Tx<'_>,
    layout: Option<&Layout>,
    save: &Prepared,
) -> Result<End<Committed>, Fault> {
    let operation = rows::operation_blob(save.operation);
    if tx.one(&tx.sql.operation, [operation], |_| Ok(()))?.is_some() {
        return Ok(End::Undo(Committed::AlreadyApplied));
    }
    match apply(tx, layout, save) {
        Ok(applied) => Ok(End::Keep(applied)),
        Err(Stop::Refused(refusal)) => Ok(End::Undo(Committed::Refused(refusal))),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

/// What a save by this operation id did. Its write overwrites what a failed COMMIT may have left in the log, so
/// that "it did not" stays true after a restart.
pub(super) fn resolve(
    tx: &Tx<'_>,
    operation: OperationId,
) -> Result<End<Option<Committed>>, Fault> {
    let found = tx.one(&tx.sql.operation, [rows::operation_blob(operation)], |row| {
        Ok(Committed::Applied {
            incarnation: rows::incarnation(row, 2)?,
            number: rows::number(row, 3)?,
            versions: stored::versions_after(&stored::scope_steps(rows::text(row, 4)?)?),
        })
    })?;
    if found.is_none() {
        tx.change(&tx.sql.disturb, [])?;
    }
    Ok(End::Keep(found))
}

fn apply(tx: &Tx<'_>, layout: Option<&Layout>, save: &Prepared) -> Result<Committed, Stop> {
    // The key comes first (RULES 24): a repeat is answered what the first call was, whatever has moved since.
    let attempt = match &save.key {
        Some(key) => Some(keys::take(tx, key)??),
        None => None,
    };
    if let Some(refusal) = check_rules(tx, &save.entity.kind, save.generation)? {
        return Err(refusal.into());
    }
    let stored = layout.map(|layout| mapped::stored(tx, layout, &save.entity)).transpose()?;
    if let Some(stored) = &stored {
        mapped::meet(tx, &save.entity, stored.exists)?;
    }
    let row = expected_row(tx, save)?;
    let mut steps = advance(tx, save, row.entity)?;
    if save.lifecycle == Lifecycle::Delete {
        retire(tx, save, row.entity, &mut steps)?;
    }
    check_inputs(tx, save, row.entity)?;
    let record = match (&stored, layout) {
        (Some(stored), Some(layout)) => {
            if let Some(refusal) = objection(save, &stored.record).map_err(Fault::from)? {
                return Err(refusal.into());
            }
            mapped::write(tx, layout, stored, save)?;
            // The values are where the CMS looks for them, and nowhere else.
            Record::new()
        }
        _ => patched(tx, save, &row)?,
    };
    let incarnation = match save.lifecycle {
        Lifecycle::Create => row.incarnation.next(),
        Lifecycle::Update | Lifecycle::Delete => row.incarnation,
    };
    let number = save.version.as_ref().map(|_| row.number.next());
    stamp(tx, save, row.entity, &steps)?;
    let scopes = serde_json::to_string(&steps).map_err(|error| Fault::Broken(error.to_string()))?;
    remember(tx, save, row.entity, incarnation, number, &steps, &scopes)?;
    if let Some(waiting) = save.queued
        && queue::take(tx, waiting)?.is_none()
    {
        return Err(Refusal::NotQueued.into());
    }
    for (kind, body) in &save.events {
        queue::tell(tx, &save.entity, save.operation, kind, body)?;
    }
    if let (Some(key), Some(attempt)) = (&save.key, attempt) {
        let by = Completion { operation: save.operation, incarnation, number, scopes: &scopes };
        if !keys::complete(tx, key, attempt, &by)? {
            return Err(Refusal::KeyLost.into());
        }
    }
    let text = stored::record_text(&record);
    let deleting = save.lifecycle == Lifecycle::Delete;
    let params = (
        row.entity,
        text.as_str(),
        rows::column(number.unwrap_or(row.number).0)?,
        rows::column(incarnation.0)?,
        deleting.then_some(tx.now.0),
        i64::from(deleting),
    );
    tx.change(&tx.sql.update_entity, params)?;
    tx.words.keep(row.entity, text, &record);
    Ok(Committed::Applied { versions: stored::versions_after(&steps), number, incarnation })
}

/// The entity row the plan was made on; made now for the first creation.
fn expected_row(tx: &Tx<'_>, save: &Prepared) -> Result<EntityRow, Stop> {
    let (kind, id) = (save.entity.kind.as_str(), save.entity.id.as_str());
    let row = entity_row(tx, kind, id)?;
    let creating = save.lifecycle == Lifecycle::Create;
    match row {
        Some(row) if creating && row.deleted_at.is_none() => Err(Refusal::Exists.into()),
        Some(row) if !creating && row.deleted_at.is_some() => Err(Refusal::Gone.into()),
        Some(row) if row.incarnation == save.incarnation => Ok(row),
        Some(_) => Err(Refusal::Recreated.into()),
        None if !creating => Err(Refusal::NotFound.into()),
        None if save.incarnation != Incarnation::default() => Err(Refusal::Recreated.into()),
        None => {
            let entity = tx.always(&tx.sql.insert_entity, (kind, id), |row| Ok(row.get(0)?))?;
            Ok(EntityRow {
                entity,
                incarnation: Incarnation::default(),
                deleted_at: None,
                number: VersionNumber::default(),
                fence: Fence::default(),
                data: "{}".to_owned(),
            })
        }
    }
}

/// Compares and raises every scope; all that refuse are named, and fenced ones come first.
fn advance(tx: &Tx<'_>, save: &Prepared, entity: i64) -> Result<ScopeSteps, Stop> {
    let mut steps = ScopeSteps::new();
    let (mut stale, mut fenced) = (Vec::new(), Vec::new());
    for scope in &save.scopes {
        match advance_one(tx, save, entity, scope)? {
            Some(after) => {
                let before = ScopeVersion(after.0.saturating_sub(u64::from(scope.by != 0)));
                let fence = match scope.expect {
                    Expect::Claimed { fence, .. } => Some(fence),
                    Expect::Version(_) | Expect::Unread => None,
                };
                steps.insert(scope.name.clone(), ScopeStep { before, after, fence });
            }
            None if is_fenced(tx, save, entity, scope)? => fenced.push(scope.name.clone()),
            None => stale.push(scope.name.clone()),
        }
    }
    match (fenced.is_empty(), stale.is_empty()) {
        (false, _) => Err(Refusal::Fenced(fenced).into()),
        (true, false) => Err(Refusal::Stale(stale).into()),
        (true, true) => Ok(steps),
    }
}

/// The version after, or `None` when what was expected does not hold.
fn advance_one(
    tx: &Tx<'_>,
    save: &Prepared,
    entity: i64,
    scope: &PreparedScope,
) -> Result<Option<ScopeVersion>, Fault> {
    let (name, by) = (scope.text.as_str(), scope.by);
    match &scope.expect {
        Expect::Claimed { version, fence, holder } => {
            let entity_fence = rows::column(save.entity_fence.0)?;
            let (version, fence) = (rows::column(version.0)?, rows::column(fence.0)?);
            let params = (entity, name, by, version, fence, holder.0, entity_fence);
            tx.one(&tx.sql.advance_claimed, params, |row| rows::version(row, 0))
        }
        Expect::Version(version) => {
            if version.0 == 0 {
                tx.change(&tx.sql.make_scope, (entity, name))?;
            }
            let params = (entity, name, by, rows::column(version.0)?);
            tx.one(&tx.sql.advance_optimistic, params, |row| rows::version(row, 0))
        }
        Expect::Unread => {
            tx.change(&tx.sql.make_scope, (entity, name))?;
            tx.one(&tx.sql.advance_unread, (entity, name, by), |row| rows::version(row, 0))
        }
    }
}

/// Whether a claim is what did not hold, and not the version alone.
fn is_fenced(
    tx: &Tx<'_>,
    save: &Prepared,
    entity: i64,
    scope: &PreparedScope,
) -> Result<bool, Fault> {
    let stored = tx.one(&tx.sql.scope, (entity, scope.text.as_str()), |row| {
        Ok((rows::fence(row, 1)?, rows::holder(row, 2)?))
    })?;
    let (stored_fence, stored_holder) = stored.unwrap_or_default();
    match &scope.expect {
        Expect::Claimed { fence, holder, .. } => {
            let (kind, id) = (save.entity.kind.as_str(), save.entity.id.as_str());
            let whole = entity_row(tx, kind, id)?.is_none_or(|row| row.fence != save.entity_fence);
            Ok(whole || stored_fence != *fence || stored_holder != Some(*holder))
        }
        Expect::Version(_) => Ok(stored_holder.is_some()),
        Expect::Unread => Ok(false),
    }
}

/// Deleting raises every scope of the entity, those the save does not name too (RULES 28).
fn retire(tx: &Tx<'_>, save: &Prepared, entity: i64, steps: &mut ScopeSteps) -> Result<(), Fault> {
    let mut names = Vec::new();
    tx.each(&tx.sql.scopes, [entity], |row| {
        names.push(rows::text(row, 0)?.to_owned());
        Ok(())
    })?;
    for text in names {
        let named = save.scopes.iter().any(|scope| scope.text == text);
        let params = (entity, text.as_str(), i64::from(!named));
        let after = tx.always(&tx.sql.retire_scope, params, |row| rows::version(row, 0))?;
        if !named {
            let before = ScopeVersion(after.0.saturating_sub(1));
            steps.insert(stored::scope_name(&text)?, ScopeStep { before, after, fence: None });
        }
    }
    Ok(())
}

/// Inputs are compared by the save that last changed them, and there may be no others by now (RULES 24).
fn check_inputs(tx: &Tx<'_>, save: &Prepared, entity: i64) -> Result<(), Stop> {
    let mut moved = Vec::new();
    for (path, expected) in &save.inputs {
        let stamped = tx.one(&tx.sql.stamp_operation, (entity, path.as_str()), |row| {
            rows::operation_id(row, 0)
        })?;
        if stamped != *expected {
            moved.push(path.clone());
        }
    }
    if !save.input_patterns.is_empty() {
        for path in stamped_paths(tx, entity)? {
            let known = save.inputs.iter().any(|(input, _)| *input == path);
            if !known && save.input_patterns.iter().any(|open| covers(open, &path)) {
                moved.push(path);
            }
        }
    }
    if moved.is_empty() { Ok(()) } else { Err(Refusal::InputMoved(moved).into()) }
}

fn stamped_paths(tx: &Tx<'_>, entity: i64) -> Result<Vec<Path>, Fault> {
    let mut paths = Vec::new();
    tx.each(&tx.sql.stamp_paths, [entity], |row| {
        paths.push(rows::path(tx.words, row, 0)?);
        Ok(())
    })?;
    Ok(paths)
}

/// The record after the save.
fn patched(tx: &Tx<'_>, save: &Prepared, row: &EntityRow) -> Result<Record, Stop> {
    let mut record = tx.words.record(row.entity, &row.data)?;
    let gone = save.parents.iter().filter(|parent| !record.has_item(parent));
    let gone: Vec<_> = gone.cloned().collect();
    if !gone.is_empty() {
        return Err(Refusal::ParentGone(gone).into());
    }
    if save.lifecycle == Lifecycle::Delete {
        return Ok(Record::new());
    }
    for item in &save.removed_items {
        record.remove_item(item);
    }
    record.apply(&save.patch);
    Ok(record)
}

/// Stamps every changed unit; the stamps of removed items go, whatever changed in them.
fn stamp(tx: &Tx<'_>, save: &Prepared, entity: i64, steps: &ScopeSteps) -> Result<(), Fault> {
    if save.lifecycle == Lifecycle::Delete {
        tx.change(&tx.sql.remove_stamps, [entity])?;
        return Ok(());
    }
    let operation = rows::operation_blob(save.operation);
    for change in &save.changed {
        let version = steps.get(&change.scope).map_or(ScopeVersion(0), |step| step.after);
        let params = (
            entity,
            change.path.as_str(),
            change.scope_text.as_str(),
            rows::column(version.0)?,
            operation,
            tx.now.0,
            stored::kind_text(save.writer.kind),
            &*save.writer.name,
            save.writer.on_behalf_of.as_deref(),
        );
        tx.change(&tx.sql.put_stamp, params)?;
    }
    for item in &save.removed_items {
        if !item.axes().is_empty() {
            for path in stamped_paths(tx, entity)?.iter().filter(|path| path.is_part_of(item)) {
                tx.change(&tx.sql.remove_stamp, (entity, path.as_str()))?;
            }
            continue;
        }
        let keys = Path::from_parts(item.keys().to_vec(), None, Vec::new());
        tx.change(&tx.sql.remove_stamps_of_item, (entity, keys.as_str()))?;
    }
    Ok(())
}

/// The operation row, its changes, and the version of an editor's save.
fn remember(
    tx: &Tx<'_>,
    save: &Prepared,
    entity: i64,
    incarnation: Incarnation,
    number: Option<VersionNumber>,
    steps: &ScopeSteps,
    scopes: &str,
) -> Result<(), Fault> {
    let number = number.map(|number| rows::column(number.0)).transpose()?;
    let params = (
        rows::operation_blob(save.operation),
        entity,
        rows::column(incarnation.0)?,
        number,
        stored::lifecycle_text(save.lifecycle),
        tx.now.0,
        save.generation.0,
        scopes,
        save.detail.as_str(),
        stored::kind_text(save.writer.kind),
        &*save.writer.name,
        save.writer.on_behalf_of.as_deref(),
    );
    let row: i64 = tx.always(&tx.sql.insert_operation, params, |row| Ok(row.get(0)?))?;
    if let (Some(version), Some(number)) = (&save.version, number) {
        let params = (row, entity, number, version.state.as_str(), version.reason.as_deref());
        tx.change(&tx.sql.insert_version, params)?;
    }
    for (position, change) in (0i64..).zip(&save.changed) {
        let version = steps.get(&change.scope).map_or(ScopeVersion(0), |step| step.after);
        let params = (
            row,
            position,
            entity,
            change.path.as_str(),
            change.scope_text.as_str(),
            rows::column(version.0)?,
            change.old.as_deref(),
            change.new.as_deref(),
            change.strategy.as_deref(),
        );
        tx.change(&tx.sql.insert_change, params)?;
    }
    Ok(())
}
