//! Queues, ids and fairness: cases LC-08, LC-10 and LC-18.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fieldlease::{
    clock::{Clock, Moment},
    hold::{AcquireAsk, Acquired, Released},
    lease::{Acquire, Ask, LeaseStore, Renew, Renewal},
    registry::OnBusy,
    table::PLACE_TTL,
    testing::flaky::Op,
    token::{Generation, HolderToken},
};

use crate::leasing::{Actor, Site, ask, extent, held, ms, wait};

fn place(n: u64) -> Ask {
    Ask {
        extent: extent("1", &["media"]),
        token: HolderToken((u128::from(n) << 64).to_be_bytes()),
        ttl: ms(60_000),
        ttl_max: ms(60_000),
        label: "dead".into(),
        generation: Generation([1; 32]),
        queue: true,
        order: false,
    }
}

#[tokio::test]
async fn lc_08_waiters_that_leave_die_or_stand_at_the_head() {
    let site = Site::new();
    let long = |label, on_busy| AcquireAsk { ttl: ms(60_000), on_busy, ..ask(label) };
    let a = site.actor();
    let actors: Vec<Actor> = (0..9).map(|_| site.actor()).collect();
    site.clock.settle().await;
    let holder = a.lease(long("a", OnBusy::Fail)).await;
    let served: Arc<Mutex<BTreeMap<usize, Vec<usize>>>> = Arc::default();
    // One process died while it waited with a hundred; one of them is at the head.
    for n in 0..100 {
        assert!(matches!(site.leases.acquire(&place(n)).await.unwrap(), Acquire::Held { .. }));
    }
    let (mut live, mut cancelled, mut impatient) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..900_usize {
        let actor = n % actors.len();
        let patience = match n / 9 % 9 {
            0..=4 => Duration::MAX,
            _ => ms(10 + (n as u64 * 7_919) % 490),
        };
        let (manager, clock, served) =
            (actors[actor].manager.clone(), site.clock.clone(), served.clone());
        let request = long("w", OnBusy::Wait(patience));
        let task = tokio::spawn(async move {
            let Acquired::Held(lease) = manager.acquire(request).await.unwrap() else {
                return false;
            };
            served.lock().unwrap().entry(actor).or_default().push(n);
            clock.sleep_until(clock.now().plus(ms(1))).await;
            lease.release().await == Released::Released
        });
        match n / 9 % 9 {
            0 | 1 => live.push(task),
            2..=4 => cancelled.push(task),
            _ => impatient.push(task),
        }
    }
    site.pass(800).await;
    for task in &cancelled {
        task.abort();
    }
    site.pass(200).await;
    let waiting: usize = actors.iter().map(|actor| actor.manager.waiting()).sum();
    assert_eq!(waiting, live.len());
    let released = site.now();

    holder.release().await;
    site.pass(3_000).await;

    // The dead cost one place's time in all, not one each.
    let count: usize = served.lock().unwrap().values().map(Vec::len).sum();
    assert_eq!(count, live.len(), "after {:?}", site.now().since(released));
    for task in live {
        assert!(task.await.unwrap());
    }
    for task in impatient {
        assert!(!task.await.unwrap());
    }
    for order in served.lock().unwrap().values() {
        assert!(order.is_sorted(), "{order:?}");
    }
    let everybody: Vec<&Actor> = actors.iter().collect();
    site.nothing_left(&everybody).await;
}

#[tokio::test]
async fn lc_08_a_waiter_keeps_its_place_for_ten_minutes() {
    let site = Site::new();
    let (a, b, c) = (site.actor(), site.actor(), site.actor());
    let long = |label, on_busy| AcquireAsk { ttl: ms(60_000), on_busy, ..ask(label) };
    let holder = a.lease(long("a", OnBusy::Fail)).await;
    let waiter = b.spawn(long("b", OnBusy::Wait(Duration::MAX)));
    site.clock.settle().await;

    for _ in 0..60 {
        let joins = c.spawn(long("c", OnBusy::Wait(ms(5_000))));
        site.pass(10_000).await;
        assert!(matches!(joins.await.unwrap(), Acquired::Busy { .. }));
        assert_eq!(site.leases.waiting(), 1);
    }
    let late = c.spawn(long("c", OnBusy::Wait(Duration::MAX)));
    site.clock.settle().await;
    holder.release().await;

    let lease = held(waiter.await.unwrap());
    assert!(lease.waited() >= ms(600_000) && lease.is_valid());
    assert!(!late.is_finished());
    lease.release().await;
    held(late.await.unwrap()).release().await;
    site.nothing_left(&[&a, &b, &c]).await;
}

