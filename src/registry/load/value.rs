//! Values every section is made of: texts, words, durations, policies, paths, and maps with known keys.

use serde_json::{Map, Value as Json};

use super::Reader;
use crate::{
    diagnostic::{Span, Spanned},
    path::Pattern,
    registry::{
        schema::{self, Key, Shape},
        suggest::{did_you_mean, nearest},
        yaml::{self, Entry, Kind, Node, Nothing, Text},
    },
};

/// Texts of users longer than this are cut in messages.
const SHOWN_CHARS_MAX: usize = 80;

impl Reader<'_> {
    /// The entries of a map whose keys are known. An unknown key is reported; when a known one was meant and is not
    /// there, it is read as that one, so that its value is checked too.
    pub(super) fn known<'n>(
        &mut self,
        entries: &'n [Entry<'n>],
        keys: &'static [Key],
        what: &str,
    ) -> Vec<(&'static Key, &'n Entry<'n>)> {
        let mut known: Vec<(&'static Key, &'n Entry<'n>)> = Vec::new();
        for entry in entries {
            let name = &*entry.key.value;
            if let Some(key) = keys.iter().find(|key| key.name == name) {
                if !entry.again {
                    known.push((key, entry));
                }
                continue;
            }
            let meant = nearest(name, schema::names(keys));
            let help = match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known here: {}", list(schema::names(keys))),
            };
            let message = format!("{what} has no key `{}`", shown(name));
            self.error("unknown_key", entry.span, message, help);
            let free = |key: &&Key| !entries.iter().any(|entry| *entry.key.value == *key.name);
            let key = keys.iter().find(|key| Some(key.name) == meant).filter(free);
            known.extend(key.filter(|_| !entry.again).map(|key| (key, entry)));
        }
        known
    }

    /// Reports a value of the wrong shape. `article` says what it should be.
    pub(super) fn wrong_shape(&mut self, entry: &Entry, article: &str, help: impl Into<String>) {
        let name = shown(&entry.key.value);
        let (span, message) = match entry.value.kind() {
            Kind::Null(Nothing::Refused) => return,
            Kind::Null(Nothing::Absent) => {
                (entry.span, format!("`{name}` has no value: it is {article}"))
            }
            Kind::Null(_) => (entry.value.span, format!("`{name}` is {article}, not nothing")),
            _ => (entry.value.span, format!("`{name}` is {article}, not {}", entry.value.what())),
        };
        self.error("wrong_shape", span, message, help);
    }

    pub(super) fn text(&mut self, entry: &Entry) -> Option<Spanned<String>> {
        let Some(text) = entry.value.text() else {
            self.wrong_shape(entry, "a text", "write one word or name");
            return None;
        };
        Some(Spanned { value: text.value.to_string(), span: entry.value.span })
    }

    /// One of the words of the key's shape.
    pub(super) fn word(
        &mut self,
        key: &'static Key,
        entry: &Entry,
    ) -> Option<Spanned<&'static str>> {
        let Shape::Word(words) = &key.shape else { return None };
        // `absent: null` is a word here, not nothing.
        let text = match entry.value.kind() {
            Kind::Null(Nothing::Word) if words.contains(&"null") => "null",
            Kind::Text(text) => &*text.value,
            _ => {
                self.wrong_shape(
                    entry,
                    "a word",
                    format!("write one of {}", list(words.iter().copied())),
                );
                return None;
            }
        };
        let span = entry.value.span;
        if let Some(value) = words.iter().find(|word| **word == text) {
            return Some(Spanned { value, span });
        }
        let message = format!("`{}` is not a word of `{}`", shown(text), key.name);
        self.unknown_word(span, text, message, words);
        None
    }

    pub(super) fn unknown_word(
        &mut self,
        span: Span,
        text: &str,
        message: String,
        words: &[&'static str],
    ) {
        let all = || format!("write one of {}", list(words.iter().copied()));
        let help = did_you_mean(text, words.iter().copied()).unwrap_or_else(all);
        self.error("unknown_word", span, message, help);
    }

    /// The items of a list of names.
    pub(super) fn texts(&mut self, entry: &Entry) -> Option<Vec<Spanned<String>>> {
        let mut texts = Vec::new();
        for item in self.items(entry, "names")? {
            match item.text() {
                Some(text) => {
                    texts.push(Spanned { value: text.value.to_string(), span: item.span })
                }
                None => {
                    let message = format!(
                        "`{}` is a list of names; here is {}",
                        entry.key.value,
                        item.what()
                    );
                    self.error("wrong_shape", item.span, message, "write one name");
                }
            }
        }
        Some(texts)
    }

    /// The items of a list. A single text is reported and taken as a list of one.
    pub(super) fn items<'n>(&mut self, entry: &'n Entry<'n>, of: &str) -> Option<&'n [Node<'n>]> {
        match entry.value.kind() {
            Kind::List(items) => Some(items),
            Kind::Text(text) => {
                self.wrong_shape(entry, "a list", format!("write `[{}]`", shown(&text.value)));
                Some(std::slice::from_ref(&entry.value))
            }
            _ => {
                self.wrong_shape(
                    entry,
                    &format!("a list of {of}"),
                    format!("write `{}: [..]`", entry.key.value),
                );
                None
            }
        }
    }

    pub(super) fn paths(&mut self, entry: &Entry) -> Option<Vec<Spanned<Pattern>>> {
        let items = self.items(entry, "paths")?;
        Some(items.iter().filter_map(|item| self.path(item)).collect())
    }

    /// A path that is an item of a list.
    pub(super) fn path(&mut self, node: &Node) -> Option<Spanned<Pattern>> {
        match node.kind() {
            Kind::Text(text) => self.pattern(text, target_span(node)),
            Kind::Null(nothing) => {
                self.empty_path(node.span, *nothing);
                None
            }
            Kind::Alias(_) => None,
            Kind::Map(entries) => {
                let help = match entries.as_slice() {
                    // `- ? x` is a key without a value.
                    [entry] if entry.span.column > node.span.column && matches!(entry.value.kind(), Kind::Null(_)) => {
                        format!("quote a path that begins with `? `: '? {}'", shown(&entry.key.value))
                    }
                    [entry] if matches!(entry.value.kind(), Kind::Null(_)) => {
                        format!("remove the colon, or quote it: '{}:'", shown(&entry.key.value))
                    }
                    [entry] if entry.value.text().is_some() => {
                        let value = entry.value.text().map_or("", |text| &text.value);
                        format!("quote it: '{}: {}'", shown(&entry.key.value), shown(value))
                    }
                    _ => "a path that contains `: ` is quoted; a named group is an entry of a map, without the dash".into(),
                };
                self.error("path_not_text", node.span, "this is a map, not a path", help);
                None
            }
            Kind::List(items) => {
                // A list in brackets is underlined as a whole.
                let dash = node.span.length == 1;
                let help = match (dash, items.first().and_then(Node::text)) {
                    (true, Some(text)) => {
                        format!("quote a path that begins with `- `: '- {}'", shown(&text.value))
                    }
                    _ => {
                        "list the paths one below the other; quote one that begins with `[`".into()
                    }
                };
                self.error("path_not_text", node.span, "this is a list, not a path", help);
                None
            }
        }
    }

    fn empty_path(&mut self, span: Span, nothing: Nothing) {
        let (message, help) = match nothing {
            Nothing::Refused => return,
            Nothing::Absent => (
                "here is no path",
                "write a field name, or remove the dash; behind ` #` stands a comment",
            ),
            Nothing::Word => (
                "this is nothing to YAML, not a path",
                "quote it if the field has this name: 'null'",
            ),
            Nothing::Anchor => {
                ("this names an anchor of YAML, not a path", "quote a path that begins with `&`")
            }
        };
        self.error("path_empty", span, message, help);
    }

    /// A path that is a key of a map.
    pub(super) fn path_key(&mut self, entry: &Entry) -> Option<Spanned<Pattern>> {
        let text = &entry.key;
        if text.plain && matches!(&*text.value, "" | "~" | "null" | "Null" | "NULL") {
            let nothing = if text.value.is_empty() { Nothing::Absent } else { Nothing::Word };
            self.empty_path(entry.span, nothing);
            return None;
        }
        self.pattern(text, entry.span)
    }

    pub(super) fn pattern(&mut self, text: &Text, span: Span) -> Option<Spanned<Pattern>> {
        match Pattern::parse(&text.value) {
            Ok(value) => Some(Spanned { value, span }),
            Err(error) => {
                // Of an empty text only the quotes can be shown.
                let span = if text.value.is_empty() {
                    span
                } else {
                    yaml::inside(self.scanned, span, text, error.at, error.length)
                };
                self.error(error.code, span, error.message, error.help);
                None
            }
        }
    }
}

