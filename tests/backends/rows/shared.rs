//! What two processes over the same rows promise each other.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fieldlease::{
    clock::{BoxFuture, Clock, SystemClock},
    entity::EntityRef,
    error::Result,
    lease::{
        Acquire, Ask, Extent, LeaseStore, Release, Renew, Renewal, Wake, WakeSink, rows::RowLeases,
    },
    scope::{Scope, ScopeName, ScopeSet},
    testing::lease_suite::{Passing, cases, failures},
    token::{Entropy, Generation, HolderToken, SystemEntropy},
};
use tokio::{sync::Semaphore, task::JoinSet};

/// Time passes at a server by itself.
pub(super) struct Really;

impl Passing for Really {
    fn pass(&self, by: Duration) -> BoxFuture<'_, ()> {
        SystemClock.sleep_until(SystemClock.now().plus(by))
    }
}

/// Cases tried at once: each has connections of its own.
const AT_ONCE: usize = 12;

/// Every case of the suite on a store of its own, many at once.
pub(super) async fn suite<F, Made>(fresh: F) -> Vec<String>
where
    F: Fn(usize) -> Made + Clone + Send + 'static,
    Made: Future<Output = Arc<dyn LeaseStore>> + Send,
{
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (at, case) in cases().into_iter().enumerate() {
        let (fresh, permits) = (fresh.clone(), Arc::clone(&permits));
        running.spawn(async move {
            let _permit = permits.acquire_owned().await;
            let store = fresh(at).await;
            let fresh = || -> (Arc<dyn LeaseStore>, Arc<dyn Passing>) {
                (Arc::clone(&store), Arc::new(Really))
            };
            failures("rows", vec![case], fresh).await
        });
    }
    running.join_all().await.concat()
}

fn entity() -> EntityRef {
    EntityRef::new("Product", "a\u{0}b \u{1F600}").unwrap()
}

fn scope(group: &str) -> ScopeName {
    ScopeName::parse(group).unwrap()
}

fn ask(group: &str) -> Ask {
    Ask {
        extent: Extent::Groups(ScopeSet::new(entity(), [scope(group)])),
        token: HolderToken(SystemEntropy.bytes()),
        ttl: Duration::from_secs(20),
        ttl_max: Duration::from_secs(60),
        label: "worker".into(),
        generation: Generation([0; 32]),
        queue: true,
        order: true,
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<Wake>>);

impl WakeSink for Heard {
    fn wake(&self, wake: Wake) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }
}

impl Heard {
    fn count(&self, wake: &Wake) -> usize {
        self.0.lock().unwrap().iter().filter(|heard| *heard == wake).count()
    }

    async fn until(&self, wake: Wake) {
        let end = SystemClock.now().plus(Duration::from_secs(20));
        while self.count(&wake) == 0 {
            assert!(SystemClock.now() < end, "{wake:?} was not heard: {:?}", self.0.lock());
            Really.pass(Duration::from_millis(5)).await;
        }
    }
}

/// Two processes over the same rows, each with somebody who listens.
struct Two {
    here: Arc<RowLeases>,
    there: Arc<RowLeases>,
    at_home: Arc<Heard>,
    away: Arc<Heard>,
    listening: JoinSet<Result<()>>,
}

impl Two {
    async fn new(here: Arc<RowLeases>, there: Arc<RowLeases>) -> Self {
        let (at_home, away) = (Arc::new(Heard::default()), Arc::new(Heard::default()));
        let mut listening = JoinSet::new();
        for (store, ear) in [(&here, &at_home), (&there, &away)] {
            let (store, ear) = (Arc::clone(store), Arc::clone(ear));
            listening.spawn(async move { store.watch(ear).await });
        }
        at_home.until(Wake::CheckAll).await;
        away.until(Wake::CheckAll).await;
        Self { here, there, at_home, away, listening }
    }

    /// A release here grants to who waits there, with a later order.
    async fn hands_over(&self, [first, second, third]: [&Ask; 3]) {
        let order = granted(&self.here, first).await;
        assert_eq!(placed(&self.there, second).await, 1);
        self.at_home.until(Wake::Wanted(first.token)).await;
        assert_eq!(placed(&self.here, third).await, 2);

        let released = self.here.release(&first.extent, first.token).await.unwrap();
        assert_eq!(released, Release::Released);
        self.away.until(Wake::Granted(second.token)).await;
        let later = granted(&self.there, second).await;
        assert!(later > order, "{later} follows {order}");
    }

