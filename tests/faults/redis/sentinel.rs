//! Rows 47 to 53: replicas, failover, and sentinels that are gone or wrong.

use std::time::Duration;

use fieldlease::{event::LossReason, hold::Released, registry::OnBusy};

use crate::{
    redis::{Actor, WAIT, eventually, held, is_busy, is_unavailable, key, lost, nothing_is_left},
    servers::{Action, Flavour, Proxy, Rule, Server, Setup, Watched, sentinel},
};

/// A primary that is silent for this long is replaced. With less, sentinels replace the next one too before they have
/// heard of it for the first time.
const DOWN_AFTER: Duration = Duration::from_millis(1_000);
/// Longer than a failover takes.
const LONG: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_refused_by_name_and_a_server_that_becomes_one_is_left() {
    let primary = Server::start(Flavour::Redis7, &[]);
    let follows = format!("replicaof 127.0.0.1 {}\n", primary.port());
    let replica = Setup::new(Flavour::Redis7).configuration(follows).start();
    eventually("it follows", || !replica.is_primary()).await;

    let refused = Actor::try_new("a", &replica.url()).await.err().unwrap().to_string();
    assert!(refused.contains("replica") && refused.contains(&primary.address()), "{refused}");

    let a = Actor::new("a", &primary.url()).await;
    assert_eq!(a.lease("media").await.release().await, Released::Released);
    primary.run(&["REPLICAOF", "127.0.0.1", "1"]);
    let answer = a.ask("media", OnBusy::Fail).await;
    assert!(is_unavailable(&answer), "{answer:?}");
    primary.run(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(a.lease_again("media").await.release().await, Released::Released);
    drop(replica);
    nothing_is_left(&[&primary], vec![a]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_few_replicas_refuse_a_lease_and_nothing_is_taken() {
    let server = Server::start(Flavour::Redis7, &[]);
    let (a, b) = (Actor::new("a", &server.url()).await, Actor::new("b", &server.url()).await);
    let lease = a.lease("media").await;
    server.set("min-replicas-to-write", "1");

    let refused = b.ask("search", OnBusy::Fail).await;
    assert!(is_unavailable(&refused), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("NOREPLICAS"));
    assert_eq!(lost(&lease).await, LossReason::Expired, "renewals are refused too");
    server.set("min-replicas-to-write", "0");
    assert_eq!(b.lease_again("media").await.release().await, Released::Released);
    drop(lease);
    nothing_is_left(&[&server], vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lc_11_a_failover_keeps_what_was_replicated_and_loses_what_was_not() {
    let watched = Watched::start(Flavour::Redis7, DOWN_AFTER);
    let (a, b) = (Actor::new("a", &watched.url()).await, Actor::new("b", &watched.url()).await);
    let kept = held(a.ask_for(&["kept"], LONG, OnBusy::Fail).await);
    let primary = watched.primary();
    primary.run(&["WAIT", "2", "5000"]);

    // What is granted from here on reaches no replica.
    let others = || watched.servers.iter().filter(|server| server.port() != primary.port());
    others().for_each(Server::pause);
    primary.run(&["CLIENT", "KILL", "TYPE", "replica"]);
    let gone = held(a.ask_for(&["gone"], LONG, OnBusy::Fail).await);
    primary.kill();
    others().for_each(Server::resume);
    let new = watched.primary_other_than(primary);

    // Until its next heartbeat the old holder believes, and so does the new one: only the claim decides (RULES 10).
    let successor = b.lease_again("gone").await;
    assert!(successor.is_valid());
    assert_eq!(lost(&gone).await, LossReason::NotOurs);
    assert_eq!(gone.release().await, Released::Lost);
    assert!(successor.is_valid());
    assert!(is_busy(&b.ask("kept", OnBusy::Skip).await));
    assert!(kept.is_valid() && new.keys().contains(&key("kept")));
    assert_eq!(kept.release().await, Released::Released);
    assert_eq!(successor.release().await, Released::Released);
    nothing_is_left(&[new], vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_primary_that_wakes_up_is_not_believed_and_a_planned_failover_costs_no_lease() {
    let watched = Watched::start(Flavour::Redis7, DOWN_AFTER);
    let (a, b) = (Actor::new("a", &watched.url()).await, Actor::new("b", &watched.url()).await);
    let lease = held(a.ask_for(&["media"], LONG, OnBusy::Fail).await);
    let old = watched.primary();
    old.run(&["WAIT", "2", "5000"]);

    old.pause();
    let new = watched.primary_other_than(old);
    let renewed = a.log.renewals();
    eventually("a renewal at the new primary", || a.log.renewals() > renewed).await;
    old.resume();
    assert!(is_busy(&b.ask("media", OnBusy::Skip).await) && lease.is_valid());
    eventually("the old one follows", || !old.is_primary()).await;

    let last = watched.failover();
    assert_ne!(last.port(), new.port());
    let renewed = a.log.renewals();
    eventually("a renewal at the last primary", || a.log.renewals() > renewed).await;
    assert!(lease.is_valid() && a.log.losses() == 0);
    assert!(is_busy(&b.ask("media", OnBusy::Skip).await));
    assert_eq!(lease.release().await, Released::Released);
    nothing_is_left(&[last], vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_sentinels_the_primary_is_kept_and_a_sentinel_that_is_wrong_is_not_believed() {
    let watched = Watched::start(Flavour::Redis7, Duration::from_secs(10));
    let a = Actor::new("a", &watched.url()).await;
    let lease = a.lease("media").await;
    watched.sentinels.iter().for_each(Server::pause);

    let renewed = a.log.renewals();
    eventually("renewals go on", || a.log.renewals() >= renewed + 3).await;
    let refused = Actor::try_new("b", &watched.url()).await;
    assert!(refused.is_err(), "nobody tells where the primary is");
    assert!(lease.is_valid());
    watched.sentinels.iter().for_each(Server::resume);
    let b = Actor::new("b", &watched.url()).await;
    assert!(is_busy(&b.ask("media", OnBusy::Skip).await));

    // This one tells the address of a replica.
    let proxy = Proxy::to(watched.sentinels[0].port());
    let replica = watched.servers[1].port().to_string();
    let lie = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{replica}\r\n", replica.len());
    let lies = proxy.fault(Rule::on("SENTINEL", Action::Answer(lie.leak())).always());
    let honest = watched.sentinels[1].address();
    let url = format!("redis+sentinel://127.0.0.1:{},{honest}/{}", proxy.port(), sentinel::NAME);
    let c = Actor::new("c", &url).await;
    assert!(is_busy(&c.ask("media", OnBusy::Skip).await));
    assert_eq!(lease.release().await, Released::Released);
    assert_eq!(held(c.ask("media", WAIT).await).release().await, Released::Released);
    assert!(lies.hits() > 0, "it was asked");
    nothing_is_left(&[watched.primary()], vec![a, b, c]).await;
}
