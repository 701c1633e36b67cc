//! Times to live and clocks: cases LC-13 and LC-14.

use std::time::Duration;

use fieldlease::{
    event::LossReason,
    hold::{AcquireAsk, Released},
    lease::LeaseStore,
    testing::{Fault, Gate, flaky::Op},
};

use crate::leasing::{Site, ask, held, ms, wait};

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
