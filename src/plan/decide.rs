//! One unit: unchanged, denied, left out, merged, in conflict, or written.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde_json::Value as Json;

use super::{
    Conflict, Decision, DenyRule, ForceRight, Intent, Mode, PlanInput, Seen, Written,
    base::{Base, is_seen},
    decision::wrong,
    expand::Asked,
    inputs, items, rights, units,
    walk::Walk,
};
use crate::{
    entity::{Change, Value, WriterKind},
    path::{Marker, Path, Pattern},
    registry::Resolved,
    snapshot::Stamp,
    strategy::{self, MergeInput, Merged, set_three_way, settled},
    token::OperationId,
};

/// What the decisions of one save have led to so far. Units are decided in path order, so `#keys` comes before what
/// lies inside the items.
pub(super) struct Work<'i, 'a> {
    pub(super) input: &'i PlanInput<'a>,
    stored: Walk<'a, Json>,
    stamps: Walk<'a, Stamp>,
    /// Items this save creates.
    pub(super) created: Vec<Path>,
    /// Items this save removes.
    pub(super) removed: Vec<Path>,
    /// Items written into that must still exist.
    pub(super) parents: Vec<Path>,
    /// Keys that come into being with the first value in their item, by `#keys` unit.
    pub(super) implied: BTreeMap<Path, (Arc<Resolved>, Vec<Json>)>,
    /// Input stamps of written results.
    pub(super) inputs: BTreeMap<Path, Option<OperationId>>,
    /// Patterns of theirs that may gain units.
    pub(super) input_patterns: Vec<Pattern>,
}

/// Goes on, or is decided.
type Gate<T> = Result<T, Box<Decision>>;

/// One unit with its three values.
struct Case<'c, 'a> {
    resolved: &'c Resolved,
    base: Base<'a>,
    ours: Cow<'a, Change>,
    theirs: Value,
    stamp: Option<&'a Stamp>,
    forced: bool,
}

impl<'i, 'a> Work<'i, 'a> {
    pub(super) fn new(input: &'i PlanInput<'a>) -> Self {
        Self {
            input,
            stored: Walk::new(input.snapshot.record.leaves()),
            stamps: Walk::new(&input.snapshot.stamps),
            created: Vec::new(),
            removed: Vec::new(),
            parents: Vec::new(),
            implied: BTreeMap::new(),
            inputs: BTreeMap::new(),
            input_patterns: Vec::new(),
        }
    }

    pub(super) fn decide(&mut self, asked: &Asked<'a>) -> Decision {
        let unit = asked.unit();
        let stored = self.stored.find(unit);
        if asked.is_as_stored(self.input, stored) {
            return Decision::Unchanged;
        }
        let stamp = self.stamps.find(unit);
        let structure = unit.marker() == Some(Marker::Keys);
        let theirs = self.theirs(unit, stored);
        let mut base = asked.base(self.input, stamp);
        let ours = match change(asked, &base, &theirs) {
            Ok(ours) => ours,
            Err(code) => return wrong(code, unit),
        };
        if structure && let Base::Known(value) = &base {
            match items::sorted_keys(value) {
                Ok(sorted) => base = Base::Known(Cow::Owned(sorted)),
                Err(code) => return wrong(code, unit),
            }
        }
        if settled(base.value(&theirs), &ours, &theirs).is_some() {
            return Decision::Unchanged;
        }
        let forced = match self.gate(&asked.resolved) {
            Ok(forced) => forced,
            Err(decision) => return *decision,
        };
        let around = match self.around(unit) {
            Ok(around) => around,
            Err(decision) => return *decision,
        };
        let inputs = match self.computed(&asked.resolved, forced) {
            Ok(inputs) => inputs,
            Err(decision) => return *decision,
        };
        let resolved = &asked.resolved;
        let mut decision = self.merge(Case { resolved, base, ours, theirs, stamp, forced });
        if structure
            && let Decision::Write(written) | Decision::Merge { written, .. } = &mut decision
        {
            self.move_items(unit, written);
        }
        if decision.written().is_some() {
            self.inputs.extend(inputs.computed_from);
            for pattern in inputs.open {
                if !self.input_patterns.contains(&pattern) {
                    self.input_patterns.push(pattern);
                }
            }
            around.take_effect(self);
        }
        decision
    }

    fn theirs(&self, unit: &Path, stored: Option<&Json>) -> Value {
        let record = &self.input.snapshot.record;
        match stored {
            _ if unit.marker() == Some(Marker::Keys) => items::stored_keys(record, unit),
            Some(leaf) if !units::is_node(leaf) => Value::Present(leaf.clone()),
            _ => units::value_of(record, unit, self.input.rules),
        }
    }

    /// Whether the writer may write it at all; answers whether only because it is forced.
    fn gate(&self, resolved: &Resolved) -> Gate<bool> {
        let input = self.input;
        let rule = match rights::may_write(input, resolved) {
            Ok(()) => return self.applicable(resolved).map(|()| false),
            Err(rule) => rule,
        };
        let takes_over = rule != DenyRule::Unlisted
            && rule != DenyRule::Apply
            && rights::is_forced(input, &resolved.unit, ForceRight::Takeover);
        if takes_over { Ok(true) } else { refuse(Decision::Denied { owner: resolved.owner, rule }) }
    }

