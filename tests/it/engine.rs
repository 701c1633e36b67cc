//! The engine on a real SQLite file, with the faults of a network in between.

mod breaks;
mod claims;
mod collections;
mod deadlines;
mod faults;
mod forms;
mod guards;
mod keys;
mod lifecycle;
mod parallel;
mod queue;
mod registry;
mod rewind;
mod run;
mod scenario;
mod support;
mod tokens;
mod upkeep;
