//! The engine on a real SQLite file, with the faults of a network in between.

mod breaks;
mod claims;
mod collections;
mod deadlines;
mod faults;
mod forms;
mod guards;
mod lifecycle;
mod parallel;
mod registry;
mod run;
mod scenario;
#[expect(dead_code, reason = "shared with the tests of faults, which use the rest")]
mod support;
mod tokens;
