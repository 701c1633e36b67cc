//! Leases in memory: acquire and release through the manager, against the store alone.
//!
//! `cargo bench --bench lease -- held` measures instead what a hundred thousand held leases cost: the share of one core
//! that renewing them takes, how late the latest renewal was, and memory. `-- waits` measures how long tasks wait that
//! all want one key.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark that cannot be prepared stops, and prints what it measured"
)]

use std::{sync::Arc, time::Duration};

use divan::{Bencher, counter::ItemsCount};
use fieldlease::{
    clock::{BoxFuture, Clock, SystemClock},
    entity::{EntityRef, GroupName},
    error::Result,
    event::NoEvents,
    hold::{AcquireAsk, Acquired, Manager, Settings},
    lease::{
        Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, WakeSink,
        memory::MemoryLeases,
    },
    registry::OnBusy,
    scope::{Scope, ScopeName, ScopeSet},
    token::{Generation, HolderToken, SystemEntropy},
};
use tokio::runtime::Runtime;

/// Cycles of one sample, all tasks together.
const CYCLES: usize = 6_400;
const TTL: Duration = Duration::from_secs(30);

fn main() {
    match std::env::args().find(|argument| !argument.starts_with('-') && !argument.contains('/')) {
        Some(what) if what == "held" => held(),
        Some(what) if what == "waits" => waits(),
        _ => divan::main(),
    }
}

/// Sixteen tasks take one key in turns.
fn waits() {
    const TASKS: usize = 16;
    const ROUNDS: usize = 50_000;
    let (runtime, manager) = (runtime(), manager());
    let start = SystemClock.now();
    let mut waited = runtime.block_on(async {
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..TASKS {
            let manager = manager.clone();
            running.spawn(async move {
                let mut waited = Vec::with_capacity(ROUNDS);
                for _ in 0..ROUNDS {
                    let asked = SystemClock.now();
                    let Acquired::Held(lease) = manager.acquire(ask(extent(0))).await.unwrap()
                    else {
                        panic!("not held");
                    };
                    waited.push(SystemClock.now().since(asked));
                    lease.release().await;
                }
                waited
            });
        }
        running.join_all().await.into_iter().flatten().collect::<Vec<_>>()
    });
    let took = SystemClock.now().since(start);
    waited.sort_unstable();
    let at = |part: usize| waited.get(waited.len() * part / 1_000).copied().unwrap_or_default();
    let rate = (TASKS * ROUNDS) as f64 / took.as_secs_f64();
    println!(
        "{TASKS} tasks, one key: {rate:.0} cycles/s, waited {:?} (median), {:?} (p99), {:?} (p99.9)",
        at(500),
        at(990),
        at(999)
    );
}

fn extent(id: usize) -> Extent {
    let entity = EntityRef::new("Product", &id.to_string()).unwrap();
    Extent::Groups(ScopeSet::new(entity, [ScopeName::group(GroupName::new("media").unwrap())]))
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn manager() -> Manager {
    let clock = Arc::new(SystemClock);
    let leases = Arc::new(MemoryLeases::new(clock.clone()));
    let (entropy, events) = (Arc::new(SystemEntropy), Arc::new(NoEvents));
    Manager::new(leases, clock, entropy, events, Settings::default()).unwrap()
}

fn ask(extent: Extent) -> AcquireAsk {
    AcquireAsk {
        extent,
        ttl: TTL,
        ttl_max: TTL,
        max_hold: TTL,
        on_busy: OnBusy::Wait(TTL),
        label: "bench".into(),
        generation: Generation([0; 32]),
        reentrant: false,
        owner: None,
    }
}

async fn cycles(manager: Manager, extent: Extent, count: usize) {
    for _ in 0..count {
        let Acquired::Held(lease) = manager.acquire(ask(extent.clone())).await.unwrap() else {
            panic!("not held");
        };
        lease.release().await;
    }
}

fn bench(bencher: Bencher<'_, '_>, tasks: usize, extent_of: fn(usize) -> Extent) {
    let (runtime, manager) = (runtime(), manager());
    bencher.counter(ItemsCount::new(CYCLES)).bench_local(|| {
        runtime.block_on(async {
            let mut running = tokio::task::JoinSet::new();
            for task in 0..tasks {
                running.spawn(cycles(manager.clone(), extent_of(task), CYCLES / tasks));
            }
            running.join_all().await;
        });
    });
}

/// Each task has a key of its own.
#[divan::bench(args = [1, 64], sample_count = 20, sample_size = 1)]
fn own_keys(bencher: Bencher<'_, '_>, tasks: usize) {
    bench(bencher, tasks, extent);
}

/// All tasks want one key: every lease is handed over.
#[divan::bench(args = [16], sample_count = 10, sample_size = 1)]
fn one_key(bencher: Bencher<'_, '_>, tasks: usize) {
    bench(bencher, tasks, |_| extent(0));
}

/// The floor: the store alone, without handle, heartbeat and deadline.
#[divan::bench(args = [1, 64], sample_count = 20, sample_size = 1)]
fn own_keys_store_alone(bencher: Bencher<'_, '_>, tasks: usize) {
    let runtime = runtime();
    let leases = Arc::new(MemoryLeases::new(Arc::new(SystemClock)));
    bencher.counter(ItemsCount::new(CYCLES)).bench_local(|| {
        runtime.block_on(async {
            let mut running = tokio::task::JoinSet::new();
            for task in 0..tasks {
                let leases = Arc::clone(&leases);
                running.spawn(async move {
                    for _ in 0..CYCLES / tasks {
                        let ask = Ask {
                            extent: extent(task),
                            token: HolderToken::new(&SystemEntropy),
                            ttl: TTL,
                            ttl_max: TTL,
                            label: "bench".into(),
                            generation: Generation([0; 32]),
                            queue: false,
                            order: false,
                        };
                        leases.acquire(&ask).await.unwrap();
                        leases.release(&ask.extent, ask.token).await.unwrap();
                    }
                });
            }
            running.join_all().await;
        });
    });
}

/// The store in memory behind a network.
struct Distant {
    inner: MemoryLeases,
    delay: Duration,
}

impl Distant {
    async fn travel(&self) {
        if !self.delay.is_zero() {
            SystemClock.sleep_until(SystemClock.now().plus(self.delay)).await;
        }
    }
}

impl LeaseStore for Distant {
    fn acquire<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Acquire>> {
        Box::pin(async move {
            self.travel().await;
            self.inner.acquire(ask).await
        })
    }

    fn renew<'a>(&'a self, batch: &'a [Renew]) -> BoxFuture<'a, Vec<Renewal>> {
        Box::pin(async move {
            self.travel().await;
            self.inner.renew(batch).await
        })
    }

    fn release<'a>(
        &'a self,
        extent: &'a Extent,
        token: HolderToken,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            self.travel().await;
            self.inner.release(extent, token).await
        })
    }

    fn watch<'a>(&'a self, sink: Arc<dyn WakeSink>) -> BoxFuture<'a, Result<()>> {
        self.inner.watch(sink)
    }

    fn inspect<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        cursor: Option<&'a str>,
        most: u32,
    ) -> BoxFuture<'a, Result<(Vec<Holder>, Option<String>)>> {
        self.inner.inspect(entity, cursor, most)
    }

    fn break_lease<'a>(
        &'a self,
        scope: &'a Scope,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<Option<Holder>>> {
        self.inner.break_lease(scope, reason)
    }
}

