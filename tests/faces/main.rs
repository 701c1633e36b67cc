//! The command and the service over real servers of leases.
#![cfg(all(feature = "cli", unix))]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod command;
mod direct;
mod run;
mod run_ends;
mod run_keys;
mod services;
mod stores;
#[path = "../servers/servers.rs"]
#[expect(dead_code, reason = "shared with the tests of backends, which use the rest")]
mod servers;
#[path = "../it/service.rs"]
#[expect(dead_code, reason = "shared with the tests of the service, which use the rest")]
mod service;
