//! `storage`: where the fields lie in the database of the CMS. Checked here, used by mapped mode.

use serde_json::{Map, Value as Json};

use super::{
    Reader,
    value::{list, shown},
};
use crate::{
    diagnostic::Spanned,
    path::{Pattern, Segment, Tail},
    registry::{
        schema::{Key, PLACE, STORAGE, Shape},
        yaml::{self, Entry, Kind, Node},
    },
};

/// The values that a path gives to the texts of its place.
struct Given {
    /// `$1`, `$2`: keys at the stars.
    stars: usize,
    /// `$locale`: axis values.
    axes: Vec<Box<str>>,
    /// `$rest`: the keys under `**`.
    rest: bool,
}

impl Reader<'_> {
    /// Reads the section; the entries of `places` also come one by one.
    pub(super) fn storage(
        &mut self,
        entry: &Entry,
        places: &mut Vec<(Spanned<Pattern>, Json)>,
    ) -> Option<Spanned<Json>> {
        let Kind::Map(entries) = entry.value.kind() else {
            self.wrong_shape(entry, "a map", "write `{table: .., id: .., places: {..}}`");
            return None;
        };
        // The record's own row knows no path.
        let nothing = Given { stars: 0, axes: Vec::new(), rest: false };
        let mut storage = Map::new();
        let known = self.known(entries, STORAGE, "`storage`");
        for (key, entry) in &known {
            let value = match key.shape {
                Shape::Places => self.places(entry, places),
                _ => self.place_key(key, entry, &nothing),
            };
            storage.extend(value.map(|value| (key.name.to_owned(), value)));
        }
        let given = |name: &str| known.iter().any(|(key, _)| key.name == name);
        let in_its_row = |(_, place): &(Spanned<Pattern>, Json)| place.get("table").is_none();
        if !given("places") {
            let help = "write `places: {name: name_column}`";
            self.error("missing_key", entry.span, "`storage` has no `places`", help);
        } else if !given("table") && places.iter().any(in_its_row) {
            let help = "write `table: NAME`, or give every place a `table`";
            self.error("missing_key", entry.span, "`storage` has no `table`", help);
        }
        Some(Spanned { value: Json::Object(storage), span: entry.span })
    }

    fn places(&mut self, entry: &Entry, read: &mut Vec<(Spanned<Pattern>, Json)>) -> Option<Json> {
        let Kind::Map(entries) = entry.value.kind() else {
            self.wrong_shape(entry, "a map of paths to places", "write `{name: name_column}`");
            return None;
        };
        let mut places = Map::new();
        for entry in entries {
            let pattern = self.path_key(entry);
            // Without its path nothing can be said about the placeholders.
            let Some(pattern) = pattern else { continue };
            let place = self.place(entry, &entry.value, &given(&pattern.value));
            if let (Some(place), false) = (place, entry.again) {
                places.insert(pattern.value.to_string(), place.clone());
                read.push((pattern, place));
            }
        }
        Some(Json::Object(places))
    }

    fn place(&mut self, entry: &Entry, node: &Node, given: &Given) -> Option<Json> {
        match node.kind() {
            Kind::Text(_) => self.filled(node, given, false),
            Kind::Map(entries) => {
                let mut place = Map::new();
                for (key, entry) in self.known(entries, PLACE, "a place") {
                    let value = match key.shape {
                        Shape::PlaceList => self.also(entry, given),
                        _ => self.place_key(key, entry, given),
                    };
                    place.extend(value.map(|value| (key.name.to_owned(), value)));
                }
                if !place.contains_key("column")
                    && !entries.iter().any(|entry| &*entry.key.value == "column")
                {
                    let help = "write `column: name`";
                    self.error("missing_key", node.span, "a place has no `column`", help);
                }
                Some(Json::Object(place))
            }
            _ => {
                self.wrong_shape(
                    entry,
                    "a column or a map with `column`",
                    "write the name of the column",
                );
                None
            }
        }
    }

    fn also(&mut self, entry: &Entry, given: &Given) -> Option<Json> {
        let Kind::List(items) = entry.value.kind() else {
            self.wrong_shape(
                entry,
                "a list of places",
                "write `[{table: .., id: .., column: ..}]`",
            );
            return None;
        };
        Some(Json::Array(items.iter().filter_map(|item| self.place(entry, item, given)).collect()))
    }

    fn place_key(&mut self, key: &'static Key, entry: &Entry, given: &Given) -> Option<Json> {
        match key.shape {
            Shape::Word(_) => {
                let word = self.word(key, entry)?.value;
                Some(match word {
                    "true" => Json::Bool(true),
                    "false" => Json::Bool(false),
                    word => Json::String(word.to_owned()),
                })
            }
            Shape::Constants => self.constants(entry, given),
            Shape::TextOrTexts => {
                let columns = self.text_or_texts(entry)?;
                let mut columns: Vec<Json> =
                    columns.into_iter().map(|column| Json::String(column.value)).collect();
                if columns.len() == 1 { columns.pop() } else { Some(Json::Array(columns)) }
            }
            Shape::Texts => {
                let items = self.items(entry, "keys")?;
                Some(Json::Array(
                    items.iter().filter_map(|item| self.filled(item, given, true)).collect(),
                ))
            }
            _ => {
                self.text(entry)?;
                self.filled(&entry.value, given, false)
            }
        }
    }

    fn constants(&mut self, entry: &Entry, given: &Given) -> Option<Json> {
        let Kind::Map(entries) = entry.value.kind() else {
            self.wrong_shape(entry, "a map of columns to values", "write `{locale: $locale}`");
            return None;
        };
        let mut constants = Map::new();
        for entry in entries {
            if entry.value.text().is_none() {
                self.wrong_shape(entry, "a text", "write one value");
                continue;
            }
            let value = self.filled(&entry.value, given, false);
            if let (Some(value), false) = (value, entry.again) {
                constants.insert(entry.key.value.to_string(), value);
            }
        }
        Some(Json::Object(constants))
    }

    /// A text whose placeholders all have a value.
    fn filled(&mut self, node: &Node, given: &Given, in_keys: bool) -> Option<Json> {
        let Some(text) = node.text() else {
            self.error(
                "wrong_shape",
                node.span,
                format!("this is {}, not a text", node.what()),
                "write one text",
            );
            return None;
        };
        let mut chars = text.value.chars().enumerate().peekable();
        while let Some((at, c)) = chars.next() {
            if c != '$' {
                continue;
            }
            let mut name = String::new();
            if chars.next_if(|(_, c)| *c == '$').is_some() {
                continue;
            }
            while let Some((_, c)) = chars.next_if(|(_, c)| c.is_alphanumeric() || *c == '_') {
                name.push(c);
            }
            if !given.has(&name, in_keys) {
                let span =
                    yaml::inside(self.scanned, node.span, text, at, name.chars().count() + 1);
                let message =
                    format!("`${}` has no value; {}", shown(&name), given.describe(in_keys));
                let help = if name == "rest" && given.rest {
                    "`$rest` stands only in `keys`"
                } else {
                    "a dollar sign itself is `$$`"
                };
                self.error("unknown_placeholder", span, message, help);
            }
        }
        Some(Json::String(text.value.to_string()))
    }
}

impl Given {
    fn has(&self, name: &str, in_keys: bool) -> bool {
        let star = name.parse::<usize>().is_ok_and(|number| (1..=self.stars).contains(&number));
        star || self.axes.iter().any(|axis| **axis == *name)
            || (in_keys && self.rest && name == "rest")
    }

    fn describe(&self, in_keys: bool) -> String {
        let stars = (1..=self.stars).map(|number| format!("${number}"));
        let axes = self.axes.iter().map(|axis| format!("${axis}"));
        let rest = (in_keys && self.rest).then(|| "$rest".to_owned());
        let all: Vec<String> = stars.chain(axes).chain(rest).collect();
        if all.is_empty() {
            return "this path has none".to_owned();
        }
        format!("this path has {}", list(all.iter().map(String::as_str)).replace('`', ""))
    }
}

fn given(pattern: &Pattern) -> Given {
    let star = |segment: &&Segment| !matches!(segment, Segment::Key(_));
    Given {
        stars: pattern.segments().iter().filter(star).count(),
        axes: pattern.axes().iter().map(|(axis, _)| axis.clone()).collect(),
        rest: pattern.tail() == Tail::Subtree,
    }
}
