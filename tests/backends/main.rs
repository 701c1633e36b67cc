//! The conformance suites, run by every backend.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(all(test, feature = "postgres", feature = "mysql"))]
mod databases;
#[cfg(all(test, feature = "postgres", feature = "mysql"))]
mod mapped;
#[cfg(test)]
#[cfg(feature = "sqlite")]
mod sqlite_keys;
#[cfg(test)]
mod guards;
mod harness;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod postgres_race;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod postgres_wire;
#[cfg(test)]
mod majority;
mod memory;
#[cfg(test)]
#[cfg(feature = "mysql")]
mod mysql;
mod redis;
#[cfg(test)]
mod redis_checks;
mod redis_differential;
mod redis_queue;
mod redis_wire;
mod rows;
#[cfg(all(test, feature = "cli"))]
mod sql_guard;
#[path = "../servers/servers.rs"]
#[expect(dead_code, reason = "shared with the tests of faults, which use the rest")]
mod servers;