    /// `apply` compares nothing, so something else must say that an older result does no harm (RULES 30).
    fn applicable(&self, resolved: &Resolved) -> Gate<()> {
        let Mode::Apply { unordered: false } = self.input.mode else { return Ok(()) };
        let derived = resolved.group.as_ref().is_some_and(|group| !group.derived_from.is_empty());
        if !derived {
            return refuse(wrong("unordered", &resolved.unit));
        }
        let carried = self.input.inputs.is_some() || matches!(self.input.seen, Seen::Record(_));
        if carried { Ok(()) } else { refuse(wrong("inputs_missing", &resolved.unit)) }
    }

    /// The items around a unit: there, coming into being with it, or gone (RULES 25).
    fn around(&self, unit: &Path) -> Gate<Around> {
        let input = self.input;
        if let Some((node, _)) = units::blocked_by(&input.snapshot.record, unit) {
            let message =
                format!("`{node}` holds a value that is not a map, so `{unit}` has no place");
            let help = format!("unset `{node}` first");
            return refuse(Decision::Invalid { code: "not_a_map", message, help });
        }
        let mut around = Around::default();
        for item in items::items_above(input.rules, unit) {
            if self.removed.contains(&item.path) {
                return refuse(wrong("inside_removed", unit));
            }
            if self.created.contains(&item.path) {
                continue;
            }
            if input.snapshot.record.has_item(&item.path) {
                around.parent = Some(item.path);
                continue;
            }
            let gone =
                input.intent != Intent::Create && items::was_shown(input, &item) != Some(false);
            let may = rights::may_write(input, &item.resolved).is_ok();
            if gone || (!may && input.writer.kind == WriterKind::Worker) {
                return refuse(Decision::ParentGone { parent: item.path });
            }
            if !may {
                let owner = item.resolved.owner;
                return refuse(Decision::Denied { owner, rule: DenyRule::Structure });
            }
            around.created.push((item.path.clone(), item.key.to_owned(), item.resolved));
        }
        Ok(around)
    }

    /// Whether a computed result still belongs to its inputs.
    fn computed(&self, resolved: &Resolved, forced: bool) -> Gate<inputs::Inputs> {
        let group = resolved.group.as_ref();
        // A forced result depends on nothing, so no input is compared when it is written.
        if forced || group.is_none_or(|group| group.derived_from.is_empty()) {
            return Ok(inputs::Inputs::default());
        }
        let inputs = inputs::inputs_of(self.input, &resolved.unit);
        if inputs.moved.is_empty() {
            return Ok(inputs);
        }
        refuse(Decision::StaleInput { inputs: inputs.moved })
    }

    fn merge(&self, case: Case<'_, '_>) -> Decision {
        let used = case.resolved.strategy.as_ref();
        let strategy = match used {
            Some(used) => &*used.strategy,
            None => &**strategy::reject(),
        };
        let base = case.base.value(&case.theirs);
        let input = MergeInput {
            base,
            ours: &case.ours,
            theirs: &case.theirs,
            our_writer: self.input.writer,
            their_writer: case.stamp.map(|stamp| &stamp.writer),
            options: used.map_or(&Json::Null, |used| &used.options),
        };
        let whole = matches!(*case.ours, Change::Set(_) | Change::Unset);
        let merged = if base.is_none() && whole && strategy.needs_base() {
            Merged::conflict("base_unknown")
        } else if used.is_none() && case.resolved.unit.marker() == Some(Marker::Keys) {
            keys_merge(&input)
        } else {
            strategy.merge(input)
        };
        let name = used.map(|used| used.strategy.name());
        match merged {
            Merged::Take { value, .. } if value.same(&case.theirs) => Decision::Unchanged,
            Merged::Take { value, lost } => taken(case, name, value, lost),
            Merged::Keep { rule } => {
                self.override_with_ours(&case).unwrap_or_else(|| Decision::Kept {
                    strategy: name.unwrap_or_default().to_owned(),
                    rule,
                    theirs: case.theirs,
                })
            }
            Merged::Conflict { rule, at } => self.override_with_ours(&case).unwrap_or_else(|| {
                Decision::Conflict(Box::new(Conflict {
                    base: case.base.into_value(&case.theirs),
                    ours: case.ours.into_owned(),
                    theirs: case.theirs,
                    since: case.stamp.cloned(),
                    strategy: name.map(str::to_owned),
                    rule,
                    at,
                }))
            }),
        }
    }

