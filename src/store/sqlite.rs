//! Records, rules and history in one SQLite file: the embedded default.
//!
//! One thread owns the connection that writes, a few more own connections that read. Every writing transaction is
//! `BEGIN IMMEDIATE`. Several processes may open one file: each commit compares what it was planned on, so they
//! are safe; [`SqliteOptions::exclusive`] is for a service that wants to be the only one of its kind.
//!
//! SQLite has no clock of its own: the times are this process's wall clock. With
//! [`Synchronous::Normal`], a power cut may take the last commits; a crash of the process takes none.

mod catalogue;
mod checks;
mod commit;
mod fault;
mod history;
mod keys;
mod lane;
mod load;
mod mapped;
mod open;
mod place;
mod queue;
mod registry;
mod rows;
mod session;
mod statements;
mod upkeep;
mod words;

pub use self::{open::Synchronous, statements::Statements};

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
    time::Duration,
};

use self::{
    lane::Lane,
    open::Settings,
    place::Place,
    registry::Activation,
    session::{Reopen, Session, Tx},
};
use crate::{
    clock::{BoxFuture, Clock, SystemClock},
    commit::{Commit, Committed},
    database::{finding::Finding, migration::Migration},
    entity::{EntityRef, EntityType, Value},
    error::{Error, Result},
    history::{BaseQuery, Entry, HistoryStore},
    mapping::{Layout, Mapping},
    path::Path,
    registry::EntityRules,
    scope::Scope,
    snapshot::Snapshot,
    store::{
        ClaimAsk, Claimed, RecordStore, RegistryStore,
        mapped::{Layouts, misfit},
        prepare::Prepared,
    },
    token::{Fence, Generation, OperationId, VersionNumber},
};

/// How a file is opened.
#[derive(Clone)]
#[must_use]
pub struct SqliteOptions {
    settings: Settings,
    readers: usize,
    queue: usize,
    exclusive: bool,
    clock: Arc<dyn Clock>,
    statements: Option<Statements>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            settings: Settings {
                synchronous: Synchronous::Normal,
                busy: Duration::from_secs(5),
                size_max: None,
                guest: false,
            },
            readers: 2,
            queue: 256,
            exclusive: false,
            clock: Arc::new(SystemClock),
            statements: None,
        }
    }
}

impl SqliteOptions {
    /// Default [`Synchronous::Normal`].
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.settings.synchronous = synchronous;
        self
    }

    /// How long a save waits while another process writes, default 5 s; then it answers `unavailable`.
    /// Saves behind it wait as well.
    pub fn busy_timeout(mut self, busy: Duration) -> Self {
        self.settings.busy = busy;
        self
    }

    /// Largest size of the file in bytes, default none; saves that would pass it answer `unavailable`.
    pub fn size_max(mut self, bytes: u64) -> Self {
        self.settings.size_max = Some(bytes);
        self
    }

    /// The file is another program's, and ours stand beside its tables: for records that `storage` maps to them.
    /// The file's header stays the other program's; its journal becomes a write-ahead log. Default off.
    pub fn guest(mut self) -> Self {
        self.settings.guest = true;
        self
    }

    /// Connections that read, default 2. More help when long histories are read while records are loaded.
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers.max(1);
        self
    }

    /// Work that may wait for a connection, default 256; callers beyond it wait before they queue.
    pub fn queue(mut self, bound: usize) -> Self {
        self.queue = bound.max(1);
        self
    }

    /// Refuses to open while another process has the file open exclusively, and keeps others from doing so.
    /// Processes that open it without are not kept out. Default off.
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// Where times come from, default the machine's wall clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Other statements than [`Statements::standard`].
    pub fn statements(mut self, statements: Statements) -> Self {
        self.statements = Some(statements);
        self
    }
}

/// The store.
pub struct SqliteStore {
    writer: Lane,
    /// `None` in memory: the one connection does both.
    readers: Option<Lane>,
    layouts: Layouts,
}

impl SqliteStore {
    /// Opens a file, or makes it; its directory must exist. Blocks for a few milliseconds.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the file is another program's or a newer version's, when it or its directory cannot
    /// be written to, or there is no directory; [`Error::Unavailable`] when another process keeps it locked.
    pub fn open(path: impl AsRef<FilePath>) -> Result<Self> {
        Self::open_with(path, SqliteOptions::default())
    }

    /// Opens a file that no other process serves: see [`SqliteOptions::exclusive`].
    ///
    /// # Errors
    /// As [`SqliteStore::open`], and `store_in_use` when another process serves the file.
    pub fn open_exclusive(path: impl AsRef<FilePath>) -> Result<Self> {
        Self::open_with(path, SqliteOptions::default().exclusive())
    }

