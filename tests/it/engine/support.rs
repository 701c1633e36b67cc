//! One record type, one file, and engines over it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fieldlease::{
    clock::{BoxFuture, Clock, SystemClock},
    commit::{Commit, Committed},
    engine::{Engine, EngineBuilder, Outcome, Refused, Saved, Session},
    entity::{EntityRef, EntityType, Value},
    error::Result,
    history::{BaseQuery, Entry, HistoryStore},
    hold::{Background, Settings},
    idempotency::{BeginAsk, IdempotencyStore, Listed},
    key::{Attempt, Begin, Finish, Key, RequestHash},
    lease::memory::MemoryLeases,
    path::Path,
    registry::{self, Limits, Registry},
    scope::Scope,
    snapshot::Snapshot,
    store::{
        ClaimAsk, Claimed, RecordStore, RegistryStore,
        sqlite::{SqliteOptions, SqliteStore},
    },
    strategy::Strategies,
    testing::{
        Fault, FlakyLeases, FlakyRecords, ManualClock,
        flaky::{Op, Script},
    },
    token::{Fence, Generation, OperationId, VersionNumber},
};
use serde_json::Value as Json;

pub(super) const PRODUCT: &str = "\
field_ownership:
  Product:
    editor_owned: [name, description, images]
    system_owned:
      media: {fields: [thumbnail, width], ttl: 2s, on_busy: wait 20s}
      search: [searchIndex]
      check: [checksum]
      sync: [lastSync]
      seo: [seoText]
      feed: [feedState]
      preview: {fields: [preview], derived_from: [images], ttl: 2s}
      translation: {fields: [title@locale], split_by: [locale]}
    shared:
      categories: set_merge
      stock: {strategy: counter, group: stock}
      price: reject
";

pub(super) fn registry_of(text: &str) -> Arc<Registry> {
    let (raw, faults) = registry::read(text.as_bytes(), &Limits::default());
    assert!(raw.is_some(), "{faults:?}");
    let (registry, faults) = registry::resolve(&raw.unwrap(), &Strategies::standard());
    Arc::new(registry.unwrap_or_else(|| panic!("{faults:?}")))
}

pub(super) fn product(id: &str) -> EntityRef {
    EntityRef::new("Product", id).unwrap()
}

pub(super) fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

/// One SQLite file.
pub(super) struct File {
    pub store: Arc<SqliteStore>,
    pub folder: tempfile::TempDir,
}

impl File {
    pub(super) fn new() -> Self {
        Self::with(SqliteOptions::default())
    }

    pub(super) fn with(options: SqliteOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let store = Arc::new(SqliteStore::open_with(path, options).unwrap());
        Self { store, folder }
    }

    /// An engine on this file, with time as it is.
    pub(super) async fn engine(&self) -> Engine {
        self.builder(PRODUCT).build().await.unwrap()
    }

    pub(super) fn builder(&self, text: &str) -> EngineBuilder {
        Engine::builder(registry_of(text)).source(text).store(self.store.clone())
    }

    pub(super) async fn history(&self, entity: &EntityRef) -> Vec<Entry> {
        self.store.entries(entity, None, 1_000).await.unwrap()
    }

    /// How many versions and operation records there are.
    pub(super) async fn counts(&self, entity: &EntityRef) -> (usize, usize) {
        let entries = self.history(entity).await;
        let versions = entries.iter().filter(|entry| entry.number.is_some()).count();
        (versions, entries.len() - versions)
    }

    pub(super) async fn value(&self, entity: &EntityRef, at: &str) -> Json {
        let snapshot = self.store.load(entity).await.unwrap().unwrap();
        snapshot.record.get(&path(at)).json().cloned().unwrap_or(Json::Null)
    }
}

/// An engine whose time is moved by hand, and whose ports fail by script.
pub(super) struct ByHand {
    pub engine: Engine,
    pub records: Arc<FlakyRecords>,
    pub leases: Arc<FlakyLeases>,
}

impl ByHand {
    pub(super) fn records(&self) -> &Script {
        self.records.script()
    }
}

/// Two engines of one file and one lease store are two processes.
pub(super) struct Hands {
    pub file: File,
    pub clock: Arc<ManualClock>,
    pub leases: Arc<MemoryLeases>,
}

impl Hands {
    pub(super) fn new() -> Self {
        Self::on(File::new())
    }

    pub(super) fn on(file: File) -> Self {
        let clock = Arc::new(ManualClock::new());
        let leases = Arc::new(MemoryLeases::new(clock.clone()));
        Self { file, clock, leases }
    }

    pub(super) async fn process(&self) -> ByHand {
        self.process_of(PRODUCT, |_| {}, |builder| builder).await
    }

    /// A process that no wake-up reaches: what others do to its leases it learns when it asks.
    pub(super) async fn deaf_process(&self) -> ByHand {
        let deaf = |leases: &FlakyLeases| leases.script().always(Op::Watch, Fault::LoseRequest);
        self.process_of(PRODUCT, deaf, |builder| builder).await
    }

    pub(super) async fn process_of(
        &self,
        text: &str,
        faults: impl FnOnce(&FlakyLeases),
        more: impl FnOnce(EngineBuilder) -> EngineBuilder,
    ) -> ByHand {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let records = Arc::new(FlakyRecords::new(self.file.store.clone(), Arc::new(SystemClock)));
        let leases = Arc::new(FlakyLeases::new(self.leases.clone(), clock.clone()));
        faults(&leases);
        let store = Arc::new(Wired { records: records.clone(), rest: self.file.store.clone() });
        let settings = Settings { background: Background::Runtime, ..Settings::default() };
        let builder = Engine::builder(registry_of(text)).source(text).store(store);
        let builder = builder.leases(leases.clone()).lease_settings(settings).clock(clock);
        ByHand { engine: more(builder).build().await.unwrap(), records, leases }
    }

