//! Placeholders in names of tables and columns: one place per table or column that the catalogue has.

use std::collections::BTreeSet;

use super::{
    Catalogue,
    bind::{Mapping, PlaceSpec, RowSpec, TargetSpec},
    place::{is_literal, narrowed, path_of},
    template::{Template, Vars},
};
use crate::{
    diagnostic::{Diagnostic, Span},
    path::{AxisMatch, Pattern},
    registry::{EntityRules, Owner, inside},
};

/// A place whose table and column have a name.
#[derive(Clone, Debug)]
pub(super) struct Expanded {
    pub(super) pattern: Pattern,
    pub(super) at: Span,
    pub(super) target: Fixed,
    pub(super) also: Vec<Fixed>,
    pub(super) delete: bool,
    pub(super) read_only: bool,
}

/// A target whose table and column have a name; rows and keys may be open.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) table: String,
    pub(super) id: Vec<String>,
    pub(super) row: Vec<(String, Template)>,
    pub(super) unique: bool,
    pub(super) column: String,
    pub(super) keys: Vec<Template>,
}

impl Fixed {
    /// The rows alone.
    pub(super) fn of(row: &RowSpec, vars: &Vars) -> Option<Self> {
        Some(Self {
            table: row.table.fill(vars)?,
            id: row.id.clone(),
            row: row.row.iter().map(|(name, text)| (name.clone(), text.with(vars))).collect(),
            unique: row.unique,
            column: String::new(),
            keys: Vec::new(),
        })
    }

    fn target(spec: &TargetSpec, vars: &Vars) -> Option<Self> {
        let rows = Self::of(&spec.row, vars)?;
        let keys = spec.keys.iter().map(|key| key.with(vars)).collect();
        Some(Self { column: spec.column.fill(vars)?, keys, ..rows })
    }
}

/// Every place, in file order.
pub(super) fn places(
    mapping: &Mapping,
    catalogue: &Catalogue,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Expanded> {
    let mut expanded = Vec::new();
    for spec in &mapping.places {
        let known = exact_axes(&spec.pattern);
        let targets: Vec<&TargetSpec> = std::iter::once(&spec.target).chain(&spec.also).collect();
        let names = targets.iter().flat_map(|target| [&target.row.table, &target.column]);
        let needed: BTreeSet<String> = names
            .flat_map(Template::vars)
            .filter(|name| !known.contains_key(*name))
            .map(str::to_owned)
            .collect();
        let mut choices = Choices { mapping, catalogue, targets, stuck: None };
        let sets = choices.all(known, needed.into_iter().collect());
        if let Some(name) = choices.stuck {
            let message = format!(
                "`{}` has more than one open placeholder in one name: `${name}` cannot be told",
                spec.pattern
            );
            let help = "declare the values of the axis under `axes`";
            faults.push(Diagnostic::error("template_open", spec.at, message, help));
        }
        for vars in sets {
            expanded.extend(place(mapping, spec, &vars));
        }
    }
    expanded
}

fn exact_axes(pattern: &Pattern) -> Vars {
    let exact = pattern.axes().iter().filter_map(|(axis, value)| match value {
        AxisMatch::Exact(value) => Some((axis.to_string(), value.to_string())),
        _ => None,
    });
    exact.collect()
}

fn place(mapping: &Mapping, spec: &PlaceSpec, vars: &Vars) -> Option<Expanded> {
    let pattern = narrowed(&spec.pattern, vars)?;
    // A name the catalogue offers is this place's only if no other place is closer to the path.
    let own = closest(mapping, &pattern).is_some_and(|closest| closest.at == spec.at);
    if pattern != spec.pattern && (!own || !is_ruled(&mapping.rules, &pattern)) {
        return None;
    }
    let target = Fixed::target(&spec.target, vars)?;
    let also =
        spec.also.iter().map(|also| Fixed::target(also, vars)).collect::<Option<Vec<_>>>()?;
    Some(Expanded {
        pattern,
        at: spec.at,
        target,
        also,
        delete: spec.delete,
        read_only: spec.read_only,
    })
}

/// The place a pattern lies in.
pub(super) fn closest<'m>(mapping: &'m Mapping, pattern: &Pattern) -> Option<&'m PlaceSpec> {
    let around = mapping.places.iter().filter(|spec| inside(pattern, &spec.pattern));
    // The one that lies inside all the others.
    around.reduce(|best, spec| if inside(&spec.pattern, &best.pattern) { spec } else { best })
}

