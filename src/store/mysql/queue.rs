//! Waiting saves and events.

use std::sync::Arc;

use mysql_async::Value as Column;

use crate::{
    clock::BoxFuture,
    commit::Notice,
    database::mysql::{
        Cells, Fault,
        pool::{Repeat, Work},
        session,
    },
    entity::EntityRef,
    error::{Error, Result},
    queue::{Item, Outbox, QueueStore, Told},
    store::{
        mysql::{
            MysqlStore, encode,
            load::key,
            rows::{self, Sets},
        },
        text as stored,
    },
    token::OperationId,
};

type Done<T> = std::result::Result<T, Fault>;

impl QueueStore for MysqlStore {
    fn push<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<u64>> {
        let scopes: Vec<String> = item.scopes.iter().map(ToString::to_string).collect();
        let writer = &item.writer;
        let mut params = vec![rows::operation_bytes(item.operation)];
        params.extend(key(&item.entity));
        params.extend([
            rows::bytes(stored::kind_text(writer.kind)),
            rows::bytes(&*writer.name),
            rows::or_null(writer.on_behalf_of.as_deref()),
            rows::bytes(serde_json::Value::from(scopes).to_string()),
            rows::bytes(&item.body),
        ]);
        let work = self.asked(&self.sql.push_queue, params, |mut sets| sets.always()?.number());
        Box::pin(self.run(Repeat::Never, Some(item.operation), work))
    }

    fn ready(&self, after: u64, most: u32) -> BoxFuture<'_, Result<Vec<Item>>> {
        Box::pin(async move {
            let params = vec![self.place_of(after)?, Column::UInt(most.into())];
            let work = self.asked(&self.sql.ready_queue, params, items);
            self.run(Repeat::Harmless, None, work).await
        })
    }

    fn remove<'a>(
        &'a self,
        operation: OperationId,
        why: &'a Notice,
    ) -> BoxFuture<'a, Result<bool>> {
        let params = vec![
            rows::operation_bytes(operation),
            rows::bytes(&why.kind),
            rows::bytes(why.body.to_string()),
        ];
        let work = self
            .asked(&self.sql.remove_queue, params, |mut sets| Ok(sets.always()?.number()? == 1));
        Box::pin(self.run(Repeat::Never, None, work))
    }

    fn waiting<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        after: u64,
        most: u32,
    ) -> BoxFuture<'a, Result<Vec<Item>>> {
        Box::pin(async move {
            let (sql, mut params) = match entity {
                Some(entity) => (&self.sql.list_queue_of, key(entity).to_vec()),
                None => (&self.sql.list_queue, Vec::new()),
            };
            params.extend([self.place_of(after)?, Column::UInt(most.into())]);
            self.run(Repeat::Harmless, None, self.asked(sql, params, items)).await
        })
    }
}

impl Outbox for MysqlStore {
    fn tell<'a>(
        &'a self,
        entity: &'a EntityRef,
        operation: OperationId,
        events: &'a [Notice],
    ) -> BoxFuture<'a, Result<()>> {
        let told = events.iter().map(|event| encode::event(&event.kind, &event.body.to_string()));
        let mut params = key(entity).to_vec();
        params.extend([rows::operation_bytes(operation), encode::list(told)]);
        let work = self.asked(&self.sql.tell, params, |_| Ok(()));
        Box::pin(async move {
            if events.is_empty() {
                return Ok(());
            }
            // Told twice is at least once.
            self.run(Repeat::Harmless, None, work).await
        })
    }

    fn pull(&self, after: u64, most: u32) -> BoxFuture<'_, Result<Vec<Told>>> {
        Box::pin(async move {
            let params = vec![self.place_of(after)?, Column::UInt(most.into())];
            let work =
                self.asked(&self.sql.pull, params, |mut sets| sets.rows().map(told).collect());
            self.run(Repeat::Harmless, None, work).await
        })
    }

    fn ack<'a>(&'a self, reader: &'a str, event: Option<u64>) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move {
            let event = event.map(|event| self.place_of(event)).transpose()?;
            let params = vec![rows::bytes(reader), event.unwrap_or(Column::NULL)];
            let work =
                self.asked(&self.sql.acknowledge, params, |mut sets| sets.always()?.number());
            self.run(Repeat::Harmless, None, work).await
        })
    }
}

impl MysqlStore {
    /// One statement, and what is read from its answer.
    pub(super) fn asked<T: Send + 'static>(
        &self,
        sql: &Arc<str>,
        params: Vec<Column>,
        read: fn(Sets) -> Done<T>,
    ) -> Work<T> {
        let sql = Arc::clone(sql);
        Arc::new(move |conn| {
            let (sql, params) = (Arc::clone(&sql), params.clone());
            Box::pin(async move { read(Sets::new(session::sets(conn, &sql, params).await?)) })
        })
    }

    fn place_of(&self, number: u64) -> Result<Column> {
        rows::column(number).map_err(|fault| fault.into_error(&self.place, None))
    }
}

fn items(mut sets: Sets) -> Done<Vec<Item>> {
    sets.rows().map(item).collect()
}

fn item(mut cells: Cells) -> Done<Item> {
    let place = cells.number()?;
    let operation = rows::operation(&mut cells)?;
    let entity = entity(&mut cells)?;
    let writer = rows::writer(&mut cells)?;
    let scopes = serde_json::from_str(&cells.text()?)
        .map_err(|error| Fault::Broken(format!("a waiting save: {error}")))?;
    let (body, at) = (cells.text()?, rows::time(&mut cells)?);
    Ok(Item { place, operation, writer, entity, scopes, body, at })
}

fn told(mut cells: Cells) -> Done<Told> {
    Ok(Told {
        event: cells.number()?,
        entity: entity(&mut cells)?,
        kind: cells.text()?,
        operation: rows::operation(&mut cells)?,
        body: stored::json(&cells.text()?)?,
        at: rows::time(&mut cells)?,
    })
}

/// Two columns: type and id.
fn entity(cells: &mut Cells) -> Done<EntityRef> {
    let (kind, id) = (cells.text()?, cells.text()?);
    EntityRef::new(&kind, &id)
        .map_err(|error| Fault::Refused(Error::internal(format!("a stored record: {error}"))))
}
