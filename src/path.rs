//! Paths and patterns: one parser, one canonical form (GRAMMAR, "Paths and patterns").
//!
//! A [`Path`] names one place of a record; a [`Pattern`] is a path that may hold `*`, `abc*`, `**` and axes
//! without a value. Printing is canonical and `parse(print(p)) == p`.

mod parse;
mod pattern;
mod print;

pub use pattern::{AxisMatch, Pattern, Segment, Tail};

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// Most keys in one path, the marker included.
pub const KEYS_MAX: usize = 32;
/// Most axes on one path.
pub const AXES_MAX: usize = 8;
/// Most bytes of a path as written.
pub const TEXT_BYTES_MAX: usize = 1_024;
/// Most bytes of one key or axis value.
pub const KEY_BYTES_MAX: usize = 256;

/// What a path says about the structure above items instead of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Marker {
    /// `#keys`: which items there are.
    Keys,
    /// `#order`: in which order they stand.
    Order,
}

/// One place of a record. Cheap to clone; ordered so that a node stands directly before what lies below it.
#[derive(Clone)]
pub struct Path(Arc<Parts>);

struct Parts {
    text: Box<str>,
    /// Whether the text is the keys, joined by dots, and nothing else: then it alone tells the order.
    plain: bool,
    keys: Box<[Box<str>]>,
    marker: Option<Marker>,
    axes: Box<[(Box<str>, Box<str>)]>,
}

/// Why a text is not a path. `at` counts characters from 0 inside the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PathError {
    /// Stable code, the same as the diagnostic's.
    pub code: &'static str,
    /// Characters before the offending one.
    pub at: usize,
    /// How many characters are wrong, at least 1.
    pub length: usize,
    /// What is wrong, in the user's words.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

impl Path {
    /// Reads a path: no wildcard, and a value for every axis.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let read = parse::parse(text, true)?;
        let keys = read.segments.into_iter().filter_map(|segment| match segment {
            Segment::Key(key) => Some(key),
            Segment::Prefix(_) | Segment::Any => None,
        });
        let axes = read.axes.into_iter().filter_map(|(name, value)| match value {
            AxisMatch::Exact(value) => Some((name, value)),
            AxisMatch::Prefix(_) | AxisMatch::Any => None,
        });
        let marker = match read.tail {
            Tail::Marker(marker) => Some(marker),
            Tail::Node | Tail::Subtree => None,
        };
        let path = Self::from_parts(keys.collect(), marker, axes.collect());
        parse::check_printed(text, path.as_str())?;
        Ok(path)
    }

    /// Builds a path from keys and axis values as they are, without escapes. Axes are sorted here.
    #[must_use]
    pub fn from_parts(
        keys: Vec<Box<str>>,
        marker: Option<Marker>,
        mut axes: Vec<(Box<str>, Box<str>)>,
    ) -> Self {
        axes.sort();
        let mut text = String::with_capacity(keys.iter().map(|key| key.len() + 1).sum());
        for (index, key) in keys.iter().enumerate() {
            if index > 0 {
                text.push('.');
            }
            print::key(key, false, &mut text);
        }
        let bare: usize = keys.iter().map(|key| key.len() + 1).sum();
        let plain = text.len() + 1 == bare && marker.is_none() && axes.is_empty();
        print::marker(marker, &mut text);
        for (index, (name, value)) in axes.iter().enumerate() {
            text.push(if index == 0 { '@' } else { '+' });
            text.push_str(name);
            text.push('=');
            print::key(value, true, &mut text);
        }
        let (text, keys, axes) = (text.into(), keys.into(), axes.into());
        Self(Arc::new(Parts { text, plain, keys, marker, axes }))
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The keys, unescaped. Empty only for the record's own marker.
    #[must_use]
    pub fn keys(&self) -> &[Box<str>] {
        &self.0.keys
    }

    /// The marker at the end, if any.
    #[must_use]
    pub fn marker(&self) -> Option<Marker> {
        self.0.marker
    }

    /// Axis values, sorted by axis name.
    #[must_use]
    pub fn axes(&self) -> &[(Box<str>, Box<str>)] {
        &self.0.axes
    }

    /// The value this path has for an axis.
    #[must_use]
    pub fn axis(&self, name: &str) -> Option<&str> {
        self.axes().iter().find(|(axis, _)| &**axis == name).map(|(_, value)| &**value)
    }

    /// The node above, with the same axes: without the marker, else without the last key. `None` at the top.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.0.marker.is_some() {
            if self.0.keys.is_empty() {
                return None;
            }
            return Some(Self::from_parts(self.0.keys.to_vec(), None, self.0.axes.to_vec()));
        }
        let (_, above) = self.0.keys.split_last()?;
        if above.is_empty() {
            return None;
        }
        Some(Self::from_parts(above.to_vec(), None, self.0.axes.to_vec()))
    }

    /// The node one key below, with the same axes. A marker is dropped.
    #[must_use]
    pub fn child(&self, key: &str) -> Self {
        let mut keys = self.0.keys.to_vec();
        keys.push(key.into());
        Self::from_parts(keys, None, self.0.axes.to_vec())
    }

    /// Whether this path is `other` or lies below it, on the same axis values. Markers lie below their node.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        if other.0.marker.is_some() {
            return self == other;
        }
        self.0.axes == other.0.axes && self.0.keys.starts_with(&other.0.keys)
    }

    /// Whether this path belongs to an item: at or below its keys, on the axis values the item names and any others.
    #[must_use]
    pub fn is_part_of(&self, item: &Self) -> bool {
        self.0.keys.starts_with(&item.0.keys)
            && item.axes().iter().all(|(axis, value)| self.axis(axis) == Some(&**value))
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}

