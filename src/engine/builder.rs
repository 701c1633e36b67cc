//! Putting an engine together.

use std::{
    sync::{Arc, RwLock, atomic::AtomicBool},
    time::Duration,
};

use tokio_util::task::TaskTracker;

use crate::{
    clock::{Clock, SystemClock},
    engine::{
        Engine, Store, Validator,
        core::{Core, Settings},
        queue::WakeQueue,
        registry_sync,
        turn::Turns,
    },
    error::{Error, Result},
    event::{EventSink, Fanout, NoEvents},
    guard::GuardBoard,
    hold::{self, Manager},
    lease::{LeaseStore, memory::MemoryLeases},
    plan::TokenSecret,
    registry::Registry,
    strategy::Strategies,
    token::{Entropy, SystemEntropy},
    version::Publisher,
};

/// What to do when the store has other rules in force than this process was given (RULES 29).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChangedRegistry {
    /// Do not start. The default.
    #[default]
    Refuse,
    /// Put this process's rules in force.
    Activate,
    /// Take the rules that are in force.
    Follow,
}

/// An engine to be built. Every setting has a default but the store.
#[must_use = "an engine does nothing until it is built"]
pub struct EngineBuilder {
    registry: Arc<Registry>,
    source: Option<String>,
    store: Option<Arc<dyn Store>>,
    #[cfg(feature = "sqlite")]
    sqlite: Option<std::path::PathBuf>,
    leases: Option<Arc<dyn LeaseStore>>,
    lease_settings: hold::Settings,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    events: Arc<dyn EventSink>,
    validator: Option<Arc<dyn Validator>>,
    guards: Option<Arc<dyn GuardBoard>>,
    strategies: Strategies,
    secret: Option<Vec<u8>>,
    on_changed_registry: OnChangedRegistry,
    settings: Settings,
}

