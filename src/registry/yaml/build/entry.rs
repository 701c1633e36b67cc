//! Items of lists and entries of maps: duplicate keys, merge keys, keys that are no text, items that are missing.

use super::{At, Builder, OpenKind, OpenMap, number};
use crate::{
    diagnostic::{Diagnostic, Span},
    registry::yaml::{Entry, Kind, Node, Nothing, Text},
};

/// Maps up to this size are looked through for a duplicate key.
const LOOK_THROUGH_MAX: usize = 16;

impl<'t> OpenMap<'t> {
    /// Takes a key or a value, whichever is next.
    pub(super) fn add(&mut self, node: Node<'t>, found: &mut Vec<Diagnostic>) {
        let Some((key, span)) = self.key.take() else {
            let span = node.span;
            self.key = Some((key_text(&node, found), span));
            return;
        };
        let Some(key) = key else { return };
        let again = self.first_place(&key, span);
        if let Some(first) = again {
            let message =
                format!("`{}` comes twice; the first is in line {}", key.value, first.line);
            let help =
                "put both into one, or remove one: a second key would silently replace the first";
            let diagnostic = Diagnostic::error("duplicate_key", span, message, help);
            found.push(diagnostic.note(first, "the first"));
        }
        self.entries.push(Entry { key, span, value: node, again: again.is_some() });
    }

    fn first_place(&mut self, key: &Text<'t>, span: Span) -> Option<Span> {
        if self.entries.len() < LOOK_THROUGH_MAX {
            return self
                .entries
                .iter()
                .find(|entry| entry.key.value == key.value)
                .map(|entry| entry.span);
        }
        if self.seen.is_empty() {
            for entry in self.entries.iter().filter(|entry| !entry.again) {
                self.seen.insert(entry.key.value.clone(), entry.span);
            }
        }
        if let Some(first) = self.seen.get(&key.value) {
            return Some(*first);
        }
        self.seen.insert(key.value.clone(), span);
        None
    }
}

fn key_text<'t>(node: &Node<'t>, found: &mut Vec<Diagnostic>) -> Option<Text<'t>> {
    match node.kind() {
        Kind::Text(key) if key.plain && &*key.value == "<<" => {
            let help = "write the entries out, or use `extends` to take over another type's rules";
            let message = "`<<` merges maps in YAML; a registry has no merge keys";
            found.push(Diagnostic::error("yaml_merge", node.span, message, help));
            None
        }
        Kind::Text(key) => Some(key.clone()),
        Kind::Null(_) => Some(Text { value: "".into(), plain: true, bytes: (0, 0) }),
        Kind::List(_) | Kind::Map(_) | Kind::Alias(_) => {
            let message =
                format!("a key is a text, not {}", node.what().trim_start_matches("a text"));
            let help = "quote a key that contains `[`, `]`, `{` or `}`";
            found.push(Diagnostic::error("key_not_text", node.span, message, help));
            None
        }
    }
}

impl Builder<'_, '_> {
    /// Whether the next node is a key.
    pub(super) fn wants_key(&self) -> bool {
        let open = self.stack.last().map(|open| &open.kind);
        matches!(open, Some(OpenKind::Map(map)) if map.key.is_none())
    }

    /// A missing list item is shown at its dash, not behind the comment that follows.
    pub(super) fn dash(&self, span: Span, byte: usize) -> Span {
        if !matches!(self.stack.last().map(|open| &open.kind), Some(OpenKind::List(_))) {
            return span;
        }
        let before = self.text.get(..byte).unwrap_or_default();
        let line = before
            .rfind(['\n', '\r'])
            .map_or(before, |at| before.get(at + 1..).unwrap_or_default());
        let mut found = span;
        let mut last = ' ';
        for (column, c) in line.chars().enumerate() {
            if c == '#' && last == ' ' {
                break;
            }
            if c == '-' && last == ' ' {
                found = self.inserted.span(span.line, number(column + 1), 1);
            }
            last = c;
        }
        found
    }

    /// An anchor on nothing is what somebody meant as a text: `- &media`.
    pub(super) fn anchor_place(&mut self, at: &At) {
        let span = self.span(at);
        let last = match self.stack.last_mut().map(|open| &mut open.kind) {
            Some(OpenKind::List(items)) => items.last_mut(),
            Some(OpenKind::Map(map)) if map.key.is_none() => {
                map.entries.last_mut().map(|entry| &mut entry.value)
            }
            _ => None,
        };
        if let Some(node) = last
            && matches!(node.kind, Kind::Null(Nothing::Absent))
        {
            *node = Node { span, kind: Kind::Null(Nothing::Anchor) };
        }
    }
}
