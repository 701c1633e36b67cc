//! Leases in memory: acquire and release through the manager, against the store alone.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be prepared stops")]

use std::{sync::Arc, time::Duration};

use divan::{Bencher, counter::ItemsCount};
use fieldlease::{
    clock::SystemClock,
    entity::{EntityRef, GroupName},
    event::NoEvents,
    hold::{AcquireAsk, Acquired, Manager, Settings},
    lease::{Ask, Extent, LeaseStore, memory::MemoryLeases},
    registry::OnBusy,
    scope::{ScopeName, ScopeSet},
    token::{Generation, HolderToken, SystemEntropy},
};
use tokio::runtime::Runtime;

/// Cycles of one sample, all tasks together.
const CYCLES: usize = 6_400;
const TTL: Duration = Duration::from_secs(30);

fn main() {
    divan::main();
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
