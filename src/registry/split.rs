//! Values above and below units: what a written map consists of, and which leaves make up a unit.

use serde_json::{Map, Value as Json};

use super::{EntityRules, ResolveError, Rule};
use crate::{
    path::{KEY_BYTES_MAX, KEYS_MAX, Marker, Path, TEXT_BYTES_MAX, Tail},
    record::Record,
};

/// The stored leaves at and below a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaves {
    /// Part of the unit.
    pub own: Vec<Path>,
    /// Below it, but given to a rule further inside.
    pub inner: Vec<Path>,
}

impl EntityRules {
    /// Splits a value written at a path into pieces, each within one unit: a map above units into its members, a list
    /// with a declared item key into items, `#keys` and `#order`. What belongs to no rule further inside stays together
    /// in its unit. A scalar, `null` or list that stands above units comes back whole: it needs the right to every
    /// rule below ([`EntityRules::rules_below`]).
    ///
    /// # Errors
    /// When a list has no declared item key but rules for its items, an item has no key or one twice, a key cannot be
    /// part of a path, or a member lacks an axis.
    pub fn split(&self, path: &Path, value: &Json) -> Result<Vec<(Path, Json)>, ResolveError> {
        let mut pieces = Vec::new();
        if let Some(rest) = self.part(path, value, &mut pieces)? {
            pieces.insert(0, (path.clone(), rest));
        }
        Ok(pieces)
    }

    /// Puts what has units of its own into `pieces` and answers what stays in the unit above, if anything does.
    fn part(
        &self,
        path: &Path,
        value: &Json,
        pieces: &mut Vec<(Path, Json)>,
    ) -> Result<Option<Json>, ResolveError> {
        if path.marker().is_some() {
            return Ok(Some(value.clone()));
        }
        let found = self.find(path);
        // A node between units is nobody's value: only its members count.
        let between = found.inner && found.rule.is_none_or(|rule| !is_one_value(rule));
        match value {
            Json::Array(items) => match self.item_key(path) {
                Some(keys) => {
                    self.items(path, items, keys, pieces)?;
                    Ok(None)
                }
                None if found.inner && self.has_item_rules(path) => Err(list_without_keys(path)),
                None => Ok(Some(value.clone())),
            },
            Json::Object(members) if !members.is_empty() => {
                let one_value = found.rule.is_some_and(is_one_value);
                if one_value && !found.inner {
                    return Ok(Some(value.clone()));
                }
                if !found.inner && !fits(path, members) {
                    return Ok(Some(value.clone()));
                }
                let rest = self.members(path, members, one_value, pieces)?;
                Ok(one_value.then_some(Json::Object(rest)))
            }
            Json::Object(_) if between => Ok(None),
            _ => Ok(Some(value.clone())),
        }
    }

    /// Splits every member; what stays in the unit of `path` comes back.
    fn members(
        &self,
        path: &Path,
        members: &Map<String, Json>,
        one_value: bool,
        pieces: &mut Vec<(Path, Json)>,
    ) -> Result<Map<String, Json>, ResolveError> {
        let mut rest = Map::new();
        let own = if one_value { Some(self.lookup(path)?.unit.clone()) } else { None };
        for (key, member) in members {
            let below = child(path, key)?;
            let unit = self.lookup(&below)?.unit.clone();
            let Some(member) = self.part(&below, member, pieces)? else { continue };
            if own.as_ref() == Some(&unit) {
                rest.insert(key.clone(), member);
            } else {
                pieces.push((below, member));
            }
        }
        Ok(rest)
    }

