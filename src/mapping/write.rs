//! A save as statements: only the columns, keys and rows it changes.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{
    Cell, Kind, Layout,
    dialect::{Statement, Writing, writable},
    layout::wrong_type,
    place::{KeyPart, Place, Source, Target, row_depth, vars_of},
    read::Stored,
    template::Vars,
};
use crate::{
    commit::Lifecycle,
    entity::EntityId,
    error::{Error, Result},
    path::Path,
    record::Patch,
};

/// What a commit changes in the record.
#[derive(Clone, Copy, Debug)]
pub struct Save<'a> {
    /// What happens to the record.
    pub lifecycle: Lifecycle,
    /// Leaves written and removed.
    pub patch: &'a Patch,
    /// Items removed with everything in them.
    pub removed_items: &'a [Path],
}

/// What happens to one column: its new value, or for a document the keys that change.
#[derive(Clone, Debug, Default)]
struct Put {
    /// The path that is written first, for a message.
    path: Option<Path>,
    value: Option<Json>,
    /// In their order; no keys are the document itself.
    keys: Vec<(Vec<String>, Option<Json>)>,
}

/// What happens to one row.
#[derive(Clone, Debug, Default)]
struct RowChange {
    columns: BTreeMap<usize, Put>,
    /// The row goes.
    gone: bool,
    /// The row must be there even if nothing of it is written.
    wanted: bool,
}

/// Changes by source and by the values that pick the row.
type Changes = BTreeMap<(usize, Vec<String>), RowChange>;

impl Layout {
    /// The statements of a save, in order, over what [`Layout::stored`] saw in the same transaction under locks.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a value cannot lie where its path does: `wrong_type`, `not_null`, `no_place`,
    /// `read_only`, `row_twice`, `row_incomplete`, `bad_key`, `bad_id`. Nothing may be written then.
    pub fn writes(
        &self,
        id: &EntityId,
        stored: &Stored,
        save: &Save<'_>,
    ) -> Result<Vec<Statement>> {
        let Some(cells) = self.id(id) else {
            let message =
                format!("`{}` is no id of `{}`", id.as_str().escape_debug(), self.rules.kind);
            return Err(Error::invalid("bad_id", message, "give the id as its columns hold it"));
        };
        if save.lifecycle == Lifecycle::Delete {
            return Ok(self.deletes(&cells));
        }
        let mut changes = Changes::new();
        for item in save.removed_items {
            self.remove_item(item, stored, &mut changes);
        }
        for (path, leaf) in save.patch {
            self.leaf(path, leaf.as_ref(), stored, &mut changes)?;
        }
        if save.lifecycle == Lifecycle::Create {
            changes.entry((0, Vec::new())).or_default().wanted = true;
        }
        let mut statements = Vec::new();
        for ((source, open), change) in &changes {
            let rows = stored.rows.get(*source).and_then(|rows| rows.get(open));
            let Some(source) = self.sources.get(*source) else { continue };
            statements.extend(self.row_write(source, &cells, open, change, rows)?);
        }
        Ok(statements)
    }

    /// Rows of other tables first, for the sake of foreign keys.
    fn deletes(&self, id: &[Cell]) -> Vec<Statement> {
        let delete = |source: &Source| {
            let mut sql = Writing::new(self.dialect, "DELETE FROM ");
            sql.push(&source.sql);
            self.filter(&mut sql, source, id, &[]);
            sql.done()
        };
        self.sources.iter().rev().map(delete).collect()
    }

