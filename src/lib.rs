#![cfg_attr(feature = "sqlite", doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "sqlite"), doc = "Field ownership, leases and partial saves.")]
//!
//! # Modules
//!
//! Modules are listed from the ground floor up; each names only those above it in this list.

// words
pub mod clock;
pub mod token;
pub mod json;
pub mod path;
pub mod entity;
pub mod record;
pub mod scope;
pub mod error;
pub mod event;
pub mod diagnostic;
pub mod snapshot;
pub mod database;
// rules
pub mod strategy;
pub mod registry;
pub mod plan;
pub mod table;
pub mod key;
// contract: plain values that cross the store border
pub mod commit;
pub mod mapping;
// ports and backends
pub mod guard;
pub mod lease;
pub mod history;
pub mod upkeep;
pub mod queue;
pub mod idempotency;
pub mod store;
// services
pub mod hold;
pub mod version;
pub mod audit;
pub mod metrics;
// engine
pub mod engine;
// faces
pub mod config;
pub mod testing;
#[cfg(feature = "server")]
pub mod server;

// What most programs need.
pub use engine::{Changes, Claim, Claiming, Engine, Job, Outcome, Session};
pub use entity::{EntityRef, Writer};
pub use error::{Error, Result};
pub use path::Path;
pub use plan::Plan;
pub use registry::Registry;
pub use version::VersionGuard;
