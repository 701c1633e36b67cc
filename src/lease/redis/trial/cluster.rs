//! Three primaries, some with a replica.

use std::time::Duration;

use redis::{Cmd, Value};

use crate::lease::redis::{
    fault::Class,
    link::Link,
    slots::slot,
    trial::server::{Server, bulk, connect, eventually, set, settings, target, until},
    wait,
};

struct Nodes {
    servers: Vec<Server>,
}

const SHARE: u16 = 5_461;

impl Nodes {
    /// The first three keep the slots; others replicate the first.
    fn start(count: usize) -> Self {
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500"];
        let servers: Vec<_> = (0..count).map(|_| Server::start(&options)).collect();
        for (at, server) in servers.iter().enumerate() {
            server.tell(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
            if at < 3 {
                let first = SHARE * u16::try_from(at).unwrap();
                let last = if at == 2 { 16_383 } else { first + SHARE - 1 };
                let slots: Vec<_> = (first..=last).map(|slot| slot.to_string()).collect();
                assert!(
                    server.tell(&format!("CLUSTER ADDSLOTS {}", slots.join(" "))).contains("+OK")
                );
            }
            if at > 0 {
                server.tell(&format!("CLUSTER MEET 127.0.0.1 {}", servers[0].port));
            }
        }
        let nodes = Self { servers };
        nodes.settled(count);
        for replica in nodes.servers.iter().skip(3) {
            let of = nodes.id(0);
            until("it replicates", || {
                replica.tell(&format!("CLUSTER REPLICATE {of}")).contains("+OK")
            });
        }
        until("replicas follow and everybody knows", || {
            let replicas = nodes.servers.iter().skip(3);
            replicas.clone().all(|one| one.tell("INFO replication").contains("link_status:up"))
                && nodes
                    .servers
                    .iter()
                    .all(|one| one.tell("CLUSTER NODES").matches("slave").count() == count - 3)
        });
        nodes
    }

    fn settled(&self, count: usize) {
        until("the cluster is whole", || {
            self.servers.iter().all(|server| {
                let info = server.tell("CLUSTER INFO");
                info.contains("cluster_state:ok")
                    && info.contains(&format!("cluster_known_nodes:{count}"))
            })
        });
    }

    fn id(&self, at: usize) -> String {
        let answer = self.servers[at].tell("CLUSTER MYID");
        answer.lines().nth(1).unwrap().trim().to_owned()
    }

    fn url(&self) -> String {
        format!(
            "redis+cluster://127.0.0.1:{},127.0.0.1:{}",
            self.servers[0].port, self.servers[1].port
        )
    }
}

fn get(key: &str) -> Cmd {
    let mut command = redis::cmd("GET");
    command.arg(key);
    command
}

/// A key of the first node, that is, of a slot below its share.
fn key_of_first() -> String {
    (0..).map(|n| format!("{{k{n}}}")).find(|key| slot(key.as_bytes()) < SHARE).unwrap()
}

async fn sent(link: &Link, command: &Cmd, key: &str) -> Value {
    link.send(slot(key.as_bytes()), command, None)
        .await
        .unwrap_or_else(|fault| panic!("{key}: {fault}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_pipelines_and_messages_reach_every_node() {
    let nodes = Nodes::start(3);
    let link = connect(&nodes.url()).await;
    let keys: Vec<_> = (0..1_500).map(|n| format!("k{n}")).collect();

    let all: Vec<_> = keys.iter().map(|key| (slot(key.as_bytes()), set(key, key))).collect();
    let stored = link.send_all(&all, None).await;
    for key in keys.iter().take(50) {
        assert_eq!(sent(&link, &get(key), key).await, bulk(key));
    }
    let mut messages = link.subscribe("c").await.unwrap();
    for node in link.nodes() {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg("c").arg(node.to_string());
        link.send_to(&node, &publish).await.unwrap();
        assert_eq!(messages.next().await, Some(node.to_string().into_bytes()));
    }

    assert!(stored.iter().all(|answer| *answer == Ok(Value::Okay)), "{stored:?}");
    assert_eq!(link.nodes().len(), 3);
    assert!(nodes.servers.iter().all(|server| server.ours() <= 2));
    drop((messages, link));
    until("no connection of ours is left", || {
        nodes.servers.iter().all(|server| server.ours() == 0)
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_on_its_way_is_followed_and_its_new_node_remembered() {
    let nodes = Nodes::start(3);
    let link = connect(&nodes.url()).await;
    let key = key_of_first();
    let number = slot(key.as_bytes());
    let (from, to) = (&nodes.servers[0], &nodes.servers[1]);
    sent(&link, &set(&key, "here"), &key).await;

    to.tell(&format!("CLUSTER SETSLOT {number} IMPORTING {}", nodes.id(0)));
    from.tell(&format!("CLUSTER SETSLOT {number} MIGRATING {}", nodes.id(1)));
    // Here still, and absent, which the new node takes.
    assert_eq!(sent(&link, &get(&key), &key).await, bulk("here"));
    let absent = format!("{key}absent");
    assert_eq!(sent(&link, &set(&absent, "there"), &absent).await, Value::Okay);
    assert_eq!(sent(&link, &get(&absent), &absent).await, bulk("there"));
    // Two keys, one here and one there: told as something to try again, never as lost.
    let mut both = redis::cmd("MGET");
    both.arg(&key).arg(&absent);
    let split = link.send(number, &both, None).await.unwrap_err();
    assert_eq!((split.class, split.code.as_str()), (Class::NotExecuted, "TRYAGAIN"));
    let moving = async {
        wait::pause(Duration::from_millis(100)).await;
        from.tell(&format!("MIGRATE 127.0.0.1 {} {key} 0 5000", to.port));
    };
    let (answer, ()) =
        tokio::join!(link.send(number, &both, Some(Duration::from_secs(10))), moving);
    assert_eq!(answer, Ok(Value::Array(vec![bulk("here"), bulk("there")])));
    for server in [to, from, &nodes.servers[2]] {
        server.tell(&format!("CLUSTER SETSLOT {number} NODE {}", nodes.id(1)));
    }
    let many: Vec<_> = (0..100).map(|_| (number, get(&key))).collect();
    let answers = link.send_all(&many, None).await;
    let redirects = from.info("errorstat_MOVED", Some("count"));
    sent(&link, &get(&key), &key).await;
    link.send_all(&many, None).await;

    assert!(answers.iter().all(|answer| *answer == Ok(bulk("here"))), "{answers:?}");
    assert_eq!(redirects, 100);
    assert_eq!(from.info("errorstat_MOVED", Some("count")), redirects, "it was not remembered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_over_is_found() {
    let mut nodes = Nodes::start(4);
    let link = connect(&nodes.url()).await;
    let key = key_of_first();
    let number = slot(key.as_bytes());
    sent(&link, &set(&key, "v"), &key).await;
    let mut messages = link.subscribe("c").await.unwrap();

    nodes.servers[0].kill();
    let heard = wait::within(Duration::from_secs(10), messages.next());
    let other =
        (0..).map(|n| format!("o{n}")).find(|key| slot(key.as_bytes()) > 2 * SHARE).unwrap();
    let elsewhere = link.send(slot(other.as_bytes()), &set(&other, "v"), None).await;
    let faults = eventually(&link, number, &set(&key, "v")).await;

    assert!(elsewhere.is_ok(), "{elsewhere:?}");
    assert!(!faults.is_empty());
    assert!(faults.iter().all(|fault| fault.class == Class::NotExecuted), "{faults:?}");
    assert!(
        link.nodes()
            .iter()
            .any(|node| node.to_string().ends_with(&nodes.servers[3].port.to_string()))
    );
    // The subscription was with the one node connected then; it ends with it.
    assert_eq!(heard.await, Some(None));
    assert!(link.subscribe("c").await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_while_the_old_node_lives_is_followed() {
    let nodes = Nodes::start(4);
    let link = connect(&nodes.url()).await;
    let key = key_of_first();
    let number = slot(key.as_bytes());
    sent(&link, &set(&key, "v"), &key).await;

    assert!(nodes.servers[3].tell("CLUSTER FAILOVER").contains("+OK"));
    until("it took over", || nodes.servers[3].tell("ROLE").contains("master"));
    let faults = eventually(&link, number, &set(&key, "w")).await;

    assert!(faults.iter().all(|fault| fault.class == Class::NotExecuted), "{faults:?}");
    assert!(nodes.servers[3].tell(&format!("GET {key}")).contains('w'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_no_cluster_is_told() {
    let server = Server::start(&[]);

    let target = target(&format!("redis+cluster://127.0.0.1:{}", server.port));
    let linked = Link::connect(&target, settings());

    let Err(error) = linked.await else { panic!() };
    assert!(error.to_string().contains("cluster support disabled"), "{error}");
}
