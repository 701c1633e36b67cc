//! Records in the CMS's own tables, in one transaction with what we keep about them.
//!
//! Statements whose answers need not be known before the next are sent together: a load and a claim are one round trip,
//! a save is three (lock and read; compare and remember; write and commit).

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use deadpool_postgres::Object;
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};

use crate::{
    clock::{Clock, SystemClock},
    commit::{Committed, Refusal},
    database::postgres::{Call, Class, Fault, Postgres, values::Time},
    diagnostic::Diagnostic,
    entity::{EntityId, EntityRef},
    error::Error,
    mapping::{Catalogue, Cell, Column, Dialect, Facts, Kind, Layout, Mapping, Save, Statement},
    mapping::{Stored, Table, Trigger},
    snapshot::Snapshot,
    store::{
        ClaimAsk, Claimed,
        mapped::{constraint, objection, seen},
        postgres::{commit, load, rows, statements::Statements},
        prepare::Prepared,
    },
};

type Done<T> = Result<T, Fault>;
type Answer<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + Send + 'a>>;

/// How often a save is sent that lost against another transaction.
const TRIES_MAX: u32 = 8;

/// Mapped records of one type in one database.
#[derive(Clone)]
pub(super) struct Mapped {
    pub(super) database: Postgres,
    pub(super) sql: Arc<Statements>,
    pub(super) layout: Arc<Layout>,
}

