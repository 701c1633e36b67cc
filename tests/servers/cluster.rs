//! A cluster of six: three primaries that share the slots, each with a replica.

use std::collections::BTreeSet;

use crate::servers::{Flavour, Reply, Server, Setup, resp::Client, until};

/// How many slots there are.
const SLOTS: u16 = 16_384;
const PRIMARIES: usize = 3;

pub(crate) struct Cluster {
    /// The first three are the primaries in the beginning, the other three their replicas in the same order.
    pub(crate) nodes: Vec<Server>,
}

impl Cluster {
    /// Starts it and waits until every node sees all slots served. A node that is silent for 1.5 s is taken for dead.
    pub(crate) fn start(flavour: Flavour) -> Self {
        Self::with(flavour, &[])
    }

    /// With further options of the command line for every node.
    pub(crate) fn with(flavour: Flavour, arguments: &[&str]) -> Self {
        let node = || {
            Setup::new(flavour)
                .arguments(&["--cluster-enabled", "yes", "--cluster-node-timeout", "1500"])
                .arguments(&["--cluster-require-full-coverage", "no"])
                .arguments(&["--cluster-config-file", "nodes", "--repl-diskless-sync-delay", "0"])
                .arguments(arguments)
                .start()
        };
        let cluster = Self { nodes: (0..PRIMARIES * 2).map(|_| node()).collect() };
        cluster.join();
        cluster
    }

    fn join(&self) {
        let first = self.nodes.first().unwrap();
        for (number, node) in self.nodes.iter().take(PRIMARIES).enumerate() {
            let share = |number: usize| usize::from(SLOTS) * number / PRIMARIES;
            let slots: Vec<String> =
                (share(number)..share(number + 1)).map(|slot| slot.to_string()).collect();
            let mut command = vec!["CLUSTER", "ADDSLOTS"];
            command.extend(slots.iter().map(String::as_str));
            node.run(&command);
            node.run(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
        }
        for node in self.nodes.iter().skip(1) {
            node.run(&["CLUSTER", "MEET", "127.0.0.1", &first.port().to_string()]);
        }
        until("all nodes have met", || {
            self.nodes.iter().all(|node| node.info_of_cluster("cluster_known_nodes") == "6")
        });
        let (primaries, replicas) = self.nodes.split_at(PRIMARIES);
        for (primary, replica) in primaries.iter().zip(replicas) {
            let id = id(primary);
            until("the primary is known to its replica", || {
                !replica.command(&["CLUSTER", "REPLICATE", &id]).is_error()
            });
        }
        self.wait_until_ok();
    }

    /// Waits until every node sees all slots served by a primary with a replica that has its data.
    pub(crate) fn wait_until_ok(&self) {
        until("the cluster is whole", || {
            let ok = |node: &Server| node.info_of_cluster("cluster_state") == "ok";
            let linked = |node: &&Server| {
                node.info("replication").get("master_link_status").is_some_and(|it| it == "up")
            };
            self.nodes.iter().all(ok)
                && self.nodes.iter().filter(linked).count() == PRIMARIES
                && self.nodes.iter().all(|node| self.primaries_seen_by(node) == PRIMARIES)
        });
    }

    /// Primaries with a replica each, as the node sees them.
    fn primaries_seen_by(&self, node: &Server) -> usize {
        let slots = node.run(&["CLUSTER", "SLOTS"]);
        let whole = |range: &&Reply| range.list().len() == 4;
        let owner = |range: &Reply| range.list().get(2).map(|owner| owner.texts());
        let owners: BTreeSet<_> = slots.list().iter().filter(whole).map(owner).collect();
        owners.len()
    }

    /// `redis+cluster://HOST:PORT,...` with the primaries of the beginning.
    pub(crate) fn url(&self) -> String {
        let addresses: Vec<String> =
            self.nodes.iter().take(PRIMARIES).map(Server::address).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// The slot of a key, as the servers reckon it.
    pub(crate) fn slot(&self, key: &str) -> u16 {
        let slot = self.some_node().run(&["CLUSTER", "KEYSLOT", key]).int();
        u16::try_from(slot).unwrap()
    }

    /// A node that runs.
    fn some_node(&self) -> &Server {
        self.nodes.iter().find(|node| node.answers()).unwrap()
    }

    /// The node that serves the slot now, as it says itself.
    pub(crate) fn owner_of(&self, slot: u16) -> &Server {
        let mut found = None;
        until("somebody serves the slot", || {
            let serves = |node: &&Server| {
                node.answers() && node.is_primary() && port_of(node, slot) == Some(node.port())
            };
            found = self.nodes.iter().find(serves);
            found.is_some()
        });
        found.unwrap()
    }

    /// A replica of the node that serves the slot.
    pub(crate) fn replica_of(&self, slot: u16) -> &Server {
        let owner = self.owner_of(slot).port().to_string();
        let follows = |node: &&Server| {
            let info = node.info("replication");
            info.get("master_port").is_some_and(|port| *port == owner)
        };
        self.nodes.iter().find(|node| node.answers() && follows(node)).unwrap()
    }

    /// A primary that does not serve the slot.
    pub(crate) fn other_than_owner(&self, slot: u16) -> &Server {
        let owner = self.owner_of(slot).port();
        let other = |node: &&Server| node.is_primary() && node.port() != owner;
        self.nodes.iter().find(other).unwrap()
    }

    /// Begins to move a slot: keys that are not there yet are asked for at the other node from now on.
    pub(crate) fn begin_migration<'a>(&'a self, slot: u16, to: &'a Server) -> Migration<'a> {
        let from = self.owner_of(slot);
        let text = slot.to_string();
        to.run(&["CLUSTER", "SETSLOT", &text, "IMPORTING", &id(from)]);
        from.run(&["CLUSTER", "SETSLOT", &text, "MIGRATING", &id(to)]);
        Migration { cluster: self, slot, from, to }
    }

    /// A replica takes over at once, whatever its primary has not told it yet.
    pub(crate) fn take_over(&self, slot: u16) {
        let (old, replica) = (self.owner_of(slot).port(), self.replica_of(slot));
        replica.run(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
        until("the replica serves the slot", || {
            self.owner_of(slot).port() == replica.port()
                && self
                    .nodes
                    .iter()
                    .filter(|node| node.answers())
                    .all(|node| port_of(node, slot) != Some(old))
        });
    }

    /// Changes roles without losing anything.
    pub(crate) fn failover(&self, slot: u16) {
        let replica = self.replica_of(slot);
        replica.run(&["CLUSTER", "FAILOVER"]);
        until("the replica serves the slot", || self.owner_of(slot).port() == replica.port());
        self.wait_until_ok();
    }

    /// All keys of all primaries.
    pub(crate) fn keys(&self) -> Vec<String> {
        let primaries = self.nodes.iter().filter(|node| node.answers() && node.is_primary());
        let mut keys: Vec<String> = primaries.flat_map(Server::keys).collect();
        keys.sort();
        keys
    }
}

/// A slot on its way.
pub(crate) struct Migration<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: &'a Server,
    to: &'a Server,
}

impl Migration<'_> {
    /// Moves the keys that are there; both nodes still answer for the slot.
    pub(crate) fn move_keys(&self) -> usize {
        let slot = self.slot.to_string();
        let keys = self.from.run(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]).texts();
        self.move_these(&keys);
        keys.len()
    }

