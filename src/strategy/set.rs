//! `set_merge`: adds and removes of both sides.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::{MergeInput, Merged, Strategy};
use crate::entity::{Change, Value};

/// A list used as a set: what each side added stays, what each side removed goes. Never a conflict between two lists.
///
/// Members are equal as data (`1` and `1.0`, objects whatever the order of keys). The stored order is kept, and ours
/// are added at the end in our order; where nobody else changed the list, it is taken as sent, order included. A
/// member sent twice is added once; doubles in the stored list are left alone, and removed together.
/// Absent counts as the empty list; removing the field removes what it showed. If nothing is left, the field is absent
/// where one side had removed it, else `[]`. Anything that is neither a list nor absent, `null` too, is `not_a_list`
/// when both sides changed. `include` and `exclude` need no base.
#[derive(Clone, Copy, Debug)]
pub struct SetMerge;

impl Strategy for SetMerge {
    fn name(&self) -> &'static str {
        "set_merge"
    }

    fn needs_base(&self) -> bool {
        true
    }

    fn merge(&self, input: MergeInput<'_>) -> Merged {
        let result = match input.ours {
            Change::Add(_) => Err("not_an_integer"),
            Change::Include(_) | Change::Exclude(_) => moved(input.ours, input.theirs),
            Change::Set(json) => three_way(input.base, &Value::Present(json.clone()), input.theirs),
            Change::Unset => three_way(input.base, &Value::Absent, input.theirs),
        };
        match result {
            Ok(value) => Merged::take(value),
            Err(rule) => Merged::conflict(rule),
        }
    }
}

/// What both sides did to the list that was shown.
///
/// # Errors
/// `base_unknown`, or `not_a_list` when one of the three is neither a list nor absent.
pub fn three_way(
    base: Option<&Value>,
    ours: &Value,
    theirs: &Value,
) -> Result<Value, &'static str> {
    let base = base.ok_or("base_unknown")?;
    if base.same(theirs) {
        return Ok(ours.clone());
    }
    let was = keys(members(base)?);
    let wanted = keys(members(ours)?);
    let removed = |key: &String| was.contains(key) && !wanted.contains(key);
    let stays = members(theirs)?.iter().filter(|member| !removed(&canonical(member)));
    let mut merged: Vec<Json> = stays.cloned().collect();
    let mut known = keys(members(theirs)?);
    for member in members(ours)? {
        let key = canonical(member);
        if !was.contains(&key) && known.insert(key) {
            merged.push(member.clone());
        }
    }
    if merged.is_empty() && (ours.is_absent() || theirs.is_absent()) {
        return Ok(Value::Absent);
    }
    Ok(Value::Present(Json::Array(merged)))
}

/// The stored list with members added or removed.
pub(super) fn moved(change: &Change, theirs: &Value) -> Result<Value, &'static str> {
    let stored = members(theirs)?;
    match change {
        Change::Include(more) => {
            let mut merged = stored.to_vec();
            let mut known = keys(stored);
            merged.extend(more.iter().filter(|member| known.insert(canonical(member))).cloned());
            Ok(Value::Present(Json::Array(merged)))
        }
        Change::Exclude(less) if !theirs.is_absent() => {
            let less = keys(less);
            let left = stored.iter().filter(|member| !less.contains(&canonical(member)));
            Ok(Value::Present(left.cloned().collect()))
        }
        _ => Ok(theirs.clone()),
    }
}

/// Whether including or excluding finds nothing to do.
pub(super) fn no_member_moves(change: &Change, theirs: &Value) -> bool {
    let Ok(stored) = members(theirs) else { return false };
    match change {
        Change::Include(more) => {
            let known = keys(stored);
            more.iter().all(|member| known.contains(&canonical(member)))
        }
        Change::Exclude(less) => {
            let less = keys(less);
            !stored.iter().any(|member| less.contains(&canonical(member)))
        }
        _ => false,
    }
}

fn members(value: &Value) -> Result<&[Json], &'static str> {
    match value {
        Value::Absent => Ok(&[]),
        Value::Present(Json::Array(members)) => Ok(members),
        Value::Present(_) => Err("not_a_list"),
    }
}

fn keys(members: &[Json]) -> HashSet<String> {
    members.iter().map(canonical).collect()
}

/// One text per value, the same for values that are equal as data.
fn canonical(json: &Json) -> String {
    let mut text = String::new();
    put_canonical(json, &mut text);
    text
}

fn put_canonical(json: &Json, out: &mut String) {
    match json {
        Json::Number(_) => match super::counter::whole_number(json) {
            Some(number) => out.push_str(&number.to_string()),
            None => out.push_str(&json.to_string()),
        },
        Json::Array(members) => {
            out.push('[');
            for member in members {
                put_canonical(member, out);
                out.push(',');
            }
            out.push(']');
        }
        Json::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (key, member) in sorted {
                out.push_str(&Json::from(key.as_str()).to_string());
                out.push(':');
                put_canonical(member, out);
                out.push(',');
            }
            out.push('}');
        }
        Json::Null | Json::Bool(_) | Json::String(_) => out.push_str(&json.to_string()),
    }
}
