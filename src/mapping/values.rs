//! Between JSON and columns: every value keeps its type, or is refused.

use serde_json::{Number, Value as Json};

use super::{Cell, Dialect, Kind, base64, moment};

/// Significant digits that SQLite keeps of a number with a fraction.
const SQLITE_DIGITS: usize = 15;

impl Kind {
    /// The one form of a value that the column can hold, so that equal values are equal as JSON. `Err` says why it
    /// does not fit.
    pub(crate) fn canonical(&self, dialect: Dialect, json: &Json) -> Result<Json, String> {
        let wrong = || Err(format!("it is {}, the column holds {}", shown(json), self.describe()));
        let text = |form: Option<String>| form.map_or_else(wrong, |text| Ok(Json::String(text)));
        match (self, json) {
            (Self::Bool, Json::Bool(_)) => Ok(json.clone()),
            (Self::Int { min, max }, Json::Number(number)) => {
                match whole(number).filter(|n| min <= n && n <= max).and_then(integer) {
                    Some(number) => Ok(number),
                    None => wrong(),
                }
            }
            (Self::Decimal { .. }, Json::Number(number)) => {
                text(self.decimal(dialect, &number.to_string()))
            }
            (Self::Decimal { .. }, Json::String(written)) => text(self.decimal(dialect, written)),
            (Self::Float | Self::Number, Json::Number(_)) | (Self::Json, _) => Ok(json.clone()),
            (Self::Text { chars }, Json::String(written)) => {
                let long = chars.is_some_and(|most| {
                    u64::try_from(written.chars().count()).is_ok_and(|count| count > most)
                });
                let nul = dialect == Dialect::Postgres && written.contains('\0');
                if long || nul { wrong() } else { Ok(json.clone()) }
            }
            // What stands there as text, and cannot be counted on, may be written back.
            (Self::Number, Json::String(_)) => Ok(json.clone()),
            (Self::Binary, Json::String(written)) => {
                text(base64::decode(written).map(|bytes| base64::encode(&bytes)))
            }
            (Self::Date, Json::String(written)) => text(moment::date(written).map(str::to_owned)),
            (Self::Time, Json::String(written)) => text(moment::time(written, 6)),
            (Self::DateTime { digits }, Json::String(written)) => {
                text(moment::plain(written, *digits))
            }
            (Self::Instant { digits }, Json::String(written)) => {
                text(moment::utc(written, *digits))
            }
            (Self::Uuid, Json::String(written)) => {
                text(Some(written.to_lowercase()).filter(|text| is_uuid(text)))
            }
            (Self::Enum(words), Json::String(written)) if words.contains(written) => {
                Ok(json.clone())
            }
            (Self::Array(of), Json::Array(members)) => {
                let each = |member: &Json| match member {
                    Json::Null => Ok(Json::Null),
                    member => of.canonical(dialect, member),
                };
                members.iter().map(each).collect::<Result<Vec<_>, _>>().map(Json::Array)
            }
            _ => wrong(),
        }
    }

    /// A decimal in the column's scale. `None`: it would be rounded, or does not fit.
    fn decimal(&self, dialect: Dialect, text: &str) -> Option<String> {
        let Self::Decimal { precision, scale } = self else { return None };
        let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let numeric = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !numeric(whole) || !numeric(fraction) || digits.ends_with('.') {
            return None;
        }
        let whole = Some(whole.trim_start_matches('0')).filter(|w| !w.is_empty()).unwrap_or("0");
        let mut fraction = fraction.to_owned();
        if let Some(scale) = scale {
            let scale = usize::try_from(*scale).ok()?;
            while fraction.len() > scale && fraction.ends_with('0') {
                fraction.pop();
            }
            if fraction.len() > scale {
                return None;
            }
            while fraction.len() < scale {
                fraction.push('0');
            }
        }
        let count = whole.trim_start_matches('0').len() + fraction.len();
        if precision.is_some_and(|most| usize::try_from(most).is_ok_and(|most| count > most)) {
            return None;
        }
        let zero = whole == "0" && fraction.bytes().all(|digit| digit == b'0');
        let significant = format!("{whole}{fraction}").trim_start_matches('0').len();
        if dialect == Dialect::Sqlite && significant > SQLITE_DIGITS {
            return None;
        }
        let sign = if zero { "" } else { sign };
        let point = if fraction.is_empty() { "" } else { "." };
        Some(format!("{sign}{whole}{point}{fraction}"))
    }

