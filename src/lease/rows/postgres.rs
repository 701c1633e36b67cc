//! Leases in rows of PostgreSQL.
//!
//! With a direct connection ([`Pooler::None`]) each process keeps one more connection that listens, and waiters hear at
//! once that it is their turn. Behind a transaction pooler, which does not pass notifications on, a process asks for
//! notices every 50 ms while one of its own waits, and twice a second while one of its own holds.

use std::{collections::BTreeMap, future::poll_fn, sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Row, types::Type};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::{BoxFuture, Clock, Moment},
    database::{
        named,
        postgres::{Call, Class, Fault, Pooler, Postgres, PostgresOptions},
    },
    entity::{EntityId, EntityRef, EntityType},
    error::{Error, Result},
    lease::rows::{
        RowLeases, RowOptions,
        line::{Ear, Line, Lines, Page, Write},
        poll::{self, Notice, Notices},
    },
};

/// Pause before listening is tried again; doubles up to the longest.
const AGAIN: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(2);
/// How often a connection that only listens is asked whether it still lives, and how long its answer may take.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
const ALIVE_WITHIN: Duration = Duration::from_secs(5);
/// Notifications kept until they are heard; then the connection is read no further.
const UNHEARD_MAX: usize = 1_024;

/// Connects, and checks that the schema is there.
///
/// # Errors
/// [`Error::Unavailable`] when the server is not reached, `store_setup` before `fieldlease migrate`.
pub async fn connect(server: PostgresOptions, options: RowOptions) -> Result<RowLeases> {
    let texts = named::split(include_str!("sql/postgres.sql")).map_err(Error::internal)?;
    let texts = texts.into_iter().map(|(name, text)| (name, text.into())).collect();
    let lines = PostgresLines {
        server: Postgres::new(server)?,
        texts,
        namespace: options.namespace.clone(),
        clock: options.clock.clone(),
    };
    lines.newest().await?;
    Ok(RowLeases::new(Arc::new(lines), options))
}

struct PostgresLines {
    server: Postgres,
    texts: BTreeMap<&'static str, Arc<str>>,
    namespace: String,
    clock: Arc<dyn Clock>,
}

impl PostgresLines {
    fn call(&self, name: &str) -> Result<Call> {
        let text = self.texts.get(name);
        text.map(Call::new).ok_or_else(|| Error::internal(format!("no statement `{name}`")))
    }

    fn scoped(&self, name: &str) -> Result<Call> {
        Ok(self.call(name)?.with(Type::TEXT, self.namespace.clone()))
    }

    async fn rows(&self, call: Call) -> Result<Vec<Row>> {
        self.server.rows(call).await.map_err(|fault| self.error(fault))
    }

    fn error(&self, fault: Fault) -> Error {
        fault.into_error(self.server.place(), None)
    }

    fn get<'r, T: tokio_postgres::types::FromSql<'r>>(&self, row: &'r Row, at: usize) -> Result<T> {
        row.try_get(at).map_err(|error| self.error(Fault::new(Class::Broken, error.to_string())))
    }

    async fn read_lines(&self, entities: &[EntityRef]) -> Result<Page> {
        let call = self
            .scoped("lines")?
            .with(Type::TEXT_ARRAY, kinds(entities))
            .with(Type::BYTEA_ARRAY, ids(entities));
        let rows = self.rows(call).await?;
        let (mut now, mut lines) = (moment(0), Vec::with_capacity(entities.len()));
        for (entity, row) in entities.iter().zip(&rows) {
            let revision: Option<i64> = self.get(row, 0)?;
            // The first row's time is the earliest: no lease lasts longer for it.
            if lines.is_empty() {
                now = moment(self.get(row, 2)?);
            }
            let text = self.get(row, 1)?;
            lines.push(Line { entity: entity.clone(), revision: revision.unwrap_or(0), text });
        }
        if lines.len() < entities.len() {
            return Err(Error::internal("a read of leases answered too few rows"));
        }
        Ok(Page { now, lines })
    }

    async fn read_page(&self, from: Option<&EntityRef>, most: usize) -> Result<Page> {
        let (kind, id) = from.map_or(("", ""), |from| (from.kind.as_str(), from.id.as_str()));
        let call = self
            .scoped("page")?
            .with(Type::TEXT, kind.to_owned())
            .with(Type::BYTEA, id.as_bytes().to_vec())
            .with(Type::INT8, i64::try_from(most).unwrap_or(i64::MAX));
        let (mut now, mut lines) = (moment(0), Vec::new());
        for row in &self.rows(call).await? {
            now = moment(self.get(row, 4)?);
            let kind: Option<String> = self.get(row, 0)?;
            let Some(kind) = kind else { continue };
            let id: Vec<u8> = self.get(row, 1)?;
            let named = String::from_utf8(id).ok().and_then(|id| EntityId::new(&id).ok());
            // A name that is none of ours was not written by us.
            let (Ok(kind), Some(id)) = (EntityType::new(&kind), named) else { continue };
            let (revision, text) = (self.get(row, 2)?, self.get(row, 3)?);
            lines.push(Line { entity: EntityRef { kind, id }, revision, text: Some(text) });
        }
        Ok(Page { now, lines })
    }

