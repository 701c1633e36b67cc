//! Back to what was: the changes that bring a record to a remembered state, and those that take a job's writes back.
//! They are an ordinary save's changes; whether they may be made, the plan of that save decides.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::{
    items::{self, Item},
    units,
};
use crate::{
    entity::{Change, Value},
    path::{Marker, Path},
    record::Record,
    registry::{EntityRules, Owner, Resolved},
    snapshot::Snapshot,
    token::OperationId,
};

/// Changes, and what is not among them although it differs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rewound {
    /// What to save.
    pub changes: BTreeMap<Path, Change>,
    /// Paths that stay as they are, each with a stable code: `changed_since`, `parent_gone`, `items_removed`,
    /// `rules_changed`.
    pub left: BTreeMap<Path, &'static str>,
}

/// Every editor-owned value, and the items editors made: what a version remembers (RULES 35).
#[must_use]
pub fn editor_state(rules: &EntityRules, record: &Record) -> Record {
    let owned = record.iter().filter(|(path, leaf)| match item_of(rules, path, leaf) {
        Some(item) => item.resolved.owner == Owner::Editor,
        None => rules.lookup(path).is_ok_and(|resolved| resolved.owner == Owner::Editor),
    });
    owned.map(|(path, leaf)| (path.clone(), leaf.clone())).collect()
}

/// The item a stored node stands for, where a rule of its own says which items there are.
fn item_of<'p>(rules: &EntityRules, path: &'p Path, leaf: &Json) -> Option<Item<'p>> {
    if !units::is_node(leaf) || path.marker().is_some() {
        return None;
    }
    items::item(rules, path).filter(|item| item.resolved.unit.marker() == Some(Marker::Keys))
}

/// Brings editor-owned paths from `now` to what they are in `then`, an [`editor_state`]; only units at, above or below
/// the paths of `only`, or all when there are none. Nothing else is named, whoever owns it now.
#[must_use]
pub fn restore(rules: &EntityRules, now: &Record, then: &Record, only: &[Path]) -> Rewound {
    let wanted = |unit: &Path| {
        let near =
            |path: &Path| unit.is_within(path) || path.is_within(unit) || unit.is_part_of(path);
        only.is_empty() || only.iter().any(near)
    };
    let mut rewound = Rewound::default();
    let mut removed: Vec<Path> = Vec::new();
    for unit in structure(rules, [now, then]).into_iter().filter(&wanted) {
        let (old, new) = (items::stored_keys(now, &unit), items::stored_keys(then, &unit));
        if old.same(&new) || removed.iter().any(|item| unit.is_part_of(item)) {
            continue;
        }
        removed.extend(items_between(&unit, &old, &new));
        rewound.changes.insert(unit, set(&new));
    }
    for unit in owned_units(rules, [now, then]).into_iter().filter(&wanted) {
        if removed.iter().any(|item| unit.is_part_of(item)) {
            continue;
        }
        let Ok(resolved) = rules.lookup(&unit) else { continue };
        let old = units::value_of(now, &unit, rules);
        let new = units::value_of(then, &unit, rules);
        if old.same(&new) {
            continue;
        }
        let lost = items::items_above(rules, &unit)
            .into_iter()
            .any(|item| !now.has_item(&item.path) && item.resolved.owner != Owner::Editor);
        if lost {
            rewound.left.insert(unit, "parent_gone");
        } else if let Some(change) = back(&resolved, &old, &new) {
            rewound.changes.insert(unit, change);
        }
    }
    rewound
}

/// `#keys` units of editors, by what is stored.
fn structure(rules: &EntityRules, records: [&Record; 2]) -> BTreeSet<Path> {
    let mut found = BTreeSet::new();
    for (path, _) in records.into_iter().flat_map(Record::iter) {
        let above = items::items_above(rules, path);
        for item in above.into_iter().chain(items::item(rules, path)) {
            let unit = &item.resolved.unit;
            if item.resolved.owner == Owner::Editor && unit.marker() == Some(Marker::Keys) {
                found.insert(unit.clone());
            }
        }
    }
    found
}

/// Units of editors that hold a value in one of the records, item structure left out.
fn owned_units(rules: &EntityRules, records: [&Record; 2]) -> BTreeSet<Path> {
    let mut found = BTreeSet::new();
    for (path, leaf) in records.into_iter().flat_map(Record::iter) {
        if item_of(rules, path, leaf).is_some() {
            continue;
        }
        if let Ok(resolved) = rules.lookup(path)
            && resolved.owner == Owner::Editor
        {
            found.insert(resolved.unit.clone());
        }
    }
    found
}

/// Items that are in the first list of keys and not in the second.
fn items_between(unit: &Path, some: &Value, others: &Value) -> Vec<Path> {
    let others = items::key_list(others);
    let keys = items::key_list(some).into_iter().filter(|key| !others.contains(key));
    let item = |key: &str| {
        let mut keys = unit.keys().to_vec();
        keys.push(key.into());
        Path::from_parts(keys, None, unit.axes().to_vec())
    };
    keys.map(item).collect()
}

