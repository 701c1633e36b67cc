//! From submitted paths to units: what lies below a unit becomes a part of it, a map above units is split into them,
//! a list with item keys becomes items, and removed items become a change of `#keys` (GRAMMAR, "What a pattern owns").

use std::{borrow::Cow, sync::Arc};

use serde_json::Value as Json;

use super::{Decided, Decision, DenyRule, PlanInput, base::Base, items, rights, units};
use crate::{
    entity::{Change, Value, same_json},
    path::{Marker, Path},
    registry::{Owner, ResolveError, Resolved},
    snapshot::Stamp,
};

/// What is asked of one unit.
pub(super) struct Asked<'a> {
    pub(super) resolved: Arc<Resolved>,
    pub(super) part: Part<'a>,
    /// Further parts, where the unit is not asked for as a whole.
    pub(super) more: Vec<Part<'a>>,
}

/// One change, at the unit or below it.
pub(super) struct Part<'a> {
    pub(super) path: Path,
    pub(super) change: Cow<'a, Change>,
    pub(super) sent: Option<Cow<'a, Value>>,
}

/// Every unit that is asked for, in path order, and the paths that are wrong whatever is stored.
#[derive(Default)]
pub(super) struct Expanded<'a> {
    pub(super) asked: Vec<Asked<'a>>,
    pub(super) faults: Vec<Decided>,
    /// Paths that are removed with everything below them.
    pub(super) cleared: Vec<Path>,
}

impl<'a> Asked<'a> {
    fn new(resolved: Arc<Resolved>, part: Part<'a>) -> Self {
        Self { resolved, part, more: Vec::new() }
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Part<'a>> {
        std::iter::once(&self.part).chain(&self.more)
    }

    fn is_whole(&self) -> bool {
        self.more.is_empty() && self.part.path == self.resolved.unit
    }

    pub(super) fn unit(&self) -> &Path {
        &self.resolved.unit
    }

    /// The change of the whole unit, if that is what is asked.
    pub(super) fn whole(&self) -> Option<&Cow<'a, Change>> {
        self.is_whole().then_some(&self.part.change)
    }

    /// The quick answer for forms that send everything back: a leaf that is what is stored.
    pub(super) fn is_as_stored(&self, input: &PlanInput<'_>, stored: Option<&Json>) -> bool {
        match (self.whole().map(|change| &**change), stored) {
            (Some(Change::Set(json)), Some(leaf)) if units::is_node(leaf) => {
                // Where values of others made the node, or every leaf stands for itself, `{}` says nothing.
                units::is_node(json)
                    && (units::is_per_leaf(&self.resolved)
                        || units::value_of(&input.snapshot.record, self.unit(), input.rules)
                            .is_absent())
            }
            (Some(Change::Set(json)), Some(leaf)) => same_json(json, leaf),
            (Some(Change::Unset), None) => self.resolved.unit.marker().is_none(),
            _ => false,
        }
    }

    /// What the writer had been shown of the unit. A base sent for a part is the base of that part only.
    pub(super) fn base(&self, input: &PlanInput<'a>, stamp: Option<&Stamp>) -> Base<'a> {
        let whole = if self.is_whole() { self.part.sent.as_ref() } else { None };
        let base = Base::find(input, &self.resolved, stamp, whole);
        if whole.is_some() || self.parts().all(|part| part.sent.is_none()) {
            return base;
        }
        let theirs = units::value_of(&input.snapshot.record, self.unit(), input.rules);
        let all_sent = self.parts().all(|part| part.sent.is_some());
        let mut value = match base.value(&theirs) {
            Some(known) => known.clone(),
            None if all_sent => theirs,
            None => return base,
        };
        for part in self.parts() {
            let Some(sent) = &part.sent else { continue };
            let change = match &**sent {
                Value::Present(json) => Change::Set(json.clone()),
                Value::Absent => Change::Unset,
            };
            match units::with_part(value, self.unit(), &part.path, &change) {
                Ok(with) => value = with,
                Err(_) => return base,
            }
        }
        Base::Known(Cow::Owned(value))
    }
}

