//! The naive way, really executed on SQLite: load the whole record, change one field, write the whole record back,
//! with a version for every save.

use std::{
    collections::BTreeMap,
    path::{Path as FilePath, PathBuf},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::Value as Json;

use crate::{
    clock::{Clock, SystemClock},
    commit::Changed,
    database::named,
    entity::{EntityRef, GroupName, Value, WriterKind},
    error::{Error, Result},
    path::Path,
    record::Record,
    scope::ScopeName,
    testing::{
        checker::{History, Save, Standing, Stored, Told, check},
        race::{Course, Log, Player, Race, Run, Scenario, operation},
    },
    token::{OperationId, ScopeVersion, VersionNumber},
};

/// How long a connection waits for another one's transaction.
const BUSY_MAX: Duration = Duration::from_secs(30);

/// The statements of `whole_record.sql`.
#[derive(Clone)]
struct Sql(Arc<BTreeMap<&'static str, String>>);

impl Sql {
    fn read() -> Result<Self> {
        let statements = named::split(include_str!("whole_record.sql"));
        statements.map(|it| Self(Arc::new(it))).map_err(Error::internal)
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

/// Runs the race as whole-record saves, in a new SQLite file.
///
/// # Errors
/// When the file cannot be written, or SQLite fails.
pub async fn whole_record(race: &Race, file: &FilePath, done: Arc<AtomicU64>) -> Result<Run> {
    let course = Course::new(race, done)?;
    let sql = Sql::read()?;
    let table = Table { file: file.to_owned(), sql };
    let mut connection = table.open()?;
    connection.execute_batch(table.sql.get("schema")).map_err(fault)?;
    let start = table.prepare(&mut connection, &course)?;

    let each = table.clone();
    let on = course.clone();
    let (log, elapsed) = race.play(move |player| play(each.clone(), player, on.clone())).await?;

    let end = table.standings(&mut connection, &course)?;
    let entries = table.truth(&mut connection, &course)?;
    let history = History { start, end, saves: log.saves, entries, ..History::default() };
    let verdict = check(&history);
    Ok(Run { history, verdict, refused: 0, elapsed })
}

async fn play(table: Table, mut player: Player, course: Course) -> Result<Log> {
    let mut log = Log::default();
    let mut connection = table.open()?;
    for turn in 1..=player.saves {
        let Some(entity) = player.pick(&course.entities) else { break };
        let read = SystemClock.now();
        let asked = entity.clone();
        let loaded = table.blocking(connection, move |table, it| table.load(it, &asked)).await?;
        let record = loaded.1;
        if course.scenario == Scenario::Reaction && player.writer.kind == WriterKind::Worker {
            course.start.wait().await;
        }
        course.think().await;

        let mut mine = record.clone();
        mine.set(&player.field, &player.value(turn));
        let shown = values(&record, &course.units);
        let wanted = BTreeMap::from([(player.field.clone(), mine.get(&player.field))]);
        let operation = operation();
        let invoked = SystemClock.now();
        let written = Written { entity: entity.clone(), operation, record: mine };
        let saved = table.blocking(loaded.0, move |table, it| table.save(it, &written)).await?;
        connection = saved.0;
        let told = Told::Applied(operation);
        let (process, writer) = (player.number, player.writer.clone());
        let (returned, fences) = (SystemClock.now(), BTreeMap::new());
        log.saves.push(Save {
            process,
            writer,
            entity,
            key: None,
            read,
            invoked,
            returned,
            shown,
            wanted,
            fences,
            told,
        });
        course.saved();
    }
    Ok(log)
}

/// What one save writes back.
struct Written {
    entity: EntityRef,
    operation: OperationId,
    record: Record,
}

/// The one table of records.
#[derive(Clone)]
struct Table {
    file: PathBuf,
    sql: Sql,
}

impl Table {
    fn open(&self) -> Result<Connection> {
        let connection = Connection::open(&self.file).map_err(fault)?;
        connection.busy_timeout(BUSY_MAX).map_err(fault)?;
        connection.pragma_update(None, "journal_mode", "wal").map_err(fault)?;
        connection.pragma_update(None, "synchronous", "normal").map_err(fault)?;
        Ok(connection)
    }

    /// SQLite blocks: its work is done beside the runtime.
    async fn blocking<T: Send + 'static>(
        &self,
        mut connection: Connection,
        work: impl FnOnce(&Self, &mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<(Connection, T)> {
        let table = self.clone();
        let task = tokio::task::spawn_blocking(move || {
            let answer = work(&table, &mut connection)?;
            Ok((connection, answer))
        });
        task.await.map_err(|error| Error::internal(error.to_string()))?
    }

    fn prepare(
        &self,
        connection: &mut Connection,
        course: &Course,
    ) -> Result<BTreeMap<EntityRef, Standing>> {
        for entity in &*course.entities {
            connection
                .execute(self.sql.get("create"), params![entity.id.as_str()])
                .map_err(fault)?;
        }
        self.standings(connection, course)
    }

    fn load(&self, connection: &mut Connection, entity: &EntityRef) -> Result<Record> {
        Ok(self.stored(connection, entity)?.0)
    }

    fn stored(&self, connection: &Connection, entity: &EntityRef) -> Result<(Record, u64)> {
        let mut statement = connection.prepare_cached(self.sql.get("load")).map_err(fault)?;
        let row = statement.query_row(params![entity.id.as_str()], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        });
        let (data, version) = row.map_err(fault)?;
        Ok((record(&data)?, version.unsigned_abs()))
    }

    /// Writes the record back whole. What it replaces is noted for the checker.
    fn save(&self, connection: &mut Connection, written: &Written) -> Result<()> {
        let Written { entity, operation, record } = written;
        let id = entity.id.as_str();
        let data = record.to_json().to_string();
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
        let (replaced, _) = self.stored(&transaction, entity)?;
        let number: i64 = transaction
            .prepare_cached(self.sql.get("write"))
            .and_then(|mut write| write.query_row(params![id, data], |row| row.get(0)))
            .map_err(fault)?;
        transaction
            .prepare_cached(self.sql.get("keep"))
            .and_then(|mut keep| keep.execute(params![id, number, data]))
            .map_err(fault)?;
        let (operation, replaced) = (operation.to_string(), replaced.to_json().to_string());
        transaction
            .prepare_cached(self.sql.get("note"))
            .and_then(|mut note| note.execute(params![operation, id, number, replaced, data]))
            .map_err(fault)?;
        transaction.commit().map_err(fault)
    }

    fn standings(
        &self,
        connection: &mut Connection,
        course: &Course,
    ) -> Result<BTreeMap<EntityRef, Standing>> {
        let mut standings = BTreeMap::new();
        for entity in &*course.entities {
            let (record, version) = self.stored(connection, entity)?;
            let standing = Standing {
                values: values(&record, &course.units),
                versions: BTreeMap::from([(scope()?, ScopeVersion(version))]),
                number: VersionNumber(version),
            };
            standings.insert(entity.clone(), standing);
        }
        Ok(standings)
    }

    /// Every save, with the fields it really changed.
    fn truth(&self, connection: &mut Connection, course: &Course) -> Result<Vec<Stored>> {
        let mut entries = Vec::new();
        let mut statement = connection.prepare(self.sql.get("truth")).map_err(fault)?;
        for entity in &*course.entities {
            let mut rows = statement.query(params![entity.id.as_str()]).map_err(fault)?;
            while let Some(row) = rows.next().map_err(fault)? {
                let text = |column| row.get::<_, String>(column).map_err(fault);
                let operation = OperationId::parse(&text(0)?)
                    .ok_or_else(|| Error::internal("an operation id that is none"))?;
                let number = row.get::<_, i64>(1).map_err(fault)?.unsigned_abs();
                let (replaced, written) = (record(&text(2)?)?, record(&text(3)?)?);
                let mut changed = Vec::new();
                for unit in &*course.units {
                    let (old, new) = (replaced.get(unit), written.get(unit));
                    if !old.same(&new) {
                        let (path, scope, strategy) = (unit.clone(), scope()?, None);
                        changed.push(Changed { path, scope, old, new, strategy });
                    }
                }
                entries.push(Stored {
                    entity: entity.clone(),
                    operation,
                    number: Some(VersionNumber(number)),
                    versions: BTreeMap::from([(scope()?, ScopeVersion(number))]),
                    changed,
                });
            }
        }
        Ok(entries)
    }
}

/// The record is one scope here: everybody writes all of it.
fn scope() -> Result<ScopeName> {
    Ok(ScopeName::group(GroupName::new("record")?))
}

fn record(data: &str) -> Result<Record> {
    let json: Json =
        serde_json::from_str(data).map_err(|error| Error::internal(error.to_string()))?;
    Record::from_json(json).map_err(Error::internal)
}

fn values(record: &Record, units: &[Path]) -> BTreeMap<Path, Value> {
    units.iter().map(|unit| (unit.clone(), record.get(unit))).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
fn fault(error: rusqlite::Error) -> Error {
    Error::unavailable(format!("the file of whole-record saves: {error}"))
}