impl EngineBuilder {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            source: None,
            store: None,
            #[cfg(feature = "sqlite")]
            sqlite: None,
            leases: None,
            lease_settings: hold::Settings::default(),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            events: Arc::new(NoEvents),
            validator: None,
            guards: None,
            strategies: Strategies::standard(),
            secret: None,
            on_changed_registry: OnChangedRegistry::Refuse,
            settings: Settings {
                save_deadline: Duration::from_secs(10),
                attempts: 3,
                editor_wait: Duration::from_secs(2),
                activation_delay: None,
                api_key_retention: Duration::from_secs(24 * 60 * 60),
                job_key_retention: Duration::from_secs(7 * 24 * 60 * 60),
                key_lease: Duration::from_secs(60),
                key_attempts: 5,
            },
        }
    }

    /// The text the registry was loaded from. It is kept in the store, so that other processes can follow; without
    /// it they refuse to write under rules they cannot read.
    pub fn source(mut self, text: impl Into<String>) -> Self {
        self.source = Some(text.into());
        self
    }

    /// Where records live.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Records in this SQLite file; it is made when it is not there.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.sqlite = Some(path.into());
        self
    }

    /// Where leases live. Default: in the memory of this process, enough for one process only. Two engines that share
    /// a store and not their leases stay correct by their claims, but disturb each other.
    pub fn leases(mut self, leases: Arc<dyn LeaseStore>) -> Self {
        self.leases = Some(leases);
        self
    }

    /// Bounds of the lease manager; see there.
    pub fn lease_settings(mut self, settings: hold::Settings) -> Self {
        self.lease_settings = settings;
        self
    }

    /// Where time comes from. Default: this machine.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Where random bits come from. Default: the operating system.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Who hears of every transition. Default: nobody.
    pub fn events(mut self, events: Arc<dyn EventSink>) -> Self {
        self.events = events;
        self
    }

    /// Looks at every merged record before it is committed (RULES 44). Default: none.
    pub fn validator(mut self, validator: Arc<dyn Validator>) -> Self {
        self.validator = Some(validator);
        self
    }

    /// Where workers' saves can be seen by hooks in other processes: see [`VersionGuard::published`]. Costs nothing
    /// until a save asks for it. Default: nowhere.
    ///
    /// [`VersionGuard::published`]: crate::version::VersionGuard::published
    pub fn guards(mut self, board: Arc<dyn GuardBoard>) -> Self {
        self.guards = Some(board);
        self
    }

    /// The strategies the registry may name, for rules read from the store. Default: the standard ones.
    pub fn strategies(mut self, strategies: Strategies) -> Self {
        self.strategies = strategies;
        self
    }

    /// Signs edit tokens, so that a client cannot make one up. Default: unsigned; a made-up token can only make the
    /// client's own saves lose or conflict with what it never saw.
    pub fn token_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// What to do when the store has other rules in force. Default: refuse to start.
    pub fn on_changed_registry(mut self, what: OnChangedRegistry) -> Self {
        self.on_changed_registry = what;
        self
    }

    /// How long after an activation the new rules take effect. Default: the save deadline, so that no statement of
    /// the old rules can meet one of the new. Zero only where no other process can be writing.
    pub fn activation_delay(mut self, delay: Duration) -> Self {
        self.settings.activation_delay = Some(delay);
        self
    }

    /// How long a save may take once its leases are granted. Default 10 s. Longer hides a slow store, shorter turns
    /// its hiccups into errors.
    pub fn save_deadline(mut self, deadline: Duration) -> Self {
        self.settings.save_deadline = deadline;
        self
    }

    /// How often a job may run in all. Default 3. One means a lost lease is the caller's to handle.
    pub fn attempts(mut self, most: u32) -> Self {
        self.settings.attempts = most.max(1);
        self
    }

    /// How long an editor waits for a leased editor group. Default 2 s.
    pub fn editor_wait(mut self, most: Duration) -> Self {
        self.settings.editor_wait = most;
        self
    }

    /// How long repeats of a request with a key are answered what the first was. Default 24 h. Longer keeps more rows,
    /// shorter lets a late repeat be done again.
    pub fn api_key_retention(mut self, retention: Duration) -> Self {
        self.settings.api_key_retention = retention;
        self
    }

    /// The same for jobs. Default 7 days: longer than a queue delivers again.
    pub fn job_key_retention(mut self, retention: Duration) -> Self {
        self.settings.job_key_retention = retention;
        self
    }

    /// How long a job that is begun keeps others out without a renewal. Default 60 s, renewed at half of it, at least 1 s
    /// and at most 15 min. Longer leaves the job of a crashed worker lying for longer.
    pub fn key_lease(mut self, lease: Duration) -> Self {
        self.settings.key_lease = lease.clamp(Duration::from_secs(1), crate::key::LEASE_MAX);
        self
    }

    /// How often a job with a key may fail before it has failed for good. Default 5.
    pub fn key_attempts(mut self, most: u32) -> Self {
        self.settings.key_attempts = most.max(1);
        self
    }

    /// Builds it: opens the store and compares the rules in force.
    ///
    /// # Errors
    /// When there is no store, it cannot be opened, it has other rules in force and is not to follow or activate, or
    /// the tables that `storage` names do not fit the rules.
    pub async fn build(self) -> Result<Engine> {
        let store = self.open().await?;
        let own = registry_sync::Own {
            registry: &self.registry,
            source: self.source.as_deref(),
            strategies: &self.strategies,
            what: self.on_changed_registry,
            delay: self.settings.activation_delay.unwrap_or(self.settings.save_deadline),
        };
        let started = registry_sync::at_start(&*store, &own).await?;
        let leases = match self.leases {
            Some(leases) => leases,
            None => Arc::new(MemoryLeases::new(Arc::clone(&self.clock))),
        };
        let queue_wake = Arc::new(tokio::sync::Notify::new());
        let wake: Arc<dyn EventSink> = Arc::new(WakeQueue(Arc::clone(&queue_wake)));
        let events: Arc<dyn EventSink> = Arc::new(Fanout(vec![Arc::clone(&self.events), wake]));
        let holds = Manager::new(
            leases,
            Arc::clone(&self.clock),
            Arc::clone(&self.entropy),
            Arc::clone(&events),
            self.lease_settings,
        )?;
        let clock = &self.clock;
        let publisher = |board| Publisher::new(board, Arc::clone(clock));
        let guards = self.guards.map(publisher);
        Ok(Engine::of(Arc::new(Core {
            guards,
            store,
            holds,
            registry: self.registry,
            followed: RwLock::new(started.followed),
            layouts: RwLock::new(started.layouts),
            strategies: self.strategies,
            clock: self.clock,
            entropy: self.entropy,
            events: self.events,
            validator: self.validator,
            secret: self.secret.map(|secret| TokenSecret::new(&secret)),
            settings: self.settings,
            turns: Turns::new(),
            tasks: TaskTracker::new(),
            queue_wake,
            closing: AtomicBool::new(false),
        })))
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        if let Some(store) = &self.store {
            return Ok(Arc::clone(store));
        }
        #[cfg(feature = "sqlite")]
        if let Some(path) = self.sqlite.clone() {
            let clock = Arc::clone(&self.clock);
            let mapped = self.registry.entities().any(|rules| rules.storage.is_some());
            let open = move || {
                let mut options = crate::store::sqlite::SqliteOptions::default().clock(clock);
                if mapped {
                    options = options.guest();
                }
                crate::store::sqlite::SqliteStore::open_with(path, options)
            };
            let opened = tokio::task::spawn_blocking(open).await;
            let opened =
                opened.map_err(|error| Error::internal(format!("opening the store: {error}")))?;
            return Ok(Arc::new(opened?));
        }
        Err(Error::invalid(
            "no_store",
            "an engine needs a store",
            "give it `.store(..)` or `.sqlite(path)`",
        ))
    }
}
