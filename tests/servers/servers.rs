//! Real servers for tests: started on ports of their own, spoken to without the product's client, and gone afterwards.
//!
//! A test target declares `#[path = "../servers/servers.rs"] mod servers;`. Everything here blocks; a test that is
//! asynchronous runs on more than one thread.
#![cfg(test)]

pub(crate) mod clock_shim;
pub(crate) mod cluster;
pub(crate) mod daemon;
pub(crate) mod database;
pub(crate) mod flavour;
pub(crate) mod mariadb;
pub(crate) mod mysql_wire;
pub(crate) mod pgbouncer;
pub(crate) mod postgres;
pub(crate) mod postgres_wire;
pub(crate) mod proxy;
pub(crate) mod redis;
pub(crate) mod resp;
pub(crate) mod sentinel;
pub(crate) mod session;
pub(crate) mod setup;
pub(crate) mod template;
pub(crate) mod tls;
pub(crate) mod wire;

use std::{
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, TcpListener},
    time::Duration,
};

use fieldlease::clock::{Clock, SystemClock};

// Aliases and not imports: a test target may leave out what it does not need.
pub(crate) type Action = proxy::Action;
pub(crate) type Certificates = tls::Certificates;
pub(crate) type Cluster = cluster::Cluster;
pub(crate) type Database<'a> = database::Database<'a>;
pub(crate) type DatabaseServer = database::DatabaseServer;
pub(crate) type DatabaseSetup = database::DatabaseSetup;
pub(crate) type Dialect = database::Dialect;
pub(crate) type Flavour = flavour::Flavour;
pub(crate) type Pooler = pgbouncer::Pooler;
pub(crate) type Proxy = proxy::Proxy;
pub(crate) type Reply = resp::Reply;
pub(crate) type Rule = proxy::Rule;
pub(crate) type Server = redis::Server;
pub(crate) type Setup = setup::Setup;
pub(crate) type Session = session::Session;
pub(crate) type Watched = sentinel::Watched;
pub(crate) type WrongClock = clock_shim::WrongClock;

/// Nothing that is waited for takes this long; a test that waits longer has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Lets real time pass.
#[expect(clippy::disallowed_methods, reason = "servers know only real time")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Waits until something is true.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = SystemClock.now().plus(PATIENCE);
    while !done() {
        assert!(SystemClock.now() < end, "{what}: not within {PATIENCE:?}");
        pause(Duration::from_millis(2));
    }
}

/// A port nobody listens on, nor on the one 10000 above it, which a cluster node uses too. It is below those the system
/// gives to outgoing connections, so that a server that comes back finds it free.
pub(crate) fn free_port() -> u16 {
    for attempt in 0_u32..1000 {
        let chance = RandomState::new().hash_one((std::process::id(), attempt));
        let port = 12_000 + u16::try_from(chance % 10_000).unwrap();
        if [port, port + 10_000].iter().all(|port| is_free(*port)) {
            return port;
        }
    }
    panic!("no port is free between 12000 and 22000");
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
