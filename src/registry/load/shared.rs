//! `shared`: a plain list, or a map of paths to strategies.

use super::{Reader, value::json};
use crate::{
    diagnostic::Spanned,
    path::Pattern,
    registry::{
        raw::{RawHistory, RawShared},
        schema::{Key, SHARED},
        yaml::{Entry, Kind, Nothing},
    },
};

impl Reader<'_> {
    pub(super) fn shared(&mut self, entry: &Entry) -> Vec<RawShared> {
        match entry.value.kind() {
            Kind::Map(entries) => {
                let mut shared = Vec::new();
                for entry in entries {
                    let one = self.shared_entry(entry);
                    shared.extend(one.filter(|_| !entry.again));
                }
                shared
            }
            Kind::List(_) | Kind::Text(_) => {
                self.paths(entry).unwrap_or_default().into_iter().map(empty).collect()
            }
            Kind::Null(_) | Kind::Alias(_) => {
                let help = "write `categories: set_merge` below it, or `{}` for none";
                self.wrong_shape(entry, "a map of paths to strategies", help);
                Vec::new()
            }
        }
    }

    fn shared_entry(&mut self, entry: &Entry) -> Option<RawShared> {
        let pattern = self.path_key(entry);
        // A faulty path does not hide the faults of its value.
        let placeholder = || Spanned {
            value: Pattern::from_parts(Vec::new(), crate::path::Tail::Subtree, Vec::new()),
            span: entry.span,
        };
        let readable = pattern.is_some();
        let mut shared = empty(pattern.unwrap_or_else(placeholder));
        match entry.value.kind() {
            // In JSON nothing is written `null`.
            Kind::Null(Nothing::Absent | Nothing::Word) => {}
            Kind::Text(text) => {
                shared.strategy =
                    Some(Spanned { value: text.value.to_string(), span: entry.value.span });
            }
            Kind::Map(entries) => {
                for entry in entries.iter().filter(|entry| !entry.again) {
                    match SHARED.iter().find(|key| *key.name == *entry.key.value) {
                        Some(key) => self.shared_key(key, entry, &mut shared),
                        None => {
                            let name =
                                Spanned { value: entry.key.value.to_string(), span: entry.span };
                            let value =
                                Spanned { value: json(&entry.value), span: entry.value.span };
                            shared.options.push((name, value));
                        }
                    }
                }
            }
            _ => {
                let help = "write `set_merge`, or `{strategy: counter, min: 0}`";
                self.wrong_shape(entry, "a strategy or a map with `strategy`", help);
                return None;
            }
        }
        readable.then_some(shared)
    }

    fn shared_key(&mut self, key: &'static Key, entry: &Entry, shared: &mut RawShared) {
        match key.name {
            "strategy" => shared.strategy = self.text(entry),
            "group" => shared.group = self.text(entry),
            "locking" => shared.locking = self.locking(key, entry),
            "ttl" => shared.ttl = self.duration(key, entry),
            "max_hold" => shared.max_hold = self.duration(key, entry),
            "on_busy" => shared.on_busy = self.on_busy(entry),
            _ => shared.history = self.history(entry),
        }
    }
}

fn empty(pattern: Spanned<Pattern>) -> RawShared {
    RawShared {
        pattern,
        strategy: None,
        options: Vec::new(),
        group: None,
        locking: None,
        ttl: None,
        max_hold: None,
        on_busy: None,
        history: RawHistory::default(),
    }
}
