//! A store that is far away, hangs, or cannot be reached.

use fieldlease::{
    event::LossReason,
    hold::{AcquireAsk, Released},
    testing::{Fault, Gate, flaky::Op},
};

use super::futures;
use crate::leasing::{Actor, Site, ask, extent, held, ms, wait};

fn requests(actor: &Actor) -> Vec<(Op, usize)> {
    let ops = [Op::Acquire, Op::Renew, Op::Release, Op::Watch];
    ops.map(|op| (op, actor.wire.script().sent(op))).to_vec()
}

#[tokio::test]
async fn no_request_takes_longer_than_a_third_of_the_ttl() {
    for ttl in [100, 300, 1_000, 3_000] {
        let site = Site::new();
        let a = site.actor();
        a.wire.script().always(Op::Acquire, Fault::LoseRequest);
        let asking = a.spawn_result(AcquireAsk { ttl: ms(ttl), ..ask("a") });
        site.pass(ttl / 3 - 1).await;
        assert!(!asking.is_finished(), "ttl {ttl}");
        site.pass(2).await;
        assert!(asking.is_finished(), "ttl {ttl}");
        assert_eq!(asking.await.unwrap().unwrap_err().code(), "unavailable", "ttl {ttl}");
        // What may have been taken is given back, also when that is not answered.
        a.wire.black_hole();
        site.pass(3 * ttl).await;
        assert_eq!(a.manager.held(), 0, "ttl {ttl}");
        assert!(a.wire.script().sent(Op::Release) <= 3);

        a.wire.script().clear();
        let lease = a.lease(AcquireAsk { ttl: ms(ttl), ..ask("a") }).await;
        a.wire.script().always(Op::Release, Fault::LoseRequest);
        let releasing = tokio::spawn(lease.release());
        site.pass((ttl / 3).min(500) + 1).await;
        assert!(releasing.is_finished(), "ttl {ttl}");
        assert_eq!(releasing.await.unwrap(), Released::Unknown, "ttl {ttl}");
        site.pass(3 * ttl).await;
        site.nothing_left(&[&a]).await;
    }
}

#[tokio::test]
async fn renewals_that_hang_are_given_up_and_sent_again_down_the_ladder() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(ask("a")).await;
    a.wire.script().always(Op::Renew, Fault::LoseRequest);

    site.pass(833).await;
    assert_eq!(a.wire.script().sent(Op::Renew), 4, "at 500, 600, 700 and 800 ms");
    assert_eq!(a.log.count("renew_failed"), 0);
    site.pass(1).await;
    assert_eq!(a.log.count("renew_failed"), 1, "the first is given up after a third of the ttl");
    a.wire.script().clear();
    site.pass(50).await;

    assert!(lease.is_valid());
    assert_eq!(a.log.count("renewed"), 1);
    site.pass(450).await;
    lease.release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn a_process_whose_store_is_gone_neither_spins_nor_floods() {
    for hangs in [true, false] {
        let site = Site::new();
        let a = site.actor();
        let leases = futures(&a, 50).await;
        let waiters: Vec<_> = (0..50)
            .map(|n| {
                let extent = extent(&n.to_string(), &["media"]);
                a.spawn_result(AcquireAsk { extent, ..wait("w", 600_000) })
            })
            .collect();
        site.clock.settle().await;
        match hangs {
            true => a.wire.black_hole(),
            false => a.wire.cut(),
        }
        let before = requests(&a);

        site.pass(60_000).await;

        assert!(leases.iter().all(|lease| lease.loss_reason() == Some(LossReason::Expired)));
        for waiter in waiters {
            assert!(waiter.is_finished());
            assert_eq!(waiter.await.unwrap().unwrap_err().code(), "unavailable");
        }
        let after = requests(&a);
        let sent = |n: usize| after[n].1 - before[n].1;
        assert!(sent(0) <= 3 * 50, "{} requests to acquire", sent(0));
        assert!(sent(1) <= 6, "{} batches of renewals", sent(1));
        assert!(sent(2) <= 3 * 50, "{} releases", sent(2));
        // Nothing goes on once everything has ended.
        drop(leases);
        site.pass(60_000).await;
        let last = requests(&a);
        site.pass(600_000).await;
        assert_eq!(requests(&a)[..3], last[..3]);
        a.wire.script().clear();
        site.nothing_left(&[&a]).await;
    }
}

#[tokio::test]
async fn subscriptions_that_end_at_once_are_renewed_with_longer_and_longer_pauses() {
    let site = Site::new();
    let a = site.actor();
    a.wire.script().always(Op::Watch, Fault::RefuseRequest);

    site.pass(600_000).await;

    let tries = a.wire.script().sent(Op::Watch);
    assert!((100..=260).contains(&tries), "{tries} tries in ten minutes");
}

#[tokio::test]
async fn a_hundred_leases_lose_no_heartbeat_to_one_release_during_a_slow_renewal() {
    let site = Site::new();
    let a = site.actor();
    let mut leases = Vec::new();
    for n in 0..100 {
        let extent = extent(&n.to_string(), &["media"]);
        leases.push(a.lease(AcquireAsk { extent, ttl: ms(3_000), ..ask("a") }).await);
    }
    let gate = Gate::new();
    a.wire.script().next(Op::Renew, Fault::Stall(gate.clone()));
    site.pass(1_500).await;
    assert_eq!(a.wire.script().sent(Op::Renew), 1);

    let one = tokio::spawn(leases.remove(7).release());
    site.pass(260).await;

    assert_eq!(one.await.unwrap(), Released::Released);
    // The batch was dropped with the release, and the rest of it went out again at once: not one of its steps.
    assert_eq!(a.log.count("renewed"), 99);
    assert!(leases.iter().all(|lease| lease.deadline() > site.now().plus(ms(2_950))));
    drop(leases);
    site.pass(10).await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn leases_live_on_over_a_store_that_takes_a_fifth_of_their_ttl_to_answer() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    for actor in [&a, &b] {
        for op in [Op::Acquire, Op::Renew, Op::Release] {
            actor.wire.script().always(op, Fault::Delay(ms(200)));
        }
    }
    let first = a.spawn(wait("a", 60_000));
    site.pass(300).await;
    let first = held(first.await.unwrap());
    let second = b.spawn(wait("b", 60_000));

    site.pass(30_000).await;

    assert!(first.is_valid() && !second.is_finished());
    assert_eq!(a.log.count("renew_failed"), 0);
    let releasing = tokio::spawn(first.release());
    site.pass(700).await;
    assert_eq!(releasing.await.unwrap(), Released::Released);
    let second = held(second.await.unwrap());
    site.pass(5_000).await;
    assert!(second.is_valid());
    let releasing = tokio::spawn(second.release());
    site.pass(700).await;
    releasing.await.unwrap();
    site.pass(1_000).await;
    site.nothing_left(&[&a, &b]).await;
}
