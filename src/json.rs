//! Reading a JSON body strictly: what another reader could take differently is refused, not repaired.

use std::{cell::Cell, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

/// Deepest nesting of arrays and objects.
pub const DEPTH_MAX: u32 = 64;
/// Most values in one body, members and items counted alike.
pub const NODES_MAX: u32 = 100_000;
/// Longest part of a faulty name that a message repeats, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// Why a body was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonFault {
    /// Stable code.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
}

/// Reads one JSON document: no member name twice in an object, no lone surrogate, no integer that would be rounded.
///
/// # Errors
/// The first fault found.
pub fn parse(bytes: &[u8]) -> Result<Json, JsonFault> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| fault("not_json", "the body is not UTF-8"))?;
    if let Some(number) = rounded_integer(text) {
        let number: String = number.chars().take(SHOWN_CHARS_MAX).collect();
        let message = format!("the integer `{number}` is outside 64 bits and would be rounded");
        return Err(fault("number_not_exact", message));
    }
    let budget = Budget { nodes: Cell::new(0), found: Cell::new(None) };
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Node { budget: &budget, depth: 0 }
        .deserialize(&mut reader)
        .and_then(|json| reader.end().map(|()| json));
    read.map_err(|error| {
        let code = budget.found.get().unwrap_or("not_json");
        fault(code, error.to_string())
    })
}

fn fault(code: &'static str, message: impl Into<String>) -> JsonFault {
    JsonFault { code, message: message.into() }
}

/// What the whole document may cost, and which of our own rules stopped the reading.
struct Budget {
    nodes: Cell<u32>,
    found: Cell<Option<&'static str>>,
}

impl Budget {
    fn stop<E: serde::de::Error>(&self, code: &'static str, message: impl fmt::Display) -> E {
        self.found.set(Some(code));
        E::custom(message)
    }
}

/// One value at some depth.
struct Node<'a> {
    budget: &'a Budget,
    depth: u32,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let nodes = self.budget.nodes.get().saturating_add(1);
        self.budget.nodes.set(nodes);
        if nodes > NODES_MAX {
            let message = format!("the body holds more than {NODES_MAX} values");
            return Err(self.budget.stop("too_many_nodes", message));
        }
        deserializer.deserialize_any(self)
    }
}

impl Node<'_> {
    fn below<E: serde::de::Error>(&self) -> Result<u32, E> {
        let depth = self.depth.saturating_add(1);
        if depth > DEPTH_MAX {
            let message = format!("the body is nested deeper than {DEPTH_MAX} levels");
            return Err(self.budget.stop("too_deep", message));
        }
        Ok(depth)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        serde_json::Number::from_f64(value)
            .map(Json::Number)
            .ok_or_else(|| self.budget.stop("number_not_exact", "a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let depth = self.below()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Node { budget: self.budget, depth })? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let depth = self.below()?;
        let mut names = HashSet::new();
        let mut members = serde_json::Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                let shown: String = name.chars().take(SHOWN_CHARS_MAX).collect();
                let message = format!("the member `{}` comes twice", shown.escape_debug());
                self.budget.found.set(Some("duplicate_name"));
                return Err(A::Error::custom(message));
            }
            let value = map.next_value_seed(Node { budget: self.budget, depth })?;
            members.insert(name, value);
        }
        Ok(Json::Object(members))
    }
}

/// The first integer literal that 64 bits do not hold: the reader below would hand it on as a rounded float.
fn rounded_integer(text: &str) -> Option<&str> {
    let mut in_string = false;
    let mut escaped = false;
    let mut start = None;
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        in_string = byte == b'"';
        if byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E') {
            start.get_or_insert(at);
        } else if let Some(from) = start.take()
            && is_rounded(text.get(from..at)?)
        {
            return text.get(from..at);
        }
    }
    let last = text.get(start?..)?;
    is_rounded(last).then_some(last)
}

fn is_rounded(literal: &str) -> bool {
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    let integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    integer && literal.parse::<i64>().is_err() && literal.parse::<u64>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_readers_could_take_differently_is_refused() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let wide = |items: usize| format!("[{}]", vec!["1"; items].join(","));
        let cases: Vec<(String, Result<(), &str>)> = vec![
            (r#"{"a": 1, "b": [true, null, "x"]}"#.into(), Ok(())),
            (r#"{"a": 1, "a": 1}"#.into(), Err("duplicate_name")),
            (r#"{"a": {"b": 1, "\u0062": 2}}"#.into(), Err("duplicate_name")),
            (deep(64), Ok(())),
            (deep(65), Err("too_deep")),
            (deep(50_000), Err("too_deep")),
            (wide(99_999), Ok(())),
            (wide(100_000), Err("too_many_nodes")),
            (r#""\ud800""#.into(), Err("not_json")),
            (r#""\ud800\udc00""#.into(), Ok(())),
            ("9007199254740993".into(), Ok(())),
            ("18446744073709551615".into(), Ok(())),
            ("18446744073709551616".into(), Err("number_not_exact")),
            ("[-9223372036854775809]".into(), Err("number_not_exact")),
            (
                r#"{"18446744073709551616": "99999999999999999999 \" 99999999999999999999"}"#
                    .into(),
                Ok(()),
            ),
            ("1e400".into(), Err("not_json")),
            ("NaN".into(), Err("not_json")),
            ("{} {}".into(), Err("not_json")),
            ("".into(), Err("not_json")),
            ("{\"a\": 1,}".into(), Err("not_json")),
        ];

        for (text, expected) in cases {
            let read = parse(text.as_bytes()).map(|_| ()).map_err(|fault| fault.code);
            assert_eq!(read, expected, "{}", text.chars().take(60).collect::<String>());
        }
        assert_eq!(parse(b"\"\xff\"").unwrap_err().code, "not_json");
    }

    #[test]
    fn integers_of_64_bits_stay_exact() {
        for text in ["9007199254740993", "-9223372036854775808", "18446744073709551615"] {
            assert_eq!(parse(text.as_bytes()).unwrap().to_string(), text);
        }
    }
}
