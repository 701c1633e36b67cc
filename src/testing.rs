//! For tests of this crate and of programs that use it: a clock moved by hand, ports that fail on demand, the
//! conformance suites every backend passes, and a checker that judges whole runs.

pub mod checker;
pub mod clock;
pub mod flaky;
pub mod floor;
pub mod key_suite;
pub mod lease_suite;
pub mod queue_suite;
#[cfg(feature = "sqlite")]
pub mod race;
pub mod store_suite;

pub use clock::ManualClock;
pub use flaky::{Fault, FlakyLeases, FlakyRecords, Gate};
