//! Random histories of one record, told to memory and to a real server at once: the port promises the same answers, so
//! each one is compared, and the server's keys are looked through after each step. Two processes share the record.
//!
//! A failure prints the seed and the shortest history that shows it; `DIFFERENTIAL_SEED` runs one seed alone and
//! `DIFFERENTIAL_COUNT` sets how many are run.

mod cases;
mod stress;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use fieldlease::{
    clock::{Clock, Moment, SystemClock},
    entity::EntityRef,
    event::NoEvents,
    hold::{AcquireAsk, Acquired, Background, Lease, Manager, Settings},
    lease::{
        Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, Wake, WakeSink,
        memory::MemoryLeases,
        redis::{RedisLeases, RedisOptions},
    },
    registry::OnBusy,
    scope::{Scope, ScopeName, ScopeSet},
    testing::ManualClock,
    token::{Entropy, Generation, HolderToken, SystemEntropy},
};
use tokio::task::JoinSet;

use crate::servers::{Flavour, Server, until};

/// What is wrong with the keys of one record; empty when nothing is.
const CHECK: &str = include_str!("redis_differential/keys.lua");

const NAMES: [&str; 3] = ["a", "b", "c"];
const EXTENTS: [&[&str]; 14] = [
    &["a"],
    &["a"],
    &["b"],
    &["c"],
    &["a", "b"],
    &["b", "c"],
    &["a", "b", "c"],
    &["t[l=de]"],
    &["t[l=de]"],
    &["t[l=fr]"],
    &["a", "t[l=de]"],
    &["t[l=de]", "t[l=fr]"],
    &["*", "a", "b", "c"],
    &["*", "a", "b", "c"],
];
const SCOPES: [&str; 5] = ["a", "b", "c", "t[l=de]", "t[l=fr]"];
const TOKENS: usize = 6;
/// Time passes in steps of this; every lease ends in the middle of one, so that a slow machine ends none too early.
const GRID: Duration = Duration::from_millis(350);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Acquire {
        who: usize,
        queue: bool,
    },
    Renew {
        who: usize,
    },
    Release {
        who: usize,
    },
    Break {
        at: usize,
    },
    /// So many steps of the grid; then everybody who waits looks.
    Pass {
        steps: u32,
    },
}

/// One who asks.
#[derive(Clone, Debug)]
struct Actor {
    extent: &'static [&'static str],
    order: bool,
    ttl: Duration,
}

#[derive(Clone, Debug)]
struct History {
    actors: Vec<Actor>,
    steps: Vec<Step>,
}

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }
}

fn history(seed: u64, timed: bool) -> History {
    let mut chance = Chance(seed);
    let actors = (0..TOKENS)
        .map(|_| Actor {
            extent: EXTENTS[chance.below(EXTENTS.len())],
            order: chance.below(4) == 0,
            ttl: match timed {
                true => GRID * u32::try_from(chance.below(5)).unwrap() + GRID / 2,
                false => Duration::from_secs(60),
            },
        })
        .collect();
    let steps = (0..if timed { 30 } else { 40 })
        .map(|_| {
            let who = chance.below(TOKENS);
            match chance.below(100) {
                0..50 => Step::Acquire { who, queue: chance.below(4) > 0 },
                50..62 => Step::Renew { who },
                62..84 => Step::Release { who },
                84..88 => Step::Break { at: chance.below(SCOPES.len()) },
                _ if timed => Step::Pass { steps: u32::try_from(chance.below(4)).unwrap() + 1 },
                _ => Step::Release { who },
            }
        })
        .collect();
    History { actors, steps }
}

/// Remembers who was woken, and how.
#[derive(Default)]
struct Ears(Mutex<Vec<Wake>>);

impl WakeSink for Ears {
    fn wake(&self, wake: Wake) {
        self.0.lock().unwrap().push(wake);
    }
}

/// A server and two processes at it.
struct World {
    server: Server,
    stores: [Arc<RedisLeases>; 2],
    ears: Arc<Ears>,
    _listening: JoinSet<()>,
}

