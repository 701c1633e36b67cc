//! Items of collections: which key stands for one, who creates and removes them, and lists with item keys.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{PlanInput, base::Base, units};
use crate::{
    entity::Value,
    path::{Marker, Path},
    record::Record,
    registry::{EntityRules, Resolved},
};

/// An item and the rule that says who creates and removes it.
pub(super) struct Item<'p> {
    /// The item's own path.
    pub(super) path: Path,
    /// Its key.
    pub(super) key: &'p str,
    /// Who owns `#keys` above it.
    pub(super) resolved: Arc<Resolved>,
}

/// The path as an item: a key that a wildcard stands for, with rules below it.
pub(super) fn item<'p>(rules: &EntityRules, path: &'p Path) -> Option<Item<'p>> {
    if !rules.is_item(path) {
        return None;
    }
    let (key, above) = path.keys().split_last()?;
    let resolved = structure(rules, above.to_vec(), path)?;
    // Which fields a record has is fixed by its rules, unless they say who may add some.
    if above.is_empty() && resolved.pattern.is_none() {
        return None;
    }
    Some(Item { path: path.clone(), key, resolved })
}

/// The rule of `#keys`, without axes where it has none.
fn structure(rules: &EntityRules, above: Vec<Box<str>>, path: &Path) -> Option<Arc<Resolved>> {
    let keys = Path::from_parts(above.clone(), Some(Marker::Keys), Vec::new());
    rules.lookup(&keys).ok().or_else(|| {
        let keys = Path::from_parts(above, Some(Marker::Keys), path.axes().to_vec());
        rules.lookup(&keys).ok()
    })
}

/// Items strictly above a path, the outermost first.
pub(super) fn items_above<'p>(rules: &EntityRules, path: &'p Path) -> Vec<Item<'p>> {
    let mut items = Vec::new();
    let depth = path.keys().len() + usize::from(path.marker().is_some());
    for length in 1..depth {
        let Some(keys) = path.keys().get(..length) else { break };
        let above = Path::from_parts(keys.to_vec(), None, path.axes().to_vec());
        if let (Some(Item { resolved, .. }), Some(key)) = (item(rules, &above), keys.last()) {
            // An item is as wide as the rule that says which there are: on one axis value, or on all.
            let path = Path::from_parts(keys.to_vec(), None, resolved.unit.axes().to_vec());
            items.push(Item { path, key, resolved });
        }
    }
    items
}

/// Items above a path that do not exist.
pub(super) fn structure_above<'p>(input: &PlanInput<'_>, path: &'p Path) -> Vec<Item<'p>> {
    if path.keys().len() < 2 && path.marker().is_none() {
        return Vec::new();
    }
    let mut items = items_above(input.rules, path);
    items.retain(|item| !input.snapshot.record.has_item(&item.path));
    items
}

/// Whether the writer had been shown an item; `None` when that is not known.
pub(super) fn was_shown(input: &PlanInput<'_>, item: &Item<'_>) -> Option<bool> {
    let theirs = units::value_of(&input.snapshot.record, &item.resolved.unit, input.rules);
    let stamp = input.snapshot.stamps.get(&item.resolved.unit);
    let base = Base::find(input, &item.resolved, stamp, None);
    let value = base.value(&theirs)?;
    if item.resolved.unit.marker() == Some(Marker::Keys) {
        return Some(has_key(value, item.key));
    }
    // The unit around the items owns their structure too: they are members somewhere inside it.
    let inside = item.path.keys().get(item.resolved.unit.keys().len()..).unwrap_or_default();
    let found = inside.iter().try_fold(value.json()?, |json, key| json.get(&**key));
    Some(found.is_some())
}

pub(super) fn has_key(keys: &Value, key: &str) -> bool {
    let keys = keys.json().and_then(Json::as_array);
    keys.is_some_and(|keys| keys.iter().any(|known| known.as_str() == Some(key)))
}

/// Keys as `#keys` shows them: texts, sorted, each once.
pub(super) fn sorted_keys(value: &Value) -> Result<Value, &'static str> {
    let Value::Present(json) = value else { return Ok(Value::Present(Json::Array(Vec::new()))) };
    let Json::Array(list) = json else { return Err("keys_not_a_list") };
    let mut keys: Vec<&str> = Vec::with_capacity(list.len());
    for key in list {
        keys.push(key.as_str().ok_or("keys_not_a_list")?);
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(Value::Present(keys.into_iter().map(Json::from).collect()))
}

/// The item keys at `#keys`; with axes, of items that have something on those axis values.
pub(super) fn stored_keys(record: &Record, unit: &Path) -> Value {
    if unit.axes().is_empty() {
        return sorted_keys(&record.get(unit)).unwrap_or_default();
    }
    let depth = unit.keys().len();
    let on_axes = |path: &Path| unit.axes().iter().all(|(a, value)| path.axis(a) == Some(&**value));
    let below = record.below(unit).filter(|(path, _)| on_axes(path));
    let mut keys: Vec<&str> =
        below.filter_map(|(path, _)| Some(&**path.keys().get(depth)?)).collect();
    keys.sort_unstable();
    keys.dedup();
    Value::Present(keys.into_iter().map(Json::from).collect())
}

/// The keys of a list of texts.
pub(super) fn key_list(keys: &Value) -> Vec<&str> {
    let list = keys.json().and_then(Json::as_array);
    list.map(|list| list.iter().filter_map(Json::as_str).collect()).unwrap_or_default()
}
