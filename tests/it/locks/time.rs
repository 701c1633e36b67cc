//! Times to live and clocks: cases LC-13 and LC-14, but for LC-14 f: a statement that is sent late is a matter of the record store.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    event::LossReason,
    hold::{AcquireAsk, Released},
    lease::{Ask, LeaseStore, memory::MemoryLeases},
    testing::{Fault, Gate, ManualClock, flaky::Op},
    token::{Generation, HolderToken},
};

use crate::leasing::{Site, ask, extent, held, ms, wait};

#[tokio::test]
async fn lc_13_a_lease_never_lives_longer_than_its_ttl_or_for_ever() {
    let site = Site::new();
    let a = site.actor();
    for ttl in [ms(100), ms(101), Duration::from_micros(1_500_700), ms(30_000), ms(86_400_000)] {
        let request =
            AcquireAsk { ttl, ttl_max: ms(86_400_000), max_hold: Duration::MAX, ..ask("a") };
        let lease = a.lease(request).await;
        for _ in 0..3 {
            let held = site.leases.inspect(None, None, 1).await.unwrap().0;
            assert_eq!(held.len(), 1, "{ttl:?}: {:?}", a.log.lines());
            let left = held[0].remaining;
            assert!(!left.is_zero() && left <= ttl, "{left:?} of {ttl:?}");
            assert!(lease.deadline() < site.now().plus(left), "trust ends before the lease");
            site.clock.advance(ttl / 2).await;
        }
        assert!(lease.is_valid(), "{ttl:?}");
        lease.release().await;
    }
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn lc_14_the_wall_clock_has_no_say() {
    for hour in [3_600_000_000_i64, -3_600_000_000] {
        let site = Site::new();
        let (a, b) = (site.actor(), site.actor());
        let lease = a.lease(ask("a")).await;
        let waiter = b.spawn(wait("b", 10_000));
        site.pass(100).await;

        site.clock.shift_wall(hour);
        site.pass(5_000).await;

        assert!(lease.is_valid() && !waiter.is_finished());
        lease.release().await;
        held(waiter.await.unwrap()).release().await;
        site.nothing_left(&[&a, &b]).await;
    }
}

/// A store whose clock runs apart from that of the processes, as it does on another machine.
struct FarSite {
    site: Site,
    /// The store's own.
    store_clock: Arc<ManualClock>,
}

impl FarSite {
    fn new() -> Self {
        let store_clock = Arc::new(ManualClock::new());
        let leases = Arc::new(MemoryLeases::new(store_clock.clone()));
        let site = Site { clock: Arc::new(ManualClock::new()), leases };
        Self { site, store_clock }
    }

    async fn pass(&self, by: u64) {
        for _ in 0..by {
            self.store_clock.jump(ms(1));
            self.site.clock.advance(ms(1)).await;
        }
    }
}

#[tokio::test]
async fn lc_14_c_a_store_whose_clock_jumps_ahead_is_noticed_at_the_next_renewal() {
    let far = FarSite::new();
    let (a, b) = (far.site.actor(), far.site.actor());
    let lease = a.lease(ask("a")).await;
    far.pass(100).await;

    far.store_clock.jump(ms(3_600_000));
    let other = b.lease(ask("b")).await;
    // Both are trusted for a moment: what either writes is decided by the claims, as in LC-06.
    assert!(lease.is_valid());
    far.pass(399).await;
    assert!(lease.is_valid());
    far.pass(1).await;

    assert!(!lease.is_valid(), "its heartbeat is told");
    assert_eq!(lease.loss_reason(), Some(LossReason::NotOurs));
    assert_eq!(lease.release().await, Released::Lost);
    far.pass(2_000).await;
    assert!(other.is_valid(), "the successor is left alone");
    other.release().await;
    far.site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn lc_14_c_waiters_are_served_in_order_though_the_clock_of_the_store_jumps_ahead() {
    let far = FarSite::new();
    let actors = [far.site.actor(), far.site.actor(), far.site.actor()];
    let lease = actors[0].lease(ask("a")).await;
    let mut waiters = Vec::new();
    for actor in &actors[1..] {
        waiters.push(actor.spawn(wait("w", 600_000)));
        far.pass(50).await;
    }

    // Every place and the holder's lease end at once; the waiters come back by themselves.
    far.store_clock.jump(ms(3_600_000));
    far.pass(2_100).await;

    assert!(!lease.is_valid());
    drop(lease);
    for waiter in waiters {
        for _ in 0..30 {
            if waiter.is_finished() {
                break;
            }
            far.pass(100).await;
        }
        assert_eq!(held(waiter.await.unwrap()).release().await, Released::Released);
    }
    far.site.nothing_left(&actors.iter().collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn lc_14_d_a_lease_that_a_clock_set_back_keeps_for_an_hour_too_long_is_cut_or_broken() {
    for breaks in [false, true] {
        let site = Site::new();
        let b = site.actor();
        // As the store sees it after its clock went back by an hour: its holder crashed.
        let crashed = Ask {
            extent: extent("1", &["media"]),
            token: HolderToken([9; 16]),
            ttl: ms(3_601_000),
            ttl_max: ms(86_400_000),
            label: "crashed".into(),
            generation: Generation([1; 32]),
            queue: false,
            order: false,
        };
        site.leases.acquire(&crashed).await.unwrap();
        let shown = site.leases.inspect(None, None, 1).await.unwrap().0;
        assert_eq!(shown[0].remaining, ms(3_601_000));
        let start = site.now();
        let waiter = b.spawn(wait("b", 600_000));
        site.pass(100).await;
        let shown = site.leases.inspect(None, None, 1).await.unwrap().0;
        assert_eq!(shown[0].remaining, ms(59_900), "cut to the group's longest time to live");

        let expected = if breaks {
            site.leases.break_lease(&shown[0].scope, "its holder is dead").await.unwrap();
            ms(100)
        } else {
            ms(60_000)
        };
        while !waiter.is_finished() {
            site.pass(1).await;
        }

        let took = site.now().since(start);
        assert!(took >= expected && took <= expected + ms(10), "breaks {breaks}: {took:?}");
        held(waiter.await.unwrap()).release().await;
        site.nothing_left(&[&b]).await;
    }
}

#[tokio::test]
async fn lc_14_e_a_suspended_holder_knows_before_it_does_anything() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(AcquireAsk { ttl: ms(2_000), ..ask("a") }).await;
    let signal = lease.lost();
    site.pass(1_000).await;

    site.clock.jump(ms(10_000));

    // No task has run since: the handle itself looks at the clock.
    assert!(!lease.is_valid());
    assert!(signal.is_cancelled());
    site.clock.settle().await;
    assert_eq!(a.log.count("lost:Expired"), 1);
    assert_eq!(a.wire.script().sent(Op::Renew), 1, "nothing is renewed after the loss");
    assert_eq!(lease.release().await, Released::Lost);
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn a_confirmation_that_comes_after_the_deadline_does_not_revive() {
    let site = Site::new();
    let a = site.actor();
    let gate = Gate::new();
    a.wire.script().next(Op::Renew, Fault::HoldReply(gate.clone()));
    a.wire.script().always(Op::Renew, Fault::LoseRequest);
    let lease = a.lease(ask("a")).await;

    site.clock.advance(ms(985)).await;
    assert!(lease.is_valid());
    site.clock.jump(ms(10));
    gate.open();
    site.clock.settle().await;

    assert!(!lease.is_valid());
    assert_eq!(lease.loss_reason(), Some(LossReason::Expired));
    // The store has prolonged it all the same; giving it back frees it.
    assert_eq!(lease.release().await, Released::Lost);
    site.nothing_left(&[&a]).await;
}