impl Eq for Path {}

impl Hash for Path {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        let (a, b) = (&self.0, &other.0);
        if a.plain && b.plain {
            return by_text(a.text.as_bytes(), b.text.as_bytes());
        }
        a.keys.cmp(&b.keys).then_with(|| a.marker.cmp(&b.marker)).then_with(|| a.axes.cmp(&b.axes))
    }
}

/// The order of keys joined by dots: where a key ends, it comes before every key that goes on.
fn by_text(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while let (Some((x, after_x)), Some((y, after_y))) =
        (a.split_first_chunk::<8>(), b.split_first_chunk::<8>())
    {
        if x != y {
            (a, b) = (x, y);
            break;
        }
        (a, b) = (after_x, after_y);
    }
    let rank = |byte: &u8| if *byte == b'.' { 0 } else { *byte };
    match a.iter().zip(b).find(|(x, y)| x != y) {
        Some((x, y)) => rank(x).cmp(&rank(y)),
        None => a.len().cmp(&b.len()),
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Path({})", self.0.text)
    }
}

impl serde::Serialize for Path {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text)
    }
}

impl<'de> serde::Deserialize<'de> for Path {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_keys_whatever_the_text_looks_like() {
        let texts = [
            "a",
            "a-b",
            "a.b",
            "a.#keys",
            "a.#order",
            "a@l=de",
            "a-b.c",
            "a.b-c",
            "a.b.c",
            "ab",
            "a\\.b",
            "a.b@l=de",
            "a.b@l=en",
            "a!b",
            "a.bcdefghijkl",
            "a.bcdefghijkl-m",
            "a.bcdefghijkl.m",
            "a.bcdefghi.kl",
            "abcdefgh",
            "abcdefgh.i",
            "abcdefgh-i",
            "\u{e4}",
            "a.\u{e4}",
        ];
        let paths: Vec<Path> = texts.iter().map(|text| Path::parse(text).unwrap()).collect();
        let parts = |path: &Path| (path.keys().to_vec(), path.marker(), path.axes().to_vec());
        for a in &paths {
            for b in &paths {
                assert_eq!(a.cmp(b), parts(a).cmp(&parts(b)), "{a} and {b}");
            }
        }
    }
}
