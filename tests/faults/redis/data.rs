//! Rows 33 to 39: what happens to our keys on a server that works.

use std::time::Duration;

use fieldlease::{
    error::Error,
    event::{Event, LossReason},
    hold::Released,
    registry::OnBusy,
};

use crate::{
    redis::{
        Actor, Known, WAIT, eventually, held, is_busy, is_unavailable, key, lost, nothing_is_left,
    },
    servers::{Flavour, Server},
};

async fn site(flavour: Flavour) -> (Server, Actor, Actor) {
    let server = Server::start(flavour, &[]);
    // From here on the server knows the scripts.
    Known::learn(&server).await;
    let (a, b) = (Actor::new("a", &server.url()).await, Actor::new("b", &server.url()).await);
    (server, a, b)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_out_of_memory_grants_nothing_new_and_keeps_what_is_held() {
    for flavour in Flavour::ALL {
        let (server, a, b) = site(flavour).await;
        let lease = a.lease("media").await;
        server.set("maxmemory", "1");

        let refused = b.ask("search", OnBusy::Fail).await;
        assert!(is_unavailable(&refused), "{flavour}: {refused:?}");
        assert!(refused.unwrap_err().to_string().contains("OOM"), "{flavour}");
        assert!(!server.keys().contains(&key("search")), "{flavour}");
        let renewed = a.log.renewals();
        eventually("renewals", || a.log.renewals() >= renewed + 3).await;
        assert!(lease.is_valid() && a.log.losses() == 0, "{flavour}");
        assert_eq!(lease.release().await, Released::Released, "{flavour}");
        assert!(!server.keys().contains(&key("media")), "{flavour}");

        server.set("maxmemory", "0");
        assert_eq!(b.lease_again("search").await.release().await, Released::Released);
        nothing_is_left(&[&server], vec![a, b]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_vanished_is_lost_at_the_next_heartbeat_and_the_next_holder_gets_in() {
    type Fault = fn(&Server);
    let evict_any: Fault = |server| {
        server.set("maxmemory-policy", "allkeys-lru");
        server.set("maxmemory", "1");
    };
    let evict_ours: Fault = |server| {
        server.set("maxmemory-policy", "volatile-ttl");
        server.set("maxmemory", "1");
    };
    let flush: Fault = |server| drop(server.run(&["FLUSHALL"]));
    let delete: Fault = |server| drop(server.run(&["DEL", &key("media")]));
    let cases = [
        ("allkeys-lru", evict_any),
        ("volatile-ttl", evict_ours),
        ("FLUSHALL", flush),
        ("DEL", delete),
    ];
    for (name, fault) in cases {
        let (server, a, b) = site(Flavour::Redis7).await;
        let lease = a.lease("media").await;

        fault(&server);
        eventually("it is gone", || !server.keys().contains(&key("media"))).await;
        server.set("maxmemory", "0");
        // Now both believe; what counts is the claim, and the older one learns of it in half a time to live.
        let successor = held(b.ask("media", WAIT).await);

        assert_eq!(lost(&lease).await, LossReason::NotOurs, "{name}");
        assert!(successor.is_valid(), "{name}");
        assert_eq!(lease.release().await, Released::Lost, "{name}");
        assert_eq!(successor.release().await, Released::Released, "{name}");
        nothing_is_left(&[&server], vec![a, b]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_somebody_else_is_named_and_never_overwritten() {
    let (server, a, b) = site(Flavour::Redis7).await;
    for (name, theirs) in [
        ("a list", ["RPUSH", &key("media"), "theirs"]),
        ("a text that is no lease", ["SET", &key("media"), "theirs"]),
    ] {
        server.run(&theirs);
        let before = server.run(&["DUMP", &key("media")]);

        for policy in [OnBusy::Fail, WAIT] {
            match a.ask("media", policy).await {
                Err(Error::Invalid { code: "foreign_key", .. }) => {}
                other => panic!("{name}: {other:?}"),
            }
        }

        assert_eq!(server.run(&["DUMP", &key("media")]), before, "{name}");
        server.run(&["DEL", &key("media")]);
    }
    // The queue's own keys.
    let blocker = a.lease("media").await;
    server.run(&["SET", "fieldlease:{Product:1}:h", "theirs"]);
    let refused = b.ask("media", WAIT).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(server.run(&["GET", "fieldlease:{Product:1}:h"]).text(), "theirs");
    server.run(&["DEL", "fieldlease:{Product:1}:h"]);
    assert!(blocker.is_valid());
    assert_eq!(blocker.release().await, Released::Released);
    nothing_is_left(&[&server], vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_without_an_end_is_given_one_and_counted() {
    for (what, px, found) in [("none", None, -1), ("an hour", Some("3600000"), 3_590_000)] {
        let (server, a, b) = site(Flavour::Redis7).await;
        let lease = a.lease("media").await;
        let value = server.run(&["GET", &key("media")]).text();
        assert_eq!(lease.release().await, Released::Released);
        let mut theirs = vec!["SET", "media", &value];
        let key = key("media");
        theirs[1] = &key;
        theirs.extend(px.iter().flat_map(|px| ["PX", px]));
        server.run(&theirs);

        let answer = b.ask("media", OnBusy::Skip).await;

        assert!(is_busy(&answer), "{what}: {answer:?}");
        let left = server.run(&["PTTL", &key]).int();
        assert!((1..=10_000).contains(&left), "{what}: {left}");
        let anomaly = |event: &Event| match event {
            Event::LeaseTtlAnomaly { found_ms, .. } => (found..=found + 10_000).contains(found_ms),
            _ => false,
        };
        assert_eq!(b.log.count(anomaly), 1, "{what}");
        // The bound of the test's leases is 10 s; it is not waited for.
        server.run(&["PEXPIRE", &key, "50"]);
        assert_eq!(held(b.ask("media", WAIT).await).release().await, Released::Released);
        nothing_is_left(&[&server], vec![a, b]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_that_are_none_leave_no_lease_behind() {
    let (server, a, b) = site(Flavour::Redis7).await;
    let hash = "fieldlease:{Product:1}:h";
    for broken in ["abc", "9223372036854775807"] {
        let blocker = a.lease("media").await;
        server.run(&["HSET", hash, "n", broken]);

        let answer = b.ask("media", OnBusy::Wait(Duration::from_millis(100))).await;

        assert!(answer.is_err() || is_busy(&answer), "{broken}: {answer:?}");
        let value = server.run(&["GET", &key("media")]).text();
        assert!(blocker.is_valid(), "{broken}: {value}");
        server.run(&["DEL", hash]);
        assert_eq!(blocker.release().await, Released::Released, "{broken}");
        eventually("nothing of the waiter", || server.keys().is_empty()).await;
    }
    nothing_is_left(&[&server], vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_grow_whatever_became_of_the_last_one() {
    let (server, a, b) = site(Flavour::Redis7).await;
    let key = "fieldlease:{Product:1}:o";
    let mut last = 0;
    for broken in [None, Some("abc"), Some(""), Some("-5"), Some("9223372036854775807")] {
        if let Some(broken) = broken {
            server.run(&["SET", key, broken]);
        }
        let order = a.order("media").await;
        assert!(order > last && order < 1 << 53, "{broken:?}: {order} after {last}");
        last = order;
    }
    server.run(&["DEL", key]);
    let order = a.order("media").await;
    assert!(order > last && order < 1 << 53, "{order} after {last}");
    server.run(&["DEL", key]);
    nothing_is_left(&[&server], vec![a, b]).await;
}
