//! Records in the CMS's own tables, in the same file and the same transaction as what we keep about them.

use rusqlite::{ErrorCode, params_from_iter, types::Value as Column, types::ValueRef};

use crate::{
    diagnostic::Diagnostic,
    entity::EntityRef,
    mapping::{Cell, Layout, Mapping, Rows, Save, Statement, Stored},
    store::{
        mapped::constraint,
        prepare::Prepared,
        sqlite::{
            catalogue,
            fault::Fault,
            load::{EntityRow, entity_row},
            rows,
            session::Tx,
        },
    },
    token::{Fence, Incarnation, VersionNumber},
};

type Done<T> = Result<T, Fault>;

/// Puts `storage:` and the tables of this file together.
pub(super) fn bind(tx: &Tx<'_>, mapping: &Mapping) -> Done<Result<Layout, Vec<Diagnostic>>> {
    let catalogue = catalogue::read(tx, mapping)?;
    Ok(mapping.bind(crate::mapping::Dialect::Sqlite, &catalogue))
}

/// What the CMS's tables hold of a record.
pub(super) fn stored(tx: &Tx<'_>, layout: &Layout, entity: &EntityRef) -> Done<Stored> {
    let Some(reads) = layout.reads(&entity.id, false) else { return Ok(Stored::default()) };
    let mut answers = Vec::with_capacity(reads.len());
    for read in &reads {
        answers.push(query(tx, read)?);
    }
    layout.stored(&entity.id, &answers).map_err(Fault::Broken)
}

/// The entity row as the CMS's own row makes it: a record the engine never saw exists, one the CMS removed is
/// deleted, one it made again is another incarnation (RULES 45). Nothing is written.
pub(super) fn seen(tx: &Tx<'_>, row: Option<EntityRow>, exists: bool) -> Option<EntityRow> {
    match (row, exists) {
        (None, false) => None,
        (None, true) => Some(EntityRow {
            entity: 0,
            incarnation: Incarnation(1),
            deleted_at: None,
            number: VersionNumber::default(),
            fence: Fence::default(),
            data: "{}".to_owned(),
        }),
        (Some(row), true) if row.deleted_at.is_some() => {
            Some(EntityRow { deleted_at: None, incarnation: row.incarnation.next(), ..row })
        }
        (Some(row), false) if row.deleted_at.is_none() => {
            Some(EntityRow { deleted_at: Some(tx.now), ..row })
        }
        (row, _) => row,
    }
}

/// [`seen`], written down: what follows stands on a row of ours.
pub(super) fn meet(tx: &Tx<'_>, entity: &EntityRef, exists: bool) -> Done<()> {
    let (kind, id) = (entity.kind.as_str(), entity.id.as_str());
    let known = entity_row(tx, kind, id)?;
    let was = known.as_ref().map(|row| row.deleted_at.is_some());
    let Some(mut row) = seen(tx, known, exists) else { return Ok(()) };
    match was {
        None => row.entity = tx.always(&tx.sql.insert_entity, (kind, id), |row| Ok(row.get(0)?))?,
        Some(was) if was == row.deleted_at.is_some() => return Ok(()),
        // It was deleted here, and the CMS made it again.
        Some(true) => {}
        // It went without a word: whoever held a scope does no longer, and no value has a stamp. Versions stay: what
        // was planned on this load is still right.
        Some(false) => {
            let mut scopes = Vec::new();
            tx.each(&tx.sql.scopes, [row.entity], |scope| {
                scopes.push(rows::text(scope, 0)?.to_owned());
                Ok(())
            })?;
            for scope in scopes {
                tx.always(&tx.sql.retire_scope, (row.entity, scope, 0), |_| Ok(()))?;
            }
            tx.change(&tx.sql.remove_stamps, [row.entity])?;
        }
    }
    let params = (
        row.entity,
        row.data.as_str(),
        rows::column(row.number.0)?,
        rows::column(row.incarnation.0)?,
        row.deleted_at.map(|at| at.0),
        0,
    );
    tx.change(&tx.sql.update_entity, params)?;
    Ok(())
}

/// The save's own columns, keys and rows.
pub(super) fn write(tx: &Tx<'_>, layout: &Layout, stored: &Stored, save: &Prepared) -> Done<()> {
    let wanted =
        Save { lifecycle: save.lifecycle, patch: &save.patch, removed_items: &save.removed_items };
    let statements = layout.writes(&save.entity.id, stored, &wanted).map_err(Fault::Invalid)?;
    tx.change(&tx.sql.let_pass, [])?;
    for statement in &statements {
        change(tx, layout, statement)?;
    }
    tx.change(&tx.sql.end_pass, [])?;
    Ok(())
}

fn change(tx: &Tx<'_>, layout: &Layout, statement: &Statement) -> Done<()> {
    let params = params_from_iter(statement.cells.iter().map(column));
    tx.change(&statement.sql, params).map(|_| ()).map_err(|fault| match fault {
        Fault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Fault::Invalid(constraint(layout.kind(), &error.to_string()))
        }
        fault => fault,
    })
}

fn query(tx: &Tx<'_>, statement: &Statement) -> Done<Rows> {
    let mut answer = Rows::new();
    let params = params_from_iter(statement.cells.iter().map(column));
    tx.each(&statement.sql, params, |row| {
        let count = row.as_ref().column_count();
        let cells = (0..count).map(|index| row.get_ref(index).map(cell));
        answer.push(cells.collect::<Result<_, _>>()?);
        Ok(())
    })?;
    Ok(answer)
}

fn column(cell: &Cell) -> Column {
    match cell {
        Cell::Null => Column::Null,
        Cell::Int(number) => Column::Integer(*number),
        Cell::Real(number) => Column::Real(*number),
        Cell::Text(text) => Column::Text(text.clone()),
        Cell::Bytes(bytes) => Column::Blob(bytes.clone()),
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Int(number),
        ValueRef::Real(number) => Cell::Real(number),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Cell::Text(text.to_owned()),
            Err(_) => Cell::Bytes(text.to_vec()),
        },
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
    }
}
