//! Leases in rows of MariaDB and MySQL.
//!
//! The server wakes nobody: waiters of other processes hear within 50 ms that it is their turn, as each process looks for
//! notices that often while one of its own waits, and twice a second while one of its own holds.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use mysql_async::{Conn, Row, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::{BoxFuture, Clock, Moment},
    database::{
        mysql::{
            Cells, Fault, MysqlOptions, Pool, migrate,
            pool::{Repeat, Work},
            session::sets,
        },
        named,
    },
    entity::{EntityId, EntityRef, EntityType},
    error::{Error, Result},
    lease::rows::{
        RowLeases, RowOptions,
        line::{Ear, Line, Lines, Page, Write},
        poll::{self, Notice, Notices},
    },
};

/// Connects, and checks that the schema is there.
///
/// # Errors
/// [`Error::Unavailable`] when the server is not reached, `no_schema` before `fieldlease migrate`.
pub async fn connect(server: MysqlOptions, options: RowOptions) -> Result<RowLeases> {
    let texts = named::split(include_str!("sql/mysql.sql")).map_err(Error::internal)?;
    let place = server.place();
    let pool = Pool::new(server);
    let lines = MysqlLines {
        pool,
        texts: Arc::new(texts),
        place: place.clone(),
        namespace: options.namespace.clone(),
        clock: options.clock.clone(),
    };
    let work: Work<()> = Arc::new(move |conn| {
        let place = place.clone();
        Box::pin(async move { migrate::check(conn, &place).await })
    });
    lines.run(Repeat::Harmless, work).await?;
    Ok(RowLeases::new(Arc::new(lines), options))
}

struct MysqlLines {
    pool: Pool,
    texts: Arc<BTreeMap<&'static str, String>>,
    place: String,
    namespace: String,
    clock: Arc<dyn Clock>,
}

/// One statement to be sent.
#[derive(Clone)]
struct Statement {
    name: &'static str,
    params: Vec<Value>,
}

