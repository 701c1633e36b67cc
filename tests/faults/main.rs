//! Kills and real faults: real processes, real signals, a printed seed. One property per file.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod child;
mod judge;
mod killed_holder;
mod killed_keys;
mod killed_service;
mod load;
mod memory;
mod paused_holder;
mod read_only;
#[cfg(feature = "redis")]
mod redis;
mod scrapes;
#[cfg(feature = "redis")]
#[path = "../servers/servers.rs"]
#[expect(dead_code, reason = "shared with the tests of the backends, which use the rest")]
mod servers;
#[path = "../it/service.rs"]
#[expect(dead_code, reason = "shared with the tests of the service, which use the rest")]
mod service;
mod starved;
#[path = "../it/engine/support.rs"]
#[expect(dead_code, reason = "shared with the tests of the engine, which use the rest")]
mod support;

use std::{io::Write, time::Duration};

use fieldlease::clock::{Clock, SystemClock};

/// Nothing that is waited for takes this long; a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Repeatable chance (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A number from the surroundings, else the one given.
fn number(name: &str, otherwise: impl FnOnce() -> u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or_else(otherwise)
}

/// A line for whoever reads the output, also when the test passes.
fn say(text: std::fmt::Arguments<'_>) {
    let mut stderr = std::io::stderr();
    writeln!(stderr, "{text}").unwrap();
}

/// Lets real time pass.
#[expect(clippy::disallowed_methods, reason = "processes that are stopped know only real time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Waits until something is true.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = SystemClock.now().plus(PATIENCE);
    while !done() {
        assert!(SystemClock.now() < end, "{what}: not within {PATIENCE:?}");
        pause(Duration::from_millis(1));
    }
}