    /// Opens a file with other settings.
    ///
    /// # Errors
    /// As [`SqliteStore::open_exclusive`].
    pub fn open_with(path: impl AsRef<FilePath>, options: SqliteOptions) -> Result<Self> {
        let path = std::path::absolute(path.as_ref())
            .map_err(|error| Error::invalid("bad_path", format!("not a path: {error}"), ""))?;
        let statements = statements(&options)?;
        // The lock file lies beside the database: the checks of the directory come first.
        open::check_directory(&path)?;
        let guard = options.exclusive.then(|| place::lock(&path)).transpose()?.map(Arc::new);
        let first = open::first(&path, &options.settings, options.clock.wall())?;
        let build = Build { options: &options, statements, place: Place::file(&path), guard };
        let reopen = reopen(path.clone(), options.settings.clone());
        let mut readers = Vec::new();
        for _ in 0..options.readers {
            let connection = reopen().map_err(|error| open::cannot_open(&path, &error))?;
            readers.push(build.session(connection, reopen.clone()));
        }
        let what = format!("the store `{}`", path.display());
        Ok(Self {
            writer: Lane::start(
                "fl-write",
                vec![build.session(first, reopen)],
                options.queue,
                &what,
            )?,
            readers: Some(Lane::start("fl-read", readers, options.queue, &what)?),
            layouts: Layouts::default(),
        })
    }

    /// A store in memory, gone when it is dropped.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn open_in_memory() -> Result<Self> {
        Self::open_in_memory_with(SqliteOptions::default())
    }

    /// A store in memory with other settings; those about files mean nothing.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn open_in_memory_with(options: SqliteOptions) -> Result<Self> {
        let statements = statements(&options)?;
        let connection = open::memory(&options.settings, options.clock.wall())?;
        let build = Build { options: &options, statements, place: Place::Memory, guard: None };
        // A second connection would be a second, empty database.
        let reopen: Reopen = Arc::new(|| Err(rusqlite::Error::InvalidQuery));
        let session = build.session(connection, reopen);
        let writer = Lane::start("fl-write", vec![session], options.queue, "the store in memory")?;
        Ok(Self { writer, readers: None, layouts: Layouts::default() })
    }

    /// The files its tables are made by, in order. Opening a file applies what is missing.
    #[must_use]
    pub fn migrations() -> &'static [Migration] {
        &open::MIGRATIONS
    }

    /// The migrations a file lacks, in order; all of them where there is none. Changes nothing.
    ///
    /// # Errors
    /// `changed_schema` and `newer_schema`, and when the file cannot be read.
    pub fn outstanding(path: impl AsRef<FilePath>) -> Result<Vec<&'static str>> {
        Ok(checks::outstanding(path.as_ref())?.iter().map(|file| file.name).collect())
    }

    /// Looks at a file without changing it: whether it is whole, ours and up to date. Worst first. Reads all of it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn checks(path: impl AsRef<FilePath>) -> Result<Vec<Finding>> {
        checks::findings(path.as_ref())
    }

    /// Finishes what is queued, closes the file and lets go of the lock. Later calls answer `unavailable`.
    /// Dropping the store does the same, and does not wait for it.
    pub async fn close(&self) {
        if let Some(readers) = &self.readers {
            readers.close().await;
        }
        self.writer.close().await;
    }

    async fn read<T: Send + 'static>(
        &self,
        body: impl FnOnce(&Tx<'_>) -> std::result::Result<T, fault::Fault> + Send + 'static,
    ) -> Result<T> {
        let lane = self.readers.as_ref().unwrap_or(&self.writer);
        lane.run(move |session| session.read(body)).await
    }

    async fn write<T: Send + 'static>(
        &self,
        operation: Option<OperationId>,
        body: impl FnOnce(&Tx<'_>) -> std::result::Result<session::End<T>, fault::Fault>
        + Send
        + 'static,
    ) -> Result<T> {
        self.writer.run(move |session| session.write(operation, body)).await
    }
}

fn statements(options: &SqliteOptions) -> Result<Arc<Statements>> {
    let statements = options.statements.clone().map_or_else(Statements::standard, Ok);
    statements.map(Arc::new).map_err(Error::internal)
}

fn reopen(path: PathBuf, settings: Settings) -> Reopen {
    Arc::new(move || open::connect(&path, &settings, false))
}

/// What all sessions of a store share.
struct Build<'a> {
    options: &'a SqliteOptions,
    statements: Arc<Statements>,
    place: Place,
    guard: Option<Arc<File>>,
}