    fn remove_item(&self, item: &Path, stored: &Stored, changes: &mut Changes) {
        for place in &self.places {
            for target in place.targets() {
                self.remove_rows(item, place, target, stored, changes);
            }
        }
        let inside = stored.record.below(item).filter(|(path, _)| path.is_part_of(item));
        for (path, _) in inside {
            let Some(place) = self.place(path) else { continue };
            // Their rows go as a whole.
            if self.picks_rows(place, item) {
                continue;
            }
            for target in place.targets() {
                let vars = vars_of(&place.pattern, path);
                let Some(open) = self.open(target, &vars) else { continue };
                let change = changes.entry((target.source, open)).or_default();
                match self.keys(place, target, path, &vars) {
                    Some(keys) if self.is_document(target) => {
                        keyed(change, target.column, path).push((keys, None));
                    }
                    _ if path.keys().len() <= place.pattern.segments().len() => {
                        change.columns.insert(target.column, Put::value(path, None));
                    }
                    _ => {}
                }
            }
        }
    }

    fn picks_rows(&self, place: &Place, item: &Path) -> bool {
        let depth =
            self.sources.get(place.target.source).map_or(0, |s| row_depth(&place.pattern, s));
        depth > 0 && depth <= item.keys().len()
    }

    /// The rows that belong to the item, on any axis values it does not name.
    fn remove_rows(
        &self,
        item: &Path,
        place: &Place,
        target: &Target,
        stored: &Stored,
        changes: &mut Changes,
    ) {
        if !self.picks_rows(place, item) || !above(place, item) {
            return;
        }
        let wanted = vars_of(&place.pattern, item);
        let Some(source) = self.sources.get(target.source) else { return };
        for open in stored.rows.get(target.source).into_iter().flat_map(BTreeMap::keys) {
            let mut vars = Vars::new();
            let fits = source.open.iter().zip(open).all(|((_, t), text)| t.read(text, &mut vars));
            if fits && vars.iter().all(|(name, value)| wanted.get(name).is_none_or(|w| w == value))
            {
                changes.entry((target.source, open.clone())).or_default().gone = true;
            }
        }
    }

    fn leaf(
        &self,
        path: &Path,
        leaf: Option<&Json>,
        stored: &Stored,
        changes: &mut Changes,
    ) -> Result<()> {
        let node = leaf.is_some_and(|leaf| leaf.as_object().is_some_and(serde_json::Map::is_empty));
        let Some(place) = self.place(path) else {
            return match (node, leaf) {
                (true, _) => {
                    self.item_rows(path, changes);
                    Ok(())
                }
                (false, None) => Ok(()),
                (false, Some(_)) => Err(no_place(path)),
            };
        };
        if place.read_only {
            let message = format!("`{path}` lies in an encoded column that is only read");
            let help = "let the CMS write it, and use the guard statement there";
            return Err(Error::invalid("read_only", message, help));
        }
        let vars = vars_of(&place.pattern, path);
        for target in place.targets() {
            let open = self.open(target, &vars).ok_or_else(|| no_place(path))?;
            let kind = self.kind_at(target, path).ok_or_else(|| no_place(path))?;
            let change = changes.entry((target.source, open)).or_default();
            if self.is_document(target) {
                if node && stored.record.stored(path).is_some_and(is_node) && !change.gone {
                    continue;
                }
                let keys = self.keys(place, target, path, &vars).ok_or_else(|| no_place(path))?;
                keyed(change, target.column, path).push((keys, leaf.cloned()));
                continue;
            }
            if path.keys().len() > place.pattern.segments().len() {
                match leaf {
                    None => continue,
                    Some(_) => return Err(no_place(path)),
                }
            }
            let value = match leaf.filter(|leaf| !leaf.is_null()) {
                Some(json) => {
                    let form = kind.canonical(self.dialect, json);
                    Some(form.map_err(|why| wrong_type(path, &why))?)
                }
                None => None,
            };
            if value.is_none() && place.delete {
                change.gone = true;
            }
            change.columns.insert(target.column, Put::value(path, value));
        }
        Ok(())
    }

