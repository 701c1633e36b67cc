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
#[cfg(test)]
mod guards;
mod harness;
#[cfg(test)]
mod majority;
mod memory;
mod redis;
#[cfg(test)]
mod redis_checks;
mod redis_differential;
mod redis_queue;
mod redis_wire;
#[path = "../servers/servers.rs"]
#[expect(dead_code, reason = "shared with the tests of faults, which use the rest")]
mod servers;
