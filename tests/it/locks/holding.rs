//! Losing, releasing and renewing: cases LC-01 to LC-06.

use std::sync::{Arc, Mutex};

use fieldlease::{
    event::LossReason,
    hold::{AcquireAsk, Acquired, Released, Settings},
    lease::LeaseStore,
    registry::OnBusy,
    testing::{Fault, FlakyLeases, Gate, flaky::Op},
    token::HolderToken,
};

use crate::leasing::{Site, ask, held, ms, wait};

/// A guarded row: what the record store does with claims, in two lines (RULES 12).
#[derive(Default)]
struct Row(Mutex<(u64, Option<HolderToken>, Vec<&'static str>)>);

impl Row {
    fn claim(&self, holder: HolderToken) -> u64 {
        let mut row = self.0.lock().unwrap();
        row.0 += 1;
        row.1 = Some(holder);
        row.0
    }

    fn write(
        &self,
        holder: HolderToken,
        fence: u64,
        what: &'static str,
    ) -> Result<(), &'static str> {
        let mut row = self.0.lock().unwrap();
        if row.0 != fence || row.1 != Some(holder) {
            return Err("fenced");
        }
        row.2.push(what);
        Ok(())
    }

    fn written(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().2.clone()
    }
}

#[tokio::test]
async fn lc_01_late_release_must_not_free_the_successor() {
    let site = Site::new();
    let (a, b, c) = (site.actor(), site.actor(), site.actor());
    a.wire.script().always(Op::Renew, Fault::LoseRequest);
    let row = Row::default();
    let first = a.lease(ask("a")).await;
    let (start, f1) = (site.now(), row.claim(first.token()));

    let waiter = b.spawn(wait("b", 5_000));
    site.pass(1_150).await;
    let second = held(waiter.await.unwrap());
    let f2 = row.claim(second.token());
    site.pass(50).await;
    let released = first.release().await;
    site.pass(50).await;
    let skipped = c.acquire(AcquireAsk { on_busy: OnBusy::Skip, ..ask("c") }).await;

    assert!(second.waited() >= ms(1_000) && second.waited() <= ms(1_150), "{:?}", second.waited());
    assert!(f2 > f1);
    assert_eq!(released, Released::Lost);
    assert_eq!(a.wire.script().sent(Op::Release), 1);
    let Acquired::Skipped { by } = skipped else { panic!("{skipped:?}") };
    assert_eq!(&*by[0].label, "b");
    assert_eq!(by[0].remaining, (start.plus(ms(2_000))).since(site.now()), "not shortened");
    assert_eq!(second.release().await, Released::Released);
    let log = [a.log.lines(), b.log.lines(), c.log.lines()].concat();
    let count = |what: &str| log.iter().filter(|line| *line == what).count();
    assert_eq!((count("released"), count("release_refused")), (1, 1));
    site.nothing_left(&[&a, &b, &c]).await;
}

#[tokio::test]
async fn lc_02_heartbeat_in_flight_while_release_runs() {
    // a: the request is late; b: the reply is late.
    for late_request in [true, false] {
        let site = Site::new();
        let a = site.actor();
        let gate = Gate::new();
        let fault = match late_request {
            true => Fault::HoldRequest(gate.clone()),
            false => Fault::HoldReply(gate.clone()),
        };
        a.wire.script().next(Op::Renew, fault);
        let lease = a.lease(ask("a")).await;
        site.pass(520).await;
        let sent = a.wire.script().sent(Op::Renew);

        let releasing = tokio::spawn(lease.release());
        site.pass(250).await;
        assert_eq!(releasing.await.unwrap(), Released::Released);
        let after = a.wire.script().sent(Op::Renew);
        site.pass(30).await;
        gate.open();
        site.clock.settle().await;

        assert_eq!((sent, after), (1, 1), "late request: {late_request}");
        site.nothing_left(&[&a]).await;
        site.pass(2_000).await;
        assert_eq!(a.wire.script().sent(Op::Renew), 1, "no renewal of it is sent any more");
        // The next lease has a heartbeat of its own.
        let next = a.lease(ask("a")).await;
        site.pass(500).await;
        assert_eq!(a.wire.script().sent(Op::Renew), 2);
        next.release().await;
        site.nothing_left(&[&a]).await;
    }
}

#[tokio::test]
async fn lc_02_a_renewal_that_waits_for_a_connection_is_dropped_by_the_release() {
    let site = Site::new();
    let near = Arc::new(FlakyLeases::new(site.leases.clone(), site.clock.clone()));
    let a = site.actor_over(near.clone(), near, Settings::default());
    let far = Arc::new(FlakyLeases::new(a.wire.clone(), site.clock.clone()));
    let b = site.actor_over(far.clone(), far, Settings::default());
    let gate = Gate::new();
    b.wire.script().next(Op::Renew, Fault::Stall(gate.clone()));
    let lease = b.lease(ask("b")).await;
    site.pass(520).await;
    assert_eq!((b.wire.script().sent(Op::Renew), a.wire.script().sent(Op::Renew)), (1, 0));

    let releasing = tokio::spawn(lease.release());
    site.pass(250).await;
    assert_eq!(releasing.await.unwrap(), Released::Released);
    gate.open();
    site.pass(10).await;

    assert_eq!(a.wire.script().sent(Op::Renew), 0, "nothing is sent after the release returned");
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn lc_02_c_a_release_before_the_first_heartbeat_leaves_no_heartbeat() {
    let site = Site::new();
    let a = site.actor();
    // The loop of the manager has not run once.
    let lease = a.lease(ask("a")).await;

    assert_eq!(lease.release().await, Released::Released);
    site.pass(5_000).await;

    assert_eq!(a.wire.script().sent(Op::Renew), 0);
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn lc_02_d_a_hundred_thousand_short_leases_under_delays_leave_nothing() {
    let site = Site::new();
    let a = site.actor();
    let mut random = 88_172_645_463_325_252_u64;
    for round in 0..100_000_u64 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let lease = a.lease(AcquireAsk { ttl: ms(100), ..ask("a") }).await;
        if round % 10 == 0 {
            a.wire.script().next(Op::Renew, Fault::Delay(ms(random % 4)));
            site.clock.jump(ms(48 + random % 4));
            site.clock.settle().await;
            a.wire.script().next(Op::Release, Fault::Delay(ms(random / 7 % 4)));
            let releasing = tokio::spawn(lease.release());
            site.pass(10).await;
            assert_eq!(releasing.await.unwrap(), Released::Released, "round {round}");
        } else {
            assert_eq!(lease.release().await, Released::Released, "round {round}");
        }
        a.wire.script().clear();
    }
    site.pass(1_000).await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn lc_04_one_failed_heartbeat_is_not_a_loss() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(ask("a")).await;
    let start = site.now();

    site.pass(480).await;
    a.wire.cut();
    site.pass(270).await;
    a.wire.script().clear();
    site.pass(50).await;

    assert!(lease.is_valid() && !lease.lost().is_cancelled());
    let log = a.log.lines();
    assert_eq!(log, ["granted", "renew_failed", "renew_failed", "renew_failed", "renewed"]);
    assert_eq!(lease.deadline(), start.plus(ms(800 + 990)));
    site.pass(499).await;
    assert_eq!(a.log.count("renewed"), 1);
    site.pass(1).await;
    assert_eq!(a.log.count("renewed"), 2);
    lease.release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn lc_04_not_yours_is_final_at_once_and_for_good() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(ask("a")).await;
    let lost = lease.lost();
    // Taken away behind the back of its holder, whose subscription hears nothing of the store's own kind.
    let by = site.leases.inspect(None, None, 1).await.unwrap().0;
    assert_eq!(by.len(), 1);
    site.leases.release(lease.extent(), lease.token()).await.unwrap();

    site.pass(500).await;

    assert!(lost.is_cancelled() && !lease.is_valid());
    assert_eq!(lease.loss_reason(), Some(LossReason::NotOurs));
    site.pass(5_000).await;
    assert_eq!(a.wire.script().sent(Op::Renew), 1, "no renewal after that");
    assert!(!lease.is_valid(), "it stays lost though the key is free");
    assert_eq!(lease.release().await, Released::Lost);
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn lc_05_the_loss_signal_does_not_wait_for_a_timeout() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    let two = |label| AcquireAsk { ttl: ms(2_000), ..wait(label, 60_000) };
    let start = site.now();
    a.wire.script().next(Op::Acquire, Fault::Delay(ms(0)));
    let lease = a.lease(two("a")).await;
    let cancelled = lease.lost();
    let waiter = b.spawn(two("b"));

    site.pass(100).await;
    a.wire.black_hole();
    site.pass(1_879).await;
    assert!(!cancelled.is_cancelled() && lease.is_valid());
    site.pass(1).await;
    assert!(cancelled.is_cancelled() && !lease.is_valid());
    assert_eq!(site.now(), start.plus(ms(2_000 - 20)));
    assert_eq!(lease.loss_reason(), Some(LossReason::Expired));
    assert!(!waiter.is_finished(), "the loss comes before the store can grant to another");

    let releasing = tokio::spawn(lease.release());
    let asked = site.now();
    site.pass(500).await;
    assert!(releasing.is_finished());
    assert_eq!(releasing.await.unwrap(), Released::Unknown);
    let second = held(waiter.await.unwrap());
    assert!(second.waited() >= ms(2_000) && second.waited() <= ms(2_020), "{:?}", second.waited());
    assert!(asked.since(start) < ms(2_000));
    assert_eq!(second.release().await, Released::Released);
    site.pass(20_000).await;
    assert_eq!(a.log.count("release_failed"), 1, "given up after its tries");
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn lc_06_a_frozen_holder_wakes_up_and_writes() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    a.wire.script().always(Op::Renew, Fault::LoseRequest);
    let row = Row::default();
    let first = a.lease(ask("a")).await;
    let f1 = row.claim(first.token());
    assert!(first.is_valid(), "the guard says valid; then the process is stopped");

    site.clock.jump(ms(3_000));
    let second = b.lease(ask("b")).await;
    let f2 = row.claim(second.token());
    assert_eq!(row.write(second.token(), f2, "b"), Ok(()));
    second.release().await;
    // Before any of its timers ran.
    let stale = row.write(first.token(), f1, "a");

    assert_eq!(stale, Err("fenced"));
    assert_eq!(row.written(), ["b"]);
    assert!(!first.is_valid(), "asked directly, it knows without a timer");
    site.clock.settle().await;
    assert_eq!(first.loss_reason(), Some(LossReason::Expired));
    assert_eq!(a.log.count("lost:Expired"), 1);
    assert_eq!(first.release().await, Released::Lost);
    site.nothing_left(&[&a, &b]).await;
}
