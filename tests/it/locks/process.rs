//! Dropped, forgotten and cancelled leases: case LC-12.

use std::sync::Arc;

use fieldlease::{
    clock::{BoxFuture, Clock, SystemClock},
    entity::EntityRef,
    error::Result,
    event::NoEvents,
    hold::{AcquireAsk, Lease, Manager, Settings},
    lease::{
        Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, WakeSink,
        memory::MemoryLeases,
    },
    registry::OnBusy,
    scope::Scope,
    testing::{Fault, Gate, flaky::Op},
    token::{HolderToken, SystemEntropy},
};

use crate::leasing::{Site, ask, extent, held, ms};

/// A manager with a thread of its own, as in production.
fn real() -> (Arc<MemoryLeases>, Manager) {
    let clock = Arc::new(SystemClock);
    let leases = Arc::new(MemoryLeases::new(clock.clone()));
    let (entropy, events) = (Arc::new(SystemEntropy), Arc::new(NoEvents));
    let settings = Settings::default();
    (leases.clone(), Manager::new(leases, clock, entropy, events, settings).unwrap())
}

fn ten_seconds(id: usize) -> AcquireAsk {
    AcquireAsk { extent: extent(&id.to_string(), &["media"]), ttl: ms(10_000), ..ask("a") }
}

/// The background thread needs a moment; bounded by far more than it needs.
fn gone(leases: &MemoryLeases, manager: &Manager, what: &str) {
    let start = SystemClock.now();
    while !(leases.is_empty() && manager.held() == 0) {
        assert!(SystemClock.now().since(start) < ms(8_000), "{what}: still there");
        std::thread::yield_now();
    }
}

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = match threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().build().unwrap()
}

#[test]
fn lc_12_a_lease_may_be_dropped_anywhere() {
    type Way = fn(&tokio::runtime::Runtime, Lease);
    let ways: [(&str, Way); 6] = [
        ("in async code", |runtime, lease| runtime.block_on(async move { drop(lease) })),
        ("in a blocking thread", |runtime, lease| {
            let dropping = async move { tokio::task::spawn_blocking(move || drop(lease)).await };
            runtime.block_on(dropping).unwrap();
        }),
        ("on a thread without runtime", |_, lease| {
            std::thread::spawn(move || drop(lease)).join().unwrap();
        }),
        ("by a panic", |runtime, lease| {
            let job = async move {
                let _lease = lease;
                std::panic::resume_unwind(Box::new("the job failed"));
            };
            assert!(runtime.block_on(async { tokio::spawn(job).await }).unwrap_err().is_panic());
        }),
        ("by aborting its task", |runtime, lease| {
            runtime.block_on(async move {
                let task = tokio::spawn(async move {
                    let _lease = lease;
                    std::future::pending::<()>().await;
                });
                tokio::task::yield_now().await;
                task.abort();
                assert!(task.await.unwrap_err().is_cancelled());
            });
        }),
        ("in the middle of its release", |runtime, lease| {
            runtime.block_on(async move {
                let release = lease.release();
                tokio::select! { biased; () = std::future::ready(()) => {}, _ = release => {} }
            });
        }),
    ];
    for threads in [0, 2] {
        for (what, way) in ways {
            let (leases, manager) = real();
            let runtime = runtime(threads);
            let lease = held(runtime.block_on(manager.acquire(ten_seconds(1))).unwrap());
            assert!(!leases.is_empty());

            way(&runtime, lease);

            gone(&leases, &manager, what);
        }
    }
}

#[test]
fn lc_12_f_a_lost_race_drops_the_acquire_and_leaves_nothing() {
    let (leases, manager) = real();
    let runtime = runtime(2);
    let first = held(runtime.block_on(manager.acquire(ten_seconds(1))).unwrap());
    let waits = AcquireAsk { on_busy: OnBusy::Wait(ms(60_000)), ..ten_seconds(1) };

    runtime.block_on(async {
        for _ in 0..100 {
            tokio::select! {
                biased;
                _ = manager.acquire(waits.clone()) => panic!("it is held"),
                () = tokio::task::yield_now() => {}
            }
        }
    });
    drop(first);

    gone(&leases, &manager, "acquire dropped");
    assert_eq!((manager.waiting(), leases.waiting()), (0, 0));
}

#[tokio::test]
async fn lc_12_f_a_release_that_is_dropped_half_way_is_finished_in_the_background() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(ask("a")).await;
    let gate = Gate::new();
    a.wire.script().next(Op::Release, Fault::HoldRequest(gate.clone()));
    let releasing = tokio::spawn(lease.release());
    site.clock.settle().await;

    releasing.abort();
    site.clock.settle().await;
    assert_eq!(a.manager.held(), 1);
    gate.open();
    site.clock.settle().await;

    assert_eq!(a.wire.script().sent(Op::Release), 1, "one release is sent, not two");
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn lc_12_g_a_forgotten_lease_is_renewed_until_max_hold() {
    let site = Site::new();
    let a = site.actor();
    std::mem::forget(a.lease(AcquireAsk { max_hold: ms(5_000), ..ask("a") }).await);

    site.pass(4_900).await;
    assert!(!site.leases.is_empty());
    site.pass(1_100).await;

    assert!(site.leases.is_empty());
    assert_eq!(a.log.count("lost:MaxHold"), 1);
}

