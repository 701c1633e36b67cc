//! The conformance suite of the lease store: what every backend behind the port must do.
//!
//! A promise that is not in here is not a promise. Each [`Case`] gets a store of its own, and a way to let time pass:
//! by hand for the memory backend, really for a server. Bounds are wide enough for a server's answer to take 40 ms.

mod grants;
mod queue;
mod views;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    clock::BoxFuture,
    entity::EntityRef,
    lease::{Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, Wake, WakeSink},
    scope::{Scope, ScopeName, ScopeSet},
    testing::ManualClock,
    token::{Generation, HolderToken},
};

/// Lets time pass at the store.
pub trait Passing: Send + Sync {
    /// Returns when that much has passed.
    fn pass(&self, by: Duration) -> BoxFuture<'_, ()>;
}

impl Passing for ManualClock {
    fn pass(&self, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.advance(by))
    }
}

/// What a case works with.
#[derive(Clone)]
pub struct Rig {
    /// A store with nothing in it.
    pub store: Arc<dyn LeaseStore>,
    /// Its time.
    pub time: Arc<dyn Passing>,
    tokens: Arc<AtomicU64>,
}

/// What a case answers: `Err` says what differs.
pub type Verdict = Result<(), String>;

/// One promise.
#[derive(Clone, Copy)]
pub struct Case {
    /// The promise, as a sentence.
    pub name: &'static str,
    /// Tries it on a fresh store.
    pub run: fn(Rig) -> BoxFuture<'static, Verdict>,
}

/// Every promise.
#[must_use]
pub fn cases() -> Vec<Case> {
    [grants::CASES, queue::CASES, views::CASES].concat()
}

/// Runs cases, each on a store of its own; answers `backend: case: what differs` for those that fail.
pub async fn failures<F>(backend: &str, cases: Vec<Case>, mut fresh: F) -> Vec<String>
where
    F: FnMut() -> (Arc<dyn LeaseStore>, Arc<dyn Passing>),
{
    let mut failures = Vec::new();
    for case in cases {
        let (store, time) = fresh();
        let rig = Rig { store, time, tokens: Arc::default() };
        if let Err(what) = (case.run)(rig).await {
            failures.push(format!("{backend}: {}: {what}", case.name));
        }
    }
    failures
}

/// The time to live of a request, unless a case says otherwise.
const TTL: Duration = Duration::from_secs(10);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

impl Rig {
    fn token(&self) -> HolderToken {
        let n = self.tokens.fetch_add(1, Ordering::Relaxed);
        HolderToken((u128::from(n) + 1).to_be_bytes())
    }

    /// A request for groups of entity `id`; `whole` named alone asks for the whole entity.
    fn ask(&self, id: &str, groups: &[&str]) -> Result<Ask, String> {
        let entity = EntityRef::new("Product", id).map_err(|error| error.to_string())?;
        let whole = groups == ["whole"];
        let names: Option<Vec<ScopeName>> = match whole {
            true => {
                ["media", "prices", "search"].iter().map(|name| ScopeName::parse(name)).collect()
            }
            false => groups.iter().map(|name| ScopeName::parse(name)).collect(),
        };
        let scopes = ScopeSet::new(entity, names.ok_or("the case names no scope")?);
        Ok(Ask {
            extent: if whole { Extent::Whole(scopes) } else { Extent::Groups(scopes) },
            token: self.token(),
            ttl: TTL,
            ttl_max: Duration::from_secs(60 * 60),
            label: "worker".into(),
            generation: Generation([7; 32]),
            queue: false,
            order: false,
        })
    }

    async fn acquire(&self, ask: &Ask) -> Result<Acquire, String> {
        self.store.acquire(ask).await.map_err(|error| error.to_string())
    }

    async fn granted(&self, ask: &Ask) -> Verdict {
        match self.acquire(ask).await? {
            Acquire::Granted { .. } => Ok(()),
            other => Err(format!("{} was not granted: {other:?}", show(ask))),
        }
    }

    async fn held(&self, ask: &Ask) -> Result<Vec<Holder>, String> {
        match self.acquire(ask).await? {
            Acquire::Held { by, .. } => Ok(by),
            Acquire::Granted { .. } => Err(format!("{} was granted", show(ask))),
        }
    }

    /// Asks and is refused, with a place in the queue.
    async fn place(&self, ask: &Ask) -> Result<u32, String> {
        match self.acquire(ask).await? {
            Acquire::Held { place: Some(place), .. } => Ok(place),
            other => Err(format!("{} got no place: {other:?}", show(ask))),
        }
    }

    async fn renew(&self, ask: &Ask, ttl: Duration) -> Result<Renewal, String> {
        let renew = Renew { extent: ask.extent.clone(), token: ask.token, ttl };
        let answers = self.store.renew(&[renew]).await;
        answers.first().copied().ok_or_else(|| "a renewal got no answer".to_owned())
    }

    async fn release(&self, ask: &Ask) -> Result<Release, String> {
        let release = self.store.release(&ask.extent, ask.token);
        release.await.map_err(|error| error.to_string())
    }

    async fn inspect(&self, entity: Option<&EntityRef>) -> Result<Vec<Holder>, String> {
        let page = self.store.inspect(entity, None, 1_000).await;
        page.map(|(holders, _)| holders).map_err(|error| error.to_string())
    }

    /// Nothing held by anybody.
    async fn nothing_left(&self) -> Verdict {
        let left = self.inspect(None).await?;
        same("what is left", &left.len(), &0)
    }
}

/// A subscription in the background, and what it heard.
struct Ear {
    heard: Arc<Heard>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Heard(Mutex<Vec<Wake>>);

impl WakeSink for Heard {
    fn wake(&self, wake: Wake) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }
}

impl Ear {
    async fn open(rig: &Rig) -> Self {
        let heard = Arc::new(Heard::default());
        let (store, sink) = (Arc::clone(&rig.store), Arc::clone(&heard));
        let task = tokio::spawn(async move {
            let _ended = store.watch(sink).await;
        });
        rig.time.pass(ms(50)).await;
        Self { heard, task }
    }

    /// What came since the last look.
    async fn heard(&self, rig: &Rig) -> Vec<Wake> {
        rig.time.pass(ms(50)).await;
        std::mem::take(&mut *self.heard.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn scope(ask: &Ask) -> Result<Scope, String> {
    ask.extent.scopes().iter().next().ok_or_else(|| "the case names no scope".to_owned())
}

fn show(ask: &Ask) -> String {
    let scopes: Vec<String> = ask.extent.scopes().iter().map(|scope| scope.to_string()).collect();
    scopes.join(" + ")
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, want: &T) -> Verdict {
    if got == want { Ok(()) } else { Err(format!("{what}: got {got:?}, want {want:?}")) }
}

fn holds(what: &str, condition: bool) -> Verdict {
    if condition { Ok(()) } else { Err(what.to_owned()) }
}

/// Lists cases: a sentence, and the function that tries it.
macro_rules! promises {
    ($($name:literal => $run:ident;)*) => {
        pub(super) const CASES: &[super::Case] =
            &[$(super::Case { name: $name, run: |rig| Box::pin($run(rig)) }),*];
    };
}
use promises;
