//! Paths and patterns as regular expressions over canonical path text, for databases that compare in a statement.
//!
//! A path lies at or below a path or pattern when its text matches every expression of the list: one for the keys, one
//! for each axis that is named. Written for PostgreSQL and PCRE alike.

use crate::path::{AxisMatch, Marker, Path, Pattern, Segment, Tail};

/// Any text of keys up to the axes.
const KEYS: &str = r"(\\.|[^@\\])*";
/// One key, which is no marker.
const KEY: &str = r"(\\.|[^.@\\#])(\\.|[^.@\\])*";
/// What may follow a prefix inside one key.
const REST_OF_KEY: &str = r"(\\.|[^.@\\])*";
/// What may follow a prefix inside one axis value.
const REST_OF_VALUE: &str = r"(\\.|[^+\\])*";

/// What every path at or below the pattern matches, and no other.
pub(crate) fn of_pattern(pattern: &Pattern) -> Vec<String> {
    let keys: Vec<String> = pattern
        .segments()
        .iter()
        .map(|segment| match segment {
            Segment::Key(key) => whole(key, false),
            Segment::Prefix(prefix) => begun(prefix, false, REST_OF_KEY),
            Segment::Any => KEY.to_owned(),
        })
        .collect();
    let marker = match pattern.tail() {
        Tail::Marker(marker) => Some(marker),
        Tail::Node | Tail::Subtree => None,
    };
    let mut all = vec![of_keys(&keys, marker)];
    for (name, value) in pattern.axes() {
        let value = match value {
            AxisMatch::Exact(exact) => whole(exact, true),
            AxisMatch::Prefix(prefix) => begun(prefix, true, REST_OF_VALUE),
            AxisMatch::Any => REST_OF_VALUE.to_owned(),
        };
        all.push(of_axis(name, &value));
    }
    all
}

/// What every path at or below the item matches, on any values of axes the item does not name.
pub(crate) fn of_item(item: &Path) -> Vec<String> {
    let keys: Vec<String> = item.keys().iter().map(|key| whole(key, false)).collect();
    let mut all = vec![of_keys(&keys, None)];
    all.extend(item.axes().iter().map(|(name, value)| of_axis(name, &whole(value, true))));
    all
}

fn of_keys(keys: &[String], marker: Option<Marker>) -> String {
    let mut text = keys.join(r"\.");
    if let Some(marker) = marker {
        if !keys.is_empty() {
            text.push_str(r"\.");
        }
        text.push_str(match marker {
            Marker::Keys => "#keys",
            Marker::Order => "#order",
        });
    } else if keys.is_empty() {
        text.push_str(KEYS);
    } else {
        text.push_str(&format!(r"(\.{KEYS})?"));
    }
    format!("^{text}(@.*)?$")
}

fn of_axis(name: &str, value: &str) -> String {
    format!(r"^{KEYS}@((\\.|[^+\\])*\+)*{}={value}(\+.*)?$", quoted(name))
}

/// A key, as an expression.
fn whole(key: &str, axis: bool) -> String {
    quoted(&printed(key, axis))
}

/// What begins with a prefix: a blank at the end of it is escaped where it is the end of the key.
fn begun(prefix: &str, axis: bool, rest: &str) -> String {
    let longer = printed(&format!("{prefix}x"), axis);
    let longer = quoted(longer.strip_suffix('x').unwrap_or(&longer));
    format!("({longer}{rest}|{})", whole(prefix, axis))
}

/// A key or axis value as paths print it.
fn printed(plain: &str, axis: bool) -> String {
    if !axis {
        return Path::from_parts(vec![plain.into()], None, Vec::new()).as_str().to_owned();
    }
    let path = Path::from_parts(vec!["k".into()], None, vec![("a".into(), plain.into())]);
    path.as_str().strip_prefix("k@a=").unwrap_or_default().to_owned()
}

/// Literal text as an expression.
fn quoted(plain: &str) -> String {
    let mut text = String::with_capacity(plain.len());
    for c in plain.chars() {
        if c.is_ascii_punctuation() && c != '_' && c != '#' {
            text.push('\\');
        }
        text.push(c);
    }
    text
}
