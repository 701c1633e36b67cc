//! The conformance suites, run by every backend.

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod sqlite;
mod memory;