    /// A new item of a collection kept in rows: the row is made, whatever it holds.
    fn item_rows(&self, item: &Path, changes: &mut Changes) {
        for place in self.places.iter().filter(|place| above(place, item)) {
            let vars = vars_of(&place.pattern, item);
            for target in place.targets() {
                let source = self.sources.get(target.source);
                let depth = source.map_or(0, |source| row_depth(&place.pattern, source));
                if depth == 0 || depth != item.keys().len() {
                    continue;
                }
                if let Some(open) = self.open(target, &vars) {
                    changes.entry((target.source, open)).or_default().wanted = true;
                }
            }
        }
    }

    /// The values that pick the row of a target.
    fn open(&self, target: &Target, vars: &Vars) -> Option<Vec<String>> {
        let source = self.sources.get(target.source)?;
        source.open.iter().map(|(_, template)| template.fill(vars)).collect()
    }

    fn is_document(&self, target: &Target) -> bool {
        let field = self.sources.get(target.source).and_then(|s| s.columns.get(target.column));
        field.is_some_and(|field| field.kind == Kind::Json)
    }

    /// The keys of a path inside a document: those of its place, then what the path goes deeper.
    fn keys(
        &self,
        place: &Place,
        target: &Target,
        path: &Path,
        vars: &Vars,
    ) -> Option<Vec<String>> {
        let mut keys = Vec::new();
        for part in &target.keys {
            if let KeyPart::One(template) = part {
                keys.push(template.fill(vars)?);
            }
        }
        let deeper = path.keys().get(place.pattern.segments().len()..).unwrap_or_default();
        keys.extend(deeper.iter().map(|key| key.to_string()));
        Some(keys)
    }

    fn row_write(
        &self,
        source: &Source,
        id: &[Cell],
        open: &[String],
        change: &RowChange,
        seen: Option<&super::read::Seen>,
    ) -> Result<Option<Statement>> {
        let picks = source.open.iter().zip(open);
        let picks: Option<Vec<Cell>> =
            picks.map(|((field, _), text)| field.kind.cell_of_text(self.dialect, text)).collect();
        let Some(picks) = picks else {
            let path = change.columns.values().find_map(|put| put.path.as_ref());
            return Err(path.map_or_else(|| Error::internal("a row without a key"), no_place));
        };
        match seen {
            Some(seen) if seen.count > 1 => {
                let message = format!(
                    "`{}` has {} rows for `{}` of this record: which one is meant cannot be told",
                    source.table,
                    seen.count,
                    open.join(", ")
                );
                Err(Error::invalid("row_twice", message, "remove the rows that are too many"))
            }
            Some(_) if change.gone => {
                let mut sql = Writing::new(self.dialect, "DELETE FROM ");
                sql.push(&source.sql);
                self.filter(&mut sql, source, id, &picks);
                Ok(Some(sql.done()))
            }
            Some(_) if change.columns.is_empty() => Ok(None),
            Some(seen) => self.update(source, id, &picks, change, seen),
            None if change.gone && !change.wanted => Ok(None),
            None => self.insert(source, id, &picks, change),
        }
    }

    fn update(
        &self,
        source: &Source,
        id: &[Cell],
        picks: &[Cell],
        change: &RowChange,
        seen: &super::read::Seen,
    ) -> Result<Option<Statement>> {
        let mut sql = Writing::new(self.dialect, "UPDATE ");
        sql.push(&source.sql).push(" SET ");
        let mut first = true;
        for (column, put) in &change.columns {
            let Some(field) = source.columns.get(*column) else { continue };
            let value = if field.kind == Kind::Json {
                let before = seen.documents.get(column);
                match self.document(&mut sql, &field.sql, put, before)? {
                    Some(Some(document)) => sql.stored(document, &field.declared),
                    Some(None) if !field.nullable => return Err(not_null(put, &field.name)),
                    Some(None) => "NULL".to_owned(),
                    None => continue,
                }
            } else if put.value.is_none() && !field.nullable {
                return Err(not_null(put, &field.name));
            } else {
                let cell = field.kind.cell(self.dialect, put.value.as_ref().unwrap_or(&Json::Null));
                sql.value(&field.kind, &field.declared, cell)
            };
            sql.push(if first { "" } else { ", " }).push(&field.sql).push(" = ").push(&value);
            first = false;
        }
        if first {
            return Ok(None);
        }
        self.filter(&mut sql, source, id, picks);
        Ok(Some(sql.done()))
    }