    /// The parameter of a canonical value.
    pub(crate) fn cell(&self, dialect: Dialect, json: &Json) -> Cell {
        let typed = dialect != Dialect::Postgres;
        match (self, json) {
            (_, Json::Null) if *self != Self::Json => Cell::Null,
            (Self::Bool, Json::Bool(yes)) if typed => Cell::Int(i64::from(*yes)),
            (Self::Int { .. }, Json::Number(number)) if typed => {
                number.as_i64().map_or_else(|| Cell::Text(number.to_string()), Cell::Int)
            }
            (Self::Float, Json::Number(number)) if dialect == Dialect::Sqlite => {
                number.as_f64().map_or(Cell::Null, Cell::Real)
            }
            (Self::Binary, Json::String(text)) if typed => {
                base64::decode(text).map_or(Cell::Null, Cell::Bytes)
            }
            (Self::Instant { .. }, Json::String(text)) if dialect == Dialect::Mysql => {
                Cell::Text(text.trim_end_matches('Z').to_owned())
            }
            (Self::Json | Self::Array(_), json) => Cell::Text(json.to_string()),
            (_, Json::String(text)) => Cell::Text(text.clone()),
            (_, json) => Cell::Text(json.to_string()),
        }
    }

    /// A column's value; `None` for NULL. What the declared type does not foresee (SQLite keeps anything) is given
    /// as it is.
    pub(crate) fn json(&self, dialect: Dialect, cell: &Cell) -> Result<Option<Json>, String> {
        let plain = match cell {
            Cell::Null => return Ok(None),
            Cell::Int(number) => Json::from(*number),
            Cell::Real(number) => Json::from(*number),
            Cell::Text(text) => Json::String(text.clone()),
            Cell::Bytes(bytes) => match (self, std::str::from_utf8(bytes)) {
                (Self::Binary, _) | (_, Err(_)) => {
                    return Ok(Some(Json::String(base64::encode(bytes))));
                }
                (_, Ok(text)) => Json::String(text.to_owned()),
            },
        };
        let text = plain.as_str().map(str::to_owned);
        let words = text.as_deref().unwrap_or_default();
        let read = match self {
            Self::Bool => match (words, plain.as_i64()) {
                ("true" | "t" | "1", _) => Some(Json::Bool(true)),
                ("false" | "f" | "0", _) => Some(Json::Bool(false)),
                (_, Some(number)) => Some(Json::Bool(number != 0)),
                _ => None,
            },
            Self::Int { .. } => match &plain {
                Json::Number(number) => whole(number).and_then(integer),
                _ => words.parse::<i128>().ok().and_then(integer),
            },
            Self::Decimal { .. } => {
                let written = text.clone().unwrap_or_else(|| plain.to_string());
                self.decimal(Dialect::Postgres, &written).map(Json::String)
            }
            Self::Float => words.parse::<f64>().ok().and_then(Number::from_f64).map(Json::Number),
            Self::Number => serde_json::from_str::<Number>(words).ok().map(Json::Number),
            Self::Json | Self::Array(_) => {
                let read = serde_json::from_str(words);
                return read.map(Some).map_err(|error| format!("it holds no JSON: {error}"));
            }
            Self::Binary if dialect == Dialect::Sqlite => {
                text.as_ref().map(|text| Json::String(base64::encode(text.as_bytes())))
            }
            Self::Time => moment::time(words, 6).map(Json::String),
            Self::DateTime { .. } => moment::plain(words, 6).map(Json::String),
            Self::Instant { .. } => moment::utc(words, 6).map(Json::String),
            Self::Text { .. } if text.is_none() => Some(Json::String(plain.to_string())),
            _ => None,
        };
        Ok(Some(read.unwrap_or(plain)))
    }

    /// The parameter of a text out of the registry, an id or a path: a constant of `where`, an axis value.
    pub(crate) fn cell_of_text(&self, dialect: Dialect, text: &str) -> Option<Cell> {
        let json = match self {
            Self::Int { .. } => integer(text.parse().ok()?)?,
            Self::Bool => Json::Bool(match text {
                "true" | "1" => true,
                "false" | "0" => false,
                _ => return None,
            }),
            _ => Json::String(text.to_owned()),
        };
        let json = self.canonical(dialect, &json).ok()?;
        Some(self.cell(dialect, &json))
    }

