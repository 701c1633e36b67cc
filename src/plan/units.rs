//! Units as values: reading them out of a record, putting parts into them, and the leaves that store them.

use serde_json::Value as Json;

use crate::{
    entity::{Change, Value},
    path::{Marker, Path},
    record::{Patch, Record},
    registry::{EntityRules, Resolved},
    strategy,
};

/// The value of a unit: what is stored at and below it, without what a rule further inside owns.
#[must_use]
pub fn value_of(record: &Record, unit: &Path, rules: &EntityRules) -> Value {
    match record.stored(unit) {
        None if unit.marker().is_none() => return Value::Absent,
        Some(leaf) if !is_node(leaf) => return Value::Present(leaf.clone()),
        _ => {}
    }
    if unit.marker() == Some(Marker::Keys) && !unit.axes().is_empty() {
        return super::items::stored_keys(record, unit);
    }
    if unit.marker().is_some() || !has_foreign(unit, rules) {
        return record.get(unit);
    }
    let mut own = Record::new();
    let mut foreign = false;
    for (path, leaf) in below(record, unit) {
        if path == unit || is_node(leaf) && has_foreign(path, rules) {
            continue;
        }
        match rules.lookup(path) {
            Ok(resolved) if resolved.unit == *unit => own.set(path, leaf),
            _ => foreign = true,
        }
    }
    // A node that only others' values made is nobody's empty map.
    if own.is_empty() && !foreign { record.get(unit) } else { own.get(unit) }
}

/// Whether what lies below a path may belong to other units than the path itself.
fn has_foreign(path: &Path, rules: &EntityRules) -> bool {
    rules.has_inner(path) || rules.lookup(path).is_ok_and(|resolved| is_per_leaf(&resolved))
}

/// Whether the rule makes every leaf a unit of its own: `p.**`, and what nobody listed.
pub(super) fn is_per_leaf(resolved: &Resolved) -> bool {
    resolved.pattern.as_deref().is_none_or(|pattern| {
        if !pattern.ends_with('*') && !pattern.contains('@') {
            return false;
        }
        // Two stars stand only at the end of the keys; in a key a star is escaped.
        let tail = |text: &str| text == "**" || text.ends_with(".**");
        tail(pattern)
            || pattern.match_indices("**@").any(|(at, _)| pattern.get(..at + 2).is_some_and(tail))
    })
}

/// Units with stored values strictly below a path, on the same axis values.
pub(super) fn stored_below(record: &Record, path: &Path, rules: &EntityRules) -> Vec<Path> {
    let mut units: Vec<Path> = Vec::new();
    for (below, leaf) in below(record, path) {
        if below == path || is_node(leaf) && has_foreign(below, rules) {
            continue;
        }
        if let Ok(resolved) = rules.lookup(below)
            && resolved.unit != *path
            && resolved.unit.is_within(path)
            && !units.contains(&resolved.unit)
        {
            units.push(resolved.unit.clone());
        }
    }
    units
}

/// What is stored at and below a path, on the same axis values, in path order.
pub(super) fn below<'r>(
    record: &'r Record,
    path: &'r Path,
) -> impl Iterator<Item = (&'r Path, &'r Json)> {
    record.below(path).filter(|(below, _)| below.is_within(path))
}

/// A unit's value with one of its parts changed. `at` lies strictly below `unit`.
pub(super) fn with_part(
    whole: Value,
    unit: &Path,
    at: &Path,
    change: &Change,
) -> Result<Value, &'static str> {
    let keys = at.keys().get(unit.keys().len()..).unwrap_or_default();
    let Some((last, above)) = keys.split_last() else { return Err("marker_below_unit") };
    if at.marker().is_some() {
        return Err("marker_below_unit");
    }
    let mut root = match whole {
        Value::Present(json @ Json::Object(_)) => json,
        whole if matches!(change, Change::Unset) => return Ok(whole),
        _ => empty(),
    };
    let mut node = &mut root;
    for key in above {
        let Json::Object(members) = node else { return Err("not_a_map") };
        node = members.entry(&**key).or_insert_with(empty);
        if !node.is_object() {
            *node = empty();
        }
    }
    let Json::Object(members) = node else { return Err("not_a_map") };
    let part = Value::from(members.get(&**last).cloned());
    match strategy::wanted(change, &part)? {
        Value::Present(json) => members.insert((**last).to_owned(), json),
        Value::Absent => members.remove(&**last),
    };
    Ok(Value::Present(root))
}

