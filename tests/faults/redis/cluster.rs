//! Rows 54, 55, 57 and 58: slots that move, and nodes that are gone.

use std::time::Duration;

use fieldlease::{entity::EntityRef, event::LossReason, hold::Released, registry::OnBusy};

use crate::{
    redis::{Actor, eventually, held, is_busy, is_held, is_unavailable, key, lost},
    servers::{Cluster, Flavour, Server},
};

/// Longer than a failover takes.
const LONG: Duration = Duration::from_secs(8);

async fn two(cluster: &Cluster) -> (Actor, Actor) {
    (Actor::new("a", &cluster.url()).await, Actor::new("b", &cluster.url()).await)
}

async fn nothing_is_left(cluster: &Cluster, actors: Vec<Actor>) {
    for actor in actors {
        let report = actor.manager.shutdown(Duration::from_secs(5)).await;
        assert_eq!(report.failed, 0, "{report:?}");
        eventually("nothing is on its way", || actor.manager.held() == 0).await;
    }
    eventually("no key is left", || cluster.keys().is_empty()).await;
    let running = || cluster.nodes.iter().filter(|node| node.answers());
    let ours = |node: &Server| {
        let named = |name: &String| name.starts_with("fieldlease");
        node.clients().iter().filter(|client| client.get("name").is_some_and(named)).count()
    };
    eventually("no connection is left", || running().all(|node| ours(node) == 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_under_a_lease_costs_nothing_when_it_is_there_in_time() {
    for flavour in Flavour::ALL {
        let cluster = Cluster::start(flavour);
        let (a, b) = two(&cluster).await;
        let slot = cluster.slot(&key("media"));
        let to = cluster.other_than_owner(slot);
        let ttl = Duration::from_secs(2);
        let lease = held(a.ask_for(&["media"], ttl, OnBusy::Fail).await);

        // Some keys of the entity are here and some nowhere, so that scripts are told to come back later.
        let migration = cluster.begin_migration(slot, to);
        eventually("a renewal that was sent away", || a.log.failed_renewals() > 0).await;
        assert!(lease.is_valid());
        assert!(!is_held(&b.ask("media", OnBusy::Skip).await), "{flavour}");
        migration.finish();

        eventually("a renewal by the new node", || a.log.renewals() > 0).await;
        assert!(lease.is_valid() && a.log.losses() == 0, "{flavour}");
        assert!(is_busy(&b.ask("media", OnBusy::Skip).await), "{flavour}");
        assert_eq!(cluster.owner_of(slot).port(), to.port());
        assert_eq!(lease.release().await, Released::Released, "{flavour}");
        nothing_is_left(&cluster, vec![a, b]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_stays_between_two_nodes_for_too_long_loses_leases_and_grants_none_twice() {
    let cluster = Cluster::start(Flavour::Redis7);
    let (a, b) = two(&cluster).await;
    let slot = cluster.slot(&key("media"));
    let lease = a.lease("media").await;
    let migration = cluster.begin_migration(slot, cluster.other_than_owner(slot));
    migration.move_these(&[key("media")]);

    while lease.is_valid() {
        let answer = b.ask("media", OnBusy::Skip).await;
        assert!(!is_held(&answer) || !lease.is_valid(), "{answer:?}");
    }
    assert_eq!(lost(&lease).await, LossReason::Expired);
    drop(lease);

    migration.finish();
    let successor = b.lease_again("media").await;
    let renewed = b.log.renewals();
    eventually("renewals by the new node", || b.log.renewals() > renewed).await;
    assert_eq!(successor.release().await, Released::Released);
    nothing_is_left(&cluster, vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_granted_on_whatever_node_the_slot_is() {
    let cluster = Cluster::start(Flavour::Redis7);
    let (a, b) = two(&cluster).await;
    let slot = cluster.slot(&key("media"));
    let to = cluster.other_than_owner(slot);
    let lease = a.lease("media").await;
    let waiter = b.waits("media");
    eventually("it waits", || cluster.keys().len() > 1).await;

    cluster.begin_migration(slot, to).finish();
    assert_eq!(lease.release().await, Released::Released);

    let lease = waiter.await.unwrap();
    assert!(lease.is_valid());
    assert_eq!(lease.release().await, Released::Released);
    nothing_is_left(&cluster, vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_over_keeps_leases_and_lets_others_in() {
    let cluster = Cluster::start(Flavour::Redis7);
    let (a, b) = two(&cluster).await;
    let slot = cluster.slot(&key("media"));
    let lease = held(a.ask_for(&["media"], LONG, OnBusy::Fail).await);
    cluster.owner_of(slot).run(&["WAIT", "1", "5000"]);

    cluster.failover(slot);
    let renewed = a.log.renewals();
    eventually("renewals from the new primary", || a.log.renewals() > renewed).await;
    assert!(is_busy(&b.ask("media", OnBusy::Skip).await));
    cluster.take_over(slot);
    let renewed = a.log.renewals();
    eventually("renewals from the old primary", || a.log.renewals() > renewed).await;
    assert!(lease.is_valid() && a.log.losses() == 0);
    assert_eq!(lease.release().await, Released::Released);
    assert_eq!(b.lease_again("media").await.release().await, Released::Released);

    // And by itself, when the primary is killed.
    cluster.wait_until_ok();
    let lease = held(a.ask_for(&["media"], LONG, OnBusy::Fail).await);
    let owner = cluster.owner_of(slot);
    owner.run(&["WAIT", "1", "5000"]);
    owner.kill();
    let renewed = a.log.renewals();
    eventually("renewals from its replica", || a.log.renewals() > renewed).await;
    assert!(lease.is_valid() && a.log.losses() == 0);
    assert_eq!(lease.release().await, Released::Released);
    assert_eq!(b.lease_again("media").await.release().await, Released::Released);
    nothing_is_left(&cluster, vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_without_a_node_are_unavailable_and_the_others_go_on() {
    let cluster = Cluster::start(Flavour::Redis7);
    let (a, mut b) = two(&cluster).await;
    let slot = cluster.slot(&key("media"));
    let (owner, replica) = (cluster.owner_of(slot), cluster.replica_of(slot));
    b.record = (2..100)
        .map(|id| EntityRef::new("Product", &id.to_string()).unwrap())
        .find(|record| {
            let key = format!("fieldlease:{{Product:{}}}:g:media", record.id.as_str());
            cluster.owner_of(cluster.slot(&key)).port() != owner.port()
        })
        .unwrap();
    let elsewhere = b.lease("media").await;

    replica.kill();
    owner.kill();
    let down = a.ask("media", OnBusy::Fail).await;
    assert!(is_unavailable(&down), "{down:?}");
    let renewed = b.log.renewals();
    eventually("renewals elsewhere", || b.log.renewals() >= renewed + 3).await;
    assert!(elsewhere.is_valid() && b.log.losses() == 0);
    assert_eq!(elsewhere.release().await, Released::Released);
    assert_eq!(b.lease("search").await.release().await, Released::Released);

    owner.restart();
    let lease = a.lease_again("media").await;
    assert_eq!(lease.release().await, Released::Released);
    nothing_is_left(&cluster, vec![a, b]).await;
}
