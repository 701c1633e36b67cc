//! Faults of the lease server and of the way to it, with the promises that hold through all of them: never two valid
//! handles for one scope, the outcome is told as what it is, work goes on when the fault is over, and nothing is left.

mod clock;
mod cluster;
mod data;
mod late_claim;
mod sentinel;
mod server;
mod wire;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fieldlease::{
    clock::{Clock, SystemClock},
    entity::{EntityRef, GroupName},
    error::Error,
    event::{Event, EventSink, LossReason},
    hold::{AcquireAsk, Acquired, Background, Lease, Manager, Released, Settings},
    lease::{
        Acquire, Ask, Extent,
        redis::{RedisLeases, RedisOptions},
    },
    registry::OnBusy,
    scope::{ScopeName, ScopeSet},
    token::{Generation, HolderToken, SystemEntropy},
};

use crate::servers::{Action, Proxy, Rule, Server, proxy::Fault, until, wire::Request};

/// The time to live most tests use: long enough for a machine with other work.
const TTL: Duration = Duration::from_millis(900);
/// How long the client waits for an answer.
const PATIENCE: Duration = Duration::from_millis(250);
const WAIT: OnBusy = OnBusy::Wait(Duration::from_secs(20));

/// What ends by its time to live is gone after this.
const LEFT_MAX: Duration = Duration::from_secs(15);

/// What happened, in order.
#[derive(Default)]
struct Log(Mutex<Vec<Event>>);

