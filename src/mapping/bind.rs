//! From `storage:` as written to a layout: what it says is put together with what the database has.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    Catalogue, Column, Dialect, Kind, Layout, Table, check,
    expand::{self, Expanded, Fixed},
    place::{Field, KeyPart, Place, Source, Target},
    template::Template,
};
use crate::{
    diagnostic::{Diagnostic, Span, in_file_order},
    path::Pattern,
    registry::EntityRules,
};

/// What `storage:` of one entity type says.
#[derive(Clone, Debug)]
pub struct Mapping {
    pub(super) rules: Arc<EntityRules>,
    pub(super) main: RowSpec,
    pub(super) places: Vec<PlaceSpec>,
}

/// Rows: a table, the columns of the record's id, and what tells the rows apart.
#[derive(Clone, Debug)]
pub(super) struct RowSpec {
    pub(super) table: Template,
    pub(super) id: Vec<String>,
    pub(super) row: Vec<(String, Template)>,
    pub(super) unique: bool,
}

/// Where a value lies, as written.
#[derive(Clone, Debug)]
pub(super) struct TargetSpec {
    pub(super) row: RowSpec,
    pub(super) column: Template,
    pub(super) keys: Vec<Template>,
}

/// One entry of `places`.
#[derive(Clone, Debug)]
pub(super) struct PlaceSpec {
    pub(super) pattern: Pattern,
    pub(super) at: Span,
    pub(super) target: TargetSpec,
    pub(super) also: Vec<TargetSpec>,
    pub(super) delete: bool,
    pub(super) read_only: bool,
}

impl Mapping {
    /// What the rules say; `None` when the records are the store's own.
    #[must_use]
    pub fn of(rules: &Arc<EntityRules>) -> Option<Self> {
        let storage = rules.storage.as_ref()?;
        let main = row_spec(storage, None);
        let place = |(pattern, json): &(crate::diagnostic::Spanned<Pattern>, Json)| {
            let also = json.get("also").and_then(Json::as_array).into_iter().flatten();
            PlaceSpec {
                pattern: pattern.value.clone(),
                at: pattern.span,
                target: target_spec(json, &main),
                also: also.map(|json| target_spec(json, &main)).collect(),
                delete: json.get("absent").and_then(Json::as_str) == Some("delete"),
                read_only: json.get("format").is_some(),
            }
        };
        let places = rules.places.iter().map(place).collect();
        Some(Self { rules: Arc::clone(rules), main, places })
    }

    /// Whether the catalogue must have this table.
    #[must_use]
    pub fn wants(&self, schema: Option<&str>, table: &str) -> bool {
        let full = schema.map(|schema| format!("{schema}.{table}"));
        let fits = |template: &Template| {
            let read = |name: &str| template.read(name, &mut super::template::Vars::new());
            read(table) || full.as_deref().is_some_and(read)
        };
        fits(&self.main.table)
            || self.places.iter().any(|place| {
                std::iter::once(&place.target)
                    .chain(&place.also)
                    .any(|target| fits(&target.row.table))
            })
    }

    /// Finds every path its column, key or row.
    ///
    /// # Errors
    /// Everything in which the registry and the database differ, in file order.
    pub fn bind(&self, dialect: Dialect, catalogue: &Catalogue) -> Result<Layout, Vec<Diagnostic>> {
        let mut binding =
            Binding { mapping: self, dialect, catalogue, sources: Vec::new(), faults: Vec::new() };
        // The record's own rows come first.
        let own = Fixed::of(&self.main, &super::template::Vars::new());
        let own = own.and_then(|own| binding.source(&own, self.rules.storage_at));
        let expanded = expand::places(self, catalogue, &mut binding.faults);
        let mut places = Vec::new();
        if own.is_some() {
            for place in &expanded {
                places.extend(binding.place(place));
            }
        }
        check::rules(self, &expanded, &mut binding.faults);
        if binding.faults.is_empty() {
            check::places(self, &binding.sources, &places, &mut binding.faults);
            check::rows(&mut binding, &expanded, &places);
        }
        let Binding { sources, mut faults, .. } = binding;
        if faults.is_empty() {
            return Ok(Layout::new(Arc::clone(&self.rules), dialect, sources, places));
        }
        in_file_order(&mut faults);
        faults.dedup();
        Err(faults)
    }
}

