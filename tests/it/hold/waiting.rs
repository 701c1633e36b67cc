//! Waiters: order, hand-over, patience, cancellation.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use fieldlease::{
    hold::{AcquireAsk, Acquired, Released},
    lease::LeaseStore,
    registry::OnBusy,
    testing::{Fault, Gate, flaky::Op},
};

use crate::leasing::{Site, ask, held, ms, wait};

#[tokio::test]
async fn waiters_are_served_in_the_order_they_came_within_a_process() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(ask("a")).await;
    let order: Arc<Mutex<Vec<usize>>> = Arc::default();

    let waiters: Vec<_> = (0..20)
        .map(|n| {
            let (manager, order) = (a.manager.clone(), order.clone());
            tokio::spawn(async move {
                let lease = held(manager.acquire(wait("w", 60_000)).await.unwrap());
                order.lock().unwrap().push(n);
                assert!(lease.is_valid());
                assert_eq!(lease.release().await, Released::Released);
            })
        })
        .collect();
    site.clock.settle().await;
    assert_eq!(a.manager.waiting(), 20);
    lease.release().await;
    for waiter in waiters {
        waiter.await.unwrap();
    }

    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    // One token at the store served them all (RULES 17).
    assert_eq!(a.wire.script().sent(Op::Acquire), 1);
    assert_eq!(a.wire.script().sent(Op::Release), 1);
    assert_eq!((a.log.count("granted"), a.log.count("released")), (21, 21));
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn a_hand_over_gives_another_token_and_a_deadline_of_its_own() {
    let site = Site::new();
    let a = site.actor();
    let first = a.lease(ask("a")).await;
    let waiter = a.spawn(wait("w", 60_000));
    site.pass(300).await;

    let (token, signal) = (first.token(), first.lost());
    assert_eq!(first.release().await, Released::Released);
    let second = held(waiter.await.unwrap());

    assert_ne!(second.token(), token);
    assert_eq!(second.waited(), ms(300));
    assert_eq!(second.deadline(), site.now().plus(ms(690)));
    assert!(!signal.is_cancelled());
    second.release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn a_waiter_of_another_process_is_granted_on_release_without_polling() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    site.clock.settle().await;
    let lease = a.lease(ask("a")).await;
    let waiter = b.spawn(wait("b", 60_000));
    site.pass(700).await;
    let asked = b.wire.script().sent(Op::Acquire);

    lease.release().await;
    let lease = held(waiter.await.unwrap());

    assert_eq!(asked, 1, "it does not poll");
    assert_eq!(b.wire.script().sent(Op::Acquire), 1, "the grant comes with the wake-up");
    assert_eq!(lease.waited(), ms(700));
    assert!(lease.is_valid());
    lease.release().await;
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn a_grant_by_wake_up_is_confirmed_before_its_short_time_ends() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    let long = |label| AcquireAsk { ttl: ms(30_000), ..wait(label, 60_000) };
    let lease = a.lease(long("a")).await;
    let waiter = b.spawn(long("b"));
    site.pass(1_500).await;
    lease.release().await;
    let lease = held(waiter.await.unwrap());

    // Its place was renewed at 1,000 ms, so that is when trust begins; unconfirmed, it is short.
    assert_eq!(lease.deadline(), site.now().plus(ms(1_480)));
    site.pass(3_000).await;

    assert!(lease.is_valid());
    assert!(lease.deadline() > site.now().plus(ms(20_000)));
    lease.release().await;
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn local_hand_over_gives_way_to_others_after_its_number_or_a_ttl() {
    for (hold, least, most) in [(0, 64, 64), (100, 9, 11)] {
        let site = Site::new();
        let (a, b) = (site.actor(), site.actor());
        let lease = a.lease(ask("a")).await;
        let served = Arc::new(AtomicUsize::new(0));
        for _ in 0..200 {
            let (manager, served, clock) = (a.manager.clone(), served.clone(), site.clock.clone());
            tokio::spawn(async move {
                let Acquired::Held(lease) = manager.acquire(wait("a", 900_000)).await.unwrap()
                else {
                    panic!("not held")
                };
                served.fetch_add(1, Ordering::Relaxed);
                if hold > 0 {
                    use fieldlease::clock::Clock;
                    clock.sleep_until(clock.now().plus(ms(hold))).await;
                }
                lease.release().await;
            });
        }
        site.clock.settle().await;
        let other = b.spawn(wait("b", 900_000));
        site.clock.settle().await;
        lease.release().await;
        while !other.is_finished() {
            site.pass(50).await;
        }

        let before = served.load(Ordering::Relaxed);
        assert!((least..=most).contains(&before), "{before} served before the other process");
        held(other.await.unwrap()).release().await;
        while a.manager.waiting() > 0 {
            site.pass(500).await;
        }
        site.pass(1_000).await;
        assert_eq!(served.load(Ordering::Relaxed), 200);
        site.nothing_left(&[&a, &b]).await;
    }
}

#[tokio::test]
async fn patience_that_ends_leaves_no_place_behind() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    let lease = a.lease(ask("a")).await;
    let waiter = b.spawn(wait("b", 300));
    let local = a.spawn(wait("c", 200));

    site.pass(400).await;

    for (waiter, remaining) in [(waiter, 1_000), (local, 790)] {
        let busy = waiter.await.unwrap();
        let Acquired::Busy { by, .. } = busy else { panic!("{busy:?}") };
        assert_eq!(&*by[0].label, "a");
        assert_eq!(by[0].remaining, ms(remaining));
    }
    assert_eq!((site.leases.waiting(), a.manager.waiting(), b.manager.waiting()), (0, 0, 0));
    lease.release().await;
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_nothing_behind_at_any_point() {
    for fault in ["none", "request held", "reply held", "request lost", "broken"] {
        for held_by_other in [false, true] {
            for local in [false, true] {
                let site = Site::new();
                let (a, b) = (site.actor(), site.actor());
                let other = if held_by_other { Some(a.lease(ask("a")).await) } else { None };
                let gate = Gate::new();
                match fault {
                    "request held" => {
                        b.wire.script().next(Op::Acquire, Fault::HoldRequest(gate.clone()))
                    }
                    "reply held" => {
                        b.wire.script().next(Op::Acquire, Fault::HoldReply(gate.clone()))
                    }
                    "request lost" => b.wire.script().next(Op::Acquire, Fault::LoseRequest),
                    "broken" => b.wire.script().next(Op::Acquire, Fault::BreakReply),
                    _ => {}
                }
                let mut callers = vec![b.spawn(wait("b", 60_000))];
                if local {
                    callers.push(b.spawn(wait("b2", 60_000)));
                }
                site.clock.settle().await;

                for caller in &callers {
                    caller.abort();
                }
                site.clock.settle().await;
                gate.open();
                drop(other);
                site.pass(3_000).await;

                for caller in callers {
                    // One that was served at once is done; its lease was dropped with its task.
                    drop(caller.await);
                }
                site.nothing_left(&[&a, &b]).await;
            }
        }
    }
}

#[tokio::test]
async fn a_waiter_that_is_cancelled_passes_what_it_was_given_on() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(ask("a")).await;
    let (first, second) = (a.spawn(wait("1", 60_000)), a.spawn(wait("2", 60_000)));
    site.clock.settle().await;

    // The first is chosen by the release, and gone before it can look.
    lease.release().await;
    first.abort();
    site.clock.settle().await;

    held(second.await.unwrap()).release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn every_retry_of_the_retry_policy_is_one_try_and_they_end() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    let lease = a.lease(ask("a")).await;
    let on_busy = OnBusy::Retry { times: 3, from: ms(10), to: ms(100) };

    let busy = b.spawn(AcquireAsk { on_busy, ..ask("b") });
    site.pass(1_000).await;
    let busy = busy.await.unwrap();

    assert!(matches!(busy, Acquired::Busy { .. }), "{busy:?}");
    assert_eq!(b.wire.script().sent(Op::Acquire), 4);
    let later = b.spawn(AcquireAsk { on_busy, ..ask("b") });
    site.clock.settle().await;
    lease.release().await;
    site.pass(1_000).await;
    held(later.await.unwrap()).release().await;
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn a_waiter_hears_nothing_and_is_served_by_its_own_timer() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    b.wire.script().always(Op::Watch, Fault::LoseRequest);
    let deaf = site.actor();
    deaf.wire.script().next(Op::Watch, Fault::LoseRequest);
    let lease = a.lease(ask("a")).await;
    let waiter = deaf.spawn(wait("deaf", 60_000));
    site.pass(100).await;

    lease.release().await;
    site.pass(1_100).await;

    let lease = held(waiter.await.unwrap());
    assert!(lease.is_valid());
    lease.release().await;
    site.nothing_left(&[&a, &b, &deaf]).await;
}

