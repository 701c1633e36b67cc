//! Places of `storage` against the rules: every rule has one, and no two paths share one.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value as Json;

use super::{
    buckets::Buckets,
    cover::{inside, keys_inside, weight},
    extends::Draft,
    resolve::{Findings, Listed},
};
use crate::{
    diagnostic::{Span, Spanned},
    path::{AxisMatch, Pattern, Segment, Tail},
};

/// An entry of `places`: its path, and the place as checked.
type Entry = (Spanned<Pattern>, Json);

/// Checks the places of one entity type; only when everything of it could be read.
pub(crate) fn check(draft: &Draft<'_>, listed: &[Listed], findings: &mut Findings) {
    let Some(storage) = draft.storage.filter(|_| !draft.faulty) else { return };
    let buckets = Buckets::new(draft.places, |entry: &Entry| &entry.0.value);
    let mut checker = Checker { storage: &storage.value, taken: HashMap::new(), findings };
    checker.one_each(draft.places);
    for (pattern, place) in draft.places {
        checker.tells_apart(&pattern.value, pattern, place);
    }
    for rule in listed {
        let pattern = &rule.rule.pattern;
        match winner(pattern, &buckets) {
            Some(entry) => checker.rule(pattern, entry),
            None if lies_in_its_items(pattern, draft.places) => {}
            None => {
                let message = format!("`{pattern}` has no place in `storage`");
                let help = format!("add `{pattern}` to `places`");
                let note = (storage.span, "the places of this storage".to_owned());
                checker.findings.note("place_missing", rule.span, message, help, note);
            }
        }
    }
}

/// The place of a rule: the most specific one that contains it.
fn winner<'e>(pattern: &Pattern, places: &Buckets<'e, Entry>) -> Option<&'e Entry> {
    let around = places.around(pattern).filter(|entry| inside(pattern, &entry.0.value));
    around.max_by_key(|entry| weight(&entry.0.value))
}

/// Which items there are, and their order, is told by the items themselves where these have places.
fn lies_in_its_items(pattern: &Pattern, places: &[Entry]) -> bool {
    let node = Pattern::from_parts(pattern.segments().to_vec(), Tail::Node, Vec::new());
    pattern.marker().is_some() && places.iter().any(|entry| keys_inside(&entry.0.value, &node))
}

struct Checker<'a, 'f> {
    storage: &'a Json,
    /// Places that rules have taken, and the rule that took them.
    taken: HashMap<String, Pattern>,
    findings: &'f mut Findings,
}

impl Checker<'_, '_> {
    /// Two entries of `places` that say the same.
    fn one_each(&mut self, places: &[Entry]) {
        let mut known: HashMap<String, Vec<&Spanned<Pattern>>> = HashMap::new();
        for (pattern, place) in places {
            for target in targets(place) {
                let text = self.target(target, &mut |text| text.to_owned());
                let others = known.entry(text).or_default();
                // One inside the other divides the paths between the two.
                let first = others.iter().find(|other| !divided(&other.value, &pattern.value));
                if let Some(first) = first {
                    self.twice(&first.value, &pattern.value, pattern.span, Some(first.span));
                }
                others.push(pattern);
            }
        }
    }

    /// Every star and every open axis of a pattern must be found again in its place.
    fn tells_apart(&mut self, pattern: &Pattern, entry: &Spanned<Pattern>, place: &Json) {
        for target in targets(place) {
            let mut used = HashSet::new();
            self.target(target, &mut |text| {
                used.extend(placeholders(text).map(|(name, _)| name.to_owned()));
                String::new()
            });
            let Some(lost) = not_told(pattern, &entry.value, &used) else { continue };
            let message =
                format!("every path of `{pattern}` lies in one place: it has no `{lost}`");
            let help = format!("put `{lost}` into the column, `keys` or `where`");
            self.findings.error("place_twice", entry.span, message, help);
            return;
        }
    }

    /// The place a rule takes, with the keys and values that the rule fixes.
    fn rule(&mut self, pattern: &Pattern, (entry, place): &Entry) {
        let deeper = pattern.segments().len() > entry.value.segments().len();
        // What lies below a place that is one value is no place of its own.
        if pattern.marker().is_some() || (deeper && entry.value.tail() == Tail::Node) {
            return;
        }
        if *pattern != entry.value {
            self.tells_apart(pattern, entry, place);
        }
        for target in targets(place) {
            let text = self.target(target, &mut |text| fill(text, &entry.value, pattern));
            match self.taken.get(&text) {
                Some(first) if first != pattern => {
                    let first = first.clone();
                    self.twice(&first, pattern, entry.span, None);
                }
                _ => drop(self.taken.insert(text, pattern.clone())),
            }
        }
    }

