//! A primary with two replicas, watched by three sentinels.

use std::time::Duration;

use crate::servers::{Flavour, Server, Setup, until};

/// What the sentinels call the primary.
pub(crate) const NAME: &str = "leases";
/// How many sentinels must agree that the primary is gone.
const QUORUM: &str = "2";

pub(crate) struct Watched {
    /// The first one is the primary in the beginning.
    pub(crate) servers: Vec<Server>,
    pub(crate) sentinels: Vec<Server>,
}

impl Watched {
    /// Starts all, and waits until all know each other. A primary that is silent for `down_after` is replaced.
    pub(crate) fn start(flavour: Flavour, down_after: Duration) -> Self {
        let primary = Server::start(flavour, &["--repl-diskless-sync-delay", "0"]);
        let port = primary.port().to_string();
        let mut servers = vec![primary];
        servers.extend((0..2).map(|_| replica(flavour, &port)));
        let down_after = down_after.as_millis();
        let configuration = format!(
            "sentinel monitor {NAME} 127.0.0.1 {port} {QUORUM}\n\
             sentinel down-after-milliseconds {NAME} {down_after}\n\
             sentinel failover-timeout {NAME} 4000\n\
             sentinel parallel-syncs {NAME} 2\n"
        );
        let sentinel = || Setup::new(flavour).sentinel().configuration(&configuration).start();
        let sentinels = (0..3).map(|_| sentinel()).collect();
        let watched = Self { servers, sentinels };
        watched.wait_until_known();
        watched
    }

    /// Waits until every sentinel knows both others and two replicas, and the replicas have the primary's data.
    fn wait_until_known(&self) {
        until("all know each other", || {
            let sentinels = self.sentinels.iter().all(|sentinel| {
                let primary = sentinel.run(&["SENTINEL", "MASTER", NAME]).texts();
                let field = |name: &str| {
                    let at = primary.iter().position(|it| it == name).unwrap();
                    primary.get(at + 1).cloned().unwrap()
                };
                field("num-other-sentinels") == "2"
                    && field("num-slaves") == "2"
                    && field("flags") == "master"
            });
            let linked = |server: &&Server| {
                server.info("replication").get("master_link_status").is_some_and(|it| it == "up")
            };
            sentinels && self.servers.iter().filter(linked).count() == 2
        });
    }

    /// `redis+sentinel://HOST:PORT,HOST:PORT,HOST:PORT/NAME`
    pub(crate) fn url(&self) -> String {
        let addresses: Vec<String> = self.sentinels.iter().map(Server::address).collect();
        format!("redis+sentinel://{}/{NAME}", addresses.join(","))
    }

    /// Whom the sentinel of this number takes for the primary.
    pub(crate) fn told_by(&self, sentinel: &Server) -> u16 {
        let told = sentinel.run(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).texts();
        told.last().unwrap().parse().unwrap()
    }

    /// The server all sentinels that run take for the primary, once it says so itself.
    pub(crate) fn primary(&self) -> &Server {
        let mut found = None;
        until("all agree on a primary", || {
            let running = self.sentinels.iter().filter(|sentinel| sentinel.answers());
            let mut told: Vec<u16> = running.map(|sentinel| self.told_by(sentinel)).collect();
            told.dedup();
            let [port] = told.as_slice() else { return false };
            let server = self.servers.iter().find(|server| server.port() == *port);
            found = server.filter(|server| server.answers() && server.is_primary());
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until another server than this is the primary.
    pub(crate) fn primary_other_than<'a>(&'a self, old: &'a Server) -> &'a Server {
        let mut now = old;
        until("another primary", || {
            now = self.primary();
            now.port() != old.port()
        });
        now
    }

    /// Asks the first sentinel for another primary, and waits for it.
    pub(crate) fn failover(&self) -> &Server {
        let old = self.primary();
        let first = self.sentinels.first().unwrap();
        // Refused while it still works on the last one.
        until("the failover begins", || !first.command(&["SENTINEL", "FAILOVER", NAME]).is_error());
        self.primary_other_than(old)
    }
}

fn replica(flavour: Flavour, primary: &str) -> Server {
    Setup::new(flavour)
        .configuration(format!("replicaof 127.0.0.1 {primary}\nrepl-diskless-sync-delay 0\n"))
        .start()
}
