//! Waiting for the network. Sockets live in real time, whatever clock the leases are counted on.

use std::{future::Future, time::Duration};

use tokio::time::Instant;

use crate::token::{Entropy, SystemEntropy};

/// The answer, or `None` when it did not come in time.
pub(super) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    #[expect(clippy::disallowed_methods, reason = "a socket's patience is real time")]
    tokio::time::timeout(limit, future).await.ok()
}

/// Returns after this time.
pub(super) async fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "the pause between two attempts is real time")]
    tokio::time::sleep(time).await;
}

/// Between half of the time and all of it, so that many processes do not come back at once.
pub(super) fn jittered(time: Duration) -> Duration {
    let [first, second, ..] = SystemEntropy.bytes();
    let part = u32::from(u16::from_be_bytes([first, second]));
    time / 2 + time / 2 * part / u32::from(u16::MAX)
}

/// Doubles with every failure in a row, up to a bound, and is never the same for two processes.
#[derive(Debug)]
pub(super) struct Backoff {
    failures: u32,
    /// The last success. One that is followed by another soon was worth as little as a failure.
    success: Option<Instant>,
    /// No attempt before this.
    next: Instant,
}

/// A drop is answered with one attempt at once, then at this distance.
const FIRST: Duration = Duration::from_millis(50);
/// The longest distance between attempts.
const LONGEST: Duration = Duration::from_secs(1);
/// A connection that lasted this long was a good one.
const CALM: Duration = Duration::from_secs(10);
/// The shortest and longest distance when the server has said no: a wrong password is not mended by haste.
const REFUSED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

impl Backoff {
    pub(super) fn new() -> Self {
        Self { failures: 0, success: None, next: Instant::now() }
    }

    /// How long to leave the server alone yet.
    pub(super) fn left(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// An attempt failed.
    pub(super) fn failed(&mut self, refused: bool) {
        self.put_off(if refused { REFUSED } else { (FIRST, LONGEST) });
    }

    /// An attempt succeeded. What it gave may break at once, so the next one is not free at once either.
    pub(super) fn succeeded(&mut self) {
        let now = Instant::now();
        let calm = self.success.is_none_or(|last| now.duration_since(last) > CALM);
        self.success = Some(now);
        if calm {
            self.failures = 0;
        }
        self.put_off((FIRST, LONGEST));
    }

    fn put_off(&mut self, (first, longest): (Duration, Duration)) {
        let time = first.saturating_mul(1 << self.failures.min(8)).min(longest);
        self.failures = self.failures.saturating_add(1);
        self.next = Instant::now() + jittered(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_move_apart_up_to_a_bound_and_a_refusal_waits_longer() {
        let mut backoff = Backoff::new();
        assert_eq!(backoff.left(), Duration::ZERO);

        let mut waits = Vec::new();
        for _ in 0..12 {
            backoff.failed(false);
            waits.push(backoff.left());
        }
        backoff.succeeded();
        let after = backoff.left();
        backoff.failed(true);
        let refused = backoff.left();

        assert!(waits[0] <= FIRST && waits[11] > FIRST * 4, "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= LONGEST), "{waits:?}");
        assert!(after <= FIRST, "{after:?}");
        assert!(refused > Duration::from_millis(400), "{refused:?}");
    }

    #[test]
    fn jitter_stays_between_half_and_all() {
        let all = Duration::from_millis(100);
        for _ in 0..1_000 {
            let some = jittered(all);
            assert!(some >= all / 2 && some <= all, "{some:?}");
        }
    }
}
