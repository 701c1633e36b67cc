//! Rows of the CMS's tables as a record.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{
    Cell, Layout, Rows,
    place::{KeyPart, Place, Source, path_of, row_depth},
    template::Vars,
};
use crate::{
    entity::EntityId,
    path::{Path, Tail},
    record::Record,
    registry::Owner,
};

/// What the tables hold of one record.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Whether its own row is there.
    pub exists: bool,
    /// The values that somebody owns.
    pub record: Record,
    /// Per source: the rows there are, by the values that tell them apart.
    pub(super) rows: Vec<BTreeMap<Vec<String>, Seen>>,
}

/// One row.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// How many rows have these values.
    pub(super) count: usize,
    /// JSON columns, whole, by column of the source.
    pub(super) documents: BTreeMap<usize, Json>,
}

/// Key paths of one document that other places have read.
type Taken = Vec<(usize, Vec<String>)>;

impl Layout {
    /// Puts the answers of [`Layout::reads`] together, in the same order.
    ///
    /// # Errors
    /// When a JSON column holds no JSON; says which.
    pub fn stored(&self, id: &EntityId, answers: &[Rows]) -> Result<Stored, String> {
        let mut stored = Stored::default();
        for (index, source) in self.sources.iter().enumerate() {
            let mut seen: BTreeMap<Vec<String>, Seen> = BTreeMap::new();
            for row in answers.get(index).into_iter().flatten() {
                let (own, rest) = row.split_at_checked(source.id.len()).unwrap_or_default();
                if !self.is_id(source, id, own) {
                    continue;
                }
                stored.exists |= index == 0;
                let (open, values) = rest.split_at_checked(source.open.len()).unwrap_or_default();
                let open = source.open.iter().zip(open);
                let open: Option<Vec<String>> =
                    open.map(|((field, _), cell)| field.kind.text(self.dialect, cell)).collect();
                let Some(open) = open else { continue };
                let again = seen.contains_key(&open);
                let row = seen.entry(open.clone()).or_default();
                row.count += 1;
                // Of rows that should be one, the first counts.
                if !again {
                    self.row(index, source, &open, values, row, &mut stored.record)?;
                }
            }
            stored.rows.push(seen);
        }
        if !stored.exists {
            stored.record = Record::new();
        }
        Ok(stored)
    }

    fn row(
        &self,
        index: usize,
        source: &Source,
        open: &[String],
        values: &[Cell],
        seen: &mut Seen,
        record: &mut Record,
    ) -> Result<(), String> {
        for (column, (field, cell)) in source.columns.iter().zip(values).enumerate() {
            if field.kind == super::Kind::Json {
                let json = field.kind.json(self.dialect, cell);
                let json =
                    json.map_err(|why| format!("`{}.{}`: {why}", source.table, field.name))?;
                seen.documents.extend(json.map(|json| (column, json)));
            }
        }
        let mut taken = Taken::new();
        let own = self.places.iter().filter(|place| place.target.source == index);
        // Those that go deeper into a document have the first look: what they take is not a value of another.
        let mut own: Vec<&Place> = own.collect();
        own.sort_by_key(|place| std::cmp::Reverse(place.target.keys.len()));
        for place in own {
            let mut vars = Vars::new();
            let fits = source.open.iter().zip(open).all(|((_, t), text)| t.read(text, &mut vars));
            if !fits {
                continue;
            }
            self.item(place, source, &vars, record);
            let column = place.target.column;
            if let Some(document) = seen.documents.get(&column) {
                let mut walk =
                    Walk { layout: self, place, record: &mut *record, taken: &mut taken };
                walk.go(document, &place.target.keys, &vars, &mut Vec::new());
                continue;
            }
            let (Some(cell), Some(path)) = (values.get(column), path_of(&place.pattern, &vars))
            else {
                continue;
            };
            let Some(kind) = self.kind_at(&place.target, &path) else { continue };
            let value = kind.json(self.dialect, cell)?;
            if let Some(value) = value.filter(|_| kind != super::Kind::Json) {
                self.put(place, record, &path, &value);
            }
        }
        Ok(())
    }

    /// A row may be an item of a collection even when all its columns are NULL.
    fn item(&self, place: &Place, source: &Source, vars: &Vars, record: &mut Record) {
        let depth = row_depth(&place.pattern, source);
        if depth == 0 || depth >= place.pattern.segments().len() {
            return;
        }
        let keys = place.pattern.segments().get(..depth).unwrap_or_default().to_vec();
        let above = crate::path::Pattern::from_parts(keys, Tail::Node, Vec::new());
        if let Some(path) = path_of(&above, vars).filter(|path| record.stored(path).is_none()) {
            record.set(&path, &Json::Object(serde_json::Map::new()));
        }
    }

    /// A value into the record, as far as somebody owns it and no closer place does.
    fn put(&self, place: &Place, record: &mut Record, path: &Path, json: &Json) {
        if self.place(path).is_none_or(|own| own.pattern != place.pattern) {
            return;
        }
        let Ok(resolved) = self.rules.lookup(path) else { return };
        match json {
            Json::Object(members) if resolved.inner && path.marker().is_none() => {
                if record.stored(path).is_none() {
                    record.set(path, &Json::Object(serde_json::Map::new()));
                }
                for (key, member) in members {
                    let below = path.child(key);
                    if Path::parse(below.as_str()).is_ok() {
                        self.put(place, record, &below, member);
                    }
                }
            }
            _ if resolved.owner != Owner::Deny => record.set(path, json),
            _ => {}
        }
    }
}

/// One place looking into a document.
struct Walk<'a> {
    layout: &'a Layout,
    place: &'a Place,
    record: &'a mut Record,
    taken: &'a mut Taken,
}

impl Walk<'_> {
    fn go(&mut self, json: &Json, keys: &[KeyPart], vars: &Vars, at: &mut Vec<String>) {
        let Some((first, rest)) = keys.split_first() else {
            self.end(json, vars, at);
            return;
        };
        let KeyPart::One(template) = first else {
            self.end(json, vars, at);
            return;
        };
        let Json::Object(members) = json else { return };
        for (key, member) in members {
            let mut vars = vars.clone();
            if template.read(key, &mut vars) {
                at.push(key.clone());
                self.go(member, rest, &vars, at);
                at.pop();
            }
        }
    }

    fn end(&mut self, json: &Json, vars: &Vars, at: &[String]) {
        let column = self.place.target.column;
        let taken = |(other, keys): &(usize, Vec<String>)| {
            *other == column && keys.len() > at.len() && keys.starts_with(at)
        };
        let Some(path) = path_of(&pattern_node(self.place), vars) else { return };
        if !at.is_empty() && self.taken.iter().any(taken) {
            return;
        }
        if self.layout.rules.lookup(&path).is_err() {
            return;
        }
        self.taken.push((column, at.to_vec()));
        self.layout.put(self.place, self.record, &path, json);
    }
}

/// The pattern up to where a value begins: `p` of `p.**`.
fn pattern_node(place: &Place) -> crate::path::Pattern {
    let pattern = &place.pattern;
    let tail = if pattern.tail() == Tail::Subtree { Tail::Node } else { pattern.tail() };
    crate::path::Pattern::from_parts(pattern.segments().to_vec(), tail, pattern.axes().to_vec())
}