    async fn write_lines(&self, writes: &[Write]) -> Result<Vec<bool>> {
        let entities: Vec<EntityRef> = writes.iter().map(|write| write.entity.clone()).collect();
        let each = |of: fn(&Write) -> i64| writes.iter().map(of).collect::<Vec<i64>>();
        let leases: Vec<Option<String>> = writes.iter().map(|write| write.text.clone()).collect();
        let told: Vec<String> = writes.iter().map(|write| write.notice.clone()).collect();
        let call = self
            .scoped("write")?
            .with(Type::TEXT_ARRAY, kinds(&entities))
            .with(Type::BYTEA_ARRAY, ids(&entities))
            .with(Type::INT8_ARRAY, each(|write| write.was))
            .with(Type::INT8_ARRAY, each(|write| write.revision))
            .with(Type::TEXT_ARRAY, leases)
            .with(Type::INT8_ARRAY, each(|write| write.until))
            .with(Type::TEXT_ARRAY, told);
        let rows = self.rows(call).await?;
        let row = rows.first().ok_or_else(|| Error::internal("a write answered nothing"))?;
        self.get(row, 0)
    }

    /// Listens on connections of its own until it is cancelled.
    async fn hear(&self, ear: &dyn Ear, end: &CancellationToken) -> Result<()> {
        let mut pause = AGAIN;
        loop {
            // Both arms are safe to cancel: a connection that is dropped is closed.
            let heard = tokio::select! {
                () = end.cancelled() => return Ok(()),
                heard = self.hear_once(ear, &mut pause) => heard,
            };
            if let Err(error) = heard {
                tracing::warn!(%error, "nobody listens for notices about leases; trying again");
            }
            tokio::select! {
                () = end.cancelled() => return Ok(()),
                () = self.clock.sleep_until(self.clock.now().plus(pause)) => {}
            }
            pause = AGAIN_MAX.min(pause * 2);
        }
    }

    async fn hear_once(&self, ear: &dyn Ear, pause: &mut Duration) -> Result<()> {
        let (client, mut connection) = self.server.plain().await?;
        let (sender, mut unheard) = mpsc::channel(UNHEARD_MAX);
        // Ends with the connection, which ends when the client is dropped.
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(notification) = message
                    && sender.send(notification.payload().to_owned()).await.is_err()
                {
                    return;
                }
            }
        });
        self.simple(&client, "listen").await?;
        *pause = AGAIN;
        // What was written before this moment is looked at by everybody.
        ear.missed();
        loop {
            let look = self.clock.now().plus(ALIVE_EVERY);
            // All arms are safe to cancel.
            tokio::select! {
                told = unheard.recv() => match told {
                    Some(told) => ear.hear(&told),
                    None => return Err(Error::unavailable("the connection that listens was closed")),
                },
                () = self.clock.sleep_until(look) => self.simple(&client, "alive").await?,
            }
        }
    }

    async fn simple(&self, client: &Client, name: &str) -> Result<()> {
        let text = self.texts.get(name).map(|text| text.to_string()).unwrap_or_default();
        let end = self.clock.now().plus(ALIVE_WITHIN);
        tokio::select! {
            done = client.batch_execute(&text) => done.map_err(|error| self.error(Fault::of(&error))),
            () = self.clock.sleep_until(end) => {
                Err(Error::unavailable(format!("no answer within {ALIVE_WITHIN:?}")))
            }
        }
    }
}

impl Notices for PostgresLines {
    fn newest(&self) -> BoxFuture<'_, Result<i64>> {
        Box::pin(async move {
            let rows = self.rows(self.call("newest")?).await?;
            rows.first().map_or(Ok(0), |row| self.get(row, 0))
        })
    }

    fn told(&self, after: i64) -> BoxFuture<'_, Result<Vec<Notice>>> {
        Box::pin(async move {
            let rows = self.rows(self.call("told")?.with(Type::INT8, after)).await?;
            let read = |row| {
                let (number, told, old) = (self.get(row, 0)?, self.get(row, 1)?, self.get(row, 2)?);
                Ok(Notice { number, told, old })
            };
            rows.iter().map(read).collect()
        })
    }
}

impl Lines for PostgresLines {
    fn read<'a>(&'a self, entities: &'a [EntityRef]) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.read_lines(entities))
    }

    fn page<'a>(&'a self, from: Option<&'a EntityRef>, most: usize) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.read_page(from, most))
    }

    fn write<'a>(&'a self, writes: &'a [Write]) -> BoxFuture<'a, Vec<Result<bool>>> {
        Box::pin(async move {
            if writes.is_empty() {
                return Vec::new();
            }
            match self.write_lines(writes).await {
                Ok(done) => done.into_iter().map(Ok).collect(),
                // All in one transaction: what holds for one holds for all.
                Err(error) => {
                    writes.iter().map(|_| Err(Error::unavailable(error.to_string()))).collect()
                }
            }
        })
    }

    fn listen<'a>(&'a self, ear: &'a dyn Ear, end: CancellationToken) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match self.server.options().pooler {
                Pooler::None => self.hear(ear, &end).await,
                Pooler::Transaction => poll::listen(self, &*self.clock, ear, end).await,
            }
        })
    }

    fn sweep(&self, ended: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let micros = i64::try_from(ended.as_micros()).unwrap_or(i64::MAX);
            for name in ["sweep", "sweep_notices"] {
                self.rows(self.call(name)?.with(Type::INT8, micros)).await?;
            }
            Ok(())
        })
    }
}

fn kinds(entities: &[EntityRef]) -> Vec<String> {
    entities.iter().map(|entity| entity.kind.as_str().to_owned()).collect()
}

fn ids(entities: &[EntityRef]) -> Vec<Vec<u8>> {
    entities.iter().map(|entity| entity.id.as_str().as_bytes().to_vec()).collect()
}

fn moment(micros: i64) -> Moment {
    Moment(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}