    /// A value as the text of an id or a key.
    pub(crate) fn text(&self, dialect: Dialect, cell: &Cell) -> Option<String> {
        match self.json(dialect, cell).ok()?? {
            Json::String(text) => Some(text),
            Json::Bool(yes) => Some(yes.to_string()),
            Json::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

fn whole(number: &Number) -> Option<i128> {
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    exact.or_else(|| {
        let float = number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9.0e15)?;
        format!("{float:.0}").parse().ok()
    })
}

fn integer(number: i128) -> Option<Json> {
    let small = i64::try_from(number).ok().map(Json::from);
    small.or_else(|| u64::try_from(number).ok().map(Json::from))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A value in a message: what it is, not all of it.
fn shown(json: &Json) -> String {
    match json {
        Json::Null => "null".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "a map".to_owned(),
        Json::String(text) if text.chars().count() <= 40 => format!("`{}`", text.escape_debug()),
        Json::String(text) => format!("a text of {} characters", text.chars().count()),
        json => format!("`{json}`"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_has_one_form_or_is_refused() {
        let money = Kind::Decimal { precision: Some(10), scale: Some(2) };
        let big = Kind::Int { min: 0, max: (1 << 64) - 1 };
        let at = Kind::Instant { digits: 6 };
        let cases = [
            (&money, json!("12.5"), Some(json!("12.50"))),
            (&money, json!(12.5), Some(json!("12.50"))),
            (&money, json!("12.500"), Some(json!("12.50"))),
            (&money, json!("-0.00"), Some(json!("0.00"))),
            (&money, json!("12.505"), None),
            (&money, json!("123456789.00"), None),
            (&money, json!("12."), None),
            (&money, json!("1e3"), None),
            (
                &big,
                json!(18_446_744_073_709_551_615_u64),
                Some(json!(18_446_744_073_709_551_615_u64)),
            ),
            (&big, json!(5.0), Some(json!(5))),
            (&big, json!(-1), None),
            (&big, json!("5"), None),
            (&at, json!("2026-11-30T18:01:02.500+02:00"), Some(json!("2026-11-30T16:01:02.5Z"))),
            (&Kind::Bool, json!(1), None),
            (&Kind::Text { chars: Some(3) }, json!("äöü"), Some(json!("äöü"))),
            (&Kind::Text { chars: Some(3) }, json!("abcd"), None),
            (&Kind::Enum(vec!["a".into()]), json!("b"), None),
            (&Kind::Binary, json!("Zm9v"), Some(json!("Zm9v"))),
            (&Kind::Binary, json!("%"), None),
        ];
        for (kind, given, wanted) in cases {
            assert_eq!(kind.canonical(Dialect::Mysql, &given).ok(), wanted, "{kind:?} {given}");
        }
    }

    #[test]
    fn sqlite_refuses_a_decimal_it_would_round() {
        let kind = Kind::Decimal { precision: Some(30), scale: Some(4) };
        assert!(kind.canonical(Dialect::Sqlite, &json!("12345678901.1234")).is_ok());
        assert!(kind.canonical(Dialect::Sqlite, &json!("123456789012.1234")).is_err());
        assert!(kind.canonical(Dialect::Postgres, &json!("123456789012.1234")).is_ok());
    }

    #[test]
    fn what_a_column_gives_is_what_was_written() {
        let money = Kind::Decimal { precision: Some(10), scale: Some(2) };
        let cases = [
            (&money, Cell::Real(12.5), json!("12.50")),
            (&money, Cell::Int(12), json!("12.00")),
            (&money, Cell::Text("12.50".into()), json!("12.50")),
            (&Kind::Bool, Cell::Text("t".into()), json!(true)),
            (&Kind::Int { min: 0, max: 9 }, Cell::Text("7".into()), json!(7)),
            (&Kind::Number, Cell::Text("7".into()), json!(7)),
            (&Kind::Number, Cell::Text("007".into()), json!("007")),
            (&Kind::Text { chars: None }, Cell::Int(7), json!("7")),
            (&Kind::Json, Cell::Text("{\"a\":1}".into()), json!({"a": 1})),
            (&Kind::Binary, Cell::Bytes(vec![0, 255]), json!("AP8=")),
        ];
        for (kind, cell, wanted) in cases {
            assert_eq!(kind.json(Dialect::Sqlite, &cell), Ok(Some(wanted)), "{kind:?} {cell:?}");
        }
        assert_eq!(money.json(Dialect::Sqlite, &Cell::Null), Ok(None));
    }
}
