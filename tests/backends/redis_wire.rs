//! What is sent to a server, seen by the server: how many commands an operation is, and what is left afterwards.

use std::{collections::BTreeSet, time::Duration};

use fieldlease::{
    entity::EntityRef,
    lease::{
        Acquire, Ask, Extent, LeaseStore, Renew, Renewal,
        redis::{RedisLeases, RedisOptions},
    },
    scope::{ScopeName, ScopeSet},
    token::{Entropy, Generation, HolderToken, SystemEntropy},
};

use crate::servers::{Flavour, Server};

const TTL: Duration = Duration::from_secs(10);

fn ask(id: &str, groups: &[&str]) -> Ask {
    let whole = groups.first() == Some(&"*");
    let names =
        groups.iter().filter(|name| **name != "*").map(|name| ScopeName::parse(name).unwrap());
    let scopes = ScopeSet::new(EntityRef::new("Product", id).unwrap(), names);
    Ask {
        extent: if whole { Extent::Whole(scopes) } else { Extent::Groups(scopes) },
        token: HolderToken(SystemEntropy.bytes()),
        ttl: TTL,
        ttl_max: TTL * 10,
        label: "worker".into(),
        generation: Generation([7; 32]),
        queue: false,
        order: false,
    }
}

fn renew(ask: &Ask) -> Renew {
    Renew { extent: ask.extent.clone(), token: ask.token, ttl: ask.ttl }
}

async fn connect(server: &Server) -> RedisLeases {
    RedisLeases::connect(&server.url(), RedisOptions::default()).await.unwrap()
}

