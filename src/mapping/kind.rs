//! What a column can hold, from the type the database prints.

use super::Dialect;

/// What a column can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` and `false`.
    Bool,
    /// A whole number between the two.
    Int {
        /// The smallest.
        min: i128,
        /// The largest.
        max: i128,
    },
    /// An exact decimal: text in JSON, with as many digits behind the point as the column keeps.
    Decimal {
        /// Digits in all; `None`: any.
        precision: Option<u32>,
        /// Digits behind the point; `None`: as written.
        scale: Option<u32>,
    },
    /// A binary fraction.
    Float,
    /// Text.
    Text {
        /// Most characters; `None`: any.
        chars: Option<u64>,
    },
    /// A number in a column of text, for a field whose strategy counts.
    Number,
    /// Bytes: base64 in JSON.
    Binary,
    /// Any JSON.
    Json,
    /// `2026-11-30`.
    Date,
    /// `18:01:02.345`.
    Time,
    /// `2026-11-30T18:01:02.345`, of no zone.
    DateTime {
        /// Digits of a second that the column keeps.
        digits: u32,
    },
    /// `2026-11-30T18:01:02.345Z`: a moment. Other zones are taken and turned into UTC.
    Instant {
        /// Digits of a second that the column keeps.
        digits: u32,
    },
    /// A UUID in lower case with dashes.
    Uuid,
    /// One of these words.
    Enum(Vec<String>),
    /// A list of values of one kind (PostgreSQL).
    Array(Box<Kind>),
}

/// What a database says about a column beside its type.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Words of an enumeration.
    pub labels: Vec<String>,
    /// Known to hold JSON only, whatever its type says: a CHECK.
    pub json: bool,
}

impl Kind {
    /// Reads a type as the database prints it. `None`: no value of a record fits it.
    #[must_use]
    pub fn parse(dialect: Dialect, declared: &str, facts: &Facts) -> Option<Self> {
        if facts.json {
            return Some(Self::Json);
        }
        let lower = declared.trim().to_lowercase();
        match dialect {
            Dialect::Sqlite => Some(sqlite(&lower)),
            Dialect::Postgres => postgres(&lower, facts),
            Dialect::Mysql => mysql(&lower, declared),
        }
    }

    /// In the user's words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Int { min, max } => format!("a whole number from {min} to {max}"),
            Self::Decimal { scale: Some(scale), .. } => {
                format!("a decimal with {scale} digits behind the point, as text")
            }
            Self::Decimal { scale: None, .. } => "a decimal, as text".to_owned(),
            Self::Float | Self::Number => "a number".to_owned(),
            Self::Text { chars: Some(chars) } => format!("a text of at most {chars} characters"),
            Self::Text { chars: None } => "a text".to_owned(),
            Self::Binary => "bytes as base64".to_owned(),
            Self::Json => "JSON".to_owned(),
            Self::Date => "a date as 2026-11-30".to_owned(),
            Self::Time => "a time as 18:01:02".to_owned(),
            Self::DateTime { .. } => "a time as 2026-11-30T18:01:02".to_owned(),
            Self::Instant { .. } => "a moment as 2026-11-30T18:01:02Z".to_owned(),
            Self::Uuid => "a UUID".to_owned(),
            Self::Enum(words) => format!("one of `{}`", words.join("`, `")),
            Self::Array(of) => format!("a list, each {}", of.describe()),
        }
    }

    /// Whether it may identify a record: equal values have one text.
    pub(crate) fn is_id(&self) -> bool {
        matches!(self, Self::Int { .. } | Self::Text { .. } | Self::Uuid | Self::Enum(_))
    }

    /// Whether it holds numbers that a strategy can count on.
    pub(crate) fn counts(&self) -> bool {
        matches!(self, Self::Int { .. } | Self::Float | Self::Number)
    }
}

/// `name(1,2) rest` as name with rest, and its numbers.
fn split(declared: &str) -> (String, Vec<u32>) {
    let Some((name, behind)) = declared.split_once('(') else {
        return (declared.trim().to_owned(), Vec::new());
    };
    let (numbers, rest) = behind.split_once(')').unwrap_or((behind, ""));
    let numbers = numbers.split(',').filter_map(|number| number.trim().parse().ok()).collect();
    (format!("{}{rest}", name.trim_end()), numbers)
}

fn int(bytes: u32, signed: bool) -> Kind {
    let bits = 8 * bytes;
    match signed {
        true => Kind::Int { min: -(1_i128 << (bits - 1)), max: (1_i128 << (bits - 1)) - 1 },
        false => Kind::Int { min: 0, max: (1_i128 << bits) - 1 },
    }
}

/// A decimal without a fraction is a whole number.
fn decimal(numbers: &[u32]) -> Kind {
    match numbers {
        [] => Kind::Decimal { precision: None, scale: None },
        [precision] | [precision, 0] if *precision <= 18 => {
            let most = 10_i128.pow(*precision) - 1;
            Kind::Int { min: -most, max: most }
        }
        [precision] => Kind::Decimal { precision: Some(*precision), scale: Some(0) },
        [precision, scale, ..] => {
            Kind::Decimal { precision: Some(*precision), scale: Some(*scale) }
        }
    }
}

