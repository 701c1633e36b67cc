//! The servers and faults of the harness do what tests of the product rely on.

mod groups;
mod proxy;
mod redis;
mod single;