#[test]
fn lc_12_h_a_dropped_runtime_with_a_hundred_leases_is_cleaned_up_by_shutdown() {
    let (leases, manager) = real();
    let first = runtime(2);
    let held_leases: Vec<Lease> =
        (0..100).map(|n| held(first.block_on(manager.acquire(ten_seconds(n))).unwrap())).collect();

    first.shutdown_background();
    let report = runtime(0).block_on(manager.shutdown(ms(5_000)));

    assert_eq!((report.released, report.failed), (100, 0));
    gone(&leases, &manager, "after shutdown");
    drop(held_leases);
    gone(&leases, &manager, "after the drop");
}

/// To the process that started this one.
fn say(what: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}").and_then(|()| out.flush()).unwrap();
}

/// Tells on standard output what arrives at the store.
struct Telling(MemoryLeases);

impl LeaseStore for Telling {
    fn acquire<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Acquire>> {
        say("store: acquire");
        self.0.acquire(ask)
    }

    fn renew<'a>(&'a self, batch: &'a [Renew]) -> BoxFuture<'a, Vec<Renewal>> {
        self.0.renew(batch)
    }

    fn release<'a>(
        &'a self,
        extent: &'a Extent,
        token: HolderToken,
    ) -> BoxFuture<'a, Result<Release>> {
        say("store: release");
        self.0.release(extent, token)
    }

    fn watch<'a>(&'a self, sink: Arc<dyn WakeSink>) -> BoxFuture<'a, Result<()>> {
        self.0.watch(sink)
    }

    fn inspect<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        cursor: Option<&'a str>,
        most: u32,
    ) -> BoxFuture<'a, Result<(Vec<Holder>, Option<String>)>> {
        self.0.inspect(entity, cursor, most)
    }

    fn break_lease<'a>(
        &'a self,
        scope: &'a Scope,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<Option<Holder>>> {
        self.0.break_lease(scope, reason)
    }
}

/// Not a test of its own: the process that exits, when the test below starts it.
#[test]
fn lc_12_i_child() {
    let Ok(way) = std::env::var("LEASE_CHILD") else { return };
    let clock = Arc::new(SystemClock);
    let store = Arc::new(Telling(MemoryLeases::new(clock.clone())));
    let (entropy, events) = (Arc::new(SystemEntropy), Arc::new(NoEvents));
    let manager = Manager::new(store, clock, entropy, events, Settings::default()).unwrap();
    let runtime = runtime(2);
    let lease = held(runtime.block_on(manager.acquire(ten_seconds(1))).unwrap());
    drop(lease);
    if way == "shutdown" {
        let report = runtime.block_on(manager.shutdown(ms(5_000)));
        say(&format!("shut down: {report:?}"));
    }
    if way != "return" {
        std::process::exit(0);
    }
}

#[test]
fn lc_12_i_a_process_that_exits_right_after_the_drop_neither_hangs_nor_panics() {
    for way in ["exit", "return", "shutdown"] {
        for _ in 0..5 {
            let child = std::process::Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "locks::process::lc_12_i_child",
                    "--nocapture",
                    "--test-threads=1",
                ])
                .env("LEASE_CHILD", way)
                .output()
                .unwrap();

            let said = String::from_utf8_lossy(&child.stdout);
            let complained = String::from_utf8_lossy(&child.stderr);
            assert!(child.status.success(), "{way}: {said}{complained}");
            assert!(said.contains("store: acquire"), "{way}: {said}");
            assert!(!complained.contains("panicked"), "{way}: {complained}");
            // Without a shutdown it may be too late for the release; then the time to live is the net.
            if way == "shutdown" {
                assert_eq!(said.matches("store: release").count(), 1, "{said}");
                assert!(said.contains("failed: 0"), "{said}");
            }
        }
    }
}

#[test]
fn lc_12_j_a_lease_may_be_sent_to_another_thread_and_outlive_its_manager() {
    let (leases, manager) = real();
    let lease = held(runtime(0).block_on(manager.acquire(ten_seconds(1))).unwrap());
    drop(manager);

    std::thread::spawn(move || {
        assert!(lease.is_valid());
        drop(lease);
    })
    .join()
    .unwrap();

    let start = SystemClock.now();
    while !leases.is_empty() {
        assert!(SystemClock.now().since(start) < ms(8_000), "still there");
        std::thread::yield_now();
    }
}
