//! What is decided about the save as a whole, and deleting.

use super::{
    ChangedUnit, Conflict, Decided, Decision, Intent, Plan, PlanInput, Seen, Verdict,
    base::is_seen, outcome::empty_plan, rights, token::check_token, units,
};
use crate::{
    entity::{Change, Value},
    path::Path,
    registry::{Locking, Owner, Resolved},
};

/// Why nothing of the save can be done, whatever its paths are.
pub(super) fn refusal(input: &PlanInput<'_>) -> Option<Verdict> {
    let refuse = |code: &'static str, message: String| Some(Verdict::Refuse { code, message });
    let snapshot = input.snapshot;
    let entity = &snapshot.entity;
    if let Some(key) = input.rules.not_yet.first() {
        let kind = &input.rules.kind;
        let message = format!("the rules of `{kind}` use `{key}`, which has no effect yet");
        return refuse("not_yet", message);
    }
    let exists = snapshot.incarnation.0 > 0;
    match input.intent {
        Intent::Create if exists && snapshot.deleted_at.is_none() => {
            return refuse("exists", format!("`{entity}` exists already"));
        }
        Intent::Create => {}
        Intent::Update | Intent::Delete if !exists => {
            return refuse("not_found", format!("`{entity}` does not exist"));
        }
        Intent::Update | Intent::Delete if snapshot.deleted_at.is_some() => {
            return refuse("gone", format!("`{entity}` was deleted"));
        }
        Intent::Update | Intent::Delete => {
            if let Some(refusal) = refused_base(input) {
                return Some(refusal);
            }
        }
    }
    let (listed, verb) = match input.intent {
        Intent::Update => return None,
        Intent::Create => (&input.rules.lifecycle.create, "create"),
        Intent::Delete => (&input.rules.lifecycle.delete, "delete"),
    };
    if rights::is_listed(input, listed) {
        return None;
    }
    refuse("denied", format!("{} may not {verb} `{}`", input.writer, input.rules.kind))
}

/// A token or record that does not belong to what is stored.
fn refused_base(input: &PlanInput<'_>) -> Option<Verdict> {
    let snapshot = input.snapshot;
    let seen = match input.seen {
        Seen::Nothing => return None,
        Seen::Token(token) if token.entity == snapshot.entity => token.incarnation,
        Seen::Token(token) => {
            let error = check_token(token, snapshot).err()?;
            return Some(Verdict::Refuse { code: error.code(), message: error.to_string() });
        }
        Seen::Record(seen) => seen.incarnation,
    };
    if seen < snapshot.incarnation {
        let message = format!("`{}` was deleted and created again", snapshot.entity);
        return Some(Verdict::Refuse { code: "recreated", message });
    }
    let Seen::Token(token) = input.seen else { return None };
    let error = check_token(token, snapshot).err()?;
    Some(Verdict::Refuse { code: error.code(), message: error.to_string() })
}

/// Deletes everything. Values of people and shared values that changed since the writer looked are conflicts; a
/// writer that says nothing about what it saw deletes what there is, and the version or record keeps it (RULES 28).
pub(super) fn delete(input: &PlanInput<'_>) -> Plan {
    let mut plan = empty_plan(input);
    for unit in all_units(input) {
        let rules = input.rules.lookup(&unit).ok();
        let old = units::value_of(&input.snapshot.record, &unit, input.rules);
        let decision = match conflict(input, &unit, rules.as_deref(), &old) {
            Some(conflict) => Decision::Conflict(Box::new(conflict)),
            None => Decision::Write(super::Written {
                old: old.clone(),
                new: Value::Absent,
                lost: Vec::new(),
                forced: false,
            }),
        };
        if let Some(scope) = rules.as_ref().and_then(|rules| rules.scope.as_ref()) {
            let new = Value::Absent;
            let (path, scope) = (unit.clone(), scope.clone());
            plan.changed.push(ChangedUnit { path, scope, old, new, strategy: None });
        }
        plan.decisions.push(Decided { path: unit, rules, decision });
    }
    if plan.conflicts().next().is_some() {
        plan.changed.clear();
        plan.verdict = Verdict::Refuse { code: "conflict", message: String::new() };
        return plan;
    }
    let scopes = input.snapshot.versions.keys();
    let scopes = scopes.chain(plan.changed.iter().map(|changed| &changed.scope)).cloned();
    plan.written = scopes
        .map(|scope| {
            let group = input.rules.groups.get(scope.group_name());
            let locking = group.map_or(Locking::Optimistic, |group| group.locking);
            (scope, locking)
        })
        .collect();
    plan.patch = input.snapshot.record.iter().map(|(path, _)| (path.clone(), None)).collect();
    plan.verdict = Verdict::Apply;
    plan
}

fn all_units(input: &PlanInput<'_>) -> Vec<Path> {
    let mut found: Vec<Path> = Vec::new();
    for (path, leaf) in input.snapshot.record.iter() {
        if units::is_node(leaf) && input.rules.has_inner(path) {
            continue;
        }
        let unit = input.rules.lookup(path).map_or_else(|_| path.clone(), |r| r.unit.clone());
        if found.last() != Some(&unit) {
            found.push(unit);
        }
    }
    found.sort();
    found.dedup();
    found
}

fn conflict(
    input: &PlanInput<'_>,
    unit: &Path,
    resolved: Option<&Resolved>,
    theirs: &Value,
) -> Option<Conflict> {
    let stamp = input.snapshot.stamps.get(unit)?;
    let owner = resolved.map_or(Owner::Deny, |resolved| resolved.owner);
    let ours_to_see = matches!(owner, Owner::Editor | Owner::Shared);
    let forced = rights::is_forced(input, unit, super::ForceRight::Conflicts);
    if !ours_to_see || is_seen(input, unit, stamp) || forced {
        return None;
    }
    Some(Conflict {
        base: None,
        ours: Change::Unset,
        theirs: theirs.clone(),
        since: Some(stamp.clone()),
        strategy: None,
        rule: "changed_since",
        at: vec![String::new()],
    })
}