#[tokio::test]
async fn the_present_holder_is_shown_after_a_hand_over_with_everybody_who_waits() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    let first = a.lease(ask("first")).await;
    let second = a.spawn(wait("second", 60_000));
    site.clock.settle().await;
    let third = a.spawn(wait("third", 60_000));
    let others: Vec<_> = (0..3).map(|_| b.spawn(wait("other", 60_000))).collect();
    site.pass(400).await;
    first.release().await;
    let lease = held(second.await.unwrap());
    site.pass(50).await;

    let entity = lease.extent().entity().clone();
    let mut shown = site.leases.inspect(Some(&entity), None, 10).await.unwrap().0;
    assert_eq!((&*shown[0].label, shown[0].held, shown[0].waiting), ("first", ms(450), 1));
    a.manager.overlay(&mut shown);
    assert_eq!((&*shown[0].label, shown[0].held, shown[0].waiting), ("second", ms(50), 2));
    // The other process knows of its three, of which the store counts one place.
    b.manager.overlay(&mut shown);
    assert_eq!((&*shown[0].label, shown[0].waiting), ("second", 4));
    let here = a.manager.held_here(&entity);
    assert_eq!((&*here[0].label, here[0].held, here[0].waiting), ("second", ms(50), 1));
    assert_eq!((here.len(), b.manager.held_here(&entity).len()), (1, 0));

    lease.release().await;
    for waiter in [third].into_iter().chain(others) {
        while !waiter.is_finished() {
            site.pass(10).await;
        }
        held(waiter.await.unwrap()).release().await;
    }
    site.nothing_left(&[&a, &b]).await;
}
