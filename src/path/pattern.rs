//! Patterns: what a registry rule covers.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use super::{Marker, PathError, parse, print};

/// One step of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// A literal key, compared byte for byte.
    Key(Box<str>),
    /// `abc*`: every key that starts with these characters.
    Prefix(Box<str>),
    /// `*`: every key.
    Any,
}

/// Which values of an axis a pattern takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AxisMatch {
    /// `@locale=de`.
    Exact(Box<str>),
    /// `@locale=de_*`.
    Prefix(Box<str>),
    /// `@locale`.
    Any,
}

/// How a pattern ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tail {
    /// At its last key.
    Node,
    /// With a marker.
    Marker(Marker),
    /// `**`: one value per leaf below.
    Subtree,
}

/// What a registry rule covers. Axes are sorted by name. Cheap to clone; compared by its canonical text.
#[derive(Clone)]
pub struct Pattern(Arc<Parts>);

struct Parts {
    text: Arc<str>,
    segments: Vec<Segment>,
    tail: Tail,
    axes: Vec<(Box<str>, AxisMatch)>,
    /// Where each axis stood in the text as written; for diagnostics only, never compared.
    axes_at: Vec<u16>,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if let Some(segments) = parse::plain(text) {
            // Such a text is its own canonical form.
            let (tail, axes, axes_at) = (Tail::Node, Vec::new(), Vec::new());
            return Ok(Self(Arc::new(Parts { text: text.into(), segments, tail, axes, axes_at })));
        }
        let read = parse::parse(text, false)?;
        let printed = canonical(&read.segments, read.tail, &read.axes);
        parse::check_printed(text, &printed)?;
        Ok(Self(Arc::new(Parts {
            text: printed.into(),
            segments: read.segments,
            tail: read.tail,
            axes: read.axes,
            axes_at: read.axes_at,
        })))
    }

    /// Builds a pattern; axes are sorted here.
    #[must_use]
    pub fn from_parts(
        segments: Vec<Segment>,
        tail: Tail,
        mut axes: Vec<(Box<str>, AxisMatch)>,
    ) -> Self {
        axes.sort();
        let text = canonical(&segments, tail, &axes).into();
        Self(Arc::new(Parts { text, segments, tail, axes, axes_at: Vec::new() }))
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The canonical text, shared.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.0.text
    }

    /// The steps, without marker and `**`.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.0.segments
    }

    /// How it ends.
    #[must_use]
    pub fn tail(&self) -> Tail {
        self.0.tail
    }

    /// The marker at the end, if any.
    #[must_use]
    pub fn marker(&self) -> Option<Marker> {
        match self.0.tail {
            Tail::Marker(marker) => Some(marker),
            Tail::Node | Tail::Subtree => None,
        }
    }

    /// The axes it names, sorted by name.
    #[must_use]
    pub fn axes(&self) -> &[(Box<str>, AxisMatch)] {
        &self.0.axes
    }

    /// What it says about an axis; `None` when it does not name it.
    #[must_use]
    pub fn axis(&self, name: &str) -> Option<&AxisMatch> {
        self.axes().iter().find(|(axis, _)| &**axis == name).map(|(_, value)| value)
    }

    /// How many characters stood before the `@` or `+` of an axis in the text this was read from.
    pub(crate) fn axis_at(&self, name: &str) -> Option<u16> {
        let index = self.axes().iter().position(|(axis, _)| &**axis == name)?;
        self.0.axes_at.get(index).copied()
    }
}

fn canonical(segments: &[Segment], tail: Tail, axes: &[(Box<str>, AxisMatch)]) -> String {
    let mut text = String::with_capacity(16);
    for segment in segments {
        if !text.is_empty() {
            text.push('.');
        }
        match segment {
            Segment::Key(key) => print::key(key, false, &mut text),
            Segment::Prefix(prefix) => {
                print::prefix(prefix, false, &mut text);
                text.push('*');
            }
            Segment::Any => text.push('*'),
        }
    }
    match tail {
        Tail::Node => {}
        Tail::Marker(marker) => print::marker(Some(marker), &mut text),
        Tail::Subtree => text.push_str(if text.is_empty() { "**" } else { ".**" }),
    }
    for (index, (name, value)) in axes.iter().enumerate() {
        text.push(if index == 0 { '@' } else { '+' });
        text.push_str(name);
        match value {
            AxisMatch::Any => {}
            AxisMatch::Exact(value) => {
                text.push('=');
                print::key(value, true, &mut text);
            }
            AxisMatch::Prefix(prefix) => {
                text.push('=');
                print::prefix(prefix, true, &mut text);
                text.push('*');
            }
        }
    }
    text
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl Ord for Pattern {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.text.cmp(&other.0.text)
    }
}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({})", self.0.text)
    }
}

impl serde::Serialize for Pattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text)
    }
}