/// The names of the commands clients sent, not those that scripts called.
fn sent(lines: &[String]) -> Vec<String> {
    let by_client = lines.iter().filter(|line| !line.contains(" lua]"));
    by_client.filter_map(|line| line.split('"').nth(1)).map(str::to_uppercase).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_one_command_whatever_the_number_of_groups() {
    for flavour in [Flavour::Redis7, Flavour::Redis62, Flavour::Valkey9] {
        let server = Server::start(flavour, &[]);
        let leases = connect(&server).await;
        let (one, other) = (ask("1", &["media"]), ask("1", &["media"]));
        let many = ask("2", &["a", "b", "c", "d", "translation[locale=de]"]);
        let whole = ask("3", &["*", "a", "b"]);
        let (mut waiter, mut both) = (ask("1", &["media"]), ask("2", &["a", "b"]));
        (waiter.queue, both.queue) = (true, true);
        // Afterwards the server knows the scripts.
        for step in [Step::Acquire(&many), Step::Renew(&many), Step::Release(&many)] {
            step.take(&leases).await;
        }

        let steps: [(&str, &[&str], Step); 14] = [
            ("an uncontended lease", &["SET"], Step::Acquire(&one)),
            ("a refusal", &["SET", "EVALSHA"], Step::Acquire(&other)),
            ("a place in the queue", &["SET", "EVALSHA"], Step::Acquire(&waiter)),
            ("another try from there", &["EVALSHA"], Step::Acquire(&waiter)),
            ("five scopes", &["EVALSHA"], Step::Acquire(&many)),
            ("a place for two", &["EVALSHA"], Step::Acquire(&both)),
            ("a whole entity", &["EVALSHA"], Step::Acquire(&whole)),
            ("ten renewals of one entity", &["EVALSHA"], Step::Renew(&many)),
            ("a release of a whole", &["EVALSHA"], Step::Release(&whole)),
            ("a release of five, with a waiter", &["EVALSHA"], Step::Release(&many)),
            ("the waiter's release", &["EVALSHA"], Step::Release(&both)),
            ("a release with a waiter", &["EVALSHA"], Step::Release(&one)),
            ("a release", &["EVALSHA"], Step::Release(&waiter)),
            ("a second release", &["EVALSHA"], Step::Release(&one)),
        ];
        for (what, commands, step) in steps {
            let monitor = server.monitor();
            step.take(&leases).await;
            assert_eq!(sent(&server.monitored(&monitor)), commands, "{flavour}: {what}");
        }
        assert_eq!(server.keys(), Vec::<String>::new(), "{flavour}");
    }
}

async fn granted(leases: &RedisLeases, ask: &Ask) -> bool {
    matches!(leases.acquire(ask).await.unwrap(), Acquire::Granted { .. })
}

enum Step<'a> {
    Acquire(&'a Ask),
    Renew(&'a Ask),
    Release(&'a Ask),
}

impl Step<'_> {
    async fn take(&self, leases: &RedisLeases) {
        match self {
            Self::Acquire(ask) => drop(leases.acquire(ask).await.unwrap()),
            Self::Renew(ask) => {
                let batch = vec![renew(ask); 10];
                assert_eq!(leases.renew(&batch).await, vec![Renewal::Renewed; 10]);
            }
            Self::Release(ask) => drop(leases.release(&ask.extent, ask.token).await.unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lc_09_a_lost_script_costs_one_more_command_and_nothing_else() {
    for flavour in [Flavour::Redis7, Flavour::Redis62, Flavour::Valkey9] {
        let server = Server::start(flavour, &[]);
        let leases = connect(&server).await;
        let (two, one) = (ask("1", &["a", "b"]), ask("2", &["a"]));
        let mut waiter = ask("1", &["a"]);
        waiter.queue = true;
        granted(&leases, &one).await;
        let steps = [
            ("acquire", Step::Acquire(&two)),
            ("wait", Step::Acquire(&waiter)),
            ("renew", Step::Renew(&two)),
            ("release", Step::Release(&waiter)),
            ("release of a lease", Step::Release(&two)),
            ("release of one", Step::Release(&one)),
        ];
        for (what, step) in steps {
            server.run(&["SCRIPT", "FLUSH"]);
            let monitor = server.monitor();
            step.take(&leases).await;
            let seen = sent(&server.monitored(&monitor));
            let scripts: Vec<&str> =
                seen.iter().map(String::as_str).filter(|name| *name != "SET").collect();
            assert_eq!(scripts, ["EVALSHA", "EVAL"], "{flavour}: {what}");
        }
        server.run(&["SCRIPT", "FLUSH"]);
        let monitor = server.monitor();
        leases.inspect(Some(one.extent.entity()), None, 10).await.unwrap();
        let broken = leases.break_lease(&one.extent.scopes().iter().next().unwrap(), "why").await;
        assert_eq!(broken.unwrap(), None);
        let seen = sent(&server.monitored(&monitor));
        assert!(!seen.contains(&"SCRIPT".to_owned()), "{seen:?}");

        server.restart();
        assert!(granted(&leases, &ask("9", &["a", "b"])).await, "{flavour}: restarted");
        assert_eq!(server.commandstats().get("script|load").copied().unwrap_or(0), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lc_13_what_a_server_keeps_always_ends_and_never_later_than_asked() {
    for flavour in [Flavour::Redis7, Flavour::Redis62, Flavour::Valkey9] {
        let server = Server::start(flavour, &[]);
        let leases = connect(&server).await;
        for (ms, groups) in [
            (100_u64, &["a"][..]),
            (500, &["a"]),
            (1_500, &["a", "b"]),
            (86_400_000, &["a"]),
            (700, &["translation[locale=de]"]),
            (900, &["*", "a"]),
        ] {
            let mut ask = ask("1", groups);
            (ask.ttl, ask.ttl_max) = (Duration::from_millis(ms), Duration::from_millis(ms));
            assert!(granted(&leases, &ask).await, "{ms}");
            for renewed in [false, true] {
                if renewed && leases.renew(&[renew(&ask)]).await != [Renewal::Renewed] {
                    // The shortest may have ended on a busy machine.
                    assert_eq!(ms, 100);
                }
                for key in server.keys() {
                    let left: i64 = server.command(&["PTTL", &key]).text().parse().unwrap();
                    // The hash may outlive what is in it, by the time of a place at most.
                    let most = i64::try_from(ms).unwrap();
                    assert!(left != -1 && left <= most, "{flavour} {ms} {key}: {left}");
                }
            }
            leases.release(&ask.extent, ask.token).await.unwrap();
        }
        assert_eq!(server.keys(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lc_10_everything_an_entity_has_lies_in_one_slot_whatever_its_id() {
    let server = Server::start(Flavour::Redis7, &[]);
    let judge = Server::start(Flavour::Redis7, &["--cluster-enabled", "yes"]);
    let leases = connect(&server).await;
    for id in ["a{b}c", "{}", "}x{", "", "a:b\n", "abc", "\u{1F600}{"] {
        let holder = ask(id, &["media", "search", "translation[locale=de]"]);
        assert!(granted(&leases, &holder).await, "{id:?}");
        let mut waiter = ask(id, &["media"]);
        (waiter.queue, waiter.order) = (true, true);
        drop(leases.acquire(&waiter).await.unwrap());
        let keys = server.keys();
        let slot = |key: &String| judge.command(&["CLUSTER", "KEYSLOT", key]).text();
        let slots: BTreeSet<u16> = keys.iter().map(|key| slot(key).parse().unwrap()).collect();
        assert!(keys.len() >= 4, "{keys:?}");
        assert_eq!(slots.len(), 1, "{id:?}: {keys:?}");
        leases.release(&waiter.extent, waiter.token).await.unwrap();
        leases.release(&holder.extent, holder.token).await.unwrap();
        // The last order given is remembered for a day.
        let left = server.keys().into_iter().filter(|key| !key.ends_with("}:o"));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new(), "{id:?}");
    }
}
