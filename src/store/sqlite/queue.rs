//! Waiting saves and events.

use rusqlite::Row;

use crate::{
    clock::BoxFuture,
    commit::Notice,
    entity::EntityRef,
    error::{Error, Result},
    queue::{Item, Outbox, QueueStore, Told},
    store::{
        sqlite::{
            SqliteStore,
            fault::Fault,
            rows,
            session::{End, Tx},
        },
        text as stored,
    },
    token::OperationId,
};

type Done<T> = std::result::Result<T, Fault>;

impl QueueStore for SqliteStore {
    fn push<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<u64>> {
        let item = item.clone();
        Box::pin(self.write(None, move |tx| push(tx, &item).map(End::Keep)))
    }

    fn ready(&self, after: u64, most: u32) -> BoxFuture<'_, Result<Vec<Item>>> {
        Box::pin(self.read(move |tx| {
            let params = (rows::column(after)?, most);
            collect(tx, &tx.sql.ready_queue, params)
        }))
    }

    fn remove<'a>(
        &'a self,
        operation: OperationId,
        why: &'a Notice,
    ) -> BoxFuture<'a, Result<bool>> {
        let why = why.clone();
        Box::pin(self.write(None, move |tx| {
            let Some(entity) = take(tx, operation)? else { return Ok(End::Undo(false)) };
            tell(tx, &entity, operation, &why.kind, &why.body.to_string())?;
            Ok(End::Keep(true))
        }))
    }

    fn waiting<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        after: u64,
        most: u32,
    ) -> BoxFuture<'a, Result<Vec<Item>>> {
        let entity = entity.cloned();
        Box::pin(self.read(move |tx| {
            let kind = entity.as_ref().map(|entity| entity.kind.as_str());
            let id = entity.as_ref().map(|entity| entity.id.as_str());
            collect(tx, &tx.sql.list_queue, (rows::column(after)?, most, kind, id))
        }))
    }
}

impl Outbox for SqliteStore {
    fn tell<'a>(
        &'a self,
        entity: &'a EntityRef,
        operation: OperationId,
        events: &'a [Notice],
    ) -> BoxFuture<'a, Result<()>> {
        let (entity, events) = (entity.clone(), events.to_vec());
        Box::pin(self.write(None, move |tx| {
            for event in &events {
                tell(tx, &entity, operation, &event.kind, &event.body.to_string())?;
            }
            Ok(End::Keep(()))
        }))
    }

    fn pull(&self, after: u64, most: u32) -> BoxFuture<'_, Result<Vec<Told>>> {
        Box::pin(self.read(move |tx| {
            let mut events = Vec::new();
            tx.each(&tx.sql.pull, (rows::column(after)?, most), |row| {
                events.push(Told {
                    event: rows::counter(row, 0)?,
                    entity: entity_of(row, 1)?,
                    kind: row.get(3)?,
                    operation: rows::operation_id(row, 4)?,
                    body: stored::json(rows::text(row, 5)?)?,
                    at: rows::time(row, 6)?,
                });
                Ok(())
            })?;
            Ok(events)
        }))
    }

    fn ack<'a>(&'a self, reader: &'a str, event: Option<u64>) -> BoxFuture<'a, Result<u64>> {
        let reader = reader.to_owned();
        Box::pin(self.write(None, move |tx| {
            if let Some(event) = event {
                tx.change(&tx.sql.acknowledge, (reader.as_str(), rows::column(event)?))?;
            }
            let known = tx.one(&tx.sql.acknowledged, [&reader], |row| rows::counter(row, 0))?;
            Ok(End::Keep(known.unwrap_or(0)))
        }))
    }
}

fn push(tx: &Tx<'_>, item: &Item) -> Done<u64> {
    let (kind, id) = (item.entity.kind.as_str(), item.entity.id.as_str());
    let scopes = serde_json::to_string(&item.scopes);
    let params = (
        rows::operation_blob(item.operation),
        kind,
        id,
        stored::kind_text(item.writer.kind),
        &*item.writer.name,
        item.writer.on_behalf_of.as_deref(),
        scopes.map_err(|error| Fault::Broken(error.to_string()))?,
        item.body.as_str(),
        tx.now.0,
    );
    let place: i64 = tx.always(&tx.sql.push_queue, params, |row| Ok(row.get(0)?))?;
    for scope in &item.scopes {
        tx.change(&tx.sql.push_queue_scope, (kind, id, scope.to_string(), place))?;
    }
    tx.always(&tx.sql.queued_before, [place], |row| rows::counter(row, 0))
}

/// Takes an item out; `None` when it is not there.
pub(super) fn take(tx: &Tx<'_>, operation: OperationId) -> Done<Option<EntityRef>> {
    let operation = rows::operation_blob(operation);
    tx.change(&tx.sql.remove_queue_scopes, [operation])?;
    tx.one(&tx.sql.remove_queue, [operation], |row| entity_of(row, 0))
}

/// Writes an event into this transaction.
pub(super) fn tell(
    tx: &Tx<'_>,
    entity: &EntityRef,
    operation: OperationId,
    kind: &str,
    body: &str,
) -> Done<()> {
    let (of, id) = (entity.kind.as_str(), entity.id.as_str());
    let params = (of, id, kind, rows::operation_blob(operation), body, tx.now.0);
    tx.change(&tx.sql.tell, params)?;
    Ok(())
}

fn collect(tx: &Tx<'_>, sql: &str, params: impl rusqlite::Params) -> Done<Vec<Item>> {
    let mut items = Vec::new();
    tx.each(sql, params, |row| {
        let scopes = serde_json::from_str(rows::text(row, 7)?);
        items.push(Item {
            place: rows::counter(row, 0)?,
            operation: rows::operation_id(row, 1)?,
            entity: entity_of(row, 2)?,
            writer: rows::writer(tx.words, row, 4)?,
            scopes: scopes.map_err(|error| Fault::Broken(error.to_string()))?,
            body: row.get(8)?,
            at: rows::time(row, 9)?,
        });
        Ok(())
    })?;
    Ok(items)
}

/// Two columns from `index` on: type and id.
fn entity_of(row: &Row<'_>, index: usize) -> Done<EntityRef> {
    let (kind, id) = (rows::text(row, index)?, rows::text(row, index + 1)?);
    EntityRef::new(kind, id)
        .map_err(|error| Fault::Invalid(Error::internal(format!("a stored record: {error}"))))
}