    /// Moves these keys only.
    pub(crate) fn move_these(&self, keys: &[String]) {
        let port = self.to.port().to_string();
        let mut command = vec!["MIGRATE", "127.0.0.1", port.as_str(), "", "0", "5000", "KEYS"];
        command.extend(keys.iter().map(String::as_str));
        if !keys.is_empty() {
            self.from.run(&command);
        }
    }

    /// Gives the slot to the other node, with all keys, and waits until every node knows.
    pub(crate) fn finish(self) {
        self.move_keys();
        let (slot, id) = (self.slot.to_string(), id(self.to));
        for node in [self.to, self.from] {
            node.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
        until("all know who serves the slot", || {
            let nodes = self.cluster.nodes.iter().filter(|node| node.answers());
            nodes.into_iter().all(|node| port_of(node, self.slot) == Some(self.to.port()))
        });
    }
}

/// The name of a node within its cluster.
pub(crate) fn id(node: &Server) -> String {
    node.run(&["CLUSTER", "MYID"]).text()
}

/// Who serves the slot, as the node sees it.
fn port_of(node: &Server, slot: u16) -> Option<u16> {
    let slots = node.run(&["CLUSTER", "SLOTS"]);
    slots.list().iter().find_map(|range| {
        let [from, to, owner, ..] = range.list() else { return None };
        let within = (from.int()..=to.int()).contains(&i64::from(slot));
        let port = owner.list().get(1)?.int();
        within.then(|| u16::try_from(port).unwrap())
    })
}

/// A client that speaks to one node only and follows nobody.
pub(crate) fn client_of(node: &Server) -> Client {
    Client::tcp(node.port()).unwrap()
}
