//! Rows 9, 11 to 18, 20 and 21: what a network does to requests and answers.

use std::time::Duration;

use fieldlease::{
    clock::{Clock, SystemClock},
    event::LossReason,
    hold::{Acquired, Released},
    registry::OnBusy,
};

use crate::{
    Dice, number,
    redis::{
        Actor, Known, TTL, eventually, held, is_busy, is_unavailable, key, lost, met,
        nothing_is_left, sleep,
    },
    servers::{Action, Flavour, Proxy, Rule, Server},
};

/// A server that knows the scripts, a wire to it, one actor over the wire and one beside it.
struct Site {
    server: Server,
    proxy: Proxy,
    known: Known,
    a: Actor,
    b: Actor,
}

impl Site {
    async fn new() -> Self {
        let server = Server::start(Flavour::Redis7, &[]);
        let known = Known::learn(&server).await;
        let proxy = Proxy::to(server.port());
        let a = Actor::new("a", &proxy.url()).await;
        let b = Actor::new("b", &server.url()).await;
        Self { server, proxy, known, a, b }
    }

    async fn end(self) {
        self.proxy.heal();
        nothing_is_left(&[&self.server], vec![self.a, self.b]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_arrives_after_the_release_changes_nothing() {
    let site = Site::new().await;
    let late = site.proxy.fault(site.known.renew(Action::HoldRequest));
    let lease = site.a.lease("media").await;
    met(&late).await;
    // The connection with the held renewal is given up; the ladder and the release go over another one.
    eventually("a renewal on another connection", || site.a.log.renewals() > 0).await;
    assert_eq!(lease.release().await, Released::Released);
    assert_eq!(site.server.keys(), [""; 0]);
    let successor = site.b.lease("media").await;
    let before = site.server.run(&["GET", &key("media")]).text();

    let executed = site.server.commandstats()["evalsha"];
    late.let_go();
    eventually("the late renewal", || site.server.commandstats()["evalsha"] > executed).await;

    let now = site.server.run(&["GET", &key("media")]).text();
    assert_eq!(before.get(..33), now.get(..33), "it is still the successor's");
    assert!(successor.is_valid());
    assert_eq!(successor.release().await, Released::Released);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_comes_too_late_leaves_the_successor_alone() {
    let site = Site::new().await;
    let lease = site.a.lease("media").await;
    site.proxy.hole(true, true);
    assert_eq!(lost(&lease).await, LossReason::Expired);
    let successor = held(site.b.ask("media", super::WAIT).await);
    site.proxy.heal();
    assert_eq!(site.a.lease_again("other").await.release().await, Released::Released);

    let released = lease.release().await;

    assert_eq!(released, Released::Lost);
    assert!(successor.is_valid());
    sleep(TTL / 2).await;
    assert!(successor.is_valid() && site.server.keys().contains(&key("media")));
    assert_eq!(successor.release().await, Released::Released);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_to_an_acquire_is_found_again_by_its_token() {
    for action in [Action::DropReply, Action::CutAfter, Action::Truncate(1), Action::HalfOpen] {
        let site = Site::new().await;
        site.proxy.fault(Rule::on("SET", action.clone()));

        let lease = held(site.a.ask("media", super::WAIT).await);

        assert!(lease.is_valid(), "{action:?}");
        assert!(is_busy(&site.b.ask("media", OnBusy::Skip).await), "{action:?}");
        assert_eq!(site.server.keys(), [key("media")], "{action:?}");
        assert_eq!(lease.release().await, Released::Released, "{action:?}");
        site.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_is_never_answered_is_unavailable_and_leaves_nothing() {
    let site = Site::new().await;
    site.proxy.hole(false, true);

    let answer = site.a.ask("media", OnBusy::Skip).await;

    assert!(is_unavailable(&answer), "{answer:?}");
    site.proxy.heal();
    let lease = held(site.b.ask("media", super::WAIT).await);
    assert_eq!(lease.release().await, Released::Released);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_to_a_release_is_no_error_and_the_release_is_done() {
    for action in [Action::DropReply, Action::CutAfter, Action::Truncate(1)] {
        let site = Site::new().await;
        let lease = site.a.lease("media").await;
        let fault = site.proxy.fault(site.known.release(action.clone()));

        let released = lease.release().await;

        assert_eq!(fault.hits(), 1, "{action:?}");
        // Sent again, it finds nothing: the first one has done it. It may also not be over yet.
        let fine = [Released::Released, Released::Lost, Released::Unknown];
        assert!(fine.contains(&released), "{action:?}: {released:?}");
        let next = site.b.lease("media").await;
        assert_eq!(next.release().await, Released::Released);
        site.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_to_a_renewal_costs_nothing_and_trust_counts_from_what_was_confirmed() {
    let site = Site::new().await;
    let lease = site.a.lease("media").await;
    let confirmed = lease.deadline();
    let fault = site.proxy.fault(site.known.renew(Action::DropReply));
    met(&fault).await;
    eventually("the server has prolonged it", || {
        site.server.run(&["PTTL", &key("media")]).int() > 500
    })
    .await;
    assert_eq!(lease.deadline(), confirmed, "the store has prolonged it, but who knows");

    eventually("the next step of the ladder", || site.a.log.renewals() > 0).await;

    assert!(lease.deadline() > confirmed && lease.is_valid());
    assert!(site.a.log.failed_renewals() > 0 && site.a.log.losses() == 0);
    assert_eq!(lease.release().await, Released::Released);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_is_never_answered_ends_trust_before_the_lease_ends() {
    let site = Site::new().await;
    let lease = site.a.lease("media").await;
    site.proxy.hole(false, true);
    let waiter = site.b.waits("media");

    assert_eq!(lost(&lease).await, LossReason::Expired);

    // The renewals arrived, so the store keeps the lease longer than its holder trusts it.
    let left = site.server.run(&["PTTL", &key("media")]).int();
    assert!(left > 0 && !waiter.is_finished(), "{left}");
    site.proxy.heal();
    let successor = waiter.await.unwrap();
    assert!(successor.is_valid() && !lease.is_valid());
    assert_eq!(lease.release().await, Released::Lost);
    assert_eq!(successor.release().await, Released::Released);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_reset_in_the_middle_of_a_command_is_never_used_again() {
    let site = Site::new().await;
    for action in [Action::CutBefore, Action::CutAfter] {
        let lease = site.a.lease("media").await;
        let fault = site.proxy.fault(site.known.renew(action));
        met(&fault).await;
        let renewed = site.a.log.renewals();
        eventually("a renewal after the reset", || site.a.log.renewals() > renewed).await;
        assert!(lease.is_valid());
        assert_eq!(lease.release().await, Released::Released);
    }
    // The server ends connections too.
    let lease = site.a.lease("media").await;
    for client in site.server.clients() {
        site.server.run(&["CLIENT", "KILL", "ID", &client["id"]]);
    }
    sleep(TTL * 2).await;
    assert!(lease.is_valid());
    assert_eq!((lease.release().await, site.a.log.losses()), (Released::Released, 0));
    eventually("at most two connections of each", || site.server.clients().len() <= 4).await;
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_cut_off_anywhere_ends_its_connection() {
    let server = Server::start(Flavour::Redis7, &[]);
    let known = Known::learn(&server).await;
    // A list of two numbers: every length short of the whole.
    let lengths: Vec<usize> = (0.."*2\r\n:1\r\n:0\r\n".len()).collect();
    let cut = lengths.into_iter().map(|length| {
        let (server, known) = (&server, &known);
        async move {
            let proxy = Proxy::to(server.port());
            let a = Actor::new("a", &proxy.url()).await;
            let lease = a.lease(&format!("group{length}")).await;
            let fault = proxy.fault(known.renew(Action::Truncate(length)));
            met(&fault).await;
            eventually("a renewal after the cut", || a.log.renewals() > 0).await;
            assert!(lease.is_valid(), "after {length} bytes");
            assert!(proxy.accepted() > 2, "after {length} bytes");
            assert_eq!(lease.release().await, Released::Released, "after {length} bytes");
            a.manager.shutdown(TTL).await;
        }
    });
    join_all(cut).await;
    nothing_is_left(&[&server], Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_ever_reaches_another_caller() {
    let site = Site::new().await;
    let mut dice = Dice::new(number("FIELDLEASE_SEED", || 17), 17);
    site.proxy.latency(Duration::from_millis(1), Duration::from_millis(1));
    // `busy` is held by somebody else all the time, every `free..` by nobody: a mixed-up answer shows in either.
    let blocker = site.b.lease("busy").await;
    let free: Vec<String> = (0..16).map(|number| format!("free{number}")).collect();
    for round in 0..300 {
        let groups: Vec<&str> = free.iter().map(String::as_str).collect();
        let asks = groups.iter().map(|&group| {
            let give_up = Duration::from_micros(dice.below(6_000));
            let cancelled = dice.below(2) == 0;
            let group = if dice.below(4) == 0 { "busy" } else { group };
            let a = &site.a;
            async move {
                let ask = a.ask(group, OnBusy::Skip);
                let answer = if cancelled {
                    tokio::select! { answer = ask => answer, () = sleep(give_up) => return }
                } else {
                    ask.await
                };
                match (group, answer) {
                    ("busy", answer) => assert!(is_busy(&answer), "{round}: {answer:?}"),
                    // A cancelled one of the round before may still be on its way out.
                    (_, Ok(Acquired::Held(lease))) => {
                        assert!(
                            lease
                                .extent()
                                .scopes()
                                .iter()
                                .all(|scope| { scope.name.group_name().as_str() == group })
                        );
                        drop(lease);
                    }
                    (_, answer) => assert!(is_busy(&answer), "{round}: {answer:?}"),
                }
            }
        });
        join_all(asks).await;
    }
    assert!(blocker.is_valid());
    assert_eq!(site.b.log.losses(), 0);
    assert_eq!(blocker.release().await, Released::Released);
    assert_eq!(site.proxy.accepted(), 2, "a caller that goes away costs no connection");
    site.end().await;
}

async fn join_all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_other_end_is_gone_is_noticed_in_time_to_renew() {
    let site = Site::new().await;
    let lease = site.a.lease("media").await;
    let fault = site.proxy.fault(site.known.renew(Action::HalfOpen));
    met(&fault).await;

    let renewed = site.a.log.renewals();
    eventually("a renewal on another connection", || site.a.log.renewals() > renewed).await;

    assert!(lease.is_valid() && site.a.log.losses() == 0);
    assert_eq!(lease.release().await, Released::Released);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_answered_by_policy_and_ends() {
    let site = Site::new().await;
    site.proxy.hole(true, false);
    for policy in [OnBusy::Skip, OnBusy::Fail] {
        let answer = site.a.ask("media", policy).await;
        assert!(is_unavailable(&answer), "{answer:?}");
    }
    let answer = site.a.ask("media", OnBusy::Wait(Duration::from_millis(300))).await;
    assert!(is_unavailable(&answer) || is_busy(&answer), "{answer:?}");
    assert_eq!(site.server.keys(), [""; 0]);

    // What was sent into the hole arrives now, long after its callers have given up.
    site.proxy.heal();

    let lease = site.a.lease_again("media").await;
    assert_eq!(lease.release().await, Released::Released);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_line_makes_trust_shorter_and_loses_nothing() {
    let site = Site::new().await;
    site.proxy.latency(Duration::from_millis(60), Duration::from_millis(60));
    let before = SystemClock.now();
    let lease = site.a.lease("media").await;
    assert!(lease.deadline() <= before.plus(TTL), "trust counts from the send");
    eventually("renewals over the slow line", || site.a.log.renewals() >= 3).await;
    site.proxy.latency(Duration::ZERO, Duration::ZERO);
    site.proxy.bytes_per_second(Some(8_000));
    let renewed = site.a.log.renewals();
    eventually("renewals over the narrow line", || site.a.log.renewals() >= renewed + 2).await;

    assert!(lease.is_valid());
    assert_eq!(site.a.log.losses(), 0);
    assert_eq!(lease.release().await, Released::Released);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_whose_way_took_its_whole_time_is_not_granted_and_given_back() {
    let site = Site::new().await;
    site.proxy.latency(Duration::from_millis(20), TTL);

    let answer = site.a.ask("media", OnBusy::Fail).await;

    assert!(is_unavailable(&answer), "{answer:?}");
    site.proxy.heal();
    let lease = held(site.b.ask("media", super::WAIT).await);
    assert_eq!(lease.release().await, Released::Released);
    site.end().await;
}
