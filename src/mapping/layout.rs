//! Which column, key or row every path of an entity type lies in.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value as Json;

use super::{
    Cell, Dialect, Kind,
    dialect::{Statement, Writing},
    place::{Place, Source, Target},
};
use crate::{
    entity::{Change, EntityId, EntityType},
    error::{Error, Result},
    path::Path,
    registry::{EntityRules, covers, inside},
    token::Generation,
};

/// The places of one entity type in one database. See the module.
pub struct Layout {
    pub(super) rules: Arc<EntityRules>,
    pub(super) dialect: Dialect,
    /// The record's own rows come first.
    pub(super) sources: Vec<Source>,
    /// The closest first.
    pub(super) places: Vec<Place>,
}

impl Layout {
    pub(super) fn new(
        rules: Arc<EntityRules>,
        dialect: Dialect,
        sources: Vec<Source>,
        places: Vec<Place>,
    ) -> Self {
        let mut sorted: Vec<Place> = Vec::with_capacity(places.len());
        for place in places {
            let behind = sorted.iter().position(|known| inside(&place.pattern, &known.pattern));
            sorted.insert(behind.unwrap_or(sorted.len()), place);
        }
        Self { rules, dialect, sources, places: sorted }
    }

    /// The entity type.
    #[must_use]
    pub fn kind(&self) -> &EntityType {
        &self.rules.kind
    }

    /// The rules it was made under.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.rules.generation
    }

    /// One statement per kind of row, the record's own first. `lock`: the rows are kept from other writers until the
    /// transaction ends, where the dialect has such locks. `None`: no record of the table can have this id.
    #[must_use]
    pub fn reads(&self, id: &EntityId, lock: bool) -> Option<Vec<Statement>> {
        let id = self.id(id)?;
        Some(self.sources.iter().map(|source| self.read_of(source, &id, lock)).collect())
    }

    fn read_of(&self, source: &Source, id: &[Cell], lock: bool) -> Statement {
        let fields = source
            .id
            .iter()
            .chain(source.open.iter().map(|(field, _)| field))
            .chain(&source.columns);
        let columns: Vec<String> =
            fields.map(|field| self.dialect.read(&field.sql, &field.kind)).collect();
        let mut sql = Writing::new(self.dialect, "SELECT ");
        sql.push(&columns.join(", ")).push(" FROM ").push(&source.sql);
        self.filter(&mut sql, source, id, &[]);
        if lock && self.dialect != Dialect::Sqlite {
            sql.push(" FOR UPDATE");
        }
        sql.done()
    }

    /// The rows of a record; with `open`, the one these values pick.
    pub(super) fn filter(&self, sql: &mut Writing, source: &Source, id: &[Cell], open: &[Cell]) {
        let fixed = source.fixed.iter().map(|(field, cell)| (field, cell));
        let picked = source.open.iter().map(|(field, _)| field).zip(open);
        let all = source.id.iter().zip(id).chain(fixed).chain(picked);
        for (index, (field, cell)) in all.enumerate() {
            sql.push(if index == 0 { " WHERE " } else { " AND " });
            let value = sql.value(&field.kind, &field.declared, cell.clone());
            sql.push(&field.sql).push(" = ").push(&value);
            if matches!(field.kind, Kind::Text { .. }) {
                sql.exactly(&field.sql, cell.clone());
            }
        }
    }

    /// The id as parameters; several columns are joined by a comma. `None` when a column cannot hold its part.
    pub(super) fn id(&self, id: &EntityId) -> Option<Vec<Cell>> {
        let fields = &self.sources.first()?.id;
        let mut parts = id.as_str().splitn(fields.len(), ',');
        let cells = fields.iter().map(|field| field.kind.cell_of_text(self.dialect, parts.next()?));
        cells.collect()
    }

    /// Whether a row's id is this id byte for byte: a collation may have found another one.
    pub(super) fn is_id(&self, source: &Source, id: &EntityId, cells: &[Cell]) -> bool {
        let texts = source.id.iter().zip(cells);
        let texts: Option<Vec<String>> =
            texts.map(|(field, cell)| field.kind.text(self.dialect, cell)).collect();
        texts.is_some_and(|texts| texts.join(",") == id.as_str())
    }

    /// The place of a path: the closest that covers it.
    pub(super) fn place(&self, path: &Path) -> Option<&Place> {
        self.places.iter().find(|place| {
            covers(&place.pattern, path)
                && (path.marker().is_none() || path.marker() == place.pattern.marker())
        })
    }

    /// What a target holds for a path: a field that is counted on holds numbers, in a column of text too.
    pub(super) fn kind_at(&self, target: &Target, path: &Path) -> Option<Kind> {
        let field = self.sources.get(target.source)?.columns.get(target.column)?;
        let text = matches!(field.kind, Kind::Text { .. });
        let counted = || {
            let resolved = self.rules.lookup(path).ok();
            resolved
                .and_then(|resolved| resolved.strategy.clone())
                .is_some_and(|used| matches!(used.strategy.name(), "counter" | "max" | "min"))
        };
        Some(if text && counted() { Kind::Number } else { field.kind.clone() })
    }

    /// Brings submitted values into the form their columns give back, so that a value equal to the stored one is
    /// told to be equal; `null` for a column becomes `unset`.
    ///
    /// # Errors
    /// `wrong_type` when a column cannot hold a value as it is.
    pub fn canonical(&self, changes: &mut BTreeMap<Path, Change>) -> Result<()> {
        for (path, change) in changes {
            let Change::Set(json) = change else { continue };
            match self.form(path, json)? {
                Some(form) => *json = form,
                None => *change = Change::Unset,
            }
        }
        Ok(())
    }

    fn form(&self, path: &Path, json: &Json) -> Result<Option<Json>> {
        let place = self.place(path);
        let kind = place.and_then(|place| self.kind_at(&place.target, path));
        match (kind, json) {
            (None | Some(Kind::Json), Json::Object(members)) if path.marker().is_none() => {
                let mut formed = serde_json::Map::new();
                for (key, member) in members {
                    let below = path.child(key);
                    let form = if below.keys().len() > crate::path::KEYS_MAX {
                        Some(member.clone())
                    } else {
                        self.form(&below, member)?
                    };
                    formed.insert(key.clone(), form.unwrap_or(Json::Null));
                }
                Ok(Some(Json::Object(formed)))
            }
            (None | Some(Kind::Json), json) => Ok(Some(json.clone())),
            (Some(_), Json::Null) => Ok(None),
            (Some(kind), json) => match kind.canonical(self.dialect, json) {
                Ok(form) => Ok(Some(form)),
                Err(why) => Err(wrong_type(path, &why)),
            },
        }
    }
}

pub(super) fn wrong_type(path: &Path, why: &str) -> Error {
    let message = format!("the value of `{path}` does not fit its column: {why}");
    Error::invalid("wrong_type", message, "send a value the column can hold as it is")
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout")
            .field("kind", &self.rules.kind)
            .field("dialect", &self.dialect)
            .field("places", &self.places.len())
            .finish_non_exhaustive()
    }
}