impl World {
    async fn start(flavour: Flavour) -> Self {
        let server = Server::start(flavour, &[]);
        let (ears, mut listening) = (Arc::new(Ears::default()), JoinSet::new());
        let mut stores = Vec::new();
        for _ in 0..2 {
            let store = RedisLeases::connect(&server.url(), RedisOptions::default()).await.unwrap();
            let store = Arc::new(store);
            let (watched, sink) = (Arc::clone(&store), Arc::clone(&ears));
            listening.spawn(async move { drop(watched.watch(sink).await) });
            stores.push(store);
        }
        let stores = stores.try_into().ok().unwrap();
        while ears.0.lock().unwrap().len() < 2 {
            SystemClock.sleep_until(SystemClock.now().plus(Duration::from_millis(2))).await;
        }
        Self { server, stores, ears, _listening: listening }
    }
}

/// One run of a history.
struct Run<'a> {
    world: &'a World,
    entity: EntityRef,
    asks: Vec<Ask>,
    clock: Arc<ManualClock>,
    memory: MemoryLeases,
    began: Moment,
    /// The grid's present step.
    at: u32,
    /// Too slow to compare.
    late: bool,
}

fn asks(entity: &EntityRef, actors: &[Actor]) -> Vec<Ask> {
    let ask = |(n, actor): (usize, &Actor)| {
        let whole = actor.extent.contains(&"*");
        let names = actor.extent.iter().filter(|name| **name != "*");
        let set = ScopeSet::new(entity.clone(), names.map(|name| ScopeName::parse(name).unwrap()));
        Ask {
            extent: if whole { Extent::Whole(set) } else { Extent::Groups(set) },
            token: HolderToken(SystemEntropy.bytes()),
            ttl: actor.ttl,
            ttl_max: Duration::from_secs(60),
            label: format!("actor {n}").into(),
            generation: Generation([7; 32]),
            queue: true,
            order: actor.order,
        }
    };
    actors.iter().enumerate().map(ask).collect()
}

fn who(by: &[Holder]) -> Vec<String> {
    by.iter()
        .map(|held| format!("{} by {} ({})", held.scope.name, held.label, held.waiting))
        .collect()
}

impl<'a> Run<'a> {
    fn new(world: &'a World, history: &History) -> Self {
        let id = format!("{:x}", u128::from_be_bytes(SystemEntropy.bytes()));
        let entity = EntityRef::new("Product", &id).unwrap();
        let clock = Arc::new(ManualClock::new());
        let asks = asks(&entity, &history.actors);
        let memory = MemoryLeases::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let began = SystemClock.now();
        Self { world, entity, asks, clock, memory, began, at: 0, late: false }
    }

    fn store(&self, who: usize) -> &RedisLeases {
        &self.world.stores[who % 2]
    }

    /// The model's clock follows the real one.
    fn look_at_clock(&mut self) {
        let real = SystemClock.now().since(self.began);
        let model = self.clock.now().since(Moment(Duration::from_secs(1_000)));
        self.clock.jump(real.saturating_sub(model));
        self.late |= real > GRID * self.at + Duration::from_millis(80);
    }

    async fn step(&mut self, step: Step) -> Result<(), String> {
        self.look_at_clock();
        match step {
            Step::Acquire { who: at, queue } => {
                let ask = Ask { queue, ..self.asks[at].clone() };
                let ours = self.memory.acquire(&ask).await.map_err(|error| error.to_string())?;
                let theirs =
                    self.store(at).acquire(&ask).await.map_err(|error| error.to_string())?;
                self.compare_acquire(&ask, &ours, &theirs)
            }
            Step::Renew { who: at } => self.renew(at).await.map(|_| ()),
            Step::Release { who: at } => {
                let ask = &self.asks[at];
                let ours = self.memory.release(&ask.extent, ask.token).await.unwrap();
                let theirs = self.store(at).release(&ask.extent, ask.token).await;
                let theirs: Release = theirs.map_err(|error| error.to_string())?;
                same(&ours, &theirs)?;
                self.everybody_looks().await
            }
            Step::Break { at } => {
                let name = ScopeName::parse(SCOPES[at]).unwrap();
                let scope = Scope { entity: self.entity.clone(), name };
                let ours = self.memory.break_lease(&scope, "test").await.unwrap();
                let theirs = self.store(at).break_lease(&scope, "test").await;
                let theirs = theirs.map_err(|error| error.to_string())?;
                // Those who wait are counted for the scope or, of a whole entity, for that.
                let label = |held: &Holder| (held.scope.clone(), Arc::clone(&held.label));
                same(&ours.as_ref().map(label), &theirs.as_ref().map(label))?;
                self.everybody_looks().await
            }
            Step::Pass { steps } => {
                self.at += steps;
                SystemClock.sleep_until(self.began.plus(GRID * self.at)).await;
                self.look_at_clock();
                self.everybody_looks().await
            }
        }
    }

