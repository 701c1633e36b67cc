//! YAML to a tree in which every value knows its place and every scalar is text.
//!
//! Built from the parser's events, not through serde: a duplicate key does not end the run, `no` and `1.0` stay
//! text, and an alias costs a pointer, counted as if it were written out.

mod build;
mod place;

use std::{borrow::Cow, rc::Rc};

use crate::diagnostic::Span;
pub(crate) use build::parse;
pub(crate) use place::inside;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node<'t> {
    /// The text to underline.
    pub(crate) span: Span,
    /// What it is.
    pub(crate) kind: Kind<'t>,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum Kind<'t> {
    /// Nothing.
    Null(Nothing),
    /// Any scalar.
    Text(Text<'t>),
    /// A list.
    List(Vec<Node<'t>>),
    /// A map, in file order.
    Map(Vec<Entry<'t>>),
    /// The value of an anchor.
    Alias(Rc<Node<'t>>),
}

/// How nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nothing {
    /// No character at all.
    Absent,
    /// `null` or `~`.
    Word,
    /// Only an anchor: `&name`.
    Anchor,
    /// Something that was refused already: nothing more is said about it.
    Refused,
}

/// A scalar.
#[derive(Clone, Debug)]
pub(crate) struct Text<'t> {
    /// Its text, after YAML's own escapes.
    pub(crate) value: Cow<'t, str>,
    /// Whether it stands without quotes.
    pub(crate) plain: bool,
    /// Bytes of the mended text it was read from, quotes included; none for a block text.
    pub(crate) bytes: (u32, u32),
}

/// One entry of a map.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'t> {
    /// The key, as text.
    pub(crate) key: Text<'t>,
    /// The key's place.
    pub(crate) span: Span,
    /// The value.
    pub(crate) value: Node<'t>,
    /// The same key came before: its value is read for its faults only.
    pub(crate) again: bool,
}

impl<'t> Node<'t> {
    /// The value itself, through aliases.
    pub(crate) fn kind(&self) -> &Kind<'t> {
        let mut node = self;
        while let Kind::Alias(target) = &node.kind {
            node = target;
        }
        &node.kind
    }

    /// What it is, in the user's words.
    pub(crate) fn what(&self) -> &'static str {
        match self.kind() {
            Kind::Null(_) | Kind::Alias(_) => "nothing",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }

    /// Its text, if it is a scalar.
    pub(crate) fn text(&self) -> Option<&Text<'t>> {
        match self.kind() {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }
}
