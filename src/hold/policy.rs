//! The numbers of holding and waiting, as plain functions.

use std::time::Duration;

use crate::{clock::Moment, lease::Holder};

/// When renewals are sent, in percent of the time to live since the last confirmed one. The first is the heartbeat,
/// the others follow while no answer comes.
pub(crate) const LADDER: [u32; 6] = [50, 60, 70, 80, 88, 94];

/// Most hand-overs in a row without giving the key back once, though nobody was announced: an announcement may be lost.
/// Weak fences have numbers for this many (RULES 17).
pub(crate) const UNANNOUNCED_MAX: u32 = 1_023;

/// Least pause between two tries for the same place in a queue.
const RETRY_LEAST: Duration = Duration::from_millis(10);

/// How long after something should have ended at the store to ask for it: its clock may tick in milliseconds.
const AGAIN_MARGIN: Duration = Duration::from_millis(2);

/// What is taken off a time to live for clocks that do not run alike: 1 %, at least 2 ms.
#[must_use]
pub fn drift(ttl: Duration) -> Duration {
    (ttl / 100).max(Duration::from_millis(2))
}

/// Until when a lease may be trusted whose last confirmed attempt began at `begin`.
#[must_use]
pub fn deadline(begin: Moment, ttl: Duration) -> Moment {
    begin.plus(ttl.saturating_sub(drift(ttl)))
}

/// When the renewal of this step is due; `None` after the last.
#[must_use]
pub fn beat(begin: Moment, ttl: Duration, step: usize) -> Option<Moment> {
    LADDER.get(step).map(|percent| begin.plus(ttl / 100 * *percent))
}

/// The pause before try `attempt` (from 0): doubling from `from` to at most `to`, and from that, half to all of it.
#[must_use]
pub fn backoff(from: Duration, to: Duration, attempt: u32, random: [u8; 16]) -> Duration {
    let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
    let full = from.saturating_mul(factor).min(to.max(from));
    let [a, b, ..] = random;
    let part = u32::from(u16::from_be_bytes([a, b]));
    full / 2 + (full / 2).saturating_mul(part) / 65_536
}

/// When asking again makes sense: when the last of those in the way ends if it is not renewed.
#[must_use]
pub fn retry_after(by: &[Holder]) -> Duration {
    let longest = by.iter().map(|holder| holder.remaining).max();
    longest.unwrap_or_default().max(RETRY_LEAST)
}

/// The pause before asking for something that ends after this time unless it is renewed.
#[must_use]
pub fn ask_again(ends: Duration) -> Duration {
    ends.saturating_add(AGAIN_MARGIN).max(RETRY_LEAST)
}

/// How long one request may take: a setting, but never so long that nothing is left of the time to live it is about.
#[must_use]
pub fn patience(setting: Duration, ttl: Duration) -> Duration {
    setting.min(ttl / 3)
}

/// Whether a tenure may go to the next waiter of this process (RULES 17). `wanted`: since when somebody waits
/// elsewhere, and how many hand-overs there were since; `total`: hand-overs of this tenure so far.
#[must_use]
pub(crate) fn may_hand_over(
    wanted: Option<(Moment, u32)>,
    total: u32,
    most: u32,
    ttl: Duration,
    now: Moment,
) -> bool {
    let fair = wanted.is_none_or(|(since, count)| count < most && now.since(since) < ttl);
    most > 0 && fair && total < UNANNOUNCED_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn trust_ends_before_the_lease_does() {
        for (ttl, trusted) in [(100, 98), (200, 198), (1_000, 990), (30_000, 29_700)] {
            assert_eq!(deadline(Moment(ms(7)), ms(ttl)), Moment(ms(7 + trusted)), "ttl {ttl} ms");
        }
    }

    #[test]
    fn the_ladder_leads_from_half_of_the_ttl_to_just_before_the_deadline() {
        let due: Vec<_> = (0..7).map(|step| beat(Moment(ms(1_000)), ms(1_000), step)).collect();

        let want = [1_500, 1_600, 1_700, 1_800, 1_880, 1_940].map(|at| Some(Moment(ms(at))));
        assert_eq!(due[..6], want);
        assert_eq!(due[6], None);
    }

    #[test]
    fn a_pause_doubles_up_to_its_bound_with_half_of_it_random() {
        for (attempt, low, high) in
            [(0, 5, 10), (1, 10, 20), (3, 40, 80), (9, 50, 100), (99, 50, 100)]
        {
            assert_eq!(backoff(ms(10), ms(100), attempt, [0; 16]), ms(low), "attempt {attempt}");
            let most = backoff(ms(10), ms(100), attempt, [255; 16]);
            assert!(most > ms(high) * 99 / 100 && most <= ms(high), "attempt {attempt}: {most:?}");
        }
    }

    #[test]
    fn hand_over_ends_after_its_number_or_a_ttl_once_somebody_waits_elsewhere() {
        let since = Moment(ms(5_000));
        let cases = [
            ("nobody waits elsewhere", None, 1_022, 64, 99_999, true),
            ("nobody was announced for very long", None, 1_023, 64, 5_000, false),
            ("just announced", Some((since, 0)), 900, 64, 5_000, true),
            ("one left", Some((since, 63)), 900, 64, 5_999, true),
            ("number used up", Some((since, 64)), 900, 64, 5_001, false),
            ("a ttl has passed", Some((since, 1)), 900, 64, 6_000, false),
            ("switched off", None, 0, 0, 0, false),
        ];
        for (what, wanted, total, most, now, want) in cases {
            let got = may_hand_over(wanted, total, most, ms(1_000), Moment(ms(now)));
            assert_eq!(got, want, "{what}");
        }
    }
}
