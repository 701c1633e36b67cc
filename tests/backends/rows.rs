//! Leases in rows of a database pass the whole suite, alone and with another process over the same rows.

mod databases;
mod shared;
#[cfg(feature = "sqlite")]
mod sqlite;
