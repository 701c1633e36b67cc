//! Two processes, many callers, no patience.

use super::*;

/// Who is inside: per scope, so that a second holder is seen at once.
#[derive(Default)]
struct Inside(Mutex<Vec<&'static [&'static str]>>);

impl Inside {
    fn enter(&self, extent: &'static [&'static str]) {
        let mut inside = self.0.lock().unwrap();
        let clash = |other: &&&[&str]| {
            extent.contains(&"*")
                || other.contains(&"*")
                || other.iter().any(|name| extent.contains(name))
        };
        let other = inside.iter().find(clash);
        assert!(other.is_none(), "{extent:?} and {other:?} at once");
        inside.push(extent);
    }

    fn leave(&self, extent: &'static [&'static str]) {
        let mut inside = self.0.lock().unwrap();
        let at = inside.iter().position(|other| *other == extent).unwrap();
        inside.swap_remove(at);
    }
}

async fn hold(manager: &Manager, actor: &Actor, entity: &EntityRef) -> Lease {
    let ask = asks(entity, std::slice::from_ref(actor)).remove(0);
    let ask = AcquireAsk {
        extent: ask.extent,
        ttl: ask.ttl,
        ttl_max: ask.ttl,
        max_hold: Duration::from_secs(600),
        on_busy: OnBusy::Wait(Duration::MAX),
        label: "worker".into(),
        generation: Generation([7; 32]),
        reentrant: false,
        owner: None,
    };
    match manager.acquire(ask).await.unwrap() {
        Acquired::Held(lease) => lease,
        other => panic!("not held: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_with_impatient_callers_never_hold_at_once_and_serve_everybody() {
    let span = Duration::from_secs(env("DIFFERENTIAL_STRESS").unwrap_or(4));
    let server = Server::start(Flavour::Redis7, &[]);
    let entity = EntityRef::new("Product", "1").unwrap();
    let mut managers = Vec::new();
    for _ in 0..2 {
        let store = RedisLeases::connect(&server.url(), RedisOptions::default()).await.unwrap();
        let settings = Settings { background: Background::Runtime, ..Settings::default() };
        let (clock, chance) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
        let manager = Manager::new(Arc::new(store), clock, chance, Arc::new(NoEvents), settings);
        managers.push(manager.unwrap());
    }
    let inside = Arc::new(Inside::default());
    let began = SystemClock.now();
    let mut running = JoinSet::new();
    for n in 0..40_usize {
        let (manager, inside) = (managers[n % 2].clone(), Arc::clone(&inside));
        let (entity, extent) = (entity.clone(), EXTENTS[n / 2 % EXTENTS.len()]);
        running.spawn(async move {
            let actor = Actor { extent, order: false, ttl: Duration::from_secs(60) };
            let mut chance = Chance(n as u64);
            let (mut served, mut longest) = (0, Duration::ZERO);
            while SystemClock.now().since(began) < span {
                let asked = SystemClock.now();
                let patience = match chance.below(3) {
                    0 => Duration::from_secs(20),
                    _ => Duration::from_micros(chance.below(60_000) as u64),
                };
                let lease = tokio::select! {
                    lease = hold(&manager, &actor, &entity) => lease,
                    () = SystemClock.sleep_until(asked.plus(patience)) => {
                        assert!(patience < Duration::from_secs(1), "{extent:?} is starved");
                        continue;
                    }
                };
                longest = longest.max(SystemClock.now().since(asked));
                inside.enter(extent);
                SystemClock.sleep_until(SystemClock.now().plus(Duration::from_millis(1))).await;
                inside.leave(extent);
                match chance.below(5) {
                    0 => drop(lease),
                    _ => drop(lease.release().await),
                }
                served += 1;
            }
            (extent, n % 2, served, longest)
        });
    }
    let mut all = running.join_all().await;
    all.sort();
    let longest = all.iter().map(|(.., longest)| *longest).max().unwrap();
    drop(managers);
    until("no key is left", || server.keys().is_empty());
    // Once round the line, at 64 hand-overs each, is little more than one second.
    assert!(longest < Duration::from_secs(5), "{all:#?}");
}
