//! Weak fences.

use std::sync::{Arc, Mutex};

use fieldlease::{
    event::LossReason,
    hold::{AcquireAsk, Released, Settings, WeakFence},
    lease::LeaseStore,
    testing::{Fault, Gate, flaky::Op},
};

use crate::leasing::{Site, ask, held, ms, wait};

#[tokio::test]
async fn weak_fences_grow_over_local_hand_overs_and_over_grants() {
    // One task in each process takes the lease over and over; the hand-overs of the first outnumber one tenure.
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    let seen: Arc<Mutex<Vec<WeakFence>>> = Arc::default();
    let mut tasks = Vec::new();
    for n in 0..1_500 {
        let (manager, seen) = (if n % 5 == 4 { &b } else { &a }.manager.clone(), seen.clone());
        tasks.push(tokio::spawn(async move {
            let lease = held(manager.acquire(wait("w", 6_000_000)).await.unwrap());
            let fence = lease.weak_fence().await.unwrap().unwrap();
            assert_eq!(lease.weak_fence().await.unwrap(), Some(fence), "it stays");
            seen.lock().unwrap().push(fence);
            assert_eq!(lease.release().await, Released::Released);
        }));
    }
    while tasks.iter().any(|task| !task.is_finished()) {
        site.pass(10).await;
    }

    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(seen.len(), 1_500);
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
    assert!(seen.iter().all(|fence| fence.0 < 1 << 63));
    for task in tasks {
        task.await.unwrap();
    }
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn a_tenure_ends_before_its_numbers_for_hand_overs_do() {
    let site = Site::new();
    let a = site.actor();
    let first = a.lease(ask("a")).await;
    let fence = first.weak_fence().await.unwrap().unwrap();
    assert_eq!(fence.0 % 1_024, 0);
    let waiters: Vec<_> = (0..2_000)
        .map(|_| {
            let manager = a.manager.clone();
            tokio::spawn(async move {
                let lease = held(manager.acquire(wait("w", 6_000_000)).await.unwrap());
                let fence = lease.weak_fence().await.unwrap().unwrap();
                lease.release().await;
                fence
            })
        })
        .collect();
    site.clock.settle().await;

    first.release().await;
    let mut last = fence;
    for waiter in waiters {
        while !waiter.is_finished() {
            site.pass(1).await;
        }
        let fence = waiter.await.unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }

    assert_eq!(a.wire.script().sent(Op::Release), 2, "1,024 holders, then 977 of another tenure");
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn an_order_is_asked_for_once_in_a_tenure_or_comes_with_the_grant() {
    for weak_fences in [false, true] {
        let site = Site::new();
        let a = site.actor_with(Settings { weak_fences, ..Settings::default() });
        let first = a.lease(ask("a")).await;
        let waiter = a.spawn(wait("w", 60_000));
        site.clock.settle().await;

        let one = first.weak_fence().await.unwrap().unwrap();
        first.release().await;
        let second = held(waiter.await.unwrap());
        let two = second.weak_fence().await.unwrap().unwrap();

        assert_eq!(two.0, one.0 + 1);
        assert_eq!(a.wire.script().sent(Op::Acquire), if weak_fences { 1 } else { 2 });
        second.release().await;
        site.nothing_left(&[&a]).await;
    }
}

#[tokio::test]
async fn asking_for_the_order_prolongs_the_lease() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(ask("a")).await;
    site.pass(400).await;

    lease.weak_fence().await.unwrap().unwrap();

    assert_eq!(lease.deadline(), site.now().plus(ms(990)));
    site.pass(499).await;
    assert_eq!(a.wire.script().sent(Op::Renew), 0, "the heartbeat counts from there");
    lease.release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn a_lease_that_has_ended_has_no_weak_fence() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    // Taken away behind its back: the store says so when it is asked.
    let lease = a.lease(ask("a")).await;
    site.leases.release(lease.extent(), lease.token()).await.unwrap();
    let other = b.lease(ask("b")).await;
    assert_eq!(lease.weak_fence().await.unwrap(), None);
    assert_eq!(lease.loss_reason(), Some(LossReason::NotOurs));
    assert!(other.is_valid());
    other.release().await;
    drop(lease);

    // Known before, and ended since.
    let lease = a.lease(ask("a")).await;
    assert!(lease.weak_fence().await.unwrap().is_some());
    lease.mark_fenced();
    assert_eq!(lease.weak_fence().await.unwrap(), None);
    drop(lease);
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn a_store_that_does_not_answer_gives_no_weak_fence_and_the_lease_goes_on() {
    let site = Site::new();
    let a = site.actor();
    let lease = Arc::new(a.lease(ask("a")).await);
    for fault in [Fault::LoseRequest, Fault::BreakReply, Fault::LoseReply] {
        a.wire.script().next(Op::Acquire, fault);
        let asking = {
            let lease = lease.clone();
            tokio::spawn(async move { lease.weak_fence().await })
        };
        site.pass(334).await;
        assert_eq!(asking.await.unwrap().unwrap_err().code(), "unavailable");
    }

    assert!(lease.is_valid());
    assert!(lease.weak_fence().await.unwrap().is_some());
    Arc::into_inner(lease).unwrap().release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn a_fence_that_nobody_waits_for_any_more_does_not_take_the_lease_again() {
    let site = Site::new();
    let a = site.actor();
    let gate = Gate::new();
    let lease = Arc::new(a.lease(ask("a")).await);
    a.wire.script().next(Op::Acquire, Fault::HoldRequest(gate.clone()));
    let asking = {
        let lease = lease.clone();
        tokio::spawn(async move { lease.weak_fence().await })
    };
    site.clock.settle().await;

    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    assert_eq!(Arc::into_inner(lease).unwrap().release().await, Released::Released);
    // It arrives after the release.
    gate.open();

    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn a_fence_is_told_as_text() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(AcquireAsk { ttl: ms(5_000), ..ask("a") }).await;

    let fence = lease.weak_fence().await.unwrap().unwrap();

    let text = fence.to_string();
    assert_eq!(text.parse::<u64>().unwrap(), fence.0);
    assert!(fence.0 > 1 << 53, "beyond what a float keeps");
    assert_eq!(serde_json::to_value(fence).unwrap(), serde_json::json!(text));
    lease.release().await;
    site.nothing_left(&[&a]).await;
}