/// Splits the changes of a save into what is asked of each unit.
pub(super) fn expand<'a>(input: &PlanInput<'a>) -> Expanded<'a> {
    let mut expanded = Expanded::default();
    for (path, change) in input.changes {
        let sent = input.sent_bases.get(path).map(Cow::Borrowed);
        expanded.change(input, path, Cow::Borrowed(change), sent);
    }
    for path in input.shown {
        let covered = |other: &Path| other.is_within(path) || path.is_within(other);
        if !input.changes.keys().any(covered) {
            let sent = input.sent_bases.get(path).map(Cow::Borrowed);
            expanded.change(input, path, Cow::Owned(Change::Unset), sent);
        }
    }
    expanded.gather();
    expanded
}

impl<'a> Expanded<'a> {
    fn change(
        &mut self,
        input: &PlanInput<'a>,
        path: &Path,
        change: Cow<'a, Change>,
        sent: Option<Cow<'a, Value>>,
    ) {
        match &*change {
            Change::Set(json @ (Json::Object(_) | Json::Array(_))) if path.marker().is_none() => {
                match input.rules.split(path, json) {
                    Ok(pieces) => self.pieces(input, path, pieces, change, sent),
                    Err(error) => self.wrong(path, error),
                }
            }
            _ => self.piece(input, path, change, sent),
        }
    }

    /// A map or list, in pieces that each lie within one unit.
    fn pieces(
        &mut self,
        input: &PlanInput<'a>,
        path: &Path,
        pieces: Vec<(Path, Json)>,
        change: Cow<'a, Change>,
        sent: Option<Cow<'a, Value>>,
    ) {
        if let [(at, _)] = pieces.as_slice()
            && at == path
            && sent.is_none()
        {
            return self.piece(input, path, change, None);
        }
        let shown = sent.as_deref().map(|sent| match sent {
            Value::Present(base) => input.rules.split(path, base).unwrap_or_default(),
            Value::Absent => Vec::new(),
        });
        for (at, value) in pieces {
            let sent = shown.as_ref().map(|shown| {
                let base = shown.iter().find(|(base, _)| *base == at);
                Cow::Owned(Value::from(base.map(|(_, json)| json.clone())))
            });
            if says_nothing(input, &at) {
                continue;
            }
            self.piece(input, &at, Cow::Owned(Change::Set(value)), sent);
        }
    }

    /// A change within one unit, or of something above units that has no members.
    fn piece(
        &mut self,
        input: &PlanInput<'a>,
        path: &Path,
        change: Cow<'a, Change>,
        sent: Option<Cow<'a, Value>>,
    ) {
        let resolved = match input.rules.lookup(path) {
            Ok(resolved) => resolved,
            Err(error) => return self.wrong(path, error),
        };
        let map = matches!(&*change, Change::Set(Json::Object(_)));
        if !map && path.marker().is_none() {
            let node = || input.snapshot.record.stored(path).is_some_and(units::is_node);
            if resolved.inner || (units::is_per_leaf(&resolved) && node()) {
                return self.above(input, path, resolved, change, sent);
            }
        }
        self.asked.push(Asked::new(resolved, Part { path: path.clone(), change, sent }));
    }

