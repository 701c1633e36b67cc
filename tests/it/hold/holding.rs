//! One holder: renewal, loss, nesting, whole entities, the end of a process.

use fieldlease::{
    event::LossReason,
    hold::{AcquireAsk, Acquired, Released},
    lease::LeaseStore,
    registry::OnBusy,
    testing::{Fault, Gate, flaky::Op},
};

use super::{futures, wait_on};
use crate::leasing::{Site, ask, extent, held, ms, wait};

#[tokio::test]
async fn a_lease_is_held_until_it_is_released() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());

    let lease = a.lease(ask("a")).await;
    let busy = b.acquire(ask("b")).await;
    let skipped = b.acquire(AcquireAsk { on_busy: OnBusy::Skip, ..ask("b") }).await;

    assert!(lease.is_valid());
    assert_eq!(lease.deadline(), site.now().plus(ms(990)));
    let Acquired::Busy { by, retry_after } = busy else { panic!("{busy:?}") };
    assert_eq!((&*by[0].label, by[0].remaining, retry_after), ("a", ms(1_000), ms(1_000)));
    let Acquired::Skipped { by } = skipped else { panic!("{skipped:?}") };
    assert_eq!(&*by[0].label, "a");
    assert_eq!(lease.release().await, Released::Released);
    assert_eq!(b.lease(ask("b")).await.release().await, Released::Released);
    assert_eq!(a.log.lines(), ["granted", "released"]);
    assert_eq!(b.log.lines(), ["busy:a", "busy:a", "granted", "released"]);
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn the_heartbeat_keeps_a_lease_for_as_long_as_it_is_held() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(ask("a")).await;

    for beats in 1..=50 {
        site.pass(500).await;
        assert_eq!(a.wire.script().sent(Op::Renew), beats);
        assert_eq!(lease.deadline(), site.now().plus(ms(990)));
    }

    assert!(lease.is_valid());
    assert_eq!(lease.held(), ms(25_000));
    assert_eq!(lease.release().await, Released::Released);
    site.pass(2_000).await;
    assert_eq!(a.wire.script().sent(Op::Renew), 50);
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn an_acquire_whose_reply_was_lost_finds_its_own_grant() {
    let site = Site::new();
    let a = site.actor();
    a.wire.script().next(Op::Acquire, Fault::BreakReply);

    let acquiring = a.spawn(ask("a"));
    site.pass(500).await;
    let lease = held(acquiring.await.unwrap());

    assert_eq!(a.wire.script().sent(Op::Acquire), 2);
    assert!(lease.is_valid());
    lease.release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_is_an_error_and_nothing_is_left() {
    for wait_for_it in [false, true] {
        let site = Site::new();
        let a = site.actor();
        a.wire.script().always(Op::Acquire, Fault::BreakReply);
        let request = if wait_for_it { wait("a", 60_000) } else { ask("a") };
        let manager = a.manager.clone();
        let acquiring = tokio::spawn(async move { manager.acquire(request).await });

        site.pass(3_000).await;

        let error = acquiring.await.unwrap().unwrap_err();
        assert_eq!(error.code(), "unavailable");
        assert_eq!(a.wire.script().sent(Op::Acquire), 3);
        site.nothing_left(&[&a]).await;
    }
}

#[tokio::test]
async fn an_answer_that_comes_after_the_lease_ended_is_not_used() {
    let site = Site::new();
    let a = site.actor();
    let gate = Gate::new();
    a.wire.script().next(Op::Acquire, Fault::HoldReply(gate.clone()));
    let acquiring = a.spawn(wait("a", 60_000));

    site.clock.settle().await;
    site.clock.jump(ms(995));
    gate.open();
    site.pass(2_000).await;
    let lease = held(acquiring.await.unwrap());

    assert_eq!(a.wire.script().sent(Op::Acquire), 2, "asked again with the same token");
    assert!(lease.is_valid());
    lease.release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn max_hold_ends_a_lease_that_is_renewed_for_ever() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    let lease = a.lease(AcquireAsk { max_hold: ms(5_000), ..ask("a") }).await;
    let lost = lease.lost();
    let local = a.spawn(wait("local", 60_000));

    site.pass(4_999).await;
    assert!(lease.is_valid() && !lost.is_cancelled());
    site.pass(1).await;

    assert!(!lease.is_valid() && lost.is_cancelled());
    assert_eq!(lease.loss_reason(), Some(LossReason::MaxHold));
    assert_eq!(lease.release().await, Released::Lost);
    site.pass(1).await;
    held(local.await.unwrap()).release().await;
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn a_nested_acquisition_is_told_or_shares_the_lease() {
    let site = Site::new();
    let a = site.actor();
    let owner = Some(a.manager.owner());
    let own = |groups: &[&str], reentrant| AcquireAsk {
        extent: extent("1", groups),
        owner,
        reentrant,
        ..wait("a", 60_000)
    };
    let outer = a.lease(own(&["media", "search"], false)).await;

    for (groups, reentrant) in
        [(["media"], false), (["search"], false), (["whole"], true), (["whole"], false)]
    {
        let answer = a.acquire(own(&groups, reentrant)).await;
        assert!(matches!(answer, Acquired::AlreadyHeld), "{groups:?}: {answer:?}");
    }
    let other_scope = a.lease(own(&["prices"], false)).await;
    let inner = a.lease(own(&["media"], true)).await;
    assert_eq!(inner.token(), outer.token());
    assert_eq!(outer.release().await, Released::StillShared);
    assert!(inner.is_valid());
    assert_eq!(a.wire.script().sent(Op::Release), 0);
    assert_eq!(inner.release().await, Released::Released);
    other_scope.release().await;
    a.lease(own(&["media"], false)).await.release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn another_owner_of_the_same_process_waits() {
    let site = Site::new();
    let a = site.actor();
    let asks = |owner| AcquireAsk { owner: Some(owner), reentrant: true, ..ask("a") };
    let lease = a.lease(asks(a.manager.owner())).await;

    let answer = a.acquire(asks(a.manager.owner())).await;

    assert!(matches!(answer, Acquired::Busy { .. }), "{answer:?}");
    lease.release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn a_whole_entity_waits_for_its_groups_and_keeps_them_out() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    let on = |groups: &[&str], actor: &str| AcquireAsk {
        extent: extent("1", groups),
        ..wait(actor, 60_000)
    };
    let media = a.lease(on(&["media"], "a")).await;
    let german = a.lease(on(&["translation[locale=de]"], "a")).await;
    let whole = b.spawn(on(&["whole"], "b"));
    site.clock.settle().await;
    let search = a.spawn(on(&["search"], "a"));
    site.pass(100).await;

    assert!(!whole.is_finished() && !search.is_finished());
    media.release().await;
    site.pass(100).await;
    assert!(!whole.is_finished());
    german.release().await;
    let whole = held(whole.await.unwrap());
    site.pass(100).await;
    assert!(!search.is_finished());
    whole.release().await;
    held(search.await.unwrap()).release().await;
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn a_broken_lease_is_lost_at_once_and_its_line_moves_on() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(ask("a")).await;
    let (lost, scope) = (lease.lost(), lease.extent().scopes().iter().next().unwrap());
    let local = a.spawn(wait("local", 60_000));
    site.clock.settle().await;

    site.leases.break_lease(&scope, "stuck").await.unwrap();
    site.clock.settle().await;

    assert!(lost.is_cancelled() && !lease.is_valid());
    assert_eq!(lease.loss_reason(), Some(LossReason::Broken));
    assert_eq!(lease.release().await, Released::Lost);
    held(local.await.unwrap()).release().await;
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn a_fenced_lease_is_over_and_its_key_is_given_back() {
    let site = Site::new();
    let a = site.actor();
    let lease = a.lease(ask("a")).await;

    lease.mark_fenced();

    assert_eq!((lease.is_valid(), lease.loss_reason()), (false, Some(LossReason::Fenced)));
    assert!(lease.lost().is_cancelled());
    assert_eq!(lease.release().await, Released::Lost);
    assert_eq!(a.log.lines(), ["granted", "lost:Fenced", "released"]);
    site.nothing_left(&[&a]).await;
}

#[tokio::test]
async fn shutdown_reports_what_it_released_and_takes_no_more() {
    let site = Site::new();
    let (a, b) = (site.actor(), site.actor());
    let leases: Vec<_> = futures(&a, 5).await;
    let lost: Vec<_> = leases.iter().map(|lease| lease.lost()).collect();
    let waiters = [a.spawn_result(wait_on("0")), a.spawn_result(wait_on("1"))];
    site.clock.settle().await;

    let manager = a.manager.clone();
    let report = tokio::spawn(async move { manager.shutdown(ms(1_000)).await });
    site.clock.settle().await;
    let report = report.await.unwrap();

    assert_eq!((report.released, report.lost, report.failed, report.waiters), (5, 0, 0, 2));
    assert!(lost.iter().all(|lost| lost.is_cancelled()));
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap().unwrap_err().code(), "unavailable");
    }
    assert!(a.manager.acquire(ask("late")).await.is_err());
    for lease in leases {
        assert_eq!(lease.loss_reason(), Some(LossReason::Shutdown));
        assert_eq!(lease.release().await, Released::Lost);
    }
    assert_eq!(a.wire.script().sent(Op::Release), 5);
    site.nothing_left(&[&a, &b]).await;
}

#[tokio::test]
async fn shutdown_ends_in_time_when_the_store_does_not_answer() {
    let site = Site::new();
    let a = site.actor();
    let leases = futures(&a, 3).await;
    a.wire.black_hole();

    let manager = a.manager.clone();
    let report = tokio::spawn(async move { manager.shutdown(ms(700)).await });
    site.pass(700).await;
    let report = report.await.unwrap();

    assert_eq!((report.released, report.failed), (0, 3));
    drop(leases);
    site.pass(2_000).await;
    assert_eq!(a.manager.held(), 0);
    assert!(site.leases.is_empty(), "the time to live is the net");
}
