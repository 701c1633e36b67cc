//! Messages of the store that never arrive: what a waiter hears when its place is renewed makes up for them.

use fieldlease::{
    hold::AcquireAsk,
    lease::{Acquire, Ask, LeaseStore, Wake},
    table::PLACE_TTL,
    testing::{Fault, Gate, flaky::Op},
    token::{Generation, HolderToken},
};

use crate::leasing::{Actor, Site, ask, extent, held, ms, wait};

/// Half of a place's time: how often it is renewed.
const RENEWAL: u64 = 1_000;

fn long(label: &str) -> AcquireAsk {
    AcquireAsk { ttl: ms(30_000), ..wait(label, 600_000) }
}

/// A waiter that died: it has a place and does nothing more.
async fn dead_place(site: &Site, n: u128) {
    let dead = Ask {
        extent: extent("1", &["media"]),
        token: HolderToken(n.to_be_bytes()),
        ttl: ms(30_000),
        ttl_max: ms(60_000),
        label: "dead".into(),
        generation: Generation([1; 32]),
        queue: true,
        order: false,
    };
    assert!(matches!(site.leases.acquire(&dead).await.unwrap(), Acquire::Held { .. }));
}

async fn until_served(site: &Site, waiter: &tokio::task::JoinHandle<fieldlease::hold::Acquired>) {
    for _ in 0..60_000 {
        if waiter.is_finished() {
            return;
        }
        site.pass(1).await;
    }
    panic!("not served within a minute");
}

fn no_grants(actors: &[&Actor]) {
    for actor in actors {
        actor.wire.lose_wakes(|wake| matches!(wake, Wake::Granted(_) | Wake::Try(_)));
    }
}

#[tokio::test]
async fn a_lost_grant_costs_at_most_one_renewal_of_the_place() {
    // Released anywhere between two renewals of the place.
    for after in [0, 1, 300, 999, 1_000, 1_001, 1_700, 5_432] {
        let site = Site::new();
        let (a, b) = (site.actor(), site.actor());
        no_grants(&[&a, &b]);
        let lease = a.lease(AcquireAsk { ttl: ms(30_000), ..ask("a") }).await;
        let waiter = b.spawn(long("b"));
        site.pass(after).await;
        let (released, asked) = (site.now(), b.wire.script().sent(Op::Acquire));

        lease.release().await;
        until_served(&site, &waiter).await;

        let took = site.now().since(released);
        assert!(took <= ms(RENEWAL), "released after {after} ms: {took:?}");
        let asked = b.wire.script().sent(Op::Acquire) - asked;
        assert_eq!(asked, 1, "the renewal says granted, and one request confirms it");
        let lease = held(waiter.await.unwrap());
        site.pass(20_000).await;
        assert!(lease.is_valid());
        lease.release().await;
        site.nothing_left(&[&a, &b]).await;
    }
}

#[tokio::test]
async fn a_whole_line_is_served_though_every_grant_is_lost() {
    for ttl in [200, 1_000, 30_000] {
        let site = Site::new();
        let actors: Vec<Actor> = (0..6).map(|_| site.actor()).collect();
        no_grants(&actors.iter().collect::<Vec<_>>());
        let first = actors[0].lease(AcquireAsk { ttl: ms(ttl), ..ask("a") }).await;
        let mut waiters = Vec::new();
        for actor in &actors[1..] {
            waiters.push(actor.spawn(AcquireAsk { ttl: ms(ttl), ..wait("w", 600_000) }));
            site.pass(170).await;
        }
        let start = site.now();
        first.release().await;

        while let Some(at) = {
            site.pass(10).await;
            waiters.iter().position(|waiter| waiter.is_finished())
        }
        .or((!waiters.is_empty()).then_some(usize::MAX))
        {
            assert!(site.now().since(start) < ms(60_000), "ttl {ttl}: {} left", waiters.len());
            if at < waiters.len() {
                held(waiters.remove(at).await.unwrap()).release().await;
            }
        }

        let took = site.now().since(start);
        assert!(took <= ms(5 * (RENEWAL + 10)), "ttl {ttl}: five waiters took {took:?}");
        site.nothing_left(&actors.iter().collect::<Vec<_>>()).await;
    }
}