    /// Moves time on, and lets the store's threads answer in between.
    pub(super) async fn pass(&self, time: Duration) {
        self.settle().await;
        self.clock.advance(time).await;
        self.settle().await;
    }

    /// Everything that can go on without time goes on. The store answers from threads of its own, so it is asked
    /// something and waited for.
    pub(super) async fn settle(&self) {
        for _ in 0..20 {
            self.clock.settle().await;
            self.file.store.load(&product("settle")).await.unwrap();
        }
    }
}

/// A record store with faults, and the other ports without.
pub(super) struct Wired {
    pub records: Arc<FlakyRecords>,
    pub rest: Arc<SqliteStore>,
}

impl RecordStore for Wired {
    fn load<'a>(&'a self, entity: &'a EntityRef) -> BoxFuture<'a, Result<Option<Snapshot>>> {
        self.records.load(entity)
    }
    fn claim<'a>(&'a self, ask: &'a ClaimAsk) -> BoxFuture<'a, Result<Claimed>> {
        self.records.claim(ask)
    }
    fn commit<'a>(&'a self, commit: &'a Commit) -> BoxFuture<'a, Result<Committed>> {
        self.records.commit(commit)
    }
    fn resolve(&self, operation: OperationId) -> BoxFuture<'_, Result<Option<Committed>>> {
        self.records.resolve(operation)
    }
    fn break_claim<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<Fence>> {
        self.records.break_claim(scope)
    }
}

impl RegistryStore for Wired {
    fn active<'a>(
        &'a self,
        kind: &'a EntityType,
    ) -> BoxFuture<'a, Result<Option<(Generation, String)>>> {
        self.rest.active(kind)
    }
    fn activate<'a>(
        &'a self,
        kind: &'a EntityType,
        was: Option<Generation>,
        generation: Generation,
        text: &'a str,
        delay: Duration,
    ) -> BoxFuture<'a, Result<bool>> {
        self.rest.activate(kind, was, generation, text, delay)
    }
}

impl HistoryStore for Wired {
    fn entries<'a>(
        &'a self,
        entity: &'a EntityRef,
        before: Option<OperationId>,
        most: u32,
    ) -> BoxFuture<'a, Result<Vec<Entry>>> {
        self.rest.entries(entity, before, most)
    }
    fn blame<'a>(
        &'a self,
        entity: &'a EntityRef,
        paths: &'a [Path],
    ) -> BoxFuture<'a, Result<BTreeMap<Path, Entry>>> {
        self.rest.blame(entity, paths)
    }
    fn bases<'a>(
        &'a self,
        entity: &'a EntityRef,
        queries: &'a [BaseQuery],
    ) -> BoxFuture<'a, Result<BTreeMap<Path, Value>>> {
        self.rest.bases(entity, queries)
    }
    fn version<'a>(
        &'a self,
        entity: &'a EntityRef,
        number: VersionNumber,
    ) -> BoxFuture<'a, Result<Option<Entry>>> {
        self.rest.version(entity, number)
    }
}

impl fieldlease::upkeep::UpkeepStore for Wired {}
impl fieldlease::queue::QueueStore for Wired {}
impl fieldlease::queue::Outbox for Wired {}

impl IdempotencyStore for Wired {
    fn begin<'a>(&'a self, ask: &'a BeginAsk) -> BoxFuture<'a, Result<Begin>> {
        self.rest.begin(ask)
    }
    fn renew<'a>(
        &'a self,
        key: &'a Key,
        attempt: Attempt,
        lease: Duration,
    ) -> BoxFuture<'a, Result<bool>> {
        self.rest.renew(key, attempt, lease)
    }
    fn finish<'a>(
        &'a self,
        key: &'a Key,
        attempt: Attempt,
        how: &'a Finish,
    ) -> BoxFuture<'a, Result<bool>> {
        self.rest.finish(key, attempt, how)
    }
    fn peek<'a>(&'a self, key: &'a Key, hash: RequestHash) -> BoxFuture<'a, Result<Option<Begin>>> {
        self.rest.peek(key, hash)
    }
    fn sweep(&self, most: u32) -> BoxFuture<'_, Result<u32>> {
        self.rest.sweep(most)
    }
    fn list<'a>(&'a self, after: Option<&'a Key>, most: u32) -> BoxFuture<'a, Result<Vec<Listed>>> {
        self.rest.list(after, most)
    }
}

pub(super) fn saved(outcome: Outcome) -> Saved {
    match outcome {
        Outcome::Applied(saved) => *saved,
        other => panic!("not applied: {other:?}"),
    }
}

pub(super) fn refused(outcome: Outcome) -> Refused {
    match outcome {
        Outcome::Refused(refused) => *refused,
        other => panic!("not refused: {other:?}"),
    }
}

/// A product with a name and two images, made by an editor. Answers the token.
pub(super) async fn created(session: &Session, entity: &EntityRef) -> String {
    let create = session.create(entity).set("name", "Chair").set("images", vec!["a.jpg", "b.jpg"]);
    saved(create.send().await.unwrap()).token
}
