//! The floor under a save: what a database does with the bare statements no careful save can do without.
//!
//! Each user of a floor has one connection and one row of its own, in two tables named `fl_bench..` that are made and
//! dropped again.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "mysql")]
pub use self::mysql::MysqlFloor;
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresFloor;
#[cfg(feature = "sqlite")]
pub use self::sqlite::SqliteFloor;
use crate::{clock::BoxFuture, error::Result};

/// What is written into the row: about as much as a small save.
pub const DATA: &str = "{\"thumbnail\":\"chair.webp\",\"width\":1200,\"height\":800}";

/// A database with the two tables.
pub trait Floor: Send + Sync {
    /// Makes the tables, and so many rows; what an earlier run left is gone.
    fn prepare(&self, rows: u32) -> BoxFuture<'_, Result<()>>;
    /// A connection for the row of this number, from 0.
    fn user(&self, row: u32) -> BoxFuture<'_, Result<Box<dyn FloorUser>>>;
    /// Drops the tables.
    fn clear(&self) -> BoxFuture<'_, Result<()>>;
}

/// One connection and one row. Each call is one save.
pub trait FloorUser: Send {
    /// `UPDATE .. WHERE id AND version`, by itself: one round trip.
    fn bare_update(&mut self) -> BoxFuture<'_, Result<()>>;
    /// `BEGIN`, `SELECT`, `UPDATE`, `INSERT`, `COMMIT`: what a careful program does by hand, five round trips.
    fn transaction(&mut self) -> BoxFuture<'_, Result<()>>;
}

/// Somebody else wrote the row: two benchmarks in one database.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
fn disturbed() -> crate::error::Error {
    crate::error::Error::unavailable(
        "the row of a benchmark was changed by somebody else: let one run at a time",
    )
}