    /// Mine anyway, where that is asked for and permitted; theirs is kept as lost (RULES 42).
    fn override_with_ours(&self, case: &Case<'_, '_>) -> Option<Decision> {
        if !rights::is_forced(self.input, &case.resolved.unit, ForceRight::Conflicts) {
            return None;
        }
        let new = strategy::wanted(&case.ours, &case.theirs).ok()?;
        let seen = case.base.value(&case.theirs).is_some_and(|base| base.same(&case.theirs));
        let lost = if seen { Vec::new() } else { vec![case.theirs.clone()] };
        Some(Decision::Write(Written { old: case.theirs.clone(), new, lost, forced: true }))
    }

    /// Items that come and go with a change of `#keys`. What others wrote into a removed one is named as lost.
    fn move_items(&mut self, unit: &Path, written: &mut Written) {
        let (old, new) = (items::key_list(&written.old), items::key_list(&written.new));
        let item = |key: &&str| {
            let mut keys = unit.keys().to_vec();
            keys.push((*key).into());
            Path::from_parts(keys, None, unit.axes().to_vec())
        };
        let gone: Vec<Path> = old.iter().filter(|key| !new.contains(key)).map(item).collect();
        for (path, stamp) in &self.input.snapshot.stamps {
            let inside = gone.iter().any(|item| path.is_part_of(item));
            if inside && !is_seen(self.input, path, stamp) {
                let value = units::value_of(&self.input.snapshot.record, path, self.input.rules);
                written.lost.push(value);
            }
        }
        self.created.extend(new.iter().filter(|key| !old.contains(key)).map(item));
        self.removed.extend(gone);
    }
}

fn refuse<T>(decision: Decision) -> Gate<T> {
    Err(Box::new(decision))
}

/// What a written unit needs around it.
#[derive(Default)]
struct Around {
    /// The innermost item that exists.
    parent: Option<Path>,
    /// Items that come into being with the unit: path, key, and the rule of `#keys`.
    created: Vec<(Path, String, Arc<Resolved>)>,
}

impl Around {
    fn take_effect(self, work: &mut Work<'_, '_>) {
        if let Some(parent) = self.parent
            && !work.parents.contains(&parent)
        {
            work.parents.push(parent);
        }
        for (path, key, resolved) in self.created {
            let keys = resolved.unit.clone();
            work.created.push(path);
            work.implied.entry(keys).or_insert_with(|| (resolved, Vec::new())).1.push(key.into());
        }
    }
}

/// The change of the unit as a whole.
fn change<'a>(
    asked: &Asked<'a>,
    base: &Base<'_>,
    theirs: &Value,
) -> Result<Cow<'a, Change>, &'static str> {
    let unit = asked.unit();
    if let Some(whole) = asked.whole() {
        if unit.marker() != Some(Marker::Keys) {
            return Ok(whole.clone());
        }
        let keys = match &**whole {
            Change::Set(json) => items::sorted_keys(&Value::Present(json.clone()))?,
            Change::Unset => items::sorted_keys(&Value::Absent)?,
            Change::Add(_) => return Err("keys_not_a_list"),
            Change::Include(list) | Change::Exclude(list) => {
                if list.iter().any(|key| !key.is_string()) {
                    return Err("keys_not_a_list");
                }
                return Ok(whole.clone());
            }
        };
        return Ok(Cow::Owned(keys.json().map_or(Change::Unset, |json| Change::Set(json.clone()))));
    }
    // Parts are put into what was shown; where nobody knows that, into what is stored.
    let mut value = base.value(theirs).unwrap_or(theirs).clone();
    for part in asked.parts() {
        value = units::with_part(value, unit, &part.path, &part.change)?;
    }
    Ok(Cow::Owned(match value {
        Value::Present(json) => Change::Set(json),
        Value::Absent => Change::Unset,
    }))
}

fn taken(case: Case<'_, '_>, strategy: Option<&str>, new: Value, lost: Vec<Value>) -> Decision {
    let as_asked = match &*case.ours {
        Change::Set(json) => new.json().is_some_and(|new| crate::entity::same_json(new, json)),
        Change::Unset => new.is_absent(),
        Change::Add(_) | Change::Include(_) | Change::Exclude(_) => false,
    };
    let alone = case.base.value(&case.theirs).is_some_and(|base| base.same(&case.theirs));
    let forced = case.forced;
    match strategy {
        Some(strategy) if !(as_asked && alone) => Decision::Merge {
            strategy: strategy.to_owned(),
            base: case.base.into_value(&case.theirs),
            ours: case.ours.into_owned(),
            written: Written { old: case.theirs, new, lost, forced },
        },
        _ => Decision::Write(Written { old: case.theirs, new, lost, forced }),
    }
}

/// Which items there are is a set, also for a single owner: two people may each add one.
fn keys_merge(input: &MergeInput<'_>) -> Merged {
    let merged = match strategy::wanted(input.ours, input.theirs) {
        Ok(wanted) if matches!(input.ours, Change::Set(_) | Change::Unset) => {
            set_three_way(input.base, &wanted, input.theirs)
        }
        wanted => wanted,
    };
    match merged.and_then(|value| items::sorted_keys(&value)) {
        Ok(value) => Merged::take(value),
        Err(rule) => Merged::conflict(rule),
    }
}