impl EventSink for Log {
    fn emit(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Log {
    fn count(&self, like: impl Fn(&Event) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|event| like(event)).count()
    }

    fn renewals(&self) -> usize {
        self.count(|event| matches!(event, Event::LeaseRenewed { .. }))
    }

    fn failed_renewals(&self) -> usize {
        self.count(|event| matches!(event, Event::LeaseRenewFailed { .. }))
    }

    fn losses(&self) -> usize {
        self.count(|event| matches!(event, Event::LeaseLost { .. }))
    }
}

/// One process as far as the lease server can tell: connections, heartbeat and waiters of its own.
struct Actor {
    manager: Manager,
    log: Arc<Log>,
    name: &'static str,
    record: EntityRef,
}

impl Actor {
    async fn new(name: &'static str, url: &str) -> Self {
        Self::try_new(name, url).await.unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    async fn try_new(name: &'static str, url: &str) -> Result<Self, Error> {
        let log = Arc::new(Log::default());
        let options = RedisOptions {
            response_timeout: PATIENCE,
            connect_timeout: PATIENCE * 2,
            events: log.clone(),
            ..RedisOptions::default()
        };
        let store = RedisLeases::connect(url, options).await?;
        let settings = Settings { background: Background::Thread, ..Settings::default() };
        let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
        let manager = Manager::new(Arc::new(store), clock, entropy, log.clone(), settings)?;
        Ok(Self { manager, log, name, record: record() })
    }

    async fn ask(&self, group: &str, on_busy: OnBusy) -> Result<Acquired, Error> {
        self.ask_for(&[group], TTL, on_busy).await
    }

    async fn ask_for(
        &self,
        groups: &[&str],
        ttl: Duration,
        on_busy: OnBusy,
    ) -> Result<Acquired, Error> {
        let name = |group: &&str| ScopeName::group(GroupName::new(group).unwrap());
        let scopes = ScopeSet::new(self.record.clone(), groups.iter().map(name));
        let ask = AcquireAsk {
            extent: Extent::Groups(scopes),
            ttl,
            ttl_max: Duration::from_secs(10),
            max_hold: Duration::from_secs(600),
            on_busy,
            label: self.name.into(),
            generation: Generation([0; 32]),
            reentrant: false,
            owner: None,
        };
        self.manager.acquire(ask).await
    }

    /// A lease that must be had.
    async fn lease(&self, group: &str) -> Lease {
        held(self.ask(group, OnBusy::Fail).await)
    }

    /// A lease that must be had once the server is reached again.
    async fn lease_again(&self, group: &str) -> Lease {
        let end = SystemClock.now().plus(crate::servers::PATIENCE);
        loop {
            match self.ask(group, WAIT).await {
                Err(Error::Unavailable { .. }) if SystemClock.now() < end => {
                    sleep(Duration::from_millis(20)).await;
                }
                answer => return held(answer),
            }
        }
    }

    /// The order of a grant, which is given back at once.
    async fn order(&self, group: &str) -> u64 {
        let name = ScopeName::group(GroupName::new(group).unwrap());
        let extent = Extent::Groups(ScopeSet::new(self.record.clone(), [name]));
        let ask = Ask {
            extent: extent.clone(),
            token: HolderToken::new(&SystemEntropy),
            ttl: TTL,
            ttl_max: TTL,
            label: self.name.into(),
            generation: Generation([0; 32]),
            queue: false,
            order: true,
        };
        let store = self.manager.store();
        let answer = store.acquire(&ask).await.unwrap();
        store.release(&extent, ask.token).await.unwrap();
        match answer {
            Acquire::Granted { order } => order.unwrap(),
            other => panic!("not granted: {other:?}"),
        }
    }

    /// The same process, for a task of its own.
    fn like(&self) -> Self {
        let (manager, log, record) =
            (self.manager.clone(), Arc::clone(&self.log), self.record.clone());
        Self { manager, log, name: self.name, record }
    }

    /// A lease that is waited for in the background.
    fn waits(&self, group: &'static str) -> tokio::task::JoinHandle<Lease> {
        let other = self.like();
        tokio::spawn(async move { held(other.ask(group, WAIT).await) })
    }
}

fn record() -> EntityRef {
    EntityRef::new("Product", "1").unwrap()
}

fn held(answer: Result<Acquired, Error>) -> Lease {
    match answer {
        Ok(Acquired::Held(lease)) => lease,
        other => panic!("not held: {other:?}"),
    }
}

fn is_held(answer: &Result<Acquired, Error>) -> bool {
    matches!(answer, Ok(Acquired::Held(_)))
}

fn is_busy(answer: &Result<Acquired, Error>) -> bool {
    matches!(answer, Ok(Acquired::Busy { .. } | Acquired::Skipped { .. }))
}

fn is_unavailable(answer: &Result<Acquired, Error>) -> bool {
    matches!(answer, Err(Error::Unavailable { .. }))
}

/// Lets time pass for tasks of the test.
async fn sleep(time: Duration) {
    SystemClock.sleep_until(SystemClock.now().plus(time)).await;
}

/// Ends all, and sees to it that the server has nothing of them any more.
async fn nothing_is_left(servers: &[&Server], actors: Vec<Actor>) {
    for actor in &actors {
        let report = actor.manager.shutdown(Duration::from_secs(5)).await;
        assert_eq!(report.failed, 0, "{}: {report:?}", actor.name);
        // Attempts that were given up are taken back in the background.
        eventually("nothing is on its way", || actor.manager.held() == 0).await;
    }
    drop(actors);
    for server in servers {
        let end = SystemClock.now().plus(LEFT_MAX);
        loop {
            let clients = server.clients();
            let ours: Vec<_> = clients.iter().filter(|client| !is_internal(client)).collect();
            // Sentinels talk to each other there.
            let mut channels = server.channels();
            channels.retain(|channel| channel != "__sentinel__:hello");
            let left = (server.keys(), channels, ours);
            if left.0.is_empty() && left.1.is_empty() && left.2.is_empty() {
                break;
            }
            assert!(SystemClock.now() < end, "left behind: {left:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Replicas, sentinels and the test itself stay connected.
fn is_internal(client: &std::collections::BTreeMap<String, String>) -> bool {
    let name = client.get("name").map_or("", String::as_str);
    let flags = client.get("flags").map_or("", String::as_str);
    // Those over the socket file are of the tests.
    let unix = flags.contains('U');
    unix || name.starts_with("sentinel") || flags.contains(['S', 'M'])
}

/// The digests of the product's scripts, learnt from the wire.
struct Known {
    renew: String,
    release: String,
}

impl Known {
    /// The server knows all scripts afterwards.
    async fn learn(server: &Server) -> Self {
        let proxy = Proxy::to(server.port());
        let (first, second) =
            (Actor::new("first", &proxy.url()).await, Actor::new("second", &proxy.url()).await);
        let lease = first.lease("learning").await;
        assert!(is_busy(&second.ask("learning", OnBusy::Skip).await));
        until("a renewal", || first.log.renewals() > 0);
        assert_eq!(lease.release().await, Released::Released);
        nothing_is_left(&[server], vec![first, second]).await;
        let seen = proxy.seen();
        Self { renew: digest(&seen, "Prolongs leases"), release: digest(&seen, "Forgets a token") }
    }

    fn renew(&self, action: Action) -> Rule {
        on(&self.renew, "Prolongs leases", action)
    }

    fn release(&self, action: Action) -> Rule {
        on(&self.release, "Forgets a token", action)
    }
}

/// By which digest the script with this text was called before its text was sent.
fn digest(seen: &[Request], words: &str) -> String {
    let text = seen.iter().find(|it| it.name == "EVAL" && it.arguments[0].contains(words));
    let text = text.unwrap_or_else(|| panic!("no script with `{words}` was sent"));
    let call = seen
        .iter()
        .find(|it| it.name == "EVALSHA" && it.arguments[1..] == text.arguments[1..])
        .unwrap_or_else(|| panic!("`{words}` was not called by its digest"));
    call.arguments[0].clone()
}

fn on(digest: &str, words: &'static str, action: Action) -> Rule {
    let digest = digest.to_owned();
    let called = move |request: &Request| match request.name.as_str() {
        "EVALSHA" => request.arguments[0] == digest,
        "EVAL" => request.arguments[0].contains(words),
        _ => false,
    };
    Rule::matching(called, action)
}

/// The key of the one unsplit group of the record.
fn key(group: &str) -> String {
    format!("fieldlease:{{Product:1}}:g:{group}")
}

/// Waits without holding up the tasks of the test.
async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = SystemClock.now().plus(crate::servers::PATIENCE);
    while !done() {
        assert!(SystemClock.now() < end, "not in time: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

async fn met(fault: &Fault) {
    eventually("the command the fault is for", || fault.hits() > 0).await;
}

/// Waits until the lease is over, and answers why.
async fn lost(lease: &Lease) -> LossReason {
    eventually("the lease is lost", || lease.lost().is_cancelled()).await;
    assert!(!lease.is_valid());
    lease.loss_reason().unwrap()
}
