//! What the backends in databases share: statements and migrations out of files, and the connections to servers.

pub mod finding;
pub mod migration;
#[cfg(feature = "mysql")]
pub mod mysql;
pub mod named;
#[cfg(feature = "postgres")]
pub mod postgres;
