//! Caps, batches, extremes, and many tasks at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fieldlease::{
    clock::SystemClock,
    event::NoEvents,
    hold::{AcquireAsk, Acquired, Manager, Released, Settings},
    lease::{LeaseStore, TTL_MAX, memory::MemoryLeases},
    registry::OnBusy,
    testing::flaky::Op,
    token::SystemEntropy,
};

use super::{futures, until};
use crate::leasing::{Site, ask, extent, held, ms, wait};

#[tokio::test]
async fn the_caps_on_leases_and_waiters_hold() {
    let site = Site::new();
    let a = site.actor_with(Settings { leases_max: 2, waiters_max: 1, ..Settings::default() });
    let leases = futures(&a, 2).await;
    let third = AcquireAsk { extent: extent("9", &["media"]), ..ask("a") };

    assert_eq!(a.manager.acquire(third.clone()).await.unwrap_err().code(), "unavailable");
    drop(leases);
    site.clock.settle().await;
    let lease = a.lease(third.clone()).await;
    let waiter = a.spawn(AcquireAsk { on_busy: OnBusy::Wait(ms(60_000)), ..third.clone() });
    site.clock.settle().await;
    let more = AcquireAsk { on_busy: OnBusy::Wait(ms(60_000)), ..third };
    assert_eq!(a.manager.acquire(more).await.unwrap_err().code(), "unavailable");
    lease.release().await;
    held(waiter.await.unwrap()).release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn renewals_go_out_in_batches_and_one_lost_lease_does_not_disturb_the_others() {
    let site = Site::new();
    let a = site.actor();
    let mut leases = futures(&a, 1_200).await;
    let gone = leases.remove(7);
    let scope = gone.extent().scopes().iter().next().unwrap();
    // Broken behind the back of its holder.
    let deaf = site.actor();
    drop(deaf);
    site.leases.break_lease(&scope, "stuck").await.unwrap();
    site.pass(500).await;

    assert_eq!(a.wire.script().sent(Op::Renew), 3, "1,199 renewals in batches of 500");
    assert!(!gone.is_valid());
    assert!(leases.iter().all(|lease| lease.is_valid()));
    site.pass(500).await;
    assert!(leases.iter().all(|lease| lease.is_valid()));
    drop(leases);
    drop(gone);
    site.pass(100).await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn a_late_heartbeat_is_reported() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(ask("a")).await;
    site.clock.settle().await;

    site.clock.jump(ms(700));
    site.clock.settle().await;

    assert_eq!(a.log.lines(), ["granted", "late", "renewed"]);
    assert!(lease.is_valid());
    lease.release().await;
    site.nothing_left(&[&a]).await;
}

#[test]
fn times_to_live_and_waits_of_any_length_are_taken_or_refused_without_overflow() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let site = Site::new();
        let a = site.actor();
        for (ttl, want) in [
            (Duration::ZERO, "ttl_too_small"),
            (ms(99), "ttl_too_small"),
            (TTL_MAX + ms(1), "ttl_too_large"),
            (Duration::MAX, "ttl_too_large"),
        ] {
            let refused = a.manager.acquire(AcquireAsk { ttl, ..ask("a") }).await.unwrap_err();
            assert_eq!(refused.code(), want, "{ttl:?}");
        }
        let for_ever = AcquireAsk {
            max_hold: Duration::MAX,
            on_busy: OnBusy::Wait(Duration::MAX),
            ttl: TTL_MAX,
            ttl_max: TTL_MAX,
            ..ask("a")
        };
        let lease = a.lease(for_ever.clone()).await;
        let waiter = a.spawn(for_ever);
        site.pass(1_000).await;
        assert!(lease.is_valid() && !waiter.is_finished());
        lease.release().await;
        held(waiter.await.unwrap()).release().await;
        site.nothing_left(&[&a]).await;
    });
}