    fn items(
        &self,
        path: &Path,
        items: &[Json],
        keys: &[String],
        pieces: &mut Vec<(Path, Json)>,
    ) -> Result<(), ResolveError> {
        let mut order: Vec<String> = Vec::with_capacity(items.len());
        for item in items {
            let key = key_of(path, item, keys)?;
            if order.contains(&key) {
                let message = format!("two items of `{path}` have the key `{key}`");
                let help = format!("`{}` tells the items apart: give each its own", keys.join(","));
                return Err(ResolveError { code: "item_key_twice", message, help });
            }
            let below = child(path, &key)?;
            if let Some(rest) = self.part(&below, item, pieces)? {
                pieces.push((below, rest));
            }
            order.push(key);
        }
        let mut sorted = order.clone();
        sorted.sort();
        for (marker, keys) in [(Marker::Keys, sorted), (Marker::Order, order)] {
            let place = Path::from_parts(path.keys().to_vec(), Some(marker), path.axes().to_vec());
            pieces.push((place, keys.into()));
        }
        Ok(())
    }

    fn has_item_rules(&self, path: &Path) -> bool {
        // Any rule one key further down, whatever the key: markers alone describe the list as it is.
        self.rules.iter().any(|rule| {
            rule.pattern.segments().len() > path.keys().len()
                && super::cover::above(&rule.pattern, path)
        })
    }

    /// Rules for what lies strictly below a path: a scalar, `null` or `unset` there touches them all.
    pub fn rules_below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Rule> {
        let depth = path.keys().len();
        self.rules.iter().filter(move |rule| {
            let pattern = &rule.pattern;
            let steps = pattern.segments().len() + usize::from(pattern.marker().is_some());
            steps > depth && super::cover::above(pattern, path)
        })
    }

    /// The stored leaves at and below a unit, told apart by whose they are.
    ///
    /// # Errors
    /// As [`EntityRules::resolve`].
    pub fn leaves(&self, unit: &Path, record: &Record) -> Result<Leaves, ResolveError> {
        let mut leaves = Leaves::default();
        for (path, _) in record.iter().filter(|(path, _)| path.is_within(unit)) {
            let own = self.lookup(path)?.unit == *unit;
            let list = if own { &mut leaves.own } else { &mut leaves.inner };
            list.push(path.clone());
        }
        Ok(leaves)
    }
}

fn is_one_value(rule: &Rule) -> bool {
    rule.pattern.tail() == Tail::Node
}

fn child(path: &Path, key: &str) -> Result<Path, ResolveError> {
    let below = path.child(key);
    let fits = key.len() <= KEY_BYTES_MAX
        && below.keys().len() <= KEYS_MAX
        && below.as_str().len() <= TEXT_BYTES_MAX;
    if fits {
        return Ok(below);
    }
    let message =
        format!("a key below `{path}` cannot be part of a path: it is too long or too deep");
    let help = format!("a path has at most {KEYS_MAX} keys of {KEY_BYTES_MAX} bytes");
    Err(ResolveError { code: "path_too_deep", message, help })
}

/// Whether every member can have a path of its own; a record keeps an object whole otherwise.
fn fits(path: &Path, members: &Map<String, Json>) -> bool {
    members.keys().all(|key| child(path, key).is_ok())
}

fn key_of(path: &Path, item: &Json, keys: &[String]) -> Result<String, ResolveError> {
    let part = |key: &String| match item.get(key) {
        Some(Json::String(text)) => Some(text.clone()),
        Some(Json::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let parts: Option<Vec<String>> = keys.iter().map(part).collect();
    parts.map(|parts| parts.join(",")).ok_or_else(|| {
        let names = keys.join("`, `");
        let message = format!("an item of `{path}` has no `{names}`");
        let help = "the registry declares it as what tells the items apart: a text or a number";
        ResolveError { code: "item_without_key", message, help: help.to_owned() }
    })
}

fn list_without_keys(path: &Path) -> ResolveError {
    ResolveError {
        code: "list_without_keys",
        message: format!("`{path}` is a list, and rules for its items match nothing in a list"),
        help: format!(
            "declare what tells the items apart, `collections: {{{path}: id}}`, or send a map by key"
        ),
    }
}