    /// The expression of a changed document. `Some(None)`: it goes; `None`: nothing changes.
    fn document(
        &self,
        sql: &mut Writing,
        column: &str,
        put: &Put,
        before: Option<&Json>,
    ) -> Result<Option<Option<String>>> {
        let path = put.path.as_ref().map_or("", Path::as_str);
        let mut text = Some(sql.document(column));
        let mut now = before.cloned().unwrap_or_else(|| Json::Object(serde_json::Map::new()));
        let mut changed = false;
        // What stands before the document is written anew does not count.
        let from = put.keys.iter().rposition(|(keys, _)| keys.is_empty()).unwrap_or(0);
        for (keys, value) in put.keys.iter().skip(from) {
            if keys.is_empty() {
                changed = true;
                now = value.clone().unwrap_or_else(|| Json::Object(serde_json::Map::new()));
                text = value.as_ref().map(|json| sql.whole(Cell::Text(json.to_string())));
                continue;
            }
            let Some(value) = value else {
                if remove(&mut now, keys) {
                    changed = true;
                    let document = text.take().unwrap_or_else(|| sql.document(column));
                    text = Some(sql.remove_key(&document, keys));
                }
                continue;
            };
            if let Some(key) = keys.iter().find(|key| !writable(self.dialect, key)) {
                let message = format!(
                    "the key `{}` of `{path}` cannot be written inside a JSON column",
                    key.escape_debug()
                );
                return Err(Error::invalid(
                    "bad_key",
                    message,
                    "use a key without quotes, backslashes and control characters",
                ));
            }
            let mut document = text.take().unwrap_or_else(|| "'{}'".to_owned());
            // A key below a missing parent would be lost without a word.
            for depth in 0..=keys.len() {
                let Some(upto) = keys.get(..depth) else { continue };
                match at(&now, upto) {
                    _ if depth == keys.len() => {
                        document = sql.set_key(&document, keys, Cell::Text(value.to_string()));
                        set(&mut now, keys, value.clone());
                    }
                    Some(Json::Object(_)) => {}
                    None => {
                        document = sql.set_key(&document, upto, Cell::Text("{}".to_owned()));
                        set(&mut now, upto, Json::Object(serde_json::Map::new()));
                    }
                    Some(_) => {
                        let message = format!(
                            "`{}` above `{path}` is no map in its JSON column",
                            upto.join(".")
                        );
                        return Err(Error::invalid(
                            "no_place",
                            message,
                            "mend the document in the CMS",
                        ));
                    }
                }
            }
            changed = true;
            text = Some(document);
        }
        Ok(changed.then_some(text))
    }

