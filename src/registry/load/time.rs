//! Times and what a writer does when a lease is held.

use std::time::Duration;

use super::{Reader, value::shown};
use crate::{
    diagnostic::{Span, Spanned},
    registry::{
        OnBusy,
        schema::{self, Key, Shape},
        yaml::{self, Entry},
    },
};

impl Reader<'_> {
    pub(super) fn duration(
        &mut self,
        key: &'static Key,
        entry: &Entry,
    ) -> Option<Spanned<Duration>> {
        let Shape::Duration(least, most) = key.shape else { return None };
        let Some(text) = entry.value.text() else {
            self.wrong_shape(entry, "a time", "write a whole number with its unit: `30s`");
            return None;
        };
        let span = entry.value.span;
        let value = self.time(&text.value, span, key.name, (least, most))?;
        Some(Spanned { value, span })
    }

    /// A whole number with its unit, inside a range.
    fn time(
        &mut self,
        text: &str,
        span: Span,
        name: &str,
        range: (Duration, Duration),
    ) -> Option<Duration> {
        let Some(value) = parse_time(text) else {
            let message = format!("`{}` is not a time: a whole number with its unit", shown(text));
            let number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let help = if number {
                format!("write `{text}s` for seconds; units are ms, s, m, h, d")
            } else {
                "write `500ms`, `30s`, `10m`, `24h` or `7d`".to_owned()
            };
            self.error("bad_duration", span, message, help);
            return None;
        };
        let (least, most) = range;
        if value < least || value > most {
            let (least, most) = (show_time(least), show_time(most));
            let message = format!("`{name}` of {} is outside {least} to {most}", shown(text));
            self.error(
                "out_of_range",
                span,
                message,
                format!("write a time from {least} to {most}"),
            );
            return None;
        }
        Some(value)
    }

    pub(super) fn on_busy(&mut self, entry: &Entry) -> Option<Spanned<OnBusy>> {
        const WORDS: &[&str] = &["skip", "fail", "wait", "retry", "enqueue"];
        let Some(text) = entry.value.text() else {
            self.wrong_shape(
                entry,
                "a policy",
                "write `skip`, `fail`, `wait 5s`, `retry 3 backoff 1s..30s` or `enqueue`",
            );
            return None;
        };
        let span = entry.value.span;
        let words: Vec<&str> = text.value.split(' ').filter(|word| !word.is_empty()).collect();
        let range = (schema::WAIT_LEAST, schema::WAIT_MOST);
        // The place of a word: the text behind it is a slice of the whole.
        let place = |word: &str| {
            let before = text.value.split(word).next().map_or(0, |before| before.chars().count());
            yaml::inside(self.scanned, span, text, before, word.chars().count())
        };
        let value = match words.as_slice() {
            ["skip"] => OnBusy::Skip,
            ["fail"] => OnBusy::Fail,
            ["enqueue"] => OnBusy::Enqueue,
            ["wait", time] => OnBusy::Wait(self.time(time, place(time), "wait", range)?),
            ["retry", times, "backoff", pauses] => {
                let (times_at, pauses_at) = (place(times), place(pauses));
                return self
                    .retry(times, times_at, pauses, pauses_at)
                    .map(|value| Spanned { value, span });
            }
            [first, ..] if !WORDS.contains(first) => {
                let message = format!("`{}` is not a word of `on_busy`", shown(first));
                self.unknown_word(place(first), first, message, WORDS);
                return None;
            }
            _ => {
                let message = format!("`{}` is not a policy", shown(&text.value));
                let help =
                    "write `skip`, `fail`, `wait 5s`, `retry 3 backoff 1s..30s` or `enqueue`";
                self.error("bad_on_busy", span, message, help);
                return None;
            }
        };
        Some(Spanned { value, span })
    }

    fn retry(
        &mut self,
        times: &str,
        times_at: Span,
        pauses: &str,
        pauses_at: Span,
    ) -> Option<OnBusy> {
        let count =
            times.parse::<u32>().ok().filter(|count| (1..=schema::RETRIES_MOST).contains(count));
        if count.is_none() {
            let message = format!("`{}` is not a number of tries", shown(times));
            self.error(
                "out_of_range",
                times_at,
                message,
                format!("write 1 to {}", schema::RETRIES_MOST),
            );
        }
        let Some((from, to)) = pauses.split_once("..") else {
            let message = format!("`{}` is not a range of pauses", shown(pauses));
            self.error(
                "bad_on_busy",
                pauses_at,
                message,
                "write the first and the longest pause: `1s..30s`",
            );
            return None;
        };
        let range = (schema::WAIT_LEAST, schema::WAIT_MOST);
        let (from, to) = (
            self.time(from, pauses_at, "backoff", range),
            self.time(to, pauses_at, "backoff", range),
        );
        let (from, to) = (from?, to?);
        if from > to {
            let message =
                format!("the first pause of `{}` is longer than the longest", shown(pauses));
            self.error("out_of_range", pauses_at, message, "write the shorter one first");
            return None;
        }
        Some(OnBusy::Retry { times: count?, from, to })
    }
}

fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

/// A time with the largest unit that is exact; `24h` and not `1d`, as people write it.
fn show_time(time: Duration) -> String {
    let milliseconds = time.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    for (size, unit) in units {
        let one_day = size == 86_400_000 && milliseconds == size;
        if milliseconds.is_multiple_of(size) && milliseconds > 0 && !one_day {
            return format!("{}{unit}", milliseconds / size);
        }
    }
    format!("{milliseconds}ms")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{parse_time, show_time};

    #[test]
    fn times_read_and_print_as_people_write_them() {
        for (text, milliseconds) in [
            ("100ms", Some(100)),
            ("45s", Some(45_000)),
            ("10m", Some(600_000)),
            ("24h", Some(86_400_000)),
            ("7d", Some(604_800_000)),
            ("45", None),
            ("s", None),
            ("", None),
            ("1.5s", None),
            ("+5s", None),
            ("5 s", None),
            ("5S", None),
            ("18446744073709551615d", None),
        ] {
            let time = parse_time(text);
            assert_eq!(time, milliseconds.map(Duration::from_millis), "{text}");
            if let Some(time) = time {
                assert_eq!(show_time(time), text);
            }
        }
    }
}