const HELD: usize = 100_000;
/// Two heartbeats of each lease.
const WATCHED: Duration = Duration::from_secs(31);

/// Bytes of this process in memory.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4_096
}

/// Processor time of the thread that renews, in hundredths of a second.
fn spent() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let mut own = stats.filter(|stat| stat.contains("(fieldlease-leas"));
    let stat = own.next().unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

fn held() {
    for delay in [Duration::ZERO, Duration::from_millis(1)] {
        let clock = Arc::new(SystemClock);
        let store = Arc::new(Distant { inner: MemoryLeases::new(clock.clone()), delay });
        let (entropy, events) = (Arc::new(SystemEntropy), Arc::new(NoEvents));
        let manager = Manager::new(store, clock, entropy, events, Settings::default()).unwrap();
        let (runtime, before) = (runtime(), resident());
        let leases = runtime.block_on(async {
            let mut running = tokio::task::JoinSet::new();
            for part in 0..1_000 {
                let manager = manager.clone();
                running.spawn(async move {
                    let mut leases = Vec::new();
                    for n in 0..HELD / 1_000 {
                        let long = AcquireAsk {
                            max_hold: 20 * TTL,
                            ..ask(extent(part * (HELD / 1_000) + n))
                        };
                        let Acquired::Held(lease) = manager.acquire(long).await.unwrap() else {
                            panic!("not held");
                        };
                        leases.push(lease);
                    }
                    leases
                });
            }
            running.join_all().await.into_iter().flatten().collect::<Vec<_>>()
        });
        // Later rounds find memory that is taken already.
        if delay.is_zero() {
            println!("{} bytes per lease, with the store", (resident() - before) / HELD);
        }
        let (start, spent_before, mut latest) = (SystemClock.now(), spent(), Duration::ZERO);
        while SystemClock.now().since(start) < WATCHED {
            runtime.block_on(SystemClock.sleep_until(SystemClock.now().plus(TTL / 300)));
            let now = SystemClock.now();
            let left = leases.iter().map(|lease| lease.deadline().since(now)).min();
            // Trust ends 1 % before the lease does.
            latest = latest.max((TTL - TTL / 100).saturating_sub(left.unwrap_or_default()));
        }
        let share = (spent() - spent_before) as f64 / (WATCHED.as_secs() * 100) as f64;
        let lost = leases.iter().filter(|lease| !lease.is_valid()).count();
        println!(
            "{HELD} leases held for {WATCHED:?}, ttl {TTL:?}, store {delay:?} away: renewing takes {:.1} % of one \
             core, latest renewal confirmed at {:.1} % of the ttl, {lost} lost",
            share * 100.0,
            latest.as_secs_f64() / TTL.as_secs_f64() * 100.0,
        );
        let report = runtime.block_on(manager.shutdown(TTL));
        println!("shut down: {report:?}");
    }
}