/// Why a save ended without an answer.
enum End {
    Fault(Fault),
    Error(Error),
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Mapped {
    /// Our own rows, then the CMS's: a version may be older than the values, never newer.
    pub(super) async fn load(self, entity: EntityRef) -> Done<Option<Snapshot>> {
        let client = self.database.connection().await?;
        let first = load::load_call(&self.sql, &entity);
        let reads = self.reads(&entity.id, false);
        let mut answers = together(&client, Some(&first), &reads, None).await?;
        let known = answers.remove(0).into_iter().next();
        let known = known.map(|row| load::loaded(&entity, &row)).transpose()?;
        let stored = self.stored(&entity.id, answers)?;
        let now = match &known {
            Some(known) => known.read_at,
            None if stored.exists => {
                let call = Call::new(&self.sql.now);
                let found = together(&client, Some(&call), &[], None).await?;
                let row = found.first().and_then(|rows| rows.first());
                rows::column::<Time>(rows::the_row(row)?, 0)?.0
            }
            None => return Ok(None),
        };
        Ok(seen(&entity, known, stored, now))
    }

    /// The values are read when the claim stands: they are what the former holder left.
    pub(super) async fn claim(self, ask: ClaimAsk) -> Done<Claimed> {
        let client = self.database.connection().await?;
        let entity = ask.scopes.entity();
        let mut met = false;
        loop {
            let first = load::claim_call(&self.sql, &ask);
            let reads = self.reads(&entity.id, false);
            let mut answers = together(&client, Some(&first), &reads, None).await?;
            let claimed = load::claimed(&ask, answers.remove(0).first())?;
            let stored = self.stored(&entity.id, answers)?;
            match claimed {
                Claimed::Refused(Refusal::NotFound | Refusal::Gone) if stored.exists && !met => {
                    let meet = load::of_entity(Call::new(&self.sql.meet), entity);
                    together(&client, Some(&meet), &[], None).await?;
                    met = true;
                }
                Claimed::Claimed(mut claim) if stored.exists => {
                    claim.snapshot.record = stored.record;
                    return Ok(Claimed::Claimed(claim));
                }
                Claimed::Claimed(_) => return Ok(Claimed::Refused(Refusal::Gone)),
                refused => return Ok(refused),
            }
        }
    }

    /// The CMS's row is locked first, then ours; everything is there at the COMMIT or nothing.
    pub(super) async fn commit(self, save: Prepared) -> crate::error::Result<Committed> {
        let place = self.database.place().to_owned();
        let operation = Some(save.operation);
        let work = tokio::spawn(async move { self.tries(save).await });
        let lost = |error| {
            End::Fault(Fault::new(Class::Unknown, format!("its task ended early: {error}")))
        };
        match work.await.unwrap_or_else(|error| Err(lost(error))) {
            Ok(done) => Ok(done),
            Err(End::Error(error)) => Err(error),
            Err(End::Fault(fault)) => Err(fault.into_error(&place, operation)),
        }
    }

    async fn tries(self, mut save: Prepared) -> Result<Committed, End> {
        // Values lie in the CMS's tables only, and what must be there is looked for there.
        let (patch, parents) = (std::mem::take(&mut save.patch), std::mem::take(&mut save.parents));
        let call = commit::call(&self.sql, &save)?;
        (save.patch, save.parents) = (patch, parents);
        let mut tried = 1;
        loop {
            let client = self.database.connection().await?;
            let end = SystemClock.now().plus(self.database.options().deadline);
            let done = tokio::select! {
                biased;
                done = self.transact(&client, &call, &save) => done,
                () = SystemClock.sleep_until(end) => {
                    Err(Fault::new(Class::Unknown, "no answer within the deadline").into())
                }
            };
            let broken = match &done {
                Ok(_) => false,
                Err(End::Fault(fault)) if fault.poisons() || fault.class == Class::Unknown => true,
                Err(_) => client.batch_execute("ROLLBACK").await.is_err(),
            };
            if broken {
                drop(Object::take(client));
            }
            match done {
                Err(End::Fault(fault)) if fault.class == Class::Again && tried < TRIES_MAX => {
                    tried += 1;
                    tokio::task::yield_now().await;
                }
                done => return done,
            }
        }
    }

    async fn transact(
        &self,
        client: &Object,
        call: &Call,
        save: &Prepared,
    ) -> Result<Committed, End> {
        let id = &save.entity.id;
        let mut answers = together(client, None, &self.reads(id, true), Some("BEGIN")).await?;
        answers.remove(0);
        let stored = self.stored(id, answers)?;
        let follow = if stored.exists { &self.sql.meet } else { &self.sql.miss };
        let follow = load::of_entity(Call::new(follow), &save.entity);
        let pass = Call::new(&self.sql.let_pass);
        let answers = calls(client, &[&follow, &pass, call]).await?;
        let answer = answers.last().and_then(|rows| rows.first());
        let mut done = commit::answer(save, answer)?;
        if matches!(done, Committed::Applied { .. })
            && let Some(refusal) = objection(save, &stored.record).map_err(Fault::from)?
        {
            done = Committed::Refused(refusal);
        }
        if !matches!(done, Committed::Applied { .. }) {
            client.batch_execute("ROLLBACK").await.map_err(|error| Fault::of(&error))?;
            return Ok(done);
        }
        let wanted = Save {
            lifecycle: save.lifecycle,
            patch: &save.patch,
            removed_items: &save.removed_items,
        };
        let writes = self.layout.writes(id, &stored, &wanted).map_err(End::Error)?;
        self.finish(client, &writes).await?;
        Ok(done)
    }

    /// Writes and COMMIT in one flush: after an error the server takes no further statement, and COMMIT undoes.
    async fn finish(&self, client: &Object, writes: &[Statement]) -> Result<(), End> {
        let mut sent: Vec<Answer<'_>> = writes.iter().map(|write| typed(client, write)).collect();
        sent.push(Box::pin(
            async move { client.batch_execute("COMMIT").await.map(|()| Vec::new()) },
        ));
        for answer in in_order(sent).await {
            let Err(error) = answer else { continue };
            let refused = error.code().filter(|code| {
                ["22", "23", "P0001"].iter().any(|class| code.code().starts_with(class))
            });
            if refused.is_some() {
                let why = error.as_db_error().map_or("", |error| error.message());
                return Err(End::Error(constraint(self.layout.kind(), why)));
            }
            return Err(Fault::of(&error).into());
        }
        Ok(())
    }

    fn reads(&self, id: &EntityId, lock: bool) -> Vec<Statement> {
        self.layout.reads(id, lock).unwrap_or_default()
    }

    fn stored(&self, id: &EntityId, answers: Vec<Vec<Row>>) -> Done<Stored> {
        let mut read = Vec::with_capacity(answers.len());
        for found in answers {
            let row = |row: Row| (0..row.len()).map(|at| cell(&row, at)).collect::<Done<Vec<_>>>();
            read.push(found.into_iter().map(row).collect::<Done<Vec<_>>>()?);
        }
        self.layout.stored(id, &read).map_err(|why| Fault::new(Class::Broken, why))
    }
}

fn cell(row: &Row, at: usize) -> Done<Cell> {
    Ok(rows::column::<Option<String>>(row, at)?.map_or(Cell::Null, Cell::Text))
}

/// Statements sent in one flush, in order: a plain text first, then a call, then statements over the CMS's tables.
/// The first error in order is the cause of the others.
async fn together(
    client: &Object,
    call: Option<&Call>,
    statements: &[Statement],
    text: Option<&'static str>,
) -> Done<Vec<Vec<Row>>> {
    let mut sent: Vec<Answer<'_>> = Vec::new();
    if let Some(text) = text {
        sent.push(Box::pin(async move { client.batch_execute(text).await.map(|()| Vec::new()) }));
    }
    sent.extend(call.map(|call| of_call(client, call)));
    sent.extend(statements.iter().map(|statement| typed(client, statement)));
    let answers = in_order(sent).await;
    answers.into_iter().map(|answer| answer.map_err(|error| Fault::of(&error))).collect()
}

async fn calls(client: &Object, calls: &[&Call]) -> Done<Vec<Vec<Row>>> {
    let answers = in_order(calls.iter().map(|call| of_call(client, call)).collect()).await;
    answers.into_iter().map(|answer| answer.map_err(|error| Fault::of(&error))).collect()
}

fn of_call<'a>(client: &'a Object, call: &'a Call) -> Answer<'a> {
    Box::pin(async move { client.query_typed(call.sql(), &call.typed()).await })
}

/// Every parameter is text, cast in the statement.
fn typed<'a>(client: &'a Object, statement: &'a Statement) -> Answer<'a> {
    Box::pin(async move {
        let text = |cell: &Cell| match cell {
            Cell::Text(text) => Some(text.clone()),
            Cell::Int(number) => Some(number.to_string()),
            Cell::Real(number) => Some(number.to_string()),
            Cell::Null | Cell::Bytes(_) => None,
        };
        let texts: Vec<Option<String>> = statement.cells.iter().map(text).collect();
        let params: Vec<(&(dyn ToSql + Sync), Type)> =
            texts.iter().map(|text| (text as &(dyn ToSql + Sync), Type::TEXT)).collect();
        client.query_typed(&statement.sql, &params).await
    })
}

/// Polls each from the first to the last, so that they are sent in this order, and waits for all.
async fn in_order<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(move |context| {
        for (future, done) in futures.iter_mut().zip(done.iter_mut()) {
            if done.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
        }
        if done.iter().any(Option::is_none) {
            return Poll::Pending;
        }
        Poll::Ready(done.iter_mut().filter_map(Option::take).collect())
    })
    .await
}