    fn compare_acquire(&self, ask: &Ask, ours: &Acquire, theirs: &Acquire) -> Result<(), String> {
        match (ours, theirs) {
            (Acquire::Granted { order: a }, Acquire::Granted { order: b }) => {
                same(&a.is_some(), &b.is_some())
            }
            (Acquire::Held { by, place }, Acquire::Held { by: other, place: at }) => {
                if place != at {
                    return Err(format!("place: memory {place:?}, redis {at:?}"));
                }
                let cover = ask.extent.cover();
                let mine =
                    |held: &&Holder| cover.whole || cover.scopes.names().contains(&held.scope.name);
                // A free scope may be named with the waiter it is kept for, but every holder is named.
                let (by, other): (Vec<Holder>, Vec<Holder>) = (
                    by.iter().filter(mine).cloned().collect(),
                    other.iter().filter(mine).cloned().collect(),
                );
                let (by, other) = (who(&by), who(&other));
                match by.iter().find(|held| !other.contains(held)) {
                    Some(_) => Err(format!("held: memory {by:?}, redis {other:?}")),
                    None => Ok(()),
                }
            }
            _ => Err(format!("memory {ours:?}\n redis {theirs:?}")),
        }
    }

    /// Answers whether it waits.
    async fn renew(&self, at: usize) -> Result<Renewal, String> {
        let ask = &self.asks[at];
        let renew = [Renew { extent: ask.extent.clone(), token: ask.token, ttl: ask.ttl }];
        let ours = self.memory.renew(&renew).await[0];
        let theirs = self.store(at).renew(&renew).await[0];
        match (ours, theirs) {
            (Renewal::Placed { again: a }, Renewal::Placed { again: b }) => {
                let most = a.map(|a| a + Duration::from_millis(80));
                match most.is_none_or(|most| b.is_some_and(|b| b <= most)) {
                    true => Ok(theirs),
                    false => Err(format!("again: memory {a:?}, redis {b:?}")),
                }
            }
            _ => same(&ours, &theirs).map(|()| theirs),
        }
    }

    /// The queue moves when somebody asks after a lease has ended, and a waiter for several scopes may only be told to
    /// try: all who wait do, in the order they came.
    async fn everybody_looks(&mut self) -> Result<(), String> {
        let mut line: Vec<(usize, usize)> = Vec::new();
        for at in 0..self.asks.len() {
            line.extend(self.queued(at).map(|seq| (seq, at)));
        }
        line.sort_unstable();
        for _ in 0..2 {
            for (_, at) in &line {
                let ask = self.asks[*at].clone();
                let renew = [Renew { extent: ask.extent.clone(), token: ask.token, ttl: ask.ttl }];
                let answer = self.store(*at).renew(&renew).await[0];
                if matches!(answer, Renewal::Placed { .. }) {
                    self.store(*at).acquire(&ask).await.map_err(|error| error.to_string())?;
                }
                self.memory.renew(&renew).await;
            }
        }
        self.look_at_clock();
        for at in 0..self.asks.len() {
            self.renew_if_waiting(at).await?;
        }
        Ok(())
    }

    async fn renew_if_waiting(&self, at: usize) -> Result<(), String> {
        if self.queued(at).is_some() { self.renew(at).await.map(|_| ()) } else { Ok(()) }
    }

    /// Its number in the server's queue.
    fn queued(&self, at: usize) -> Option<usize> {
        let field = format!("p:{:032x}", u128::from_be_bytes(self.asks[at].token.0));
        let place = self.world.server.command(&["HGET", &self.key("h"), &field]).text();
        place.get(13..29)?.parse().ok()
    }

    fn key(&self, end: &str) -> String {
        format!("fieldlease:{{{}:{}}}:{end}", self.entity.kind.as_str(), self.entity.id.as_str())
    }