    fn twice(&mut self, first: &Pattern, second: &Pattern, span: Span, other: Option<Span>) {
        let message = format!("`{first}` and `{second}` lie in one place");
        let help = "give each a column, a key or a row of its own";
        match other {
            Some(at) => {
                let note = (at, "first here".to_owned());
                self.findings.note("place_twice", span, message, help, note);
            }
            None => self.findings.error("place_twice", span, message, help),
        }
    }

    /// One text per place: table, id, row, column and keys, each text passed through `fill`.
    fn target(&self, place: &Json, fill: &mut dyn FnMut(&str) -> String) -> String {
        let own = if place.get("table").is_some() { place } else { self.storage };
        let mut text = |json: Option<&Json>| json.and_then(Json::as_str).map(&mut *fill);
        let table = text(own.get("table"));
        let column = text(Some(place.get("column").unwrap_or(place)));
        let keys = place.get("keys").and_then(Json::as_array);
        let keys: Option<Vec<_>> = keys.map(|keys| keys.iter().map(|k| text(Some(k))).collect());
        let row = own.get("where").and_then(Json::as_object);
        let row: Option<BTreeMap<&String, _>> =
            row.map(|row| row.iter().map(|(column, value)| (column, text(Some(value)))).collect());
        format!("{table:?} {:?} {row:?} {column:?} {keys:?}", own.get("id"))
    }
}

/// A place and those that get the same value.
fn targets(place: &Json) -> impl Iterator<Item = &Json> {
    let also = place.get("also").and_then(Json::as_array);
    std::iter::once(place).chain(also.into_iter().flatten())
}

/// Whether two patterns never give the same path: one lies inside the other, and both name the same axes.
fn divided(p: &Pattern, q: &Pattern) -> bool {
    let names = |p: &Pattern| p.axes().iter().map(|(axis, _)| axis.clone()).collect::<Vec<_>>();
    (inside(p, q) || inside(q, p)) && names(p) == names(q)
}

/// The first placeholder without which paths of a pattern cannot be told apart in a place.
fn not_told(pattern: &Pattern, entry: &Pattern, used: &HashSet<String>) -> Option<String> {
    let own = pattern.segments();
    let star = |segment: Option<&Segment>| !matches!(segment, Some(Segment::Key(_)));
    let stars = entry.segments().iter().enumerate().filter(|(_, segment)| star(Some(segment)));
    let stars = stars.enumerate().filter(|(_, (index, _))| star(own.get(*index)));
    let stars = stars.map(|(number, _)| (number + 1).to_string());
    let open = pattern.axes().iter().filter(|(_, value)| !matches!(value, AxisMatch::Exact(_)));
    let rest =
        own.get(entry.segments().len()..).is_some_and(|rest| rest.iter().any(|s| star(Some(s))))
            || pattern.tail() == Tail::Subtree;
    let rest = (entry.tail() == Tail::Subtree && rest).then(|| "rest".to_owned());
    let mut needed = stars.chain(open.map(|(axis, _)| axis.to_string())).chain(rest);
    needed.find(|name| !used.contains(name)).map(|name| format!("${name}"))
}

/// The placeholders of a text, each with what stands behind it.
fn placeholders(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let plain = text.split("$$").flat_map(|part| part.split('$').skip(1));
    plain.map(|part| {
        let end = part.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(part.len());
        part.split_at(end)
    })
}

/// A text of a place with the keys and values of a rule put in.
fn fill(text: &str, entry: &Pattern, rule: &Pattern) -> String {
    let stars: Vec<usize> = entry
        .segments()
        .iter()
        .enumerate()
        .filter(|(_, segment)| !matches!(segment, Segment::Key(_)))
        .map(|(index, _)| index)
        .collect();
    let depth = entry.segments().len();
    let value = |name: &str| {
        if name == "rest" && entry.tail() == Tail::Subtree {
            return format!("{:?} {:?}", rule.segments().get(depth..), rule.tail());
        }
        let star = name.parse::<usize>().ok().and_then(|number| stars.get(number.checked_sub(1)?));
        match star.and_then(|index| rule.segments().get(*index)) {
            Some(Segment::Key(key)) => key.to_string(),
            Some(other) => format!("{other:?}"),
            None => match rule.axis(name) {
                Some(AxisMatch::Exact(value)) => value.to_string(),
                other => format!("{other:?}"),
            },
        }
    };
    let parts = text.split("$$").map(|part| {
        let mut filled = part.split('$').next().unwrap_or_default().to_owned();
        for (name, behind) in placeholders(part) {
            filled.push_str(&value(name));
            filled.push_str(behind);
        }
        filled
    });
    parts.collect::<Vec<_>>().join("$")
}