impl MysqlLines {
    async fn run<T: Send + 'static>(&self, repeat: Repeat, work: Work<T>) -> Result<T> {
        self.pool.run(repeat, work).await.map_err(|fault| fault.into_error(&self.place, None))
    }

    /// Sends the statements one after the other on one connection; answers the first set of rows of each.
    async fn ask(&self, repeat: Repeat, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>> {
        let texts = Arc::clone(&self.texts);
        let work: Work<Vec<Vec<Row>>> = Arc::new(move |conn: &mut Conn| {
            let (texts, statements) = (Arc::clone(&texts), statements.clone());
            Box::pin(async move {
                let mut answers = Vec::with_capacity(statements.len());
                for Statement { name, params } in statements {
                    let text = texts.get(name).map(String::as_str).unwrap_or_default();
                    let first = sets(conn, text, params).await?.into_iter().next();
                    answers.push(first.unwrap_or_default());
                }
                Ok(answers)
            })
        });
        self.run(repeat, work).await
    }

    async fn one(&self, statement: Statement) -> Result<Vec<Row>> {
        Ok(self
            .ask(Repeat::Harmless, vec![statement])
            .await?
            .into_iter()
            .next()
            .unwrap_or_default())
    }

    fn read<T>(
        &self,
        row: Row,
        read: impl FnOnce(&mut Cells) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        read(&mut Cells::new(row)).map_err(|fault| fault.into_error(&self.place, None))
    }

    fn of(&self, entity: &EntityRef) -> Vec<Value> {
        [self.namespace.as_str(), entity.kind.as_str(), entity.id.as_str()].map(Value::from).into()
    }

    async fn read_lines(&self, entities: &[EntityRef]) -> Result<Page> {
        let statements =
            entities.iter().map(|entity| Statement { name: "line", params: self.of(entity) });
        let answers = self.ask(Repeat::Harmless, statements.collect()).await?;
        // The earliest time serves them all: a lease never lasts longer for it.
        let mut now: Option<i64> = None;
        let mut lines = Vec::with_capacity(entities.len());
        for (entity, rows) in entities.iter().zip(answers) {
            let row = rows
                .into_iter()
                .next()
                .ok_or_else(|| Error::internal("a read answered nothing"))?;
            let (at, revision, text) = self.read(row, |cells| {
                Ok((cells.signed()?, cells.signed_or_null()?, cells.text_or_null()?))
            })?;
            now = Some(now.map_or(at, |now| now.min(at)));
            lines.push(Line { entity: entity.clone(), revision: revision.unwrap_or(0), text });
        }
        Ok(Page { now: moment(now.unwrap_or(0)), lines })
    }

    async fn read_page(&self, from: Option<&EntityRef>, most: usize) -> Result<Page> {
        let (kind, id) = from.map_or(("", ""), |from| (from.kind.as_str(), from.id.as_str()));
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let namespace = self.namespace.as_str();
        let params = vec![namespace.into(), kind.into(), kind.into(), id.into(), most.into()];
        let page = Statement { name: "page", params };
        let now = Statement { name: "now", params: Vec::new() };
        let mut answers = self.ask(Repeat::Harmless, vec![now, page]).await?.into_iter();
        let now = answers.next().and_then(|rows| rows.into_iter().next());
        let now = now.ok_or_else(|| Error::internal("a server told no time"))?;
        let now = self.read(now, Cells::signed)?;
        let mut lines = Vec::new();
        for row in answers.next().unwrap_or_default() {
            let (kind, id, revision, text) = self.read(row, |cells| {
                Ok((cells.text()?, cells.text()?, cells.signed()?, cells.text()?))
            })?;
            // A name that is none of ours was not written by us.
            let (Ok(kind), Ok(id)) = (EntityType::new(&kind), EntityId::new(&id)) else { continue };
            lines.push(Line { entity: EntityRef { kind, id }, revision, text: Some(text) });
        }
        Ok(Page { now: moment(now), lines })
    }

    async fn write_line(&self, write: &Write) -> Result<bool> {
        let mut params = self.of(&write.entity);
        params.extend([
            write.was.into(),
            write.revision.into(),
            write.text.clone().into(),
            write.until.into(),
            write.notice.clone().into(),
        ]);
        let asked = vec![Statement { name: "write", params }];
        // Done twice it would answer that somebody else was faster.
        let answer = self.ask(Repeat::Never, asked).await?.into_iter().flatten().next();
        let row = answer.ok_or_else(|| Error::internal("a write answered nothing"))?;
        self.read(row, |cells| Ok(cells.signed()? == 1))
    }
}

impl Notices for MysqlLines {
    fn newest(&self) -> BoxFuture<'_, Result<i64>> {
        Box::pin(async move {
            let rows = self.one(Statement { name: "newest", params: Vec::new() }).await?;
            let row = rows.into_iter().next();
            row.map_or(Ok(0), |row| self.read(row, Cells::signed))
        })
    }

    fn told(&self, after: i64) -> BoxFuture<'_, Result<Vec<Notice>>> {
        Box::pin(async move {
            let rows = self.one(Statement { name: "told", params: vec![after.into()] }).await?;
            let read = |row| {
                self.read(row, |cells| {
                    let (number, told, old) =
                        (cells.signed()?, cells.text()?, cells.signed()? != 0);
                    Ok(Notice { number, told, old })
                })
            };
            rows.into_iter().map(read).collect()
        })
    }
}

impl Lines for MysqlLines {
    fn read<'a>(&'a self, entities: &'a [EntityRef]) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.read_lines(entities))
    }

    fn page<'a>(&'a self, from: Option<&'a EntityRef>, most: usize) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.read_page(from, most))
    }

    fn write<'a>(&'a self, writes: &'a [Write]) -> BoxFuture<'a, Vec<Result<bool>>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(writes.len());
            for write in writes {
                answers.push(self.write_line(write).await);
            }
            answers
        })
    }

    fn listen<'a>(&'a self, ear: &'a dyn Ear, end: CancellationToken) -> BoxFuture<'a, Result<()>> {
        Box::pin(poll::listen(self, &*self.clock, ear, end))
    }

    fn sweep(&self, ended: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let micros = i64::try_from(ended.as_micros()).unwrap_or(i64::MAX);
            let of = |name| Statement { name, params: vec![micros.into()] };
            self.ask(Repeat::Harmless, vec![of("sweep"), of("sweep_notices")]).await.map(drop)
        })
    }
}

fn moment(micros: i64) -> Moment {
    Moment(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}
