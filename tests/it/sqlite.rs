//! SQLite as a file: opening it, sharing it, losing it. What the ports promise is in `tests/backends`.

mod faults;
mod open;
mod processes;

use std::{collections::BTreeMap, path::Path as FilePath};

use fieldlease::{
    clock::StoreTime,
    commit::{Changed, Commit, Committed, Expect, Lifecycle, OperationDetail, Refusal, Trace},
    entity::{EntityRef, Value, Writer},
    path::Path,
    record::Record,
    scope::ScopeName,
    snapshot::Snapshot,
    store::{RecordStore, sqlite::SqliteStore},
    token::{
        Fence, Generation, Incarnation, OperationId, ScopeVersion, SystemEntropy, VersionNumber,
    },
};
use serde_json::{Value as Json, json};

fn counter() -> (EntityRef, Path, ScopeName) {
    let scope = ScopeName::parse("stock").unwrap();
    (EntityRef::new("Product", "1").unwrap(), Path::parse("stock.count").unwrap(), scope)
}

fn operation() -> OperationId {
    OperationId::new(StoreTime(0), &SystemEntropy)
}

/// A worker's save of `stock.count`, planned on what was seen.
fn count_to(seen: &Snapshot, value: Json) -> Commit {
    let (entity, path, scope) = counter();
    let mut after = seen.record.clone();
    after.set(&path, &value);
    let change = Changed {
        old: seen.record.get(&path),
        new: Value::Present(value),
        path,
        scope: scope.clone(),
        strategy: None,
    };
    Commit {
        operation: operation(),
        writer: Writer::worker("counter"),
        entity,
        lifecycle: Lifecycle::Update,
        incarnation: seen.incarnation,
        generation: Generation([1; 32]),
        entity_fence: seen.entity_fence,
        scopes: [(scope.clone(), Expect::Version(seen.version(&scope)))].into(),
        inputs: BTreeMap::new(),
        input_patterns: Vec::new(),
        parents: Vec::new(),
        patch: seen.record.patch_to(&after),
        removed_items: Vec::new(),
        changed: vec![change],
        trace: Trace::Operation(OperationDetail::default()),
        key: None,
        events: Vec::new(),
        queued: None,
    }
}

fn nothing() -> Snapshot {
    Snapshot {
        entity: counter().0,
        incarnation: Incarnation(0),
        deleted_at: None,
        record: Record::new(),
        stamps: BTreeMap::new(),
        versions: BTreeMap::new(),
        entity_fence: Fence(0),
        number: VersionNumber(0),
        read_at: StoreTime(0),
    }
}

async fn create(store: &SqliteStore) {
    let mut commit = count_to(&nothing(), json!(0));
    commit.lifecycle = Lifecycle::Create;
    assert!(matches!(store.commit(&commit).await, Ok(Committed::Applied { .. })));
}

async fn seen(store: &SqliteStore) -> Snapshot {
    store.load(&counter().0).await.unwrap().unwrap()
}

fn count_in(seen: &Snapshot) -> u64 {
    seen.record.get(&counter().1).json().and_then(Json::as_u64).unwrap()
}

/// Adds one, planning again until no other save was faster. Answers the operation that did it.
async fn add_one(store: &SqliteStore) -> fieldlease::error::Result<OperationId> {
    loop {
        let Some(seen) = store.load(&counter().0).await? else { panic!("not created") };
        let commit = count_to(&seen, json!(count_in(&seen) + 1));
        match store.commit(&commit).await? {
            Committed::Applied { .. } => return Ok(commit.operation),
            Committed::Refused(Refusal::Stale(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// What SQLite itself says about the file, and that history and record tell the same story.
fn assert_whole(path: &FilePath) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let text = |sql: &str| -> String { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
    let number = |sql: &str| -> i64 { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(text("PRAGMA integrity_check"), "ok");
    assert_eq!(text("SELECT count(*) || '' FROM pragma_foreign_key_check"), "0");
    let saves = number("SELECT count(*) FROM fl_operation");
    assert_eq!(number("SELECT count(*) FROM fl_change"), saves);
    assert_eq!(number("SELECT version FROM fl_scope WHERE scope = 'stock'"), saves);
    assert_eq!(number("SELECT json_extract(data, '$.\"stock.count\"') FROM fl_entity"), saves - 1);
}

fn version_of(seen: &Snapshot) -> ScopeVersion {
    seen.version(&counter().2)
}