    fn insert(
        &self,
        source: &Source,
        id: &[Cell],
        picks: &[Cell],
        change: &RowChange,
    ) -> Result<Option<Statement>> {
        let mut sql = Writing::new(self.dialect, "INSERT INTO ");
        let fixed = source.fixed.iter().map(|(field, cell)| (field, cell));
        let open = source.open.iter().map(|(field, _)| field).zip(picks);
        let keys = source.id.iter().zip(id).chain(fixed).chain(open);
        let mut columns: Vec<&str> = Vec::new();
        let mut values = Vec::new();
        for (field, cell) in keys {
            columns.push(&field.sql);
            values.push(sql.value(&field.kind, &field.declared, cell.clone()));
        }
        let bare = values.len();
        let mut given: Vec<&str> = Vec::new();
        for (column, put) in &change.columns {
            let Some(field) = source.columns.get(*column) else { continue };
            let value = if field.kind == Kind::Json {
                let Some(document) = built(&put.keys) else { continue };
                let document = sql.whole(Cell::Text(document.to_string()));
                sql.stored(document, &field.declared)
            } else {
                let Some(json) = &put.value else { continue };
                sql.value(&field.kind, &field.declared, field.kind.cell(self.dialect, json))
            };
            columns.push(&field.sql);
            given.push(&field.name);
            values.push(value);
        }
        if values.len() == bare && !change.wanted {
            return Ok(None);
        }
        if let Some(missing) = source.required.iter().find(|name| !given.contains(&name.as_str())) {
            let message = format!(
                "a row of `{}` cannot be made: its column `{missing}` must have a value",
                source.table
            );
            return Err(Error::invalid("row_incomplete", message, "give it in the same save"));
        }
        sql.push(&source.sql).push(" (").push(&columns.join(", ")).push(") VALUES (");
        sql.push(&values.join(", ")).push(")");
        Ok(Some(sql.done()))
    }
}

impl Put {
    fn value(path: &Path, value: Option<Json>) -> Self {
        Self { path: Some(path.clone()), value, keys: Vec::new() }
    }
}

fn keyed<'c>(
    change: &'c mut RowChange,
    column: usize,
    path: &Path,
) -> &'c mut Vec<(Vec<String>, Option<Json>)> {
    let put = change.columns.entry(column).or_default();
    put.path.get_or_insert_with(|| path.clone());
    &mut put.keys
}

/// A document made of nothing but these keys.
fn built(keys: &[(Vec<String>, Option<Json>)]) -> Option<Json> {
    let mut document: Option<Json> = None;
    for (keys, value) in keys {
        match value {
            Some(value) => {
                let document = document.get_or_insert_with(|| Json::Object(serde_json::Map::new()));
                set(document, keys, value.clone());
            }
            None if keys.is_empty() => document = None,
            None => {
                document.as_mut().map(|document| remove(document, keys));
            }
        }
    }
    document
}

fn at<'j>(json: &'j Json, keys: &[String]) -> Option<&'j Json> {
    keys.iter().try_fold(json, |json, key| json.get(key))
}

fn set(json: &mut Json, keys: &[String], value: Json) {
    let Some((first, rest)) = keys.split_first() else {
        *json = value;
        return;
    };
    if !json.is_object() {
        *json = Json::Object(serde_json::Map::new());
    }
    if let Json::Object(members) = json {
        set(members.entry(first.clone()).or_insert(Json::Null), rest, value);
    }
}

/// Whether it was there.
fn remove(json: &mut Json, keys: &[String]) -> bool {
    match (json, keys) {
        (Json::Object(members), [last]) => members.remove(last).is_some(),
        (Json::Object(members), [first, rest @ ..]) => {
            members.get_mut(first).is_some_and(|below| remove(below, rest))
        }
        _ => false,
    }
}

fn is_node(json: &Json) -> bool {
    json.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Whether the pattern goes on below paths like this one.
fn above(place: &Place, item: &Path) -> bool {
    let segments = place.pattern.segments();
    segments.len() >= item.keys().len()
        && segments.iter().zip(item.keys()).all(|(segment, key)| match segment {
            crate::path::Segment::Key(wanted) => wanted == key,
            crate::path::Segment::Prefix(prefix) => key.starts_with(&**prefix),
            crate::path::Segment::Any => true,
        })
}

fn no_place(path: &Path) -> Error {
    let message = format!("`{path}` lies in no column of the database");
    Error::invalid("no_place", message, "add it to `places`, or leave it out")
}

fn not_null(put: &Put, column: &str) -> Error {
    let path = put.path.as_ref().map_or("", Path::as_str);
    let message = format!("`{path}` cannot be empty: its column `{column}` takes no NULL");
    Error::invalid("not_null", message, "send a value")
}
