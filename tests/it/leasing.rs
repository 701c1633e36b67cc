//! Leases for tests: several processes over one store in memory, with time moved by hand.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fieldlease::{
    clock::{Clock, Moment},
    entity::{EntityRef, GroupName},
    event::{Event, EventSink},
    hold::{AcquireAsk, Acquired, Background, Lease, Manager, Settings},
    lease::{Extent, LeaseStore, memory::MemoryLeases},
    registry::OnBusy,
    scope::{ScopeName, ScopeSet},
    testing::{FlakyLeases, ManualClock},
    token::{Generation, SystemEntropy},
};

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// One store and its time.
pub(crate) struct Site {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) leases: Arc<MemoryLeases>,
}

/// One process: its connection, its manager, what it reported.
pub(crate) struct Actor {
    pub(crate) wire: Arc<FlakyLeases>,
    pub(crate) manager: Manager,
    pub(crate) log: Arc<Log>,
}

#[derive(Default)]
pub(crate) struct Log(Mutex<Vec<String>>);

impl EventSink for Log {
    fn emit(&self, event: &Event) {
        let line = match event {
            Event::LeaseGranted { .. } => "granted".to_owned(),
            Event::LeaseBusy { held_by, .. } => format!("busy:{held_by}"),
            Event::LeaseRenewed { .. } => "renewed".to_owned(),
            Event::LeaseRenewFailed { .. } => "renew_failed".to_owned(),
            Event::LeaseLost { reason, .. } => format!("lost:{reason:?}"),
            Event::LeaseReleased { .. } => "released".to_owned(),
            Event::LeaseReleaseRefused { .. } => "release_refused".to_owned(),
            Event::LeaseReleaseFailed { .. } => "release_failed".to_owned(),
            Event::HeartbeatLate { .. } => "late".to_owned(),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(line);
    }
}

impl Log {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.lines().iter().filter(|line| line.as_str() == what).count()
    }
}

impl Site {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let leases = Arc::new(MemoryLeases::new(clock.clone()));
        Self { clock, leases }
    }

    pub(crate) fn actor(&self) -> Actor {
        self.actor_with(Settings::default())
    }

    pub(crate) fn actor_with(&self, settings: Settings) -> Actor {
        let wire = Arc::new(FlakyLeases::new(self.leases.clone(), self.clock.clone()));
        self.actor_over(wire.clone(), wire, settings)
    }

    pub(crate) fn actor_over(
        &self,
        store: Arc<dyn LeaseStore>,
        wire: Arc<FlakyLeases>,
        settings: Settings,
    ) -> Actor {
        let log = Arc::new(Log::default());
        let settings = Settings { background: Background::Runtime, ..settings };
        // Tokens differ between the actors of one store.
        let entropy = Arc::new(SystemEntropy);
        let manager =
            Manager::new(store, self.clock.clone(), entropy, log.clone(), settings).unwrap();
        Actor { wire, manager, log }
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    pub(crate) async fn pass(&self, by: u64) {
        self.clock.advance(ms(by)).await;
    }

    /// Invariant I3: nothing is left, at the store or in any actor.
    pub(crate) async fn nothing_left(&self, actors: &[&Actor]) {
        self.clock.settle().await;
        for actor in actors {
            assert_eq!(actor.manager.held(), 0, "held by an actor: {:?}", actor.log.lines());
            assert_eq!(actor.manager.waiting(), 0, "waiting in an actor");
        }
        assert_eq!(self.leases.waiting(), 0, "places left in a queue");
        let (holders, _) = self.leases.inspect(None, None, 100).await.unwrap();
        assert!(holders.is_empty(), "left at the store: {holders:?}");
        assert!(self.leases.is_empty());
    }
}

impl Actor {
    pub(crate) async fn acquire(&self, ask: AcquireAsk) -> Acquired {
        self.manager.acquire(ask).await.unwrap()
    }

    pub(crate) async fn lease(&self, ask: AcquireAsk) -> Lease {
        held(self.acquire(ask).await)
    }

    /// Asks in a task of its own.
    pub(crate) fn spawn(&self, ask: AcquireAsk) -> tokio::task::JoinHandle<Acquired> {
        let manager = self.manager.clone();
        tokio::spawn(async move { manager.acquire(ask).await.unwrap() })
    }
}

pub(crate) fn held(acquired: Acquired) -> Lease {
    match acquired {
        Acquired::Held(lease) => lease,
        other => panic!("not held: {other:?}"),
    }
}

pub(crate) fn extent(id: &str, groups: &[&str]) -> Extent {
    let entity = EntityRef::new("Product", id).unwrap();
    if groups == ["whole"] {
        let media = ScopeName::group(GroupName::new("media").unwrap());
        return Extent::Whole(ScopeSet::new(entity, [media]));
    }
    let names = groups.iter().map(|name| ScopeName::parse(name).unwrap());
    Extent::Groups(ScopeSet::new(entity, names))
}

/// `media` of entity 1 for one second, and the answer when it is held at once.
pub(crate) fn ask(label: &str) -> AcquireAsk {
    AcquireAsk {
        extent: extent("1", &["media"]),
        ttl: ms(1_000),
        ttl_max: ms(60_000),
        max_hold: ms(3_600_000),
        on_busy: OnBusy::Fail,
        label: label.into(),
        generation: Generation([1; 32]),
        reentrant: false,
        owner: None,
    }
}

/// As [`ask`], waiting.
pub(crate) fn wait(label: &str, patience: u64) -> AcquireAsk {
    AcquireAsk { on_busy: OnBusy::Wait(ms(patience)), ..ask(label) }
}