    /// A value or a removal above units takes everything below with it.
    fn above(
        &mut self,
        input: &PlanInput<'a>,
        path: &Path,
        resolved: Arc<Resolved>,
        change: Cow<'a, Change>,
        sent: Option<Cow<'a, Value>>,
    ) {
        let item = if *change == Change::Unset { items::item(input.rules, path) } else { None };
        if let Some(item) = item {
            let keys = Cow::Owned(Change::Exclude(vec![Json::from(item.key)]));
            let part = match item.resolved.unit.marker() {
                Some(_) => Part { path: item.resolved.unit.clone(), change: keys, sent: None },
                // The unit around the items owns their structure: the item is a part of it.
                None => Part { path: path.clone(), change, sent },
            };
            return self.asked.push(Asked::new(item.resolved, part));
        }
        if !matches!(&*change, Change::Set(_) | Change::Unset) {
            let message = format!("`{path}` stands above fields with rules of their own");
            let help = "send `set` or `unset`, or name the field below it".to_owned();
            return self.fault(path, Decision::Invalid { code: "not_a_unit", message, help });
        }
        let mut below = input.rules.rules_below(path);
        let foreign = below.find(|rule| rights::may_write_group(input, &rule.group).is_err());
        if let Some(rule) = foreign {
            let (owner, rule) = (rule.group.owner, DenyRule::Below);
            let decision = Decision::Denied { owner, rule };
            self.faults.push(Decided { path: path.clone(), rules: Some(resolved), decision });
            return;
        }
        for unit in units::stored_below(&input.snapshot.record, path, input.rules) {
            if let Ok(below) = input.rules.lookup(&unit) {
                let change = Cow::Owned(Change::Unset);
                self.asked.push(Asked::new(below, Part { path: unit, change, sent: None }));
            }
        }
        self.cleared.push(path.clone());
        if *change != Change::Unset || resolved.pattern.is_some() {
            self.asked.push(Asked::new(resolved, Part { path: path.clone(), change, sent }));
        }
    }

    fn wrong(&mut self, path: &Path, error: ResolveError) {
        let ResolveError { code, message, help } = error;
        self.fault(path, Decision::Invalid { code, message, help });
    }

    fn fault(&mut self, path: &Path, decision: Decision) {
        self.faults.push(Decided { path: path.clone(), rules: None, decision });
    }

    /// Sorts by unit and joins what concerns the same one.
    fn gather(&mut self) {
        let sorted = self.asked.is_sorted_by(|a, b| a.resolved.unit < b.resolved.unit);
        if sorted {
            return;
        }
        self.asked.sort_by(|a, b| a.resolved.unit.cmp(&b.resolved.unit));
        let mut joined: Vec<Asked<'a>> = Vec::with_capacity(self.asked.len());
        for asked in std::mem::take(&mut self.asked) {
            match joined.last_mut() {
                Some(last) if last.resolved.unit == asked.resolved.unit => {
                    if let Some(path) = join(last, asked) {
                        let message = format!("`{path}` is asked for twice, in different ways");
                        let help = "send one change for a field and what lies below it".to_owned();
                        let code = "overlapping_changes";
                        self.fault(&path, Decision::Invalid { code, message, help });
                    }
                }
                _ => joined.push(asked),
            }
        }
        self.asked = joined;
    }
}

/// Joins more parts to a unit; answers the path at which they contradict.
fn join<'a>(asked: &mut Asked<'a>, other: Asked<'a>) -> Option<Path> {
    for part in std::iter::once(other.part).chain(other.more) {
        let only = &mut asked.part;
        if asked.more.is_empty()
            && only.path == part.path
            && only.path.marker() == Some(Marker::Keys)
            && let Change::Exclude(new) = &*part.change
            && let Change::Exclude(old) = only.change.to_mut()
        {
            old.extend(new.iter().cloned());
            continue;
        }
        let meets =
            |other: &Part<'_>| other.path.is_within(&part.path) || part.path.is_within(&other.path);
        if asked.parts().any(meets) {
            return Some(part.path);
        }
        asked.more.push(part);
    }
    None
}

/// The order of a list where nobody keeps one, and the member that an item's key was made from, where nobody owns it.
fn says_nothing(input: &PlanInput<'_>, piece: &Path) -> bool {
    let order = piece.marker() == Some(Marker::Order);
    let key = || {
        let [above @ .., _, member] = piece.keys() else { return false };
        let list = Path::from_parts(above.to_vec(), None, piece.axes().to_vec());
        let names = input.rules.item_key(&list).unwrap_or_default();
        names.iter().any(|name| **name == **member)
    };
    (order || key()) && input.rules.lookup(piece).is_ok_and(|r| r.owner == Owner::Deny)
}