/// The place of a text; of what an alias stands for, the place of the anchor's text.
fn target_span(node: &Node) -> Span {
    let mut node = node;
    while let Kind::Alias(target) = &node.kind {
        node = target;
    }
    node.span
}

/// A value as JSON: numbers and booleans of plain texts as such.
pub(super) fn json(node: &Node) -> Json {
    match node.kind() {
        Kind::Null(_) | Kind::Alias(_) => Json::Null,
        Kind::Text(text) if text.plain => match &*text.value {
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            value => match serde_json::from_str(value) {
                Ok(Json::Number(number)) => Json::Number(number),
                _ => Json::String(value.to_owned()),
            },
        },
        Kind::Text(text) => Json::String(text.value.to_string()),
        Kind::List(items) => Json::Array(items.iter().map(json).collect()),
        Kind::Map(entries) => {
            let entries = entries.iter().filter(|entry| !entry.again);
            let map: Map<_, _> =
                entries.map(|entry| (entry.key.value.to_string(), json(&entry.value))).collect();
            Json::Object(map)
        }
    }
}

/// The user's text for a message, cut when it is long.
pub(super) fn shown(text: &str) -> String {
    if text.chars().count() <= SHOWN_CHARS_MAX {
        return text.to_owned();
    }
    let cut: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    format!("{cut}...")
}

pub(super) fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    words.join(", ")
}