#[tokio::test]
async fn lc_08_a_waiter_of_a_dead_process_costs_one_place_once() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    let holder = a.lease(ask("a")).await;
    for n in 0..3 {
        site.leases.acquire(&place(n)).await.unwrap();
    }
    let waiter = b.spawn(wait("b", 60_000));
    site.clock.settle().await;
    let released = site.now();

    holder.release().await;
    while !waiter.is_finished() {
        site.pass(10).await;
    }

    assert!(site.now().since(released) <= PLACE_TTL + ms(20), "{:?}", site.now().since(released));
    held(waiter.await.unwrap()).release().await;
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn lc_10_ids_that_look_alike_do_not_meet() {
    let site = Site::new();
    let a = site.actor();
    let long = "\u{e9}".repeat(128);
    let ids = ["a{b}c", "abc", "{}", "}x{", "", &long, "a:b", "a\nb", "a\0b"];

    let mut leases = Vec::new();
    for id in ids {
        leases.push(
            a.lease(AcquireAsk { extent: extent(id, &["media", "search"]), ..ask("a") }).await,
        );
    }

    assert_eq!(a.wire.script().sent(Op::Acquire), ids.len(), "several groups are one round trip");
    for lease in leases {
        assert_eq!(lease.release().await, Released::Released);
    }
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn lc_18_the_same_group_serialises_other_groups_and_entities_do_not() {
    const ROUNDS: u64 = 50;
    let site = Site::new();
    let actors = [site.actor(), site.actor(), site.actor(), site.actor()];
    let groups = ["media", "search", "prices"];
    let counters: Arc<[AtomicU64; 6]> = Arc::default();
    let spans: Arc<Mutex<Vec<(usize, Moment, Moment)>>> = Arc::default();

    let mut workers = Vec::new();
    for slot in 0..6 {
        for n in 0..20 {
            let (manager, clock) = (actors[n % 4].manager.clone(), site.clock.clone());
            let (counters, spans) = (counters.clone(), spans.clone());
            let request = AcquireAsk {
                extent: extent(&(slot / 3).to_string(), &[groups[slot % 3]]),
                ..wait("w", 3_600_000)
            };
            workers.push(tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let lease = held(manager.acquire(request.clone()).await.unwrap());
                    let (start, read) = (clock.now(), counters[slot].load(Ordering::Relaxed));
                    clock.sleep_until(start.plus(ms(5))).await;
                    counters[slot].store(read + 1, Ordering::Relaxed);
                    spans.lock().unwrap().push((slot, start, clock.now()));
                    assert!(lease.is_valid());
                    lease.release().await;
                }
            }));
        }
    }
    let start = site.now();
    while workers.iter().any(|worker| !worker.is_finished()) {
        site.pass(50).await;
        assert!(site.now().since(start) < ms(600_000), "not done");
    }

    for counter in &*counters {
        assert_eq!(counter.load(Ordering::Relaxed), 20 * ROUNDS);
    }
    let spans = std::mem::take(&mut *spans.lock().unwrap());
    let wall = spans.iter().map(|(_, _, end)| end.since(start)).max().unwrap();
    let held: Duration = spans.iter().map(|(_, from, to)| to.since(*from)).sum();
    assert!(held >= wall * 5, "held {held:?} in {wall:?}");
    for slot in 0..6 {
        let mut own: Vec<_> = spans.iter().filter(|span| span.0 == slot).collect();
        own.sort_by_key(|span| span.1);
        assert!(own.windows(2).all(|pair| pair[0].2 <= pair[1].1), "two at once in slot {slot}");
    }
    site.nothing_left(&actors.iter().collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn lc_18_a_release_of_one_group_wakes_nobody_who_waits_for_another() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    let on = |group: &str, label: &str| AcquireAsk {
        extent: extent("1", &[group]),
        ..wait(label, 60_000)
    };
    let search = a.lease(on("search", "a")).await;
    let waiters: Vec<_> = (0..10).map(|_| b.spawn(on("search", "b"))).collect();
    site.pass(10).await;
    let before = b.wire.script().sent(Op::Acquire);

    for _ in 0..20 {
        a.lease(on("media", "a")).await.release().await;
        site.clock.settle().await;
    }

    assert_eq!(b.wire.script().sent(Op::Acquire), before);
    search.release().await;
    for waiter in waiters {
        held(waiter.await.unwrap()).release().await;
    }
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn a_holder_that_crashes_blocks_nobody_longer_than_its_ttl() {
    let site = Site::new();
    let b = site.actor();
    let crashed = Ask { queue: false, ttl: ms(1_000), ..place(7) };
    assert_eq!(site.leases.acquire(&crashed).await.unwrap(), Acquire::Granted { order: None });
    let waiter = b.spawn(wait("b", 60_000));
    site.pass(500).await;
    let renew = Renew { extent: crashed.extent.clone(), token: crashed.token, ttl: ms(1_000) };
    assert_eq!(site.leases.renew(&[renew]).await, [Renewal::Renewed]);

    // It dies here; its last renewal counts from 500 ms.
    site.pass(1_020).await;

    let lease = held(waiter.await.unwrap());
    assert!(lease.waited() >= ms(1_500) && lease.waited() <= ms(1_520), "{:?}", lease.waited());
    lease.release().await;
    site.nothing_left(&[&b]).await;
}

#[tokio::test]
async fn a_tight_loop_does_not_starve_another_process() {
    let site = Site::new();
    let (greedy, modest) = (site.actor(), site.actor());
    let (manager, clock) = (greedy.manager.clone(), site.clock.clone());
    let looping = tokio::spawn(async move {
        loop {
            let lease = held(manager.acquire(wait("greedy", 60_000)).await.unwrap());
            clock.sleep_until(clock.now().plus(ms(1))).await;
            lease.release().await;
        }
    });
    site.pass(20).await;

    for _ in 0..20 {
        let start = site.now();
        let waiter = modest.spawn(wait("modest", 60_000));
        while !waiter.is_finished() {
            site.pass(1).await;
        }
        held(waiter.await.unwrap()).release().await;
        assert!(site.now().since(start) <= ms(1_000), "waited {:?}", site.now().since(start));
    }
    looping.abort();
    site.pass(10).await;
    site.nothing_left(&[&greedy, &modest]).await;
}