fn set(value: &Value) -> Change {
    value.json().map_or(Change::Unset, |json| Change::Set(json.clone()))
}

/// The change of a unit from one value to another. A unit with others' fields inside is emptied, never removed: a
/// removal would take them along.
fn back(resolved: &Resolved, old: &Value, new: &Value) -> Option<Change> {
    match (new.json(), old.json()) {
        (None, Some(Json::Object(members))) if resolved.inner => {
            (!members.is_empty()).then(|| Change::Set(units::empty()))
        }
        _ => Some(set(new)),
    }
}

/// What one job wrote into a record, gathered from its history newest first.
#[derive(Clone, Debug, Default)]
pub struct Undoing {
    paths: BTreeMap<Path, Written>,
}

#[derive(Clone, Debug)]
enum Written {
    /// The job wrote it last: from `old` to `new`, as far as it was nobody else's in between.
    Job { old: Value, new: Value, open: bool },
    /// Somebody else wrote it last.
    Since,
}

impl Undoing {
    /// A write of the job's, older than everything given before.
    pub fn own(&mut self, path: &Path, old: &Value, new: &Value) {
        match self.paths.get_mut(path) {
            None => {
                let written = Written::Job { old: old.clone(), new: new.clone(), open: true };
                self.paths.insert(path.clone(), written);
            }
            Some(Written::Job { old: before, open: true, .. }) => *before = old.clone(),
            Some(_) => {}
        }
    }

    /// A write of somebody else's, older than everything given before.
    pub fn other(&mut self, path: &Path) {
        match self.paths.get_mut(path) {
            None => {
                self.paths.insert(path.clone(), Written::Since);
            }
            Some(Written::Job { open, .. }) => *open = false,
            Some(Written::Since) => {}
        }
    }

    /// Writes the values before the job back where the job's saves, `ours`, are still the last ones. `touched` are the
    /// paths the job wrote at all.
    #[must_use]
    pub fn finish(
        self,
        rules: &EntityRules,
        snapshot: &Snapshot,
        ours: &BTreeSet<OperationId>,
        touched: &BTreeSet<Path>,
    ) -> Rewound {
        let mut rewound = Rewound::default();
        let mut going: Vec<Path> = Vec::new();
        let is_ours = |path: &Path| {
            snapshot.stamps.get(path).is_some_and(|stamp| ours.contains(&stamp.operation))
        };
        let keys_first = |path: &Path| path.marker() != Some(Marker::Keys);
        let mut paths: Vec<(Path, Written)> = self.paths.into_iter().collect();
        paths.retain(|(path, _)| touched.contains(path));
        paths.sort_by_key(|(path, _)| keys_first(path));
        for (path, written) in paths {
            if going.iter().any(|item| path.is_part_of(item)) {
                continue;
            }
            let (Written::Job { old, new, .. }, true) = (written, is_ours(&path)) else {
                rewound.left.insert(path, "changed_since");
                continue;
            };
            let resolved = rules.lookup(&path).ok().filter(|resolved| resolved.unit == path);
            let Some(resolved) = resolved else {
                rewound.left.insert(path, "rules_changed");
                continue;
            };
            if path.marker() == Some(Marker::Keys) {
                undo_keys(snapshot, ours, (&path, &old, &new), &mut going, &mut rewound);
            } else if let Some(change) = counted_back(&resolved, &old, &new) {
                rewound.changes.insert(path, change);
            } else if let Some(change) = back(&resolved, &new, &old) {
                rewound.changes.insert(path, change);
            }
        }
        rewound
    }
}

/// Items the job added go again, unless somebody else wrote into them. Items it removed do not come back: what was in
/// them is not in its record.
fn undo_keys(
    snapshot: &Snapshot,
    ours: &BTreeSet<OperationId>,
    (unit, old, new): (&Path, &Value, &Value),
    going: &mut Vec<Path>,
    rewound: &mut Rewound,
) {
    if !items_between(unit, old, new).is_empty() {
        rewound.left.insert(unit.clone(), "items_removed");
    }
    let foreign = |item: &Path| {
        let inside = snapshot.stamps.iter().filter(|(path, _)| path.is_part_of(item));
        inside.into_iter().any(|(_, stamp)| !ours.contains(&stamp.operation))
    };
    let (stay, go): (Vec<Path>, Vec<Path>) =
        items_between(unit, new, old).into_iter().partition(foreign);
    if !stay.is_empty() {
        rewound.left.insert(unit.clone(), "changed_since");
    }
    let keys = go.iter().filter_map(|item| item.keys().last()).map(|key| Json::from(&**key));
    let keys: Vec<Json> = keys.collect();
    if !keys.is_empty() {
        rewound.changes.insert(unit.clone(), Change::Exclude(keys));
    }
    going.extend(go);
}

/// A counter is counted back, not set.
fn counted_back(resolved: &Resolved, old: &Value, new: &Value) -> Option<Change> {
    let counter = resolved.strategy.as_ref()?.strategy.name() == "counter";
    let number = |value: &Value| value.json().and_then(Json::as_i64);
    let delta = number(old)?.checked_sub(number(new)?)?;
    counter.then_some(Change::Add(delta))
}