#[tokio::test]
async fn a_dead_head_costs_the_time_of_its_place_and_not_a_moment_more() {
    for dead in [1, 3] {
        // The waiter may be deaf as well.
        for deaf in [false, true] {
            let site = Site::new();
            let (a, b) = (site.actor(), site.actor());
            site.clock.settle().await;
            if deaf {
                no_grants(&[&b]);
            }
            let lease = a.lease(AcquireAsk { ttl: ms(30_000), ..ask("a") }).await;
            for n in 0..dead {
                dead_place(&site, n + 1).await;
            }
            let waiter = b.spawn(long("b"));
            site.pass(1_337).await;
            for n in 0..dead {
                // The place was kept until now; nothing is heard of it from here on.
                dead_place(&site, n + 1).await;
            }
            let released = site.now();

            lease.release().await;
            until_served(&site, &waiter).await;

            let took = site.now().since(released);
            assert!(took >= PLACE_TTL, "the dead head was granted first");
            assert!(took <= PLACE_TTL + ms(10), "{dead} dead, deaf {deaf}: {took:?}");
            held(waiter.await.unwrap()).release().await;
            site.nothing_left(&[&a, &b]).await;
        }
    }
}

#[tokio::test]
async fn a_crashed_holder_ends_for_a_waiter_that_hears_nothing_when_its_lease_does() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    no_grants(&[&b]);
    let lease = a.lease(AcquireAsk { ttl: ms(30_000), ..ask("a") }).await;
    site.pass(100).await;
    let waiter = b.spawn(long("b"));
    // The last renewal that arrives; then it crashes.
    site.pass(14_900).await;
    assert_eq!(a.wire.script().sent(Op::Renew), 1);
    a.wire.black_hole();
    let renewed = site.now();

    until_served(&site, &waiter).await;

    let took = site.now().since(renewed);
    assert!(took >= ms(30_000) && took <= ms(30_010), "{took:?}");
    held(waiter.await.unwrap()).release().await;
    drop(lease);
    site.pass(40_000).await;
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn a_grant_that_is_heard_while_its_place_is_renewed_is_confirmed_by_that_renewal() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    site.clock.settle().await;
    let gate = Gate::new();
    b.wire.script().next(Op::Renew, Fault::HoldRequest(gate.clone()));
    // The renewal that follows the grant at once.
    b.wire.script().next(Op::Renew, Fault::LoseRequest);
    let lease = a.lease(AcquireAsk { ttl: ms(30_000), ..ask("a") }).await;
    let waiter = b.spawn(long("b"));
    site.pass(1_010).await;

    lease.release().await;
    let lease = held(waiter.await.unwrap());
    let short = lease.deadline();
    gate.open();
    site.clock.settle().await;

    assert!(short < site.now().plus(ms(2_000)));
    assert!(lease.deadline() > site.now().plus(ms(29_000)), "{:?}", lease.deadline());
    assert_eq!((b.wire.script().sent(Op::Acquire), b.wire.script().sent(Op::Renew)), (1, 2));
    site.pass(14_000).await;
    assert_eq!(b.wire.script().sent(Op::Renew), 2, "the heartbeat counts from there");
    lease.release().await;
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn a_waiter_asks_no_more_often_than_it_has_to() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    for (ttl, most) in [(30_000, 4), (1_000, 130)] {
        let lease = a.lease(AcquireAsk { ttl: ms(ttl), ..ask("a") }).await;
        let waiter = b.spawn(AcquireAsk { ttl: ms(ttl), ..wait("b", 600_000) });
        let before = b.wire.script().sent(Op::Acquire);

        site.pass(60_000).await;

        let asked = b.wire.script().sent(Op::Acquire) - before;
        assert!(asked <= most, "ttl {ttl}: asked {asked} times in a minute");
        lease.release().await;
        held(waiter.await.unwrap()).release().await;
        site.nothing_left(&[&a, &b]).await;
    }
}
