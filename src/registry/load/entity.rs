//! One entity type.

use super::{
    Reader,
    value::{json, shown},
};
use crate::{
    diagnostic::{Level, Spanned},
    path::Pattern,
    registry::{
        Owner,
        raw::{Enforcement, RawAxis, RawEntity, RawHistory},
        schema::{ENTITY, HISTORY, LIFECYCLE},
        yaml::{Entry, Kind},
    },
};

impl Reader<'_> {
    /// Reads the rules of one type. `None` when they are not a map.
    pub(super) fn entity(&mut self, entry: &Entry) -> Option<RawEntity> {
        let Kind::Map(entries) = entry.value.kind() else {
            let help = "write the rules of the type: `editor_owned: [name]`";
            self.wrong_shape(entry, "a map of rules", help);
            return None;
        };
        let name = Spanned { value: entry.key.value.to_string(), span: entry.span };
        let mut raw = empty(name);
        let before = self.found.len();
        for (key, entry) in self.known(entries, ENTITY, "an entity type") {
            match key.name {
                "default_owner" => raw.default_owner = self.text(entry),
                "enforcement" => raw.enforcement = self.enforcement(key, entry),
                "lifecycle" => self.lifecycle(entry, &mut raw),
                "extends" => raw.extends = self.text(entry),
                "drop" => raw.drop = self.paths(entry).unwrap_or_default(),
                "axes" => raw.axes = self.axes(entry),
                "collections" => raw.collections = self.collections(entry),
                "editor_owned" => self.groups(entry, Owner::Editor, &mut raw.groups),
                "system_owned" => self.groups(entry, Owner::System, &mut raw.groups),
                "shared" => raw.shared = self.shared(entry),
                "coupled" => raw.coupled = self.coupled(entry),
                "history" => raw.history = self.history(entry),
                "storage" => raw.storage = self.storage(entry, &mut raw.places),
                _ => raw.select = Some(Spanned { value: json(&entry.value), span: entry.span }),
            }
        }
        raw.faulty = self.found.iter().skip(before).any(|d| d.level == Level::Error);
        Some(raw)
    }

    fn enforcement(
        &mut self,
        key: &'static crate::registry::schema::Key,
        entry: &Entry,
    ) -> Option<Spanned<Enforcement>> {
        let word = self.word(key, entry)?;
        let value = match word.value {
            "observe" => Enforcement::Observe,
            "warn" => Enforcement::Warn,
            _ => Enforcement::Enforce,
        };
        Some(Spanned { value, span: word.span })
    }

    fn lifecycle(&mut self, entry: &Entry, raw: &mut RawEntity) {
        let Kind::Map(entries) = entry.value.kind() else {
            return self.wrong_shape(
                entry,
                "a map",
                "write `{create: [editor], delete: [editor]}`",
            );
        };
        for (key, entry) in self.known(entries, LIFECYCLE, "`lifecycle`") {
            let groups = self.texts(entry);
            if key.name == "create" {
                raw.create = groups;
            } else {
                raw.delete = groups;
            }
        }
    }

    fn axes(&mut self, entry: &Entry) -> Option<Vec<RawAxis>> {
        let Kind::Map(entries) = entry.value.kind() else {
            self.wrong_shape(
                entry,
                "a map of axis names",
                "write `{locale: [de, en], channel: any}`",
            );
            return None;
        };
        let mut axes = Vec::new();
        for entry in entries {
            let name = Spanned { value: entry.key.value.to_string(), span: entry.span };
            // What a path would say about the same name.
            if Pattern::parse(&format!("x@{}", name.value)).is_err() {
                let message = format!("`{}` is not the name of an axis", shown(&name.value));
                let help = "a name begins with a letter or `_`, then letters, digits, `_` and `-`";
                self.error("bad_axis", entry.span, message, help);
                continue;
            }
            let values = match entry.value.kind() {
                Kind::Text(text) if &*text.value == "any" => None,
                Kind::List(_) => self.texts(entry),
                _ => {
                    let help = "write `any`, or the values: `[de, en]`";
                    self.wrong_shape(entry, "`any` or a list of values", help);
                    None
                }
            };
            if !entry.again {
                axes.push(RawAxis { name, values });
            }
        }
        Some(axes)
    }

    fn collections(&mut self, entry: &Entry) -> Vec<(Spanned<Pattern>, Vec<Spanned<String>>)> {
        let Kind::Map(entries) = entry.value.kind() else {
            self.wrong_shape(entry, "a map of paths to key names", "write `{gallery: uid}`");
            return Vec::new();
        };
        let mut collections = Vec::new();
        for entry in entries {
            let path = self.path_key(entry);
            let names = self.text_or_texts(entry);
            if let (Some(path), Some(names), false) = (path, names, entry.again) {
                collections.push((path, names));
            }
        }
        collections
    }

    /// One name, or a list of them.
    pub(super) fn text_or_texts(&mut self, entry: &Entry) -> Option<Vec<Spanned<String>>> {
        if let Some(text) = entry.value.text() {
            return Some(vec![Spanned { value: text.value.to_string(), span: entry.value.span }]);
        }
        let article = "a name or a list of names";
        let Kind::List(items) = entry.value.kind() else {
            self.wrong_shape(entry, article, "write one name, or `[first, second]`");
            return None;
        };
        if items.is_empty() {
            let message = format!("`{}` is {article}, not an empty list", entry.key.value);
            self.error("wrong_shape", entry.value.span, message, "write at least one name");
            return None;
        }
        self.texts(entry)
    }

    fn coupled(&mut self, entry: &Entry) -> Vec<Spanned<Vec<Spanned<Pattern>>>> {
        let help = "write one list per set: `- [price.amount, price.currency]`";
        let Kind::List(sets) = entry.value.kind() else {
            self.wrong_shape(entry, "a list of sets of paths", help);
            return Vec::new();
        };
        let mut coupled = Vec::new();
        for set in sets {
            let Kind::List(paths) = set.kind() else {
                let message = format!("a coupled set is a list of paths, not {}", set.what());
                self.error("wrong_shape", set.span, message, help);
                continue;
            };
            let value: Vec<_> = paths.iter().filter_map(|path| self.path(path)).collect();
            // A set with a faulty path says nothing about the others.
            if value.len() == paths.len() {
                coupled.push(Spanned { value, span: set.span });
            }
        }
        coupled
    }

    pub(super) fn history(&mut self, entry: &Entry) -> RawHistory {
        let mut history = RawHistory::default();
        let Kind::Map(entries) = entry.value.kind() else {
            let help = match entry.value.text() {
                Some(text) => format!("write `{{values: {}}}`", shown(&text.value)),
                None => "write `{values: full}`".to_owned(),
            };
            self.wrong_shape(entry, "a map", help);
            return history;
        };
        for (key, entry) in self.known(entries, HISTORY, "`history`") {
            let word = self.word(key, entry);
            let word = word.map(|word| Spanned { value: word.value.to_owned(), span: word.span });
            match key.name {
                "editor" => history.editor = word,
                "worker" => history.worker = word,
                _ => history.values = word,
            }
        }
        history
    }
}

fn empty(name: Spanned<String>) -> RawEntity {
    RawEntity {
        name,
        faulty: false,
        default_owner: None,
        enforcement: None,
        create: None,
        delete: None,
        extends: None,
        drop: Vec::new(),
        axes: None,
        collections: Vec::new(),
        groups: Vec::new(),
        shared: Vec::new(),
        coupled: Vec::new(),
        history: RawHistory::default(),
        storage: None,
        places: Vec::new(),
        select: None,
    }
}