impl Build<'_> {
    fn session(&self, connection: rusqlite::Connection, reopen: Reopen) -> Session {
        let (statements, clock) = (self.statements.clone(), self.options.clock.clone());
        Session::new(connection, statements, clock, self.place.clone(), reopen, self.guard.clone())
    }
}

impl RecordStore for SqliteStore {
    fn load<'a>(&'a self, entity: &'a EntityRef) -> BoxFuture<'a, Result<Option<Snapshot>>> {
        let (entity, layout) = (entity.clone(), self.layouts.of(&entity.kind));
        Box::pin(self.read(move |tx| load::load(tx, layout.as_deref(), &entity)))
    }

    fn claim<'a>(&'a self, ask: &'a ClaimAsk) -> BoxFuture<'a, Result<Claimed>> {
        let (ask, layout) = (ask.clone(), self.layouts.of(&ask.scopes.entity().kind));
        Box::pin(self.write(None, move |tx| load::claim(tx, layout.as_deref(), &ask)))
    }

    fn commit<'a>(&'a self, commit: &'a Commit) -> BoxFuture<'a, Result<Committed>> {
        Box::pin(async move {
            let save = Prepared::new(commit)?;
            let layout = self.layouts.of(&save.entity.kind);
            let body = move |tx: &Tx<'_>| commit::commit(tx, layout.as_deref(), &save);
            self.write(Some(commit.operation), body).await
        })
    }

    fn resolve(&self, operation: OperationId) -> BoxFuture<'_, Result<Option<Committed>>> {
        // Through the writer's queue: a commit of this process that is still waiting there comes first.
        Box::pin(self.write(None, move |tx| commit::resolve(tx, operation)))
    }

    fn break_claim<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<Fence>> {
        let scope = scope.clone();
        Box::pin(self.write(None, move |tx| load::break_claim(tx, &scope)))
    }

    fn map<'a>(
        &'a self,
        rules: &'a Arc<EntityRules>,
    ) -> BoxFuture<'a, Result<Option<Arc<Layout>>>> {
        Box::pin(async move {
            let Some(mapping) = Mapping::of(rules) else {
                self.layouts.keep(&rules.kind, None);
                return Ok(None);
            };
            let bound = self.read(move |tx| mapped::bind(tx, &mapping)).await?;
            let layout = bound.map(Arc::new).map_err(|faults| misfit(&rules.kind, &faults))?;
            self.layouts.keep(&rules.kind, Some(Arc::clone(&layout)));
            Ok(Some(layout))
        })
    }
}

impl RegistryStore for SqliteStore {
    fn active<'a>(
        &'a self,
        kind: &'a EntityType,
    ) -> BoxFuture<'a, Result<Option<(Generation, String)>>> {
        let kind = kind.clone();
        Box::pin(self.read(move |tx| registry::active(tx, &kind)))
    }

    fn activate<'a>(
        &'a self,
        kind: &'a EntityType,
        was: Option<Generation>,
        generation: Generation,
        text: &'a str,
        delay: Duration,
    ) -> BoxFuture<'a, Result<bool>> {
        let ask = Activation { kind: kind.clone(), was, generation, text: text.to_owned(), delay };
        Box::pin(self.write(None, move |tx| registry::activate(tx, &ask)))
    }
}

impl HistoryStore for SqliteStore {
    fn entries<'a>(
        &'a self,
        entity: &'a EntityRef,
        before: Option<OperationId>,
        most: u32,
    ) -> BoxFuture<'a, Result<Vec<Entry>>> {
        let entity = entity.clone();
        Box::pin(self.read(move |tx| history::entries(tx, &entity, before, most)))
    }

    fn blame<'a>(
        &'a self,
        entity: &'a EntityRef,
        paths: &'a [Path],
    ) -> BoxFuture<'a, Result<BTreeMap<Path, Entry>>> {
        let (entity, paths) = (entity.clone(), paths.to_vec());
        Box::pin(self.read(move |tx| history::blame(tx, &entity, &paths)))
    }

    fn bases<'a>(
        &'a self,
        entity: &'a EntityRef,
        queries: &'a [BaseQuery],
    ) -> BoxFuture<'a, Result<BTreeMap<Path, Value>>> {
        let (entity, queries) = (entity.clone(), queries.to_vec());
        Box::pin(self.read(move |tx| history::bases(tx, &entity, &queries)))
    }

    fn version<'a>(
        &'a self,
        entity: &'a EntityRef,
        number: VersionNumber,
    ) -> BoxFuture<'a, Result<Option<Entry>>> {
        let entity = entity.clone();
        Box::pin(self.read(move |tx| history::version(tx, &entity, number)))
    }
}