/// Puts `storage:` and the tables of this database together.
pub(super) async fn bind(
    database: &Postgres,
    sql: &Statements,
    mapping: &Mapping,
) -> Done<Result<Layout, Vec<Diagnostic>>> {
    let mut catalogue = Catalogue::default();
    let column = |row: &Row, at: usize| rows::column::<String>(row, at);
    for row in database.rows(Call::new(&sql.table_columns)).await? {
        let (schema, name) = (column(&row, 0)?, column(&row, 1)?);
        // A table outside of the search path has no name but the full one.
        let visible: bool = rows::column(&row, 9)?;
        let wanted = match visible {
            true => mapping.wants(Some(&schema), &name),
            false => mapping.wants(None, &format!("{schema}.{name}")),
        };
        if !wanted {
            continue;
        }
        let schema = Some(schema);
        if catalogue.tables.last().is_none_or(|t| t.name != name || t.schema != schema) {
            let view = rows::column(&row, 2)?;
            let name = name.clone();
            catalogue.tables.push(Table { schema, name, view, ..Table::default() });
        }
        let declared = column(&row, 4)?;
        let facts = Facts { labels: rows::column(&row, 8)?, json: false };
        let described = Column {
            name: column(&row, 3)?,
            kind: Kind::parse(Dialect::Postgres, &declared, &facts),
            declared,
            nullable: rows::column(&row, 5)?,
            defaulted: rows::column::<Option<bool>>(&row, 6)?.unwrap_or(false),
            generated: rows::column(&row, 7)?,
        };
        if let Some(table) = catalogue.tables.last_mut() {
            table.columns.push(described);
        }
    }
    for row in database.rows(Call::new(&sql.table_keys)).await? {
        let columns = rows::column(&row, 2)?;
        if let Some(table) = find(&mut catalogue, &column(&row, 0)?, &column(&row, 1)?) {
            table.unique.push(columns);
        }
    }
    for row in database.rows(Call::new(&sql.table_triggers)).await? {
        let trigger = Trigger { name: column(&row, 2)?, text: column(&row, 3)? };
        if let Some(table) = find(&mut catalogue, &column(&row, 0)?, &column(&row, 1)?) {
            table.triggers.push(trigger);
        }
    }
    Ok(mapping.bind(Dialect::Postgres, &catalogue))
}

fn find<'c>(catalogue: &'c mut Catalogue, schema: &str, name: &str) -> Option<&'c mut Table> {
    let same = |table: &&mut Table| table.name == name && table.schema.as_deref() == Some(schema);
    catalogue.tables.iter_mut().find(same)
}