/// A manager with a thread of its own on the machine's clock.
fn real(leases: &Arc<MemoryLeases>) -> Manager {
    let clock = Arc::new(SystemClock);
    let (entropy, events) = (Arc::new(SystemEntropy), Arc::new(NoEvents));
    Manager::new(leases.clone(), clock, entropy, events, Settings::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_workers_and_a_hundred_jobs_with_policy_skip_never_overlap() {
    let leases = Arc::new(MemoryLeases::new(Arc::new(SystemClock)));
    // Two processes, two workers each.
    let managers = [real(&leases), real(&leases)];
    let (inside, ran, skipped) =
        (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0), AtomicUsize::new(0));
    let (ran, skipped, jobs) = (Arc::new(ran), Arc::new(skipped), Arc::new(AtomicUsize::new(0)));

    let workers: Vec<_> = (0..4)
        .map(|n| {
            let manager = managers[n % 2].clone();
            let (inside, ran, skipped, jobs) =
                (inside.clone(), ran.clone(), skipped.clone(), jobs.clone());
            tokio::spawn(async move {
                while jobs.fetch_add(1, Ordering::Relaxed) < 100 {
                    let skip = AcquireAsk { on_busy: OnBusy::Skip, ttl: ms(30_000), ..ask("w") };
                    match manager.acquire(skip).await.unwrap() {
                        Acquired::Held(lease) => {
                            assert!(!inside.swap(true, Ordering::SeqCst), "two ran at once");
                            for _ in 0..20 {
                                tokio::task::yield_now().await;
                            }
                            assert!(inside.swap(false, Ordering::SeqCst));
                            ran.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(lease.release().await, Released::Released);
                        }
                        Acquired::Skipped { by } => {
                            assert_eq!(by.len(), 1);
                            skipped.fetch_add(1, Ordering::Relaxed);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }

    let (ran, skipped) = (ran.load(Ordering::Relaxed), skipped.load(Ordering::Relaxed));
    assert!(ran >= 1);
    assert_eq!(ran + skipped, 100, "{ran} ran, {skipped} were skipped");
    assert!(leases.is_empty());
    assert!(managers.iter().all(|manager| manager.held() == 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_waiting_tasks_of_three_processes_are_all_served_one_at_a_time() {
    let leases = Arc::new(MemoryLeases::new(Arc::new(SystemClock)));
    let managers = [real(&leases), real(&leases), real(&leases)];
    let inside: Arc<[AtomicBool; 3]> = Arc::default();
    let served = Arc::new(AtomicUsize::new(0));

    let tasks: Vec<_> = (0..240)
        .map(|n: usize| {
            let (manager, inside, served) =
                (managers[n % 3].clone(), inside.clone(), served.clone());
            tokio::spawn(async move {
                for round in 0..10 {
                    let at = (n / 3 + round) % 3;
                    let groups = [["media"], ["search"], ["prices"]][at];
                    let extent = extent("1", &groups);
                    let ask = AcquireAsk { extent, ttl: ms(30_000), ..wait("w", 600_000) };
                    let lease = held(manager.acquire(ask).await.unwrap());
                    assert!(!inside[at].swap(true, Ordering::SeqCst), "two in {groups:?}");
                    tokio::task::yield_now().await;
                    assert!(lease.is_valid());
                    assert!(inside[at].swap(false, Ordering::SeqCst));
                    served.fetch_add(1, Ordering::Relaxed);
                    if round % 2 == 0 {
                        lease.release().await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }

    assert_eq!(served.load(Ordering::Relaxed), 2_400);
    until("nothing is left", || managers.iter().all(|manager| manager.held() == 0)).await;
    assert!(leases.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_cancelled_at_random_leave_nothing_behind() {
    let leases = Arc::new(MemoryLeases::new(Arc::new(SystemClock)));
    let managers = [real(&leases), real(&leases)];
    let inside = Arc::new(AtomicBool::new(false));

    let mut tasks = Vec::new();
    for n in 0..600_usize {
        let (manager, inside) = (managers[n % 2].clone(), inside.clone());
        tasks.push(tokio::spawn(async move {
            let ask = AcquireAsk { ttl: ms(30_000), ..wait("w", 600_000) };
            let lease = held(manager.acquire(ask).await.unwrap());
            assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
            // No await in here: a cancelled task would leave the mark.
            std::thread::yield_now();
            assert!(inside.swap(false, Ordering::SeqCst));
            if n % 3 == 0 {
                lease.release().await;
            }
        }));
        if n % 2 == 1 {
            tokio::task::yield_now().await;
            tasks[n - (n % 7).min(n)].abort();
        }
    }
    for task in tasks {
        if let Err(error) = task.await {
            assert!(error.is_cancelled(), "{error}");
        }
    }

    until("nothing is left", || managers.iter().all(|manager| manager.held() == 0)).await;
    assert!(leases.is_empty());
    assert_eq!(leases.waiting(), 0);
}
