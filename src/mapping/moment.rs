//! Moments in text: any zone in, UTC out.

/// `2026-11-30T18:01:02.345+02:00` in UTC, without zeros at the end of the fraction. `None`: not a moment.
pub(super) fn utc(text: &str, digits: u32) -> Option<String> {
    let (local, offset) = match text.strip_suffix(['Z', 'z']) {
        Some(local) => (local, 0),
        None => {
            let at = text.len().checked_sub(6)?;
            let (local, zone) = text.split_at_checked(at)?;
            let sign = match zone.get(..1)? {
                "+" => 1,
                "-" => -1,
                _ => return None,
            };
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let part = |text: &str| number(text, 2, 0, 59);
            (local, sign * (part(hours)?.min(99) * 60 + part(minutes)?))
        }
    };
    let local = plain(local, digits)?;
    if offset == 0 {
        return Some(format!("{local}Z"));
    }
    let (date, time) = local.split_once('T')?;
    let minutes = number(time.get(..2)?, 2, 0, 23)? * 60 + number(time.get(3..5)?, 2, 0, 59)?;
    let shifted = days(date)? * 1_440 + minutes - offset;
    let (day, minute) = (shifted.div_euclid(1_440), shifted.rem_euclid(1_440));
    let rest = time.get(5..)?;
    Some(format!("{}T{:02}:{:02}{rest}Z", date_of(day), minute / 60, minute % 60))
}

/// `2026-11-30T18:01:02.345`, also written with a blank, without zeros at the end of the fraction. `None`: not one,
/// or finer than the column keeps.
pub(super) fn plain(text: &str, digits: u32) -> Option<String> {
    let (date, time) = text.split_at_checked(10)?;
    let time = time.strip_prefix(['T', ' '])?;
    Some(format!("{}T{}", self::date(date)?, self::time(time, digits)?))
}

/// `2026-11-30`. A day 0 of month 0 is what MySQL calls no date; it passes.
pub(super) fn date(text: &str) -> Option<&str> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    number(year, 4, 0, 9_999)?;
    number(month, 2, 0, 12)?;
    number(day, 2, 0, 31)?;
    parts.next().is_none().then_some(text)
}

/// `18:01:02.345`, without zeros at the end of the fraction.
pub(super) fn time(text: &str, digits: u32) -> Option<String> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':');
    number(parts.next()?, 2, 0, 23)?;
    number(parts.next()?, 2, 0, 59)?;
    number(parts.next()?, 2, 0, 59)?;
    let fraction = fraction.trim_end_matches('0');
    let fits = u32::try_from(fraction.len()).is_ok_and(|len| len <= digits);
    if parts.next().is_some() || !fits || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(if fraction.is_empty() { clock.to_owned() } else { format!("{clock}.{fraction}") })
}

fn number(text: &str, width: usize, min: i64, max: i64) -> Option<i64> {
    let digits = text.len() == width && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|number| digits && (min..=max).contains(number))
}

/// Days since 1970, as in Hinnant's `days_from_civil`.
fn days(date: &str) -> Option<i64> {
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

fn date_of(day: i64) -> String {
    let micros = day.saturating_mul(86_400_000_000);
    let text = crate::clock::StoreTime(micros).to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_any_zone_become_utc() {
        let cases = [
            ("2026-11-30T18:01:02Z", Some("2026-11-30T18:01:02Z")),
            ("2026-11-30T18:01:02.500+02:00", Some("2026-11-30T16:01:02.5Z")),
            ("2026-01-01T00:30:00+01:00", Some("2025-12-31T23:30:00Z")),
            ("2024-02-28T23:30:00-01:00", Some("2024-02-29T00:30:00Z")),
            ("2026-11-30T18:01:02", None),
            ("2026-11-30T18:01:02.1234567Z", None),
            ("2026-13-30T18:01:02Z", None),
            ("yesterday", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(utc(text, 6).as_deref(), wanted, "{text}");
        }
    }
}