/// Whether anybody owns the path or something inside it.
fn is_ruled(rules: &EntityRules, pattern: &Pattern) -> bool {
    if !is_literal(pattern) {
        return rules
            .rules()
            .iter()
            .any(|rule| crate::registry::meet(&rule.pattern, pattern).is_some());
    }
    let Some(path) = path_of(pattern, &Vars::new()) else { return false };
    let resolved = rules.lookup(&path);
    // A column of an axis that the rules ask for, named without it, is none of theirs.
    resolved.is_ok_and(|resolved| resolved.inner || resolved.owner != Owner::Deny)
}

/// Values for placeholders, out of declared axes and the names there are.
struct Choices<'a> {
    mapping: &'a Mapping,
    catalogue: &'a Catalogue,
    targets: Vec<&'a TargetSpec>,
    /// A placeholder that nothing tells.
    stuck: Option<String>,
}

impl Choices<'_> {
    fn all(&mut self, known: Vars, mut open: Vec<String>) -> Vec<Vars> {
        if open.is_empty() {
            return vec![known];
        }
        // Those with declared values first: they make the names of the others readable.
        let declared = |name: &String| self.declared(name).is_some();
        let at = open
            .iter()
            .position(declared)
            .or_else(|| open.iter().position(|name| self.tells(&known, name).is_some()));
        let Some(at) = at else {
            self.stuck = open.pop();
            return Vec::new();
        };
        let name = open.remove(at);
        let values = self.declared(&name).or_else(|| self.tells(&known, &name)).unwrap_or_default();
        let mut sets = Vec::new();
        for value in values {
            let mut known = known.clone();
            known.insert(name.clone(), value);
            sets.extend(self.all(known, open.clone()));
        }
        sets
    }

    fn declared(&self, name: &str) -> Option<Vec<String>> {
        self.mapping.rules.axes.as_ref()?.get(name)?.clone()
    }

    /// The values that names in the catalogue give; `None` when no name depends on this placeholder alone.
    fn tells(&self, known: &Vars, name: &str) -> Option<Vec<String>> {
        let alone = |template: &Template| {
            let left = template.with(known);
            let only = left.vars().all(|var| var == name) && left.vars().next().is_some();
            only.then_some(left)
        };
        for target in &self.targets {
            if let Some(template) = alone(&target.row.table) {
                let names = self.catalogue.tables.iter().map(|table| table.name.as_str());
                return Some(values(&template, name, names));
            }
            let Some(template) = alone(&target.column) else { continue };
            let Some(table) = target.row.table.fill(known) else { continue };
            let Some(table) = self.catalogue.table(&table) else { return Some(Vec::new()) };
            let taken = |column: &str| {
                target.row.id.iter().any(|id| id == column)
                    || target.row.row.iter().any(|(name, _)| name == column)
            };
            let names = table.columns.iter().filter(|column| !taken(&column.name));
            return Some(values(&template, name, names.map(|column| column.name.as_str())));
        }
        None
    }
}

fn values<'n>(
    template: &Template,
    name: &str,
    names: impl Iterator<Item = &'n str>,
) -> Vec<String> {
    let read = |text: &str| {
        let mut vars = Vars::new();
        template.read(text, &mut vars).then(|| vars.remove(name)).flatten()
    };
    let mut values: Vec<String> = names.filter_map(read).collect();
    values.sort();
    values.dedup();
    values
}
