//! From decisions to a verdict and to what a commit needs.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value as Json;

use super::{
    ChangedUnit, Conflict, Decided, Decision, Intent, Plan, PlanInput, Verdict, Written,
    decide::Work,
    expand::{Expanded, expand},
    items, lifecycle, units,
};
use crate::{
    entity::{Change, Value, WriterKind},
    path::{Marker, Path},
    registry::{Locking, Resolved},
};

/// Decides a save. Pure: the same input gives the same plan.
///
/// Ask [`super::needed_bases`] first when the writer has a token: a base that nobody fetched counts as unknown.
#[must_use]
pub fn plan(input: &PlanInput<'_>) -> Plan {
    if let Some(verdict) = lifecycle::refusal(input) {
        return Plan { verdict, ..empty_plan(input) };
    }
    if input.intent == Intent::Delete {
        return lifecycle::delete(input);
    }
    let Expanded { asked, faults, cleared } = expand(input);
    let mut work = Work::new(input);
    let mut done = Vec::with_capacity(asked.len() + faults.len());
    for asked in asked {
        let decision = work.decide(&asked);
        done.push(decided(asked.resolved, decision));
    }
    let in_order = work.implied.is_empty() && faults.is_empty();
    imply_keys(&mut work, &mut done);
    done.extend(faults);
    if !in_order {
        done.sort_by(|a, b| a.path.cmp(&b.path));
    }
    keep_unseen(input, &cleared, &mut done);
    let mut plan = empty_plan(input);
    plan.verdict = verdict(input, &done);
    if plan.verdict == Verdict::Apply {
        fill(&mut plan, input, work, &done);
        for path in &cleared {
            units::prune(&input.snapshot.record, path, &mut plan.patch);
        }
    }
    plan.decisions = done;
    plan
}

pub(super) fn empty_plan(input: &PlanInput<'_>) -> Plan {
    Plan {
        entity: input.snapshot.entity.clone(),
        writer: input.writer.clone(),
        intent: input.intent,
        verdict: Verdict::Nothing,
        decisions: Vec::new(),
        written: BTreeMap::new(),
        patch: BTreeMap::new(),
        changed: Vec::new(),
        removed_items: Vec::new(),
        parents: Vec::new(),
        inputs: BTreeMap::new(),
        input_patterns: Vec::new(),
    }
}

fn decided(rules: Arc<Resolved>, decision: Decision) -> Decided {
    Decided { path: rules.unit.clone(), rules: Some(rules), decision }
}

/// A value that stands above units must not bury what stays below it because the writer had never been shown it.
fn keep_unseen(input: &PlanInput<'_>, cleared: &[Path], done: &mut [Decided]) {
    for path in cleared {
        let is_gone = |d: &Decided| d.decision.written().is_some_and(|w| w.new.is_absent());
        let stays = |d: &&Decided| d.path != *path && d.path.is_within(path) && !is_gone(d);
        let Some(kept) = done.iter().find(stays).map(|decided| decided.path.clone()) else {
            continue;
        };
        let above = done.iter_mut().find(|decided| decided.path == *path);
        let Some(decision) = above.map(|decided| &mut decided.decision) else { continue };
        let Some(Value::Present(json)) = decision.written().map(|written| &written.new) else {
            continue;
        };
        let keys = kept.keys().get(path.keys().len()..).unwrap_or_default().to_vec();
        *decision = Decision::Conflict(Box::new(Conflict {
            base: None,
            ours: Change::Set(json.clone()),
            theirs: input.snapshot.record.get(path),
            since: input.snapshot.stamps.get(&kept).cloned(),
            strategy: None,
            rule: "created_below",
            at: vec![Path::from_parts(keys, kept.marker(), Vec::new()).to_string()],
        }));
    }
}

/// Items that come into being with their first value are a change of `#keys`, too.
fn imply_keys(work: &mut Work<'_, '_>, done: &mut Vec<Decided>) {
    for (unit, (resolved, keys)) in std::mem::take(&mut work.implied) {
        // The unit around the items holds their structure, and is written itself.
        if unit.marker() != Some(Marker::Keys) {
            continue;
        }
        let old = items::stored_keys(&work.input.snapshot.record, &unit);
        let index = done.iter().position(|done| done.path == unit);
        let decision = index.and_then(|index| done.get_mut(index)).map(|done| &mut done.decision);
        match decision {
            Some(Decision::Write(written) | Decision::Merge { written, .. }) => {
                written.new = with_keys(&written.new, &keys);
            }
            Some(decision) => *decision = write_keys(old, &keys),
            None => done.push(decided(resolved, write_keys(old, &keys))),
        }
    }
}