    fn check(&self) -> Result<(), String> {
        let mut command = vec!["EVAL".to_owned(), CHECK.to_owned(), "5".to_owned()];
        command.extend([self.key("h"), self.key("q")]);
        command.extend(NAMES.map(|name| self.key(&format!("g:{name}"))));
        command.extend(NAMES.map(str::to_owned));
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let found = self.world.server.run(&command).texts();
        if found.is_empty() { Ok(()) } else { Err(format!("at the server: {found:?}")) }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("memory {ours:?}, redis {theirs:?}")) }
}

/// What went wrong, if anything did, and after which step.
async fn run(world: &World, history: &History) -> Option<(usize, String)> {
    let mut run = Run::new(world, history);
    let timed = history.steps.iter().any(|step| matches!(step, Step::Pass { .. }));
    for (n, step) in history.steps.iter().enumerate() {
        let done = match run.step(*step).await {
            Ok(()) => run.check(),
            failed => failed,
        };
        run.look_at_clock();
        if run.late && timed {
            return None;
        }
        if let Err(wrong) = done {
            return Some((n, wrong));
        }
    }
    // Whoever is left leaves, and nothing stays.
    for (at, ask) in run.asks.iter().enumerate() {
        let _gone = run.store(at).release(&ask.extent, ask.token).await;
    }
    let left = run.world.server.command(&["KEYS", &run.key("[^o]*")]).texts();
    // A hash may outlive the leases in it that ended by themselves.
    if left.is_empty() || timed {
        None
    } else {
        Some((history.steps.len(), format!("left: {left:?}")))
    }
}

/// Fewer steps that go wrong as well.
async fn shrink(world: &World, mut history: History) -> (History, String) {
    let mut said = String::new();
    if let Some((n, wrong)) = run(world, &history).await {
        history.steps.truncate(n + 1);
        said = wrong;
    }
    let mut at = history.steps.len();
    while at > 0 {
        at -= 1;
        let mut fewer = history.clone();
        fewer.steps.remove(at);
        if let Some((n, wrong)) = run(world, &fewer).await {
            fewer.steps.truncate(n + 1);
            at = at.min(fewer.steps.len());
            (history, said) = (fewer, wrong);
        }
    }
    (history, said)
}

fn describe(seed: u64, history: &History, wrong: &str) -> String {
    let mut text = format!("seed {seed}: {wrong}\n");
    let mut told = BTreeSet::new();
    for step in &history.steps {
        if let Step::Acquire { who, .. } | Step::Renew { who } | Step::Release { who } = step
            && told.insert(*who)
        {
            text += &format!("  actor {who}: {:?}\n", history.actors[*who]);
        }
    }
    for step in &history.steps {
        text += &format!("  {step:?}\n");
    }
    text
}

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn first_seed() -> u64 {
    let random = || u128::from_be_bytes(SystemEntropy.bytes()) >> 80;
    env("DIFFERENTIAL_SEED").unwrap_or_else(|| random().try_into().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_answers_as_memory_does() {
    let first = first_seed();
    let count = env("DIFFERENTIAL_COUNT").unwrap_or(150);
    let mut running = JoinSet::new();
    for flavour in [Flavour::Redis7, Flavour::Redis62, Flavour::Valkey9] {
        running.spawn(async move {
            let world = World::start(flavour).await;
            let mut failures: Vec<String> = Vec::new();
            for seed in first..first + count {
                let history = history(seed, false);
                if run(&world, &history).await.is_some() && failures.len() < 6 {
                    let (history, wrong) = shrink(&world, history).await;
                    failures.push(format!("{flavour} {}", describe(seed, &history, &wrong)));
                }
            }
            failures
        });
    }
    let failures = running.join_all().await.concat();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_answers_as_memory_does_while_time_passes() {
    let first = first_seed();
    let count = env("DIFFERENTIAL_TIMED").unwrap_or(60);
    let world = Arc::new(World::start(Flavour::Redis7).await);
    let mut running = JoinSet::new();
    for seed in first..first + count {
        let world = Arc::clone(&world);
        running.spawn(async move {
            let pause = Duration::from_millis(seed % 16 * 22);
            SystemClock.sleep_until(SystemClock.now().plus(pause)).await;
            let history = history(seed, true);
            let (n, wrong) = run(&world, &history).await?;
            let mut history = history;
            history.steps.truncate(n + 1);
            Some(describe(seed, &history, &wrong))
        });
    }
    let failures: Vec<String> = running.join_all().await.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