fn postgres(declared: &str, facts: &Facts) -> Option<Kind> {
    if let Some(element) = declared.strip_suffix("[]") {
        let of = postgres(element, facts)?;
        let plain = matches!(
            of,
            Kind::Bool
                | Kind::Int { .. }
                | Kind::Float
                | Kind::Text { .. }
                | Kind::Uuid
                | Kind::Enum(_)
        );
        return plain.then(|| Kind::Array(Box::new(of)));
    }
    if !facts.labels.is_empty() {
        return Some(Kind::Enum(facts.labels.clone()));
    }
    let (name, numbers) = split(declared);
    let digits = numbers.first().copied().unwrap_or(6);
    Some(match name.as_str() {
        "boolean" => Kind::Bool,
        "smallint" => int(2, true),
        "integer" => int(4, true),
        "bigint" => int(8, true),
        "numeric" => decimal(&numbers),
        "real" | "double precision" => Kind::Float,
        "text" | "citext" | "name" => Kind::Text { chars: None },
        "character varying" | "character" => {
            Kind::Text { chars: numbers.first().map(|chars| u64::from(*chars)) }
        }
        "bytea" => Kind::Binary,
        "json" | "jsonb" => Kind::Json,
        "date" => Kind::Date,
        "time without time zone" => Kind::Time,
        "timestamp without time zone" => Kind::DateTime { digits },
        "timestamp with time zone" => Kind::Instant { digits },
        "uuid" => Kind::Uuid,
        _ => return None,
    })
}

fn mysql(declared: &str, as_written: &str) -> Option<Kind> {
    if declared.starts_with("enum(") {
        return Some(Kind::Enum(labels(as_written)));
    }
    let (name, numbers) = split(declared);
    let first = numbers.first().copied();
    let signed = !name.contains("unsigned");
    let name = name.split_whitespace().next().unwrap_or_default();
    let digits = first.unwrap_or(0);
    Some(match name {
        "tinyint" if first == Some(1) => Kind::Bool,
        "tinyint" => int(1, signed),
        "smallint" => int(2, signed),
        "mediumint" => int(3, signed),
        "int" | "integer" => int(4, signed),
        "bigint" => int(8, signed),
        "decimal" | "numeric" => decimal(&numbers),
        "float" | "double" => Kind::Float,
        "char" | "varchar" => Kind::Text { chars: first.map(u64::from) },
        "tinytext" | "text" | "mediumtext" | "longtext" => Kind::Text { chars: None },
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Kind::Binary,
        "json" => Kind::Json,
        "date" => Kind::Date,
        "time" => Kind::Time,
        "datetime" => Kind::DateTime { digits },
        "timestamp" => Kind::Instant { digits },
        "uuid" => Kind::Uuid,
        _ => return None,
    })
}

/// The words of `enum('a','it''s')`.
fn labels(declared: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let mut chars = declared.chars().skip_while(|c| *c != '\'').peekable();
    while chars.next().is_some() {
        let mut label = String::new();
        while let Some(c) = chars.next() {
            if c == '\'' && chars.next_if(|c| *c == '\'').is_none() {
                break;
            }
            label.push(c);
        }
        labels.push(label);
        while chars.next_if(|c| *c != '\'').is_some() {}
    }
    labels
}

/// SQLite keeps what it is given; the declared type says what the CMS means by it. It has no times: those are text.
fn sqlite(declared: &str) -> Kind {
    let (name, numbers) = split(declared);
    let has = |part: &str| name.contains(part);
    if has("json") {
        Kind::Json
    } else if has("bool") || (name == "tinyint" && numbers.first() == Some(&1)) {
        Kind::Bool
    } else if has("int") {
        int(8, true)
    } else if has("decimal") || has("numeric") {
        decimal(&numbers)
    } else if has("blob") || has("binary") || has("bytea") {
        Kind::Binary
    } else if has("real") || has("floa") || has("doub") {
        Kind::Float
    } else {
        let sized = has("char");
        Kind::Text { chars: numbers.first().filter(|_| sized).map(|chars| u64::from(*chars)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_each_database_prints_them() {
        let text = |chars| Kind::Text { chars };
        let cases = [
            (
                Dialect::Postgres,
                "numeric(10,2)",
                Kind::Decimal { precision: Some(10), scale: Some(2) },
            ),
            (Dialect::Postgres, "numeric", Kind::Decimal { precision: None, scale: None }),
            (Dialect::Postgres, "character varying(255)", text(Some(255))),
            (Dialect::Postgres, "timestamp(0) with time zone", Kind::Instant { digits: 0 }),
            (Dialect::Postgres, "text[]", Kind::Array(Box::new(text(None)))),
            (Dialect::Mysql, "bigint(20) unsigned", Kind::Int { min: 0, max: (1 << 64) - 1 }),
            (Dialect::Mysql, "tinyint(1)", Kind::Bool),
            (Dialect::Mysql, "enum('a','it''s')", Kind::Enum(vec!["a".into(), "it's".into()])),
            (Dialect::Mysql, "datetime(6)", Kind::DateTime { digits: 6 }),
            (
                Dialect::Sqlite,
                "DECIMAL(19,4)",
                Kind::Decimal { precision: Some(19), scale: Some(4) },
            ),
            (Dialect::Sqlite, "bigint unsigned", int(8, true)),
            (Dialect::Sqlite, "datetime", text(None)),
        ];
        for (dialect, declared, kind) in cases {
            let read = Kind::parse(dialect, declared, &Facts::default());
            assert_eq!(read, Some(kind), "{declared}");
        }
        assert_eq!(Kind::parse(Dialect::Postgres, "tsvector", &Facts::default()), None);
    }
}
