//! A connection to PostgreSQL, shared by the store and the leases in rows: options, pool, TLS, errors by what the
//! caller may do.
//!
//! A statement goes out as one round trip. What was begun is carried through on a task of its own: a caller that goes
//! away cancels nothing half way, and a connection whose answer never came is never used again.

pub(crate) mod checks;
pub(crate) mod fault;
pub(crate) mod migrate;
pub(crate) mod options;
mod pool;
pub(crate) mod tls;
pub(crate) mod values;

pub use self::options::{Pooler, PostgresOptions};
pub(crate) use self::{
    fault::{Class, Fault, no_schema},
    pool::{Call, Postgres},
};
