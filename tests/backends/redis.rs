//! Leases on Redis and Valkey pass the whole suite, on every server version that is supported.

use std::{sync::Arc, time::Duration};

use fieldlease::{
    clock::{BoxFuture, Clock, SystemClock},
    lease::{
        LeaseStore,
        redis::{RedisLeases, RedisOptions},
    },
    testing::lease_suite::{Passing, cases, failures},
};
use tokio::task::JoinSet;

use crate::servers::{Flavour, Server, until};

/// Time passes at a server by itself.
struct Really;

impl Passing for Really {
    fn pass(&self, by: Duration) -> BoxFuture<'_, ()> {
        SystemClock.sleep_until(SystemClock.now().plus(by))
    }
}

fn options(namespace: &str) -> RedisOptions {
    RedisOptions { namespace: namespace.to_owned(), ..RedisOptions::default() }
}

/// Every case in a namespace of its own, all at once.
async fn suite(flavour: Flavour) -> (Server, Vec<String>) {
    let server = Server::start(flavour, &[]);
    let mut running = JoinSet::new();
    for (at, case) in cases().into_iter().enumerate() {
        let store = RedisLeases::connect(&server.url(), options(&format!("n{at}"))).await.unwrap();
        let store: Arc<dyn LeaseStore> = Arc::new(store);
        running.spawn(async move {
            let fresh = || -> (Arc<dyn LeaseStore>, Arc<dyn Passing>) {
                (Arc::clone(&store), Arc::new(Really))
            };
            failures("redis", vec![case], fresh).await
        });
    }
    let found = running.join_all().await.concat();
    (server, found)
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_on_every_server_version_pass_the_suite_and_leave_nothing() {
    let flavours = [Flavour::Redis7, Flavour::Redis62, Flavour::Valkey9];
    let mut running = JoinSet::new();
    for flavour in flavours {
        running.spawn(suite(flavour));
    }
    for (server, failures) in running.join_all().await {
        assert!(failures.is_empty(), "{}: {failures:#?}", server.flavour());
        until("every connection is closed", || server.clients().is_empty());
        assert_eq!(server.channels(), Vec::<String>::new(), "{}", server.flavour());
    }
}