fn write_keys(old: Value, more: &[Json]) -> Decision {
    let new = with_keys(&old, more);
    Decision::Write(Written { old, new, lost: Vec::new(), forced: false })
}

fn with_keys(keys: &Value, more: &[Json]) -> Value {
    let mut list: Vec<Json> = items::key_list(keys).into_iter().map(Json::from).collect();
    list.extend(more.iter().cloned());
    items::sorted_keys(&Value::Present(Json::Array(list))).unwrap_or_default()
}

/// From this weight on a refused path refuses the whole save.
const REFUSES_ALL: u8 = 4;

impl Decision {
    /// How heavy the refusal is, and its code. The heaviest one is the answer to the whole save.
    fn refusal(&self) -> Option<(u8, &'static str)> {
        let weight = match self {
            Self::Write(_) | Self::Merge { .. } | Self::Unchanged | Self::Kept { .. } => {
                return None;
            }
            Self::StaleInput { .. } => 1,
            Self::ParentGone { .. } => 2,
            Self::Denied { .. } => 3,
            Self::Conflict(_) => REFUSES_ALL,
            Self::Invalid { .. } => REFUSES_ALL + 1,
        };
        Some((weight, self.code()))
    }
}

/// RULES 4 and 5.
fn verdict(input: &PlanInput<'_>, done: &[Decided]) -> Verdict {
    let all = input.all_or_nothing || input.writer.kind == WriterKind::Editor;
    let mut writes = input.intent == Intent::Create;
    let mut worst = None;
    for done in done {
        match done.decision.refusal() {
            Some(refusal) => worst = worst.max(Some(refusal)),
            None => writes |= done.decision.written().is_some(),
        }
    }
    match worst {
        Some((weight, _)) if writes && !all && weight < REFUSES_ALL => Verdict::Apply,
        Some((_, code)) => Verdict::Refuse { code, message: String::new() },
        None if writes => Verdict::Apply,
        None => Verdict::Nothing,
    }
}

/// What a commit needs.
fn fill(plan: &mut Plan, input: &PlanInput<'_>, work: Work<'_, '_>, done: &[Decided]) {
    let record = &input.snapshot.record;
    for done in done {
        let (Some(written), Some(resolved)) = (done.decision.written(), &done.rules) else {
            continue;
        };
        let (Some(scope), Some(group)) = (&resolved.scope, &resolved.group) else { continue };
        let unit = &done.path;
        if !plan.written.contains_key(scope) {
            plan.written.insert(scope.clone(), group.locking);
        }
        if unit.marker() != Some(Marker::Keys) {
            units::patch_unit(record, unit, &written.new, input.rules, &mut plan.patch);
            removed_with(plan, input, unit, written);
        }
        plan.changed.push(ChangedUnit {
            path: unit.clone(),
            scope: scope.clone(),
            old: written.old.clone(),
            new: written.new.clone(),
            strategy: resolved.strategy.as_ref().map(|used| used.strategy.name().to_owned()),
        });
    }
    for item in &work.created {
        units::put_above(record, item, &mut plan.patch);
        plan.patch.entry(item.clone()).or_insert_with(|| Some(units::empty()));
    }
    plan.removed_items.extend(work.removed);
    plan.parents = work.parents;
    plan.parents.sort();
    plan.inputs = work.inputs;
    plan.input_patterns = work.input_patterns;
}

/// Items that vanish from a unit that owns the structure around them take everything in them along.
fn removed_with(plan: &mut Plan, input: &PlanInput<'_>, unit: &Path, written: &Written) {
    let Some(Json::Object(old)) = written.old.json() else { return };
    if !input.rules.has_inner(unit) {
        return;
    }
    let new = written.new.json().and_then(Json::as_object);
    for key in old.keys().filter(|key| !new.is_some_and(|new| new.contains_key(*key))) {
        let item = unit.child(key);
        if items::item(input.rules, &item).is_some() {
            plan.removed_items.push(item);
        }
    }
}

/// How a scope of this plan is kept apart.
impl Plan {
    /// Whether a scope must be leased for this save.
    #[must_use]
    pub fn is_leased(&self, scope: &crate::scope::ScopeName) -> bool {
        self.written.get(scope) == Some(&Locking::Lease)
    }
}