/// Adds to a patch what turns the stored leaves of a unit into `new`.
pub(super) fn patch_unit(
    record: &Record,
    unit: &Path,
    new: &Value,
    rules: &EntityRules,
    patch: &mut Patch,
) {
    let node = record.stored(unit).is_some_and(is_node);
    let mut foreign = false;
    if node {
        let inner = has_foreign(unit, rules);
        for (path, leaf) in below(record, unit).skip(1) {
            let own = !inner || rules.lookup(path).is_ok_and(|resolved| resolved.unit == *unit);
            if own && !(inner && is_node(leaf) && has_foreign(path, rules)) {
                patch.insert(path.clone(), None);
            } else {
                foreign = true;
            }
        }
    }
    match new {
        Value::Absent if foreign => {}
        Value::Absent => {
            if record.stored(unit).is_some() {
                patch.insert(unit.clone(), None);
            }
        }
        Value::Present(json) => {
            put_above(record, unit, patch);
            if json.is_object() {
                put_leaves(record, unit, json, patch);
            } else {
                patch.insert(unit.clone(), Some(json.clone()));
            }
        }
    }
}

/// Removes nodes at and below a path that nothing is left in.
pub(super) fn prune(record: &Record, path: &Path, patch: &mut Patch) {
    let stored: Vec<(&Path, &Json)> = below(record, path).collect();
    let mut left: Vec<&Path> = Vec::new();
    for (at, leaf) in stored.into_iter().rev() {
        let gone = match patch.get(at) {
            Some(leaf) => leaf.is_none(),
            None => {
                is_node(leaf)
                    && !left.iter().any(|path| path.is_within(at))
                    && !patch.iter().any(|(path, leaf)| leaf.is_some() && path.is_within(at))
            }
        };
        if gone {
            patch.insert(at.clone(), None);
        } else {
            left.push(at);
        }
    }
}

/// Adds the nodes above a path that are not there.
pub(super) fn put_above(record: &Record, path: &Path, patch: &mut Patch) {
    let mut above = path.parent();
    while let Some(node) = above {
        let there = match patch.get(&node) {
            Some(leaf) => leaf.as_ref().is_some_and(is_node),
            None => record.stored(&node).is_some_and(is_node),
        };
        if there {
            return;
        }
        above = node.parent();
        patch.insert(node, Some(empty()));
    }
}

/// The stored form of an object is [`Record`]'s to know: it decides which objects are nodes.
fn put_leaves(record: &Record, unit: &Path, json: &Json, patch: &mut Patch) {
    let mut own = Record::new();
    own.set(unit, json);
    for (path, leaf) in own.iter().filter(|(path, _)| path.is_within(unit)) {
        match record.stored(path) {
            Some(stored) if crate::entity::same_json(stored, leaf) => {
                patch.remove(path);
            }
            _ => {
                patch.insert(path.clone(), Some(leaf.clone()));
            }
        }
    }
}

/// The nearest node above a path that is stored as something else than a map.
pub(super) fn blocked_by<'r>(record: &'r Record, unit: &Path) -> Option<(Path, &'r Json)> {
    let mut above = unit.parent();
    while let Some(node) = above {
        match record.stored(&node) {
            Some(leaf) if is_node(leaf) => return None,
            Some(leaf) => return Some((node, leaf)),
            None => above = node.parent(),
        }
    }
    None
}

pub(super) fn is_node(json: &Json) -> bool {
    json.as_object().is_some_and(serde_json::Map::is_empty)
}

pub(super) fn empty() -> Json {
    Json::Object(serde_json::Map::new())
}
