//! Records in the CMS's own tables, in one transaction with what we keep about them.

use std::sync::Arc;

use mysql_async::{Conn, Row, Value as Column, prelude::Queryable};

use crate::{
    clock::StoreTime,
    commit::{Committed, Refusal},
    database::mysql::{Cells, Fault, pool::Work, session},
    diagnostic::Diagnostic,
    entity::{EntityId, EntityRef},
    mapping::{Catalogue, Cell, Dialect, Facts, Kind, Layout, Mapping, Save, Statement, Stored},
    mapping::{Column as Described, Table, Trigger},
    snapshot::Snapshot,
    store::{
        ClaimAsk, Claimed,
        mapped::{constraint, objection, seen},
        mysql::{commit, encode, load, rows, statements::Statements},
        prepare::Prepared,
    },
};

type Done<T> = Result<T, Fault>;

/// What the server says when the tables of the CMS refuse values: duplicate, foreign key, CHECK, SIGNAL, NULL, too long,
/// out of range, of another type.
const CONSTRAINTS: [u16; 12] =
    [1062, 1451, 1452, 1216, 1217, 4025, 3819, 1644, 1048, 1406, 1264, 1366];

/// Our own rows, then the CMS's: a version may be older than the values, never newer.
pub(super) fn load(
    sql: &Arc<Statements>,
    layout: Arc<Layout>,
    entity: &EntityRef,
) -> Work<Option<Snapshot>> {
    let (known, sql, entity) = (load::load(sql, entity), sql.clone(), entity.clone());
    Arc::new(move |conn| {
        let (known, sql, entity) = (known.clone(), sql.clone(), entity.clone());
        let layout = layout.clone();
        Box::pin(async move {
            let known = known(conn).await?;
            let stored = stored(conn, &layout, &entity.id, false).await?;
            let now = match &known {
                Some(known) => known.read_at,
                None if stored.exists => now(conn, &sql).await?,
                None => return Ok(None),
            };
            Ok(seen(&entity, known, stored, now))
        })
    })
}

/// The values are read when the claim stands: they are what the former holder left.
pub(super) fn claim(sql: &Arc<Statements>, layout: Arc<Layout>, ask: &ClaimAsk) -> Work<Claimed> {
    let (claim, sql, ask) = (load::claim(sql, ask), sql.clone(), ask.clone());
    Arc::new(move |conn| {
        let (claim, sql, ask) = (claim.clone(), sql.clone(), ask.clone());
        let layout = layout.clone();
        Box::pin(async move {
            let entity = ask.scopes.entity();
            let mut claimed = claim(conn).await?;
            let mut found = stored(conn, &layout, &entity.id, false).await?;
            let unmet = matches!(claimed, Claimed::Refused(Refusal::NotFound | Refusal::Gone));
            if unmet && found.exists {
                session::sets(conn, &sql.meet, load::key(entity).to_vec()).await?;
                claimed = claim(conn).await?;
                found = stored(conn, &layout, &entity.id, false).await?;
            }
            let Claimed::Claimed(mut claim) = claimed else { return Ok(claimed) };
            if !found.exists {
                return Ok(Claimed::Refused(Refusal::Gone));
            }
            claim.snapshot.record = found.record;
            Ok(Claimed::Claimed(claim))
        })
    })
}

/// The CMS's row is locked first, then ours; everything is there at the COMMIT or nothing.
pub(super) fn commit(
    sql: &Arc<Statements>,
    layout: Arc<Layout>,
    mut save: Prepared,
) -> crate::error::Result<Work<Committed>> {
    commit::check(&save)?;
    // Values lie in the CMS's tables only, and what must be there is looked for there.
    let (patch, parents) = (std::mem::take(&mut save.patch), std::mem::take(&mut save.parents));
    let params = encode::params(&save).map_err(|fault| fault.into_error("a save", None))?;
    (save.patch, save.parents) = (patch, parents);
    let (save, sql) = (Arc::new(save), sql.clone());
    Ok(Arc::new(move |conn| {
        let (save, sql, params) = (save.clone(), sql.clone(), params.clone());
        let layout = layout.clone();
        Box::pin(async move {
            conn.query_drop("START TRANSACTION").await?;
            let done = inside(conn, &sql, &layout, &save, params).await?;
            let applied = matches!(done, Committed::Applied { .. });
            conn.query_drop(if applied { "COMMIT" } else { "ROLLBACK" }).await?;
            Ok(done)
        })
    }))
}

async fn inside(
    conn: &mut Conn,
    sql: &Statements,
    layout: &Layout,
    save: &Prepared,
    params: Vec<Column>,
) -> Done<Committed> {
    let key = load::key(&save.entity).to_vec();
    let stored = stored(conn, layout, &save.entity.id, true).await?;
    if stored.exists {
        session::sets(conn, &sql.meet, key).await?;
    } else {
        session::sets(conn, &sql.miss, key.clone()).await?;
        session::sets(conn, &sql.forget, key).await?;
    }
    let mut sets = rows::Sets::new(session::sets(conn, &sql.commit_in, params).await?);
    let done = commit::committed(&mut sets, save.operation)?;
    if !matches!(done, Committed::Applied { .. }) {
        return Ok(done);
    }
    if let Some(refusal) = objection(save, &stored.record)? {
        return Ok(Committed::Refused(refusal));
    }
    let wanted =
        Save { lifecycle: save.lifecycle, patch: &save.patch, removed_items: &save.removed_items };
    for write in layout.writes(&save.entity.id, &stored, &wanted).map_err(Fault::Refused)? {
        run(conn, &write).await.map_err(|fault| match fault {
            Fault::Server(error) if CONSTRAINTS.contains(&error.code) => {
                Fault::Refused(constraint(layout.kind(), &error.message))
            }
            fault => fault,
        })?;
    }
    Ok(done)
}