/// A layout in the making.
pub(super) struct Binding<'a> {
    pub(super) mapping: &'a Mapping,
    pub(super) dialect: Dialect,
    pub(super) catalogue: &'a Catalogue,
    pub(super) sources: Vec<Source>,
    pub(super) faults: Vec<Diagnostic>,
}

impl Binding<'_> {
    pub(super) fn fault(
        &mut self,
        code: &'static str,
        at: Span,
        message: String,
        help: impl Into<String>,
    ) {
        self.faults.push(Diagnostic::error(code, at, message, help));
    }

    fn place(&mut self, place: &Expanded) -> Option<Place> {
        let target = self.target(place, &place.target)?;
        let mut also = Vec::new();
        for fixed in &place.also {
            also.push(self.target(place, fixed)?);
        }
        Some(Place {
            pattern: place.pattern.clone(),
            at: place.at,
            target,
            also,
            delete: place.delete,
            read_only: place.read_only,
        })
    }

    fn target(&mut self, place: &Expanded, fixed: &Fixed) -> Option<Target> {
        let source = self.source(fixed, place.at)?;
        let catalogue = self.catalogue;
        let table = catalogue.table(&fixed.table)?;
        let named = self.column(table, &fixed.column, place.at)?;
        let field = self.field(table, named, place.at)?;
        let (pattern, column) = (&place.pattern, &fixed.column);
        if !fixed.keys.is_empty() && field.kind != Kind::Json {
            let message = format!(
                "`{pattern}` is a key inside `{}.{column}`, which is `{}` and not JSON",
                table.name, field.declared
            );
            let help = match self.dialect {
                Dialect::Postgres => "make the column jsonb, or give the field a column of its own",
                _ => "make the column JSON, or add `CHECK (json_valid(..))` to it",
            };
            self.fault("not_json", place.at, message, help);
            return None;
        }
        let keys = fixed.keys.iter().map(|template| match template.is_rest() {
            true => KeyPart::Rest,
            false => KeyPart::One(template.clone()),
        });
        let keys = keys.collect();
        let own = self.sources.get_mut(source)?;
        let known = own.columns.iter().position(|known| known.name == field.name);
        let column = known.unwrap_or_else(|| {
            own.columns.push(field);
            own.columns.len() - 1
        });
        Some(Target { source, column, keys })
    }

    /// A column that may be written.
    fn field(&mut self, table: &Table, column: &Column, at: Span) -> Option<Field> {
        let shown = format!("{}.{}", table.name, column.name);
        if column.generated {
            let message = format!("`{shown}` is a generated column: the database computes it");
            self.fault("generated_column", at, message, "map the columns it is computed from");
            return None;
        }
        if let Some(trigger) = table.rewriter(&column.name, self.dialect) {
            let message = format!(
                "the trigger `{}` gives `{shown}` another value than the one written",
                trigger.name
            );
            let help = "take the column out of the registry, or the assignment out of the trigger";
            self.fault("trigger_rewrites", at, message, help);
            return None;
        }
        self.plain(table, column, at)
    }

    fn plain(&mut self, table: &Table, column: &Column, at: Span) -> Option<Field> {
        let Some(kind) = column.kind.clone() else {
            let message = format!(
                "`{}.{}` is `{}`, which no value of a record fits",
                table.name, column.name, column.declared
            );
            self.fault("column_type", at, message, "leave the column out of the registry");
            return None;
        };
        Some(Field {
            name: column.name.clone(),
            sql: self.dialect.quoted(&column.name),
            kind,
            declared: column.declared.clone(),
            nullable: column.nullable,
        })
    }

    fn column<'t>(&mut self, table: &'t Table, name: &str, at: Span) -> Option<&'t Column> {
        let found = table.column(name);
        if found.is_none() {
            let known: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
            let message = format!("the table `{}` has no column `{name}`", table.name);
            self.fault("column_missing", at, message, format!("it has `{}`", known.join("`, `")));
        }
        found
    }

    /// The rows a place lies in, known or new.
    fn source(&mut self, fixed: &Fixed, at: Span) -> Option<usize> {
        let catalogue = self.catalogue;
        let Some(table) = catalogue.table(&fixed.table) else {
            let message = format!("the database has no table `{}`", fixed.table);
            self.fault("table_missing", at, message, "check the name, and that it may be read");
            return None;
        };
        if table.view {
            let message = format!("`{}` is a view", table.name);
            self.fault("table_missing", at, message, "map the table behind it");
            return None;
        }
        let mut id = Vec::new();
        for name in &fixed.id {
            let column = self.column(table, name, at)?;
            let field = self.plain(table, column, at)?;
            if !field.kind.is_id() {
                let message =
                    format!("`{}.{name}` is `{}`: no id of a record", table.name, field.declared);
                let help = "an id is a whole number, a text, a word of an enum or a UUID";
                self.fault("id_type", at, message, help);
                return None;
            }
            id.push(field);
        }
        let wanted = self.mapping.main.id.len();
        if id.len() != wanted {
            let message =
                format!("`{}` has {} id columns, the record {wanted}", table.name, id.len());
            self.fault("id_type", at, message, "name as many columns as `storage.id` does");
            return None;
        }
        let (mut constants, mut open) = (Vec::new(), Vec::new());
        for (name, template) in &fixed.row {
            let column = self.column(table, name, at)?;
            let field = self.plain(table, column, at)?;
            if template.vars().next().is_some() {
                open.push((field, template.clone()));
                continue;
            }
            let text = template.fill(&super::template::Vars::new()).unwrap_or_default();
            let Some(cell) = field.kind.cell_of_text(self.dialect, &text) else {
                let message = format!("`{text}` is no value of `{}.{name}`", table.name);
                let help = format!("the column holds {}", field.kind.describe());
                self.fault("column_type", at, message, help);
                return None;
            };
            constants.push((field, cell));
        }
        Some(self.kept(fixed, table, id, constants, open))
    }

    fn kept(
        &mut self,
        fixed: &Fixed,
        table: &Table,
        id: Vec<Field>,
        constants: Vec<(Field, super::Cell)>,
        open: Vec<(Field, Template)>,
    ) -> usize {
        let names = |fields: &[Field]| fields.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
        let same = |source: &Source| {
            source.table == fixed.table
                && names(&source.id) == names(&id)
                && source.fixed.len() == constants.len()
                && source.open.len() == open.len()
                && source
                    .fixed
                    .iter()
                    .zip(&constants)
                    .all(|(a, b)| a.0.name == b.0.name && a.1 == b.1)
                && source.open.iter().zip(&open).all(|(a, b)| a.0.name == b.0.name && a.1 == b.1)
        };
        if let Some(known) = self.sources.iter().position(same) {
            return known;
        }
        let schema = table.schema.as_ref().filter(|_| fixed.table.contains('.'));
        let prefix = schema.map(|schema| format!("{}.", self.dialect.quoted(schema)));
        let sql = format!("{}{}", prefix.unwrap_or_default(), self.dialect.quoted(&table.name));
        self.sources.push(Source {
            table: fixed.table.clone(),
            sql,
            id,
            fixed: constants,
            open,
            columns: Vec::new(),
            required: Vec::new(),
        });
        self.sources.len() - 1
    }
}

fn text(json: Option<&Json>) -> Template {
    Template::parse(json.and_then(Json::as_str).unwrap_or_default())
}

fn row_spec(json: &Json, main: Option<&RowSpec>) -> RowSpec {
    let id = match json.get("id") {
        Some(Json::String(name)) => vec![name.clone()],
        Some(Json::Array(names)) => {
            names.iter().filter_map(Json::as_str).map(str::to_owned).collect()
        }
        _ => main.map_or_else(|| vec!["id".to_owned()], |main| main.id.clone()),
    };
    let row = json.get("where").and_then(Json::as_object).into_iter().flatten();
    let row = row.map(|(column, value)| (column.clone(), text(Some(value)))).collect();
    let unique = json.get("unique") != Some(&Json::Bool(false));
    RowSpec { table: text(json.get("table")), id, row, unique }
}

fn target_spec(json: &Json, main: &RowSpec) -> TargetSpec {
    let row = match json.get("table") {
        Some(_) => row_spec(json, Some(main)),
        None => main.clone(),
    };
    let keys = json.get("keys").and_then(Json::as_array).into_iter().flatten();
    let keys = keys.map(|key| text(Some(key))).collect();
    TargetSpec { row, column: text(Some(json.get("column").unwrap_or(json))), keys }
}