    /// A break here is heard there, and the next one waits no longer.
    async fn breaks(&self, [_, second, third]: [&Ask; 3]) {
        let broken = Scope { entity: entity(), name: scope("media") };
        let holder = self.here.break_lease(&broken, "stuck").await.unwrap().unwrap();
        assert_eq!(&*holder.label, "worker");
        self.away.until(Wake::Broken(second.token)).await;
        self.at_home.until(Wake::Granted(third.token)).await;
        let renew =
            |ask: &Ask| Renew { extent: ask.extent.clone(), token: ask.token, ttl: ask.ttl };
        let kept = self.there.renew(&[renew(second), renew(third)]).await;
        assert_eq!(kept, [Renewal::Lost, Renewal::Renewed]);
        let released = self.there.release(&third.extent, third.token).await.unwrap();
        assert_eq!(released, Release::Released);
        assert_eq!(self.here.inspect(None, None, 10).await.unwrap().0, []);
    }
}

/// The order of a grant.
async fn granted(store: &RowLeases, ask: &Ask) -> u64 {
    match store.acquire(ask).await.unwrap() {
        Acquire::Granted { order } => order.unwrap(),
        Acquire::Held { by, .. } => panic!("{by:?} holds it"),
    }
}

/// The place in the queue.
async fn placed(store: &RowLeases, ask: &Ask) -> u32 {
    match store.acquire(ask).await.unwrap() {
        Acquire::Held { place, .. } => place.unwrap(),
        Acquire::Granted { .. } => panic!("somebody holds it"),
    }
}

/// Whoever waits in one process hears what the other one does, and not over and over.
pub(super) async fn two_processes_hear_each_other(here: Arc<RowLeases>, there: Arc<RowLeases>) {
    let mut two = Two::new(here, there).await;
    let (first, second, third) = (ask("media"), ask("media"), ask("media"));
    two.hands_over([&first, &second, &third]).await;
    two.breaks([&first, &second, &third]).await;

    Really.pass(Duration::from_millis(700)).await;
    for (heard, wake) in [
        (&two.at_home, Wake::Wanted(first.token)),
        (&two.away, Wake::Granted(second.token)),
        (&two.away, Wake::Broken(second.token)),
        (&two.at_home, Wake::Granted(third.token)),
    ] {
        assert!(heard.count(&wake) <= 2, "{wake:?} was heard {} times", heard.count(&wake));
    }
    two.listening.abort_all();
    while two.listening.join_next().await.is_some() {}
}

/// What listens is cut: everybody looks again, and hears from then on.
pub(super) async fn hears_again_after(
    here: Arc<RowLeases>,
    there: Arc<RowLeases>,
    cut: impl FnOnce(),
) {
    let ear = Arc::new(Heard::default());
    let (listening, heard) = (Arc::clone(&there), Arc::clone(&ear));
    let task = tokio::spawn(async move { listening.watch(heard).await });
    ear.until(Wake::CheckAll).await;
    let (first, second) = (ask("media"), ask("media"));
    assert!(matches!(here.acquire(&first).await.unwrap(), Acquire::Granted { .. }));
    assert!(matches!(there.acquire(&second).await.unwrap(), Acquire::Held { .. }));

    cut();

    let end = SystemClock.now().plus(Duration::from_secs(20));
    while ear.count(&Wake::CheckAll) < 2 {
        assert!(SystemClock.now() < end, "nobody was told to look again");
        Really.pass(Duration::from_millis(5)).await;
    }
    // The connection it would use may be the one that was cut; the second attempt finds a new one.
    let renew = Renew { extent: second.extent.clone(), token: second.token, ttl: second.ttl };
    while !matches!(there.renew(std::slice::from_ref(&renew)).await[..], [Renewal::Placed { .. }]) {
        assert!(SystemClock.now() < end, "the place was lost");
    }
    while here.release(&first.extent, first.token).await.is_err() {
        assert!(SystemClock.now() < end, "it cannot be given back");
    }
    ear.until(Wake::Granted(second.token)).await;
    task.abort();
}

/// Many tasks of several processes on one scope and on neighbours: never two holders, everybody gets it.
pub(super) async fn nobody_holds_what_another_holds(stores: Vec<Arc<RowLeases>>, cycles: u32) {
    let inside: Arc<[AtomicU32; 2]> = Arc::default();
    let mut running = JoinSet::new();
    for (at, store) in stores.iter().cycle().take(8).cloned().enumerate() {
        let inside = Arc::clone(&inside);
        running.spawn(async move {
            let (group, which) = [("media", 0), ("prices", 1)][at % 2];
            let mut done = 0;
            while done < cycles {
                let ask = Ask { queue: false, ..ask(group) };
                let Acquire::Granted { .. } = store.acquire(&ask).await.unwrap() else {
                    Really.pass(Duration::from_millis(1)).await;
                    continue;
                };
                assert_eq!(inside[which].fetch_add(1, Ordering::SeqCst), 0, "two hold {group}");
                tokio::task::yield_now().await;
                inside[which].fetch_sub(1, Ordering::SeqCst);
                let released = store.release(&ask.extent, ask.token).await.unwrap();
                assert_eq!(released, Release::Released);
                done += 1;
            }
        });
    }
    running.join_all().await;
    for store in stores {
        assert_eq!(store.inspect(None, None, 10).await.unwrap(), (Vec::new(), None));
    }
}
