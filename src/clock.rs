//! Time: the only module that asks for it or sleeps.
//!
//! Trust in a lease is counted on a clock that goes on while the machine sleeps
//! (`CLOCK_BOOTTIME` on Linux). `std::time::Instant` does not count suspend there.

use std::{fmt, future::Future, pin::Pin, time::Duration};

/// A boxed future, the return type of every port method.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Time since an arbitrary start of this machine, counting suspend. The only clock that ends trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl Moment {
    /// This moment moved forward; saturates at the end of time.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// How long after `earlier` this moment is; zero when it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Microseconds since 1970 on a *store's* clock. Never compared with a [`Moment`].
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct StoreTime(pub i64);

/// As in `2026-11-30T18:01:02.345Z`: UTC with milliseconds (RFC 3339), the form of a time wherever people or programs
/// read one. Days to date as in Hinnant's `civil_from_days`.
impl fmt::Display for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.div_euclid(1_000);
        let (days, rest) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
        let shifted = days + 719_468;
        let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let part = (5 * day + 2) / 153;
        let month = if part < 10 { part + 3 } else { part - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        let day = day - (153 * part + 2) / 5 + 1;
        let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
        let (second, milli) = (rest / 1_000 % 60, rest % 1_000);
        let mut text = String::with_capacity("2026-11-30T18:01:02.345Z".len());
        match year {
            0..=9_999 => digits::<4>(year, '-', &mut text),
            _ => text.push_str(&format!("{year:04}-")),
        }
        for (number, after) in [(month, '-'), (day, 'T'), (hour, ':'), (minute, ':'), (second, '.')]
        {
            digits::<2>(number, after, &mut text);
        }
        digits::<3>(milli, 'Z', &mut text);
        f.write_str(&text)
    }
}

/// A number with leading zeros and what follows it; quicker than a format string, and a report has many.
fn digits<const WIDTH: usize>(mut number: i64, after: char, out: &mut String) {
    let mut digits = [b'0'; WIDTH];
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    out.push_str(std::str::from_utf8(&digits).unwrap_or_default());
    out.push(after);
}

/// Where time comes from. Tests pass [`crate::testing`]'s clock, which is moved by hand.
pub trait Clock: Send + Sync {
    /// Now, on the clock that counts suspend.
    fn now(&self) -> Moment;
    /// For people, and for a store that has no clock of its own (SQLite): the wall clock.
    fn wall(&self) -> StoreTime;
    /// Returns at `at` or later. Looks at [`Clock::now`] again on every wake, because timers of the
    /// runtime do not count suspend.
    fn sleep_until(&self, at: Moment) -> BoxFuture<'_, ()>;
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// A long sleep is cut into pieces of this length, so that time spent suspended is noticed soon after waking up.
const SLEEP_PIECE_MAX: Duration = Duration::from_secs(5);

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let clock = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(clock);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
        Moment(Duration::new(seconds, nanos))
    }

    fn wall(&self) -> StoreTime {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        StoreTime(now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000))
    }

    fn sleep_until(&self, at: Moment) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            loop {
                let left = at.since(self.now());
                if left.is_zero() {
                    return;
                }
                #[expect(clippy::disallowed_methods, reason = "this is the one place that sleeps")]
                tokio::time::sleep(left.min(SLEEP_PIECE_MAX)).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_in_utc_and_none_is_out_of_range() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000Z"),
            (1_796_061_721_999_999, "2026-11-30T18:02:01.999Z"),
        ];

        for (micros, expected) in cases {
            assert_eq!(StoreTime(micros).to_string(), expected);
        }
        assert!(StoreTime(i64::MAX).to_string().starts_with("294247-"));
        assert!(StoreTime(i64::MIN).to_string().ends_with('Z'));
    }
}
