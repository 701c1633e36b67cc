//! The tree builder: parser events in, documents out.

mod entry;
mod syntax;

use std::{borrow::Cow, collections::HashMap, rc::Rc};

use serde_yaml::granit_parser::{self, Event, Parser, ScalarStyle};

use super::{Entry, Kind, Node, Nothing, Text};
use crate::{
    diagnostic::{Diagnostic, Span},
    registry::{
        decode::Limits,
        scan::{Inserted, Scanned, split},
    },
};

/// Every document of the text. `None` when the parser could not read to the end; the reason is reported.
pub(crate) fn parse<'t>(
    scanned: &'t Scanned,
    limits: &Limits,
    found: &mut Vec<Diagnostic>,
) -> Option<Vec<Node<'t>>> {
    // One level more than allowed, so that the tree meets its own limit first and says where.
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        emit_anchor_events: true,
        emit_comments: false,
        flow_nesting_limit: limits.depth + 1,
        block_nesting_limit: limits.depth + 1,
    };
    let text = &scanned.text;
    let mut builder = Builder {
        text,
        inserted: &scanned.inserted,
        limits,
        found,
        stack: Vec::new(),
        documents: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => builder.event(event, &span)?,
            Err(error) => {
                let diagnostic = builder.syntax(&error);
                builder.found.push(diagnostic);
                return None;
            }
        }
    }
    Some(builder.documents)
}

/// A list or map that is still open.
struct Open<'t> {
    span: Span,
    kind: OpenKind<'t>,
    anchor: usize,
    /// Nodes in it so far, aliases written out, itself included.
    weight: usize,
    /// Levels below it, through aliases.
    height: usize,
}

enum OpenKind<'t> {
    List(Vec<Node<'t>>),
    Map(OpenMap<'t>),
}

/// A map that is still open.
#[derive(Default)]
struct OpenMap<'t> {
    entries: Vec<Entry<'t>>,
    /// The key that waits for its value; `None` inside when it cannot be one.
    key: Option<(Option<Text<'t>>, Span)>,
    /// Keys and their places, once there are too many to look through.
    seen: HashMap<Cow<'t, str>, Span>,
}

/// What an alias stands for.
struct Anchored<'t> {
    node: Rc<Node<'t>>,
    weight: usize,
    height: usize,
}

struct Builder<'a, 't> {
    text: &'t str,
    inserted: &'a Inserted,
    limits: &'a Limits,
    found: &'a mut Vec<Diagnostic>,
    stack: Vec<Open<'t>>,
    documents: Vec<Node<'t>>,
    anchors: HashMap<usize, Anchored<'t>>,
    nodes: usize,
}

type At = granit_parser::Span;

