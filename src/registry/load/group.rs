//! `editor_owned` and `system_owned`: a plain list, or a map of named groups.

use super::Reader;
use crate::{
    diagnostic::Spanned,
    registry::{
        Locking, Owner,
        raw::{RawGroup, RawHistory},
        schema::{GROUP, Key},
        yaml::{Entry, Kind},
    },
};

impl Reader<'_> {
    pub(super) fn groups(&mut self, entry: &Entry, owner: Owner, groups: &mut Vec<RawGroup>) {
        match entry.value.kind() {
            Kind::Map(entries) => {
                for entry in entries {
                    let group = self.group(entry, owner);
                    groups.extend(group.filter(|_| !entry.again));
                }
            }
            Kind::List(_) | Kind::Text(_) => {
                let name = if owner == Owner::Editor { "editor" } else { "system" };
                let name = Spanned { value: name.to_owned(), span: entry.span };
                let mut group = empty(owner, name);
                group.plain = true;
                group.fields = self.paths(entry).unwrap_or_default();
                groups.push(group);
            }
            Kind::Null(_) | Kind::Alias(_) => {
                let article = "a list of paths or a map of groups";
                self.wrong_shape(
                    entry,
                    article,
                    "write the fields below it, each behind a dash, or `[]` for none",
                );
            }
        }
    }

    fn group(&mut self, entry: &Entry, owner: Owner) -> Option<RawGroup> {
        let name = Spanned { value: entry.key.value.to_string(), span: entry.span };
        let mut group = empty(owner, name);
        match entry.value.kind() {
            Kind::List(_) | Kind::Text(_) => {
                group.fields = self.paths(entry).unwrap_or_default();
            }
            Kind::Map(entries) => {
                let known = self.known(entries, GROUP, "a group");
                for (key, entry) in &known {
                    self.group_key(key, entry, &mut group);
                }
                let given = |name: &str| known.iter().any(|(key, _)| key.name == name);
                // Beside a time that could not be read, the other says nothing.
                if given("ttl") && group.ttl.is_none() {
                    group.max_hold = None;
                }
                if given("max_hold") && group.max_hold.is_none() {
                    group.ttl = None;
                }
            }
            Kind::Null(_) | Kind::Alias(_) => {
                let help = "write its fields: `[thumb]`, or `{fields: [thumb], ttl: 45s}`";
                self.wrong_shape(entry, "a list of paths or a map with `fields`", help);
                return None;
            }
        }
        Some(group)
    }

    fn group_key(&mut self, key: &'static Key, entry: &Entry, group: &mut RawGroup) {
        match key.name {
            "fields" => group.fields = self.paths(entry).unwrap_or_default(),
            "writers" => group.writers = self.texts(entry),
            "locking" => group.locking = self.locking(key, entry),
            "ttl" => group.ttl = self.duration(key, entry),
            "max_hold" => group.max_hold = self.duration(key, entry),
            "on_busy" => group.on_busy = self.on_busy(entry),
            "derived_from" => group.derived_from = self.paths(entry),
            "on_stale" => {
                let word = self.word(key, entry);
                group.on_stale =
                    word.map(|word| Spanned { value: word.value.to_owned(), span: word.span });
            }
            "split_by" => group.split_by = self.texts(entry),
            _ => group.history = self.history(entry),
        }
    }

    pub(super) fn locking(&mut self, key: &'static Key, entry: &Entry) -> Option<Spanned<Locking>> {
        let word = self.word(key, entry)?;
        let value = if word.value == "lease" { Locking::Lease } else { Locking::Optimistic };
        Some(Spanned { value, span: word.span })
    }
}

fn empty(owner: Owner, name: Spanned<String>) -> RawGroup {
    RawGroup {
        owner,
        name,
        plain: false,
        fields: Vec::new(),
        writers: None,
        locking: None,
        ttl: None,
        max_hold: None,
        on_busy: None,
        derived_from: None,
        on_stale: None,
        split_by: None,
        history: RawHistory::default(),
    }
}
