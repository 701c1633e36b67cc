//! Saves on SQLite, against a bare `UPDATE` in the same run. Target: claim, read and save under 150 us at the median
//! with `synchronous=NORMAL`; FULL is shown beside it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be prepared stops")]

use std::sync::Arc;

use divan::Bencher;
use fieldlease::{
    engine::{Claiming, Engine},
    entity::EntityRef,
    registry::{self, Limits},
    store::sqlite::{SqliteOptions, SqliteStore, Synchronous},
    strategy::Strategies,
};
use rusqlite::{Connection, params};
use tokio::runtime::Runtime;

const REGISTRY: &str = "field_ownership:\n  Product:\n    editor_owned: [name, text]\n    system_owned:\n      media: [thumbnail, width]\n";

/// How durable a commit is.
#[derive(Clone, Copy, Debug)]
enum Sync {
    Normal,
    Full,
}

const BOTH: [Sync; 2] = [Sync::Normal, Sync::Full];

fn main() {
    divan::main();
}

struct Bench {
    runtime: Runtime,
    engine: Engine,
    entity: EntityRef,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(sync: Sync) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let synchronous = match sync {
            Sync::Normal => Synchronous::Normal,
            Sync::Full => Synchronous::Full,
        };
        let options = SqliteOptions::default().synchronous(synchronous);
        let store = SqliteStore::open_with(folder.path().join("bench.sqlite"), options).unwrap();
        let (rules, _) =
            registry::load(REGISTRY.as_bytes(), &Strategies::standard(), &Limits::default());
        let runtime = Runtime::new().unwrap();
        let entity = EntityRef::new("Product", "1").unwrap();
        let engine = runtime.block_on(async {
            let engine = Engine::builder(Arc::new(rules.unwrap()))
                .source(REGISTRY)
                .store(Arc::new(store))
                .build()
                .await
                .unwrap();
            let made = engine.editor("anna").create(&entity).set("name", "Chair");
            assert_eq!(made.send().await.unwrap().code(), "applied");
            engine
        });
        Self { runtime, engine, entity, _folder: folder }
    }
}

/// A worker's job: lease, claim with the record, save with its operation record, release.
#[divan::bench(args = BOTH, sample_count = 300, sample_size = 1)]
fn claim_read_save(bencher: Bencher<'_, '_>, sync: Sync) {
    let bench = Bench::new(sync);
    let worker = bench.engine.worker("thumbnailer");
    let mut turn = 0_u64;
    bencher.bench_local(|| {
        turn += 1;
        bench.runtime.block_on(async {
            let claiming = worker.claim(&bench.entity, ["media"]).send().await.unwrap();
            let Claiming::Claimed(claim) = claiming else { panic!("not claimed") };
            let outcome = claim.save().set("thumbnail", turn).send().await.unwrap();
            assert_eq!(outcome.code(), "applied");
            let _ = claim.release().await;
        });
    });
}

/// A person's save: the form's token, a merge, a version.
#[divan::bench(args = BOTH, sample_count = 300, sample_size = 1)]
fn editor_save(bencher: Bencher<'_, '_>, sync: Sync) {
    let bench = Bench::new(sync);
    let anna = bench.engine.editor("anna");
    let mut turn = 0_u64;
    let loaded = bench.runtime.block_on(anna.load(&bench.entity)).unwrap();
    let mut token = loaded.unwrap().token;
    bencher.bench_local(|| {
        turn += 1;
        let save = anna.save(&bench.entity).token(token.as_str()).set("name", turn);
        let outcome = bench.runtime.block_on(save.send()).unwrap();
        assert_eq!(outcome.code(), "applied");
        token = outcome.token().unwrap().to_owned();
    });
}

/// A computed result without lease and claim.
#[divan::bench(args = BOTH, sample_count = 300, sample_size = 1)]
fn apply(bencher: Bencher<'_, '_>, sync: Sync) {
    let bench = Bench::new(sync);
    let worker = bench.engine.worker("thumbnailer");
    let mut turn = 0_u64;
    bencher.bench_local(|| {
        turn += 1;
        let save = worker.apply(&bench.entity).unordered().set("width", turn);
        assert_eq!(bench.runtime.block_on(save.send()).unwrap().code(), "applied");
    });
}

/// The floor: one compare-and-set on one row, committed by itself.
#[divan::bench(args = BOTH, sample_count = 300, sample_size = 1)]
fn bare_update(bencher: Bencher<'_, '_>, sync: Sync) {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(folder.path().join("bare.sqlite")).unwrap();
    let synchronous = match sync {
        Sync::Normal => "normal",
        Sync::Full => "full",
    };
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.pragma_update(None, "synchronous", synchronous).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE record (id TEXT PRIMARY KEY, data TEXT, version INTEGER);
             INSERT INTO record VALUES ('1', '{}', 0);",
        )
        .unwrap();
    let mut update = connection
        .prepare(
            "UPDATE record SET data = ?1, version = version + 1 WHERE id = '1' AND version = ?2",
        )
        .unwrap();
    let mut version = 0_i64;
    bencher.bench_local(|| {
        let data = format!("{{\"name\":{version}}}");
        assert_eq!(update.execute(params![data, version]).unwrap(), 1);
        version += 1;
    });
}
