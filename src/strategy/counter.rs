//! `counter`: adds what the writer added.

use serde_json::Value as Json;

use super::{
    MergeInput, Merged, Strategy,
    ours::{added, number},
};
use crate::entity::{Change, Value};

/// A number both sides count on: the difference between what the form *showed* and what it sends is added to what is
/// stored. Shown 5, sent 7, stored 4 by now: 6.
///
/// Options: `min`, `max`, whole numbers. A save that would leave them, or go further outside, is a conflict
/// (`below_min`, `above_max`): nothing is clamped, because a clamped sale is a lost sale. From outside, a step towards
/// the bounds is taken.
///
/// Whole numbers only, of 64 bits: `1.0` counts as 1, while `1.5`, `"12.50"`, `null` and lists are `not_an_integer`
/// when both sides changed, because a sum of binary fractions drifts: count the smallest unit. A result that does not
/// fit is `out_of_range`. Two counters born apart (`created_since`), a removal on one side and a change on the other
/// (`removed_since`, `changed_since`) are conflicts. `add` needs no base, and counts from 0 where nothing is stored.
#[derive(Clone, Copy, Debug)]
pub struct Counter;

impl Strategy for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn options(&self) -> &'static [&'static str] {
        &["min", "max"]
    }

    fn check(&self, options: &Json) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        for key in ["min", "max"] {
            if let Some(json) = options.get(key)
                && bound(json).is_none()
            {
                problems.push((key, format!("`{key}` is not a whole number")));
            }
        }
        if let (Some(min), Some(max)) = (option(options, "min"), option(options, "max"))
            && min > max
        {
            problems.push(("max", format!("`max` {max} is below `min` {min}")));
        }
        problems
    }

    fn needs_base(&self) -> bool {
        true
    }

    fn merge(&self, input: MergeInput<'_>) -> Merged {
        let result = match input.ours {
            Change::Add(delta) => added(input.theirs, *delta),
            Change::Set(json) => counted(&input, json),
            Change::Unset => match input.base {
                None => Err("base_unknown"),
                Some(base) if base.same(input.theirs) => Ok(Value::Absent),
                Some(_) => Err("changed_since"),
            },
            Change::Include(_) | Change::Exclude(_) => Err("not_a_list"),
        };
        match result.and_then(|value| within(value, input.theirs, input.options)) {
            Ok(value) => Merged::take(value),
            Err(rule) => Merged::conflict(rule),
        }
    }
}

fn counted(input: &MergeInput<'_>, ours: &Json) -> Result<Value, &'static str> {
    let base = input.base.ok_or("base_unknown")?;
    if base.same(input.theirs) {
        return Ok(Value::Present(ours.clone()));
    }
    match (base, input.theirs) {
        (Value::Absent, _) => Err("created_since"),
        (_, Value::Absent) => Err("removed_since"),
        (Value::Present(base), Value::Present(theirs)) => {
            let part = |json| whole_number(json).ok_or("not_an_integer");
            let sum = part(theirs)? + (part(ours)? - part(base)?);
            number(sum).map(Value::Present).ok_or("out_of_range")
        }
    }
}

fn within(value: Value, theirs: &Value, options: &Json) -> Result<Value, &'static str> {
    let Some(new) = value.json().and_then(whole_number) else { return Ok(value) };
    let old = theirs.json().and_then(whole_number);
    if option(options, "min").is_some_and(|min| new < min) && old.is_none_or(|old| new < old) {
        return Err("below_min");
    }
    if option(options, "max").is_some_and(|max| new > max) && old.is_none_or(|old| new > old) {
        return Err("above_max");
    }
    Ok(value)
}

/// A whole number of at most 64 bits, written as an integer or as a float without a fraction below 2^53.
pub(super) fn whole_number(json: &Json) -> Option<i128> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = json.as_number()?;
    if let Some(n) = number.as_i64() {
        return Some(i128::from(n));
    }
    if let Some(n) = number.as_u64() {
        return Some(i128::from(n));
    }
    let float = number.as_f64()?;
    if float.fract() != 0.0 || float.abs() > EXACT {
        return None;
    }
    // Exact: a whole float below 2^53 prints as an integer.
    format!("{float:.0}").parse().ok()
}

fn option(options: &Json, key: &str) -> Option<i128> {
    options.get(key).and_then(bound)
}

/// A bound as a number or as text: the registry reads all scalars as text.
fn bound(json: &Json) -> Option<i128> {
    whole_number(json).or_else(|| json.as_str()?.trim().parse::<i64>().ok().map(i128::from))
}