impl<'t> Builder<'_, 't> {
    /// Takes one event; `None` when a limit ends the reading.
    fn event(&mut self, event: Event<'t>, at: &At) -> Option<()> {
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                if tag.is_some() {
                    self.tag(at);
                }
                let node = self.scalar(value, style, at);
                self.add(node, anchor, 1, 0)
            }
            Event::SequenceStart(_, anchor, tag) => {
                if tag.is_some() {
                    self.tag(at);
                }
                self.open(at, anchor, OpenKind::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                if tag.is_some() {
                    self.tag(at);
                }
                self.open(at, anchor, OpenKind::Map(OpenMap::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(at),
            Event::Alias(anchor) => self.alias(anchor, at),
            Event::UnresolvedAlias(name) => {
                let value = format!("*{name}");
                let span = self.span(at);
                let message = format!("`{value}` begins with `*`: YAML reads an alias there");
                let help = format!("quote it: '{value}'");
                self.found.push(Diagnostic::error("quote_needed", span, message, help));
                let node = self.scalar(Cow::Owned(value), ScalarStyle::Plain, at);
                self.add(node, 0, 1, 0)
            }
            Event::Anchor(..) => {
                self.anchor_place(at);
                Some(())
            }
            _ => Some(()),
        }
    }

    fn span(&self, at: &At) -> Span {
        let line = number(at.start.line());
        let column = number(at.start.col() + 1);
        let length = if at.start.line() == at.end.line() {
            at.end.col().saturating_sub(at.start.col())
        } else {
            let start = at.start.byte_offset().unwrap_or(0);
            let rest = self.text.get(start..).unwrap_or_default();
            rest.chars().take_while(|c| !matches!(c, '\n' | '\r')).count()
        };
        self.inserted.span(line, column, number(length))
    }

    /// The scan finds tags where a value begins; this is for the places it does not look at.
    fn tag(&mut self, at: &At) {
        let Some(start) = at.tag_start else { return };
        let span = self.inserted.span(number(start.line()), number(start.col() + 1), 1);
        if self.found.iter().any(|known| known.code == "yaml_tag" && known.span.line == span.line) {
            return;
        }
        let help = "a registry has no tags; quote a text that begins with `!`";
        self.found.push(Diagnostic::error("yaml_tag", span, "this is a YAML tag", help));
    }

    fn scalar(&self, value: Cow<'t, str>, style: ScalarStyle, at: &At) -> Node<'t> {
        let start = at.start.byte_offset().unwrap_or(0);
        let end = at.end.byte_offset().unwrap_or(start);
        let plain = matches!(style, ScalarStyle::Plain);
        let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let mut span = if block { self.block_span(at) } else { self.span(at) };
        let absent = plain && start == end;
        let bytes = if block { (0, 0) } else { (number(start), number(end)) };
        let kind = if absent && !self.wants_key() {
            span = self.dash(span, start);
            Kind::Null(Nothing::Absent)
        } else if plain && !self.wants_key() && matches!(&*value, "~" | "null" | "Null" | "NULL") {
            Kind::Null(Nothing::Word)
        } else {
            // The parser writes `~` for a key that is not there.
            let value = if absent { Cow::Borrowed("") } else { value };
            Kind::Text(Text { value, plain, bytes })
        };
        Node { span, kind }
    }

    /// A block text is shown at its `|` or `>`: the parser knows only where its first line begins.
    fn block_span(&self, at: &At) -> Span {
        let start = at.start.byte_offset().unwrap_or(0);
        let before = self.text.get(..start).unwrap_or_default();
        let Some(byte) = before.rfind(['|', '>']) else { return self.span(at) };
        let (above, below) = before.split_at(byte);
        let lines = split(below).iter().filter(|(_, end)| !end.is_empty()).count();
        let column = above.rsplit(['\n', '\r']).next().unwrap_or_default().chars().count();
        let line = number(at.start.line().saturating_sub(lines));
        self.inserted.span(line, number(column + 1), 1)
    }

    fn open(&mut self, at: &At, anchor: usize, kind: OpenKind<'t>) -> Option<()> {
        let span = self.open_span(at);
        if self.stack.len() >= self.limits.depth {
            return self.too_deep(span);
        }
        self.stack.push(Open { span, kind, anchor, weight: 1, height: 0 });
        Some(())
    }

    /// A block list or map has no text of its own: its first word is underlined.
    fn open_span(&self, at: &At) -> Span {
        let mut span = self.span(at);
        if at.start.byte_offset() == at.end.byte_offset() {
            let rest = self.text.get(at.start.byte_offset().unwrap_or(0)..).unwrap_or_default();
            let word = |c: &char| !c.is_whitespace() && *c != ':';
            span.length = number(rest.chars().take_while(word).count().max(1));
        }
        span
    }

    fn too_deep(&mut self, span: Span) -> Option<()> {
        let message =
            format!("lists and maps lie more than {} deep in each other", self.limits.depth);
        let help = "a registry needs at most eight levels; raise the limit if yours is different";
        self.found.push(Diagnostic::error("too_deep", span, message, help));
        None
    }

    fn close(&mut self, at: &At) -> Option<()> {
        let mut open = self.stack.pop()?;
        // A list or map in brackets is underlined as a whole, if it stands in one line.
        let bracket = at.end.col() > at.start.col() && number(at.end.line()) == open.span.line;
        if bracket {
            let end = self.inserted.original(open.span.line, number(at.end.col() + 1));
            open.span.length = end.saturating_sub(open.span.column).max(1);
        }
        let kind = match open.kind {
            OpenKind::List(items) => Kind::List(items),
            OpenKind::Map(map) => Kind::Map(map.entries),
        };
        self.add(Node { span: open.span, kind }, open.anchor, open.weight, open.height + 1)
    }

    fn alias(&mut self, anchor: usize, at: &At) -> Option<()> {
        let span = self.span(at);
        let Some(target) = self.anchors.get(&anchor) else {
            let help = "an anchor cannot hold itself";
            self.found.push(Diagnostic::error(
                "alias_cycle",
                span,
                "an alias inside its own anchor",
                help,
            ));
            return self.add(Node { span, kind: Kind::Null(Nothing::Refused) }, 0, 1, 0);
        };
        let (weight, height) = (target.weight, target.height);
        let kind = Kind::Alias(Rc::clone(&target.node));
        if self.stack.len() + height > self.limits.depth {
            return self.too_deep(span);
        }
        self.add(Node { span, kind }, 0, weight, height)
    }

    /// Puts a finished node where it belongs.
    fn add(&mut self, node: Node<'t>, anchor: usize, weight: usize, height: usize) -> Option<()> {
        // A list or map was counted when its children were.
        let new = if matches!(node.kind, Kind::List(_) | Kind::Map(_)) { 1 } else { weight };
        self.nodes = self.nodes.saturating_add(new);
        if self.nodes > self.limits.nodes {
            let message = format!("the file has more than {} values", self.limits.nodes);
            let help =
                "aliases count as if they were written out; split the file, or raise the limit";
            self.found.push(Diagnostic::error("too_many_nodes", node.span, message, help));
            return None;
        }
        if anchor > 0 {
            let node = Rc::new(node.clone());
            self.anchors.insert(anchor, Anchored { node, weight, height });
        }
        let Some(open) = self.stack.last_mut() else {
            self.documents.push(node);
            return Some(());
        };
        open.weight = open.weight.saturating_add(weight);
        open.height = open.height.max(height);
        match &mut open.kind {
            OpenKind::List(items) => items.push(node),
            OpenKind::Map(map) => map.add(node, self.found),
        }
        Some(())
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
