//! Reading a registry: bytes to [`RawRegistry`], and on to [`Registry`], with every fault of the file in one run.

mod entity;
mod group;
mod shared;
mod storage;
mod time;
mod value;

use std::collections::HashMap;

use super::{
    Registry,
    decode::{Limits, decode},
    raw::RawRegistry,
    resolve::resolve,
    scan::{Scanned, scan},
    schema::REGISTRY,
    suggest::nearest,
    yaml::{self, Kind, Node},
};
use crate::{
    diagnostic::{Diagnostic, Span, has_errors, in_file_order},
    strategy::Strategies,
};

/// Reads the registry as written and reports every fault of shape, in file order. `None` when the file is not YAML
/// or goes beyond a limit.
#[must_use]
pub fn read(bytes: &[u8], limits: &Limits) -> (Option<RawRegistry>, Vec<Diagnostic>) {
    let mut found = Vec::new();
    let raw = read_into(bytes, limits, &mut found);
    in_file_order(&mut found);
    (raw, found)
}

/// Loads a registry: reads it, resolves it, and reports every fault and lint of the file in one run, in file order.
/// There is no registry when anything is an error.
#[must_use]
pub fn load(
    bytes: &[u8],
    strategies: &Strategies,
    limits: &Limits,
) -> (Option<Registry>, Vec<Diagnostic>) {
    let (raw, mut found) = read(bytes, limits);
    let Some(raw) = raw else { return (None, found) };
    let (registry, meaning) = resolve(&raw, strategies);
    found.extend(meaning);
    in_file_order(&mut found);
    (registry.filter(|_| !has_errors(&found)), found)
}

fn read_into(bytes: &[u8], limits: &Limits, found: &mut Vec<Diagnostic>) -> Option<RawRegistry> {
    let text = decode(bytes, limits, found)?;
    let scanned = scan(text, found);
    if !scanned.readable {
        return None;
    }
    let documents = yaml::parse(&scanned, limits, found)?;
    let mut reader = Reader { scanned: &scanned, found, types: HashMap::new() };
    Some(reader.documents(&documents))
}

/// Reads one file. Each method takes a node and gives what it means, or reports why it means nothing.
struct Reader<'a> {
    scanned: &'a Scanned,
    found: &'a mut Vec<Diagnostic>,
    /// Entity types so far.
    types: HashMap<String, Span>,
}

impl Reader<'_> {
    /// Several documents are one registry.
    fn documents(&mut self, documents: &[Node]) -> RawRegistry {
        let mut raw = RawRegistry::default();
        let filled: Vec<&Node> =
            documents.iter().filter(|node| !matches!(node.kind(), Kind::Null(_))).collect();
        if filled.is_empty() {
            let help = "a registry begins with `field_ownership:` and an entity type below it";
            self.error("empty_registry", Span::new(1, 1, 1), "the file holds no registry", help);
        }
        for document in filled {
            self.document(document, &mut raw);
        }
        raw
    }

    fn document(&mut self, document: &Node, raw: &mut RawRegistry) {
        let Kind::Map(entries) = document.kind() else {
            let message = format!("a registry is a map, not {}", document.what());
            let help = "it begins with `field_ownership:` and an entity type below it";
            return self.error("wrong_shape", document.span, message, help);
        };
        let name = REGISTRY.first().map_or("", |key| key.name);
        if !entries.iter().any(|entry| nearest(&entry.key.value, [name]).is_some()) {
            let message = format!("`{name}` is missing");
            let help = "a registry begins with `field_ownership:` and an entity type below it";
            return self.error("missing_key", document.span, message, help);
        }
        for (_, entry) in self.known(entries, REGISTRY, "a registry") {
            let Kind::Map(types) = entry.value.kind() else {
                self.wrong_shape(
                    entry,
                    "a map of entity types",
                    "write a type and its rules below it: `Product:`",
                );
                continue;
            };
            if types.is_empty() {
                let message = "`field_ownership` has no entity types";
                self.error(
                    "empty_registry",
                    entry.span,
                    message,
                    "write a type and its rules: `Product:`",
                );
            }
            for entry in types {
                self.entity_entry(entry, raw);
            }
        }
    }

    fn entity_entry(&mut self, entry: &yaml::Entry, raw: &mut RawRegistry) {
        let name = &*entry.key.value;
        if let (Some(first), false) = (self.types.get(name).copied(), entry.again) {
            let message = format!("`{name}` comes twice; the first is in line {}", first.line);
            let help = "put both into one: several documents are one registry";
            let diagnostic = Diagnostic::error("duplicate_key", entry.span, message, help);
            self.found.push(diagnostic.note(first, "the first"));
            let _ = self.entity(entry);
            return;
        }
        let entity = self.entity(entry);
        if let (Some(entity), false) = (entity, entry.again) {
            self.types.insert(name.to_owned(), entry.span);
            raw.entities.push(entity);
        }
    }

    fn error(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.found.push(Diagnostic::error(code, span, message, help));
    }
}
