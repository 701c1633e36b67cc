//! A record's data: one JSON tree per combination of axis values, kept flat as path to leaf.
//!
//! Flat, because a save writes keys, never the document. A JSON object is a *node*: it is stored as `{}` under
//! its own path, and its members under theirs, so that no write depends on its siblings. Arrays are leaves.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::{
    entity::{Value, same_json},
    path::{KEY_BYTES_MAX, KEYS_MAX, Marker, Path, TEXT_BYTES_MAX},
};

/// The data of one record.
///
/// INVARIANT: every node above a stored path, on the same axis values, is stored as `{}`; so a value that is not
/// `{}` has nothing below it. A non-empty object is stored whole only where its keys cannot be path keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record(BTreeMap<Path, Json>);

/// What a commit does to leaves: `None` removes. Applied in path order.
pub type Patch = BTreeMap<Path, Option<Json>>;

impl Record {
    /// An empty record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every stored path with its leaf or node, in path order.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Json)> {
        self.0.iter()
    }

    /// Everything stored, for walks that go along with another sorted list.
    pub(crate) fn leaves(&self) -> &BTreeMap<Path, Json> {
        &self.0
    }

    /// How many paths are stored.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is stored under exactly this path: a leaf, or `{}` for a node.
    #[must_use]
    pub fn stored(&self, path: &Path) -> Option<&Json> {
        self.0.get(path)
    }

    /// The value at a path: a leaf, an object gathered from what lies below, or for `#keys` the sorted item keys.
    #[must_use]
    pub fn get(&self, path: &Path) -> Value {
        if path.marker() == Some(Marker::Keys) {
            let keys = self.item_keys(path);
            if keys.is_empty() && !self.0.contains_key(&unmarked(path)) {
                return Value::Absent;
            }
            return Value::Present(keys.into_iter().map(Json::from).collect());
        }
        let Some(stored) = self.0.get(path) else { return Value::Absent };
        if !is_node(stored) {
            return Value::Present(stored.clone());
        }
        let mut object = serde_json::Map::new();
        let depth = path.keys().len();
        for (below, leaf) in self.below(path) {
            if below.axes() == path.axes()
                && below.marker().is_none()
                && let Some(keys) = below.keys().get(depth..)
            {
                insert(&mut object, keys, leaf);
            }
        }
        Value::Present(Json::Object(object))
    }

    /// Keys of the items directly below `path`, on any axis values, sorted. A marker on `path` is ignored.
    #[must_use]
    pub fn item_keys(&self, path: &Path) -> Vec<&str> {
        let above = unmarked(path);
        let depth = above.keys().len();
        let mut keys: Vec<&str> = Vec::new();
        let below: Box<dyn Iterator<Item = (&Path, &Json)>> =
            if depth == 0 { Box::new(self.0.iter()) } else { Box::new(self.below(&above)) };
        for (path, _) in below {
            if let Some(key) = path.keys().get(depth)
                && keys.last() != Some(&&**key)
            {
                keys.push(key);
            }
        }
        keys
    }

    /// Whether anything is stored at or below these keys, on any values of axes the item does not name: the existence
    /// of an item.
    #[must_use]
    pub fn has_item(&self, item: &Path) -> bool {
        self.below(item).any(|(below, _)| below.is_part_of(item))
    }

    /// Puts a value at a path, in place of everything there and below on the same axis values.
    pub fn set(&mut self, path: &Path, value: &Json) {
        self.remove(path);
        let mut above = path.parent();
        while let Some(node) = above {
            if self.0.get(&node).is_some_and(is_node) {
                break;
            }
            above = node.parent();
            self.0.insert(node, Json::Object(serde_json::Map::new()));
        }
        self.store(path, value);
    }

    /// Removes what is at and below a path, on the same axis values.
    pub fn remove(&mut self, path: &Path) {
        let gone: Vec<Path> = self
            .below(path)
            .filter(|(below, _)| below.axes() == path.axes() && below.is_within(path))
            .map(|(below, _)| below.clone())
            .collect();
        for path in gone {
            self.0.remove(&path);
        }
    }

    /// Removes an item with everything in it, on all values of axes it does not name.
    pub fn remove_item(&mut self, item: &Path) {
        let inside = self.below(item).filter(|(below, _)| below.is_part_of(item));
        let gone: Vec<Path> = inside.map(|(below, _)| below.clone()).collect();
        for path in gone {
            self.0.remove(&path);
        }
    }

    /// Applies a patch of leaves.
    pub fn apply(&mut self, patch: &Patch) {
        for (path, leaf) in patch {
            match leaf {
                Some(leaf) => self.put_leaf(path, leaf),
                None => {
                    self.0.remove(path);
                }
            }
        }
    }

    /// The smallest patch that turns this record into `other`.
    #[must_use]
    pub fn patch_to(&self, other: &Self) -> Patch {
        let removed = self.0.keys().filter(|path| !other.0.contains_key(*path));
        let mut patch: Patch = removed.map(|path| (path.clone(), None)).collect();
        for (path, leaf) in &other.0 {
            if !self.0.get(path).is_some_and(|own| same_json(own, leaf)) {
                patch.insert(path.clone(), Some(leaf.clone()));
            }
        }
        patch
    }

    /// The stored form: one flat JSON object, canonical path to leaf.
    #[must_use]
    pub fn to_json(&self) -> Json {
        self.0.iter().map(|(path, leaf)| (path.to_string(), leaf.clone())).collect()
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// When it is not an object, or a key of it is not a path: then the row was not written by this library.
    pub fn from_json(json: Json) -> Result<Self, String> {
        let Json::Object(map) = json else {
            return Err("the stored record is not a JSON object".to_owned());
        };
        let read = |(text, leaf): (String, Json)| match Path::parse(&text) {
            Ok(path) => Ok((path, leaf)),
            Err(error) => {
                Err(format!("the stored key `{}` is not a path: {error}", text.escape_debug()))
            }
        };
        map.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// A record from what [`Record::iter`] gave: leaves and nodes, each under its own path.
    #[must_use]
    pub fn from_stored(stored: BTreeMap<Path, Json>) -> Self {
        Self(stored)
    }

    /// Everything at or below these keys, on any axis values. The marker of `path` is ignored.
    pub fn below(&self, path: &Path) -> impl Iterator<Item = (&Path, &Json)> {
        let keys = path.keys().to_vec();
        let from = Path::from_parts(keys.clone(), None, Vec::new());
        self.0.range(from..).take_while(move |(below, _)| below.keys().starts_with(&keys))
    }

    /// One leaf or node; nodes above are made as needed.
    fn put_leaf(&mut self, path: &Path, leaf: &Json) {
        if is_node(leaf) && self.0.get(path).is_some_and(is_node) {
            return;
        }
        self.set(path, leaf);
    }

    fn store(&mut self, path: &Path, value: &Json) {
        let Json::Object(members) = value else {
            self.0.insert(path.clone(), value.clone());
            return;
        };
        let fits = path.marker().is_none()
            && path.keys().len() < KEYS_MAX
            && members.keys().all(|key| key.len() <= KEY_BYTES_MAX)
            && members.keys().all(|key| path.child(key).as_str().len() <= TEXT_BYTES_MAX);
        if !fits && !members.is_empty() {
            self.0.insert(path.clone(), value.clone());
            return;
        }
        self.0.insert(path.clone(), Json::Object(serde_json::Map::new()));
        for (key, member) in members {
            self.store(&path.child(key), member);
        }
    }
}

impl FromIterator<(Path, Json)> for Record {
    fn from_iter<I: IntoIterator<Item = (Path, Json)>>(values: I) -> Self {
        let mut record = Self::new();
        for (path, value) in values {
            record.set(&path, &value);
        }
        record
    }
}

fn is_node(json: &Json) -> bool {
    json.as_object().is_some_and(serde_json::Map::is_empty)
}

fn unmarked(path: &Path) -> Path {
    Path::from_parts(path.keys().to_vec(), None, path.axes().to_vec())
}

fn insert(object: &mut serde_json::Map<String, Json>, keys: &[Box<str>], leaf: &Json) {
    let Some((first, rest)) = keys.split_first() else { return };
    if rest.is_empty() {
        object.entry(&**first).or_insert_with(|| leaf.clone());
        return;
    }
    let below = object.entry(&**first).or_insert_with(|| Json::Object(serde_json::Map::new()));
    if let Json::Object(below) = below {
        insert(below, rest, leaf);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    #[test]
    fn an_object_comes_back_as_it_went_in() {
        let mut record = Record::new();
        let value = json!({"amount": 5, "tax": {"rate": 19, "zones": [1, 2]}, "empty": {}});

        record.set(&path("price"), &value);

        assert_eq!(record.get(&path("price")), Value::Present(value));
        assert_eq!(record.get(&path("price.tax.rate")), Value::Present(json!(19)));
        assert_eq!(record.get(&path("price.nothing")), Value::Absent);
        let read = Record::from_json(record.to_json()).unwrap();
        assert_eq!(read, record);
    }

    #[test]
    fn a_write_inside_leaves_its_siblings_and_its_parent() {
        let mut record: Record =
            [(path("price"), json!({"amount": 5, "currency": "EUR"}))].into_iter().collect();

        record.remove(&path("price.amount"));
        assert_eq!(record.get(&path("price")), Value::Present(json!({"currency": "EUR"})));
        record.remove(&path("price.currency"));
        assert_eq!(record.get(&path("price")), Value::Present(json!({})));
        record.set(&path("price"), &json!(7));
        assert_eq!(record.len(), 1);
    }

    #[test]
    fn axis_values_are_separate_trees_and_an_item_spans_them_all() {
        let mut record = Record::new();
        record.set(&path("gallery.a.caption@locale=de"), &json!("Stuhl"));
        record.set(&path("gallery.b.width"), &json!(80));

        assert_eq!(record.get(&path("gallery.#keys")), Value::Present(json!(["a", "b"])));
        assert_eq!(record.get(&path("gallery.a")), Value::Absent);
        assert!(record.has_item(&path("gallery.a")));
        record.remove_item(&path("gallery.a"));
        assert_eq!(record.get(&path("gallery.#keys")), Value::Present(json!(["b"])));
    }

    #[test]
    fn a_patch_turns_one_record_into_the_other() {
        let from: Record = [(path("a"), json!({"x": 1, "y": {"z": 2}})), (path("c"), json!([1]))]
            .into_iter()
            .collect();
        let to: Record = [(path("a"), json!({"x": 1, "y": 3})), (path("d@l=e"), json!(null))]
            .into_iter()
            .collect();

        let patch = from.patch_to(&to);
        let mut patched = from;
        patched.apply(&patch);

        assert_eq!(patched, to);
    }

    #[test]
    fn an_object_whose_keys_are_no_path_keys_stays_whole() {
        let long = "k".repeat(300);
        let value = json!({ long: 1 });
        let record: Record = [(path("bag"), value.clone())].into_iter().collect();

        assert_eq!(record.get(&path("bag")), Value::Present(value));
        assert_eq!(record.len(), 1);
    }
}