/// Puts `storage:` and the tables of this database together.
pub(super) fn bind(
    sql: &Arc<Statements>,
    mapping: Mapping,
) -> Work<Result<Layout, Vec<Diagnostic>>> {
    let sql = sql.clone();
    Arc::new(move |conn| {
        let (sql, mapping) = (sql.clone(), mapping.clone());
        Box::pin(async move {
            let catalogue = catalogue(conn, &sql, &mapping).await?;
            Ok(mapping.bind(Dialect::Mysql, &catalogue))
        })
    })
}

async fn stored(conn: &mut Conn, layout: &Layout, id: &EntityId, lock: bool) -> Done<Stored> {
    let mut answers = Vec::new();
    for read in layout.reads(id, lock).into_iter().flatten() {
        let found = run(conn, &read).await?;
        answers.push(found.into_iter().map(cells).collect());
    }
    layout.stored(id, &answers).map_err(Fault::Broken)
}

async fn run(conn: &mut Conn, statement: &Statement) -> Done<Vec<Row>> {
    let params = statement.cells.iter().map(column).collect();
    let sets = session::sets(conn, &statement.sql, params).await?;
    Ok(sets.into_iter().next().unwrap_or_default())
}

async fn now(conn: &mut Conn, sql: &Statements) -> Done<StoreTime> {
    let mut sets = rows::Sets::new(session::sets(conn, &sql.now, Vec::new()).await?);
    sets.always()?.signed().map(StoreTime)
}

fn column(cell: &Cell) -> Column {
    match cell {
        Cell::Null => Column::NULL,
        Cell::Int(number) => Column::Int(*number),
        Cell::Real(number) => Column::Double(*number),
        Cell::Text(text) => rows::bytes(text),
        Cell::Bytes(bytes) => rows::bytes(bytes),
    }
}

fn cells(row: Row) -> Vec<Cell> {
    let cell = |value| match value {
        Column::NULL => Cell::Null,
        Column::Int(number) => Cell::Int(number),
        Column::UInt(number) => Cell::Text(number.to_string()),
        Column::Float(number) => Cell::Real(f64::from(number)),
        Column::Double(number) => Cell::Real(number),
        Column::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Cell::Text(text),
            Err(error) => Cell::Bytes(error.into_bytes()),
        },
        Column::Date(..) | Column::Time(..) => Cell::Null,
    };
    row.unwrap().into_iter().map(cell).collect()
}

async fn catalogue(conn: &mut Conn, sql: &Statements, mapping: &Mapping) -> Done<Catalogue> {
    let mut checks: Vec<(String, String)> = Vec::new();
    for mut row in all(conn, &sql.table_checks).await? {
        let bare = |c: &char| !c.is_whitespace() && *c != '`';
        let (table, clause) = (row.text()?, row.text()?.to_lowercase());
        checks.push((table, clause.chars().filter(bare).collect()));
    }
    let mut catalogue = Catalogue::default();
    for mut row in all(conn, &sql.table_columns).await? {
        let (name, view) = (row.text()?, row.number()? == 1);
        if !mapping.wants(None, &name) {
            continue;
        }
        if catalogue.tables.last().is_none_or(|table| table.name != name) {
            catalogue.tables.push(Table { name: name.clone(), view, ..Table::default() });
        }
        let (column, declared) = (row.text()?, row.text()?);
        let wanted = format!("json_valid({})", column.to_lowercase());
        let json = checks.iter().any(|(table, clause)| *table == name && clause.contains(&wanted));
        let facts = Facts { json, ..Facts::default() };
        let kind = Kind::parse(Dialect::Mysql, &declared, &facts);
        let (nullable, defaulted) = (row.number()? == 1, row.number()? == 1);
        let generated = row.number()? == 1;
        if let Some(table) = catalogue.tables.last_mut() {
            table.columns.push(Described {
                name: column,
                declared,
                kind,
                nullable,
                defaulted,
                generated,
            });
        }
    }
    let mut last = (String::new(), String::new());
    for mut row in all(conn, &sql.table_keys).await? {
        let (name, key, column) = (row.text()?, row.text()?, row.text()?);
        let Some(table) = catalogue.tables.iter_mut().find(|table| table.name == name) else {
            continue;
        };
        if last != (name.clone(), key.clone()) {
            table.unique.push(Vec::new());
            last = (name, key);
        }
        if let Some(columns) = table.unique.last_mut() {
            columns.push(column);
        }
    }
    for mut row in all(conn, &sql.table_triggers).await? {
        let (name, trigger) = (row.text()?, Trigger { name: row.text()?, text: row.text()? });
        if let Some(table) = catalogue.tables.iter_mut().find(|table| table.name == name) {
            table.triggers.push(trigger);
        }
    }
    Ok(catalogue)
}

async fn all(conn: &mut Conn, sql: &str) -> Done<Vec<Cells>> {
    let sets = session::sets(conn, sql, Vec::new()).await?;
    Ok(sets.into_iter().flatten().map(Cells::new).collect())
}
