//! Three sentinels, a primary and a replica.

use std::{fs, time::Duration};

use rustix::process::Signal;

use crate::lease::redis::{
    fault::Class,
    link::Link,
    trial::server::{
        Server, connect, echo, eventually, free_port, set, settings, target, tell, until,
    },
};

struct Watched {
    /// The first was the primary when it began.
    servers: [Server; 2],
    sentinels: Vec<Server>,
}

impl Watched {
    fn start() -> Self {
        let primary = Server::start(&[]);
        let port = primary.port.to_string();
        let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
        until("the replica follows", || {
            replica.tell("INFO replication").contains("master_link_status:up")
        });
        let sentinels: Vec<_> = (0..3).map(|_| sentinel(primary.port)).collect();
        let watched = Self { servers: [primary, replica], sentinels };
        until("the sentinels know each other and the replica", || {
            watched.sentinels.iter().all(|one| {
                let told = one.tell("SENTINEL master main");
                let value = |key: &str| {
                    let rest = told.split_once(&format!("{key}\r\n")).map(|(_, rest)| rest);
                    rest.and_then(|rest| rest.lines().nth(1)).map(str::to_owned)
                };
                value("num-slaves").as_deref() == Some("1")
                    && value("num-other-sentinels").as_deref() == Some("2")
            })
        });
        watched
    }

    fn url(&self) -> String {
        let list: Vec<_> =
            self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
        format!("redis+sentinel://{}/main", list.join(","))
    }
}

fn sentinel(primary: u16) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sentinel.conf");
    let lines = [
        format!("sentinel monitor main 127.0.0.1 {primary} 2"),
        "sentinel down-after-milliseconds main 800".to_owned(),
        "sentinel failover-timeout main 3000".to_owned(),
        "sentinel parallel-syncs main 1".to_owned(),
    ];
    fs::write(&path, lines.join("\n")).unwrap();
    Server::start_configured(free_port(), folder, &[path.to_str().unwrap(), "--sentinel"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_primary_is_found_when_the_old_one_dies() {
    let mut watched = Watched::start();
    let link = connect(&watched.url()).await;
    let old = link.nodes()[0].clone();
    let mut messages = link.subscribe("c").await.unwrap();

    watched.servers[0].kill();
    let heard = messages.next().await;
    let faults = eventually(&link, 0, &set("k", "v")).await;

    assert_eq!(old.to_string(), format!("127.0.0.1:{}", watched.servers[0].port));
    assert_eq!(heard, None);
    assert!(faults.iter().all(|fault| fault.class == Class::NotExecuted), "{faults:?}");
    assert_eq!(link.nodes()[0].to_string(), format!("127.0.0.1:{}", watched.servers[1].port));
    assert!(watched.servers[1].tell("GET k").contains('v'));
    assert!(link.subscribe("c").await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_while_the_old_primary_lives_is_followed_and_nothing_is_lost_on_the_way() {
    let watched = Watched::start();
    let link = connect(&watched.url()).await;
    let new = format!("127.0.0.1:{}", watched.servers[1].port);

    assert!(watched.sentinels[0].tell("SENTINEL failover main").contains("+OK"));
    let mut unknown = Vec::new();
    for n in 0.. {
        assert!(n < 3_000, "never switched");
        if let Err(fault) = link.send(0, &set("k", "v"), None).await
            && fault.class != Class::NotExecuted
        {
            unknown.push(fault);
        }
        if link.nodes()[0].to_string() == new {
            break;
        }
        crate::lease::redis::wait::pause(Duration::from_millis(10)).await;
    }
    eventually(&link, 0, &set("k", "v")).await;

    // One may have been under way when the server cut its clients off.
    assert!(unknown.len() <= 1, "{unknown:?}");
    assert!(watched.servers[1].tell("ROLE").contains("master"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_sentinels_the_primary_is_kept_and_found_again_where_it_was() {
    let mut watched = Watched::start();
    let link = connect(&watched.url()).await;

    watched.sentinels[0].signal(Signal::STOP);
    watched.sentinels[1].kill();
    watched.sentinels[2].kill();
    let kept = link.send(0, &echo("x"), None).await;
    watched.servers[0].tell("CLIENT KILL TYPE normal SKIPME yes");
    eventually(&link, 0, &echo("x")).await;
    let fresh = Link::connect(&target(&watched.url()), settings()).await;

    assert!(kept.is_ok(), "{kept:?}");
    let Err(error) = fresh else { panic!("found a primary nobody named") };
    assert!(error.to_string().contains("no primary `main` found"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_name_and_a_server_that_is_no_sentinel_are_told() {
    let server = Server::start(&[]);
    let sentinel = sentinel(server.port);
    let cases = [
        (
            format!("redis+sentinel://127.0.0.1:{}/other", sentinel.port),
            "knows no primary named `other`",
        ),
        (format!("redis+sentinel://127.0.0.1:{}/main", server.port), "is not a sentinel"),
        (format!("redis://127.0.0.1:{}", sentinel.port), "is a sentinel; write `redis+sentinel://"),
    ];

    for (url, expected) in cases {
        let Err(error) = Link::connect(&target(&url), settings()).await else { panic!("{url}") };
        assert!(error.to_string().contains(expected), "{url}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_is_behind_is_outvoted_and_a_replica_it_names_is_not_used() {
    let server = Server::start(&[]);
    let replica = Server::start(&["--replicaof", "127.0.0.1", &server.port.to_string()]);
    let stale = sentinel(replica.port);
    let good = sentinel(server.port);
    let list = format!("127.0.0.1:{},127.0.0.1:{}", stale.port, good.port);
    // A sentinel that watches a replica may follow it to its primary; this one must not have yet.
    let named = tell(stale.port, "SENTINEL get-master-addr-by-name main").unwrap();

    let link = connect(&format!("redis+sentinel://{list}/main")).await;

    assert!(named.contains(&replica.port.to_string()), "{named}");
    assert_eq!(link.nodes()[0].to_string(), format!("127.0.0.1:{}", server.port));
}
