//! `max` and `min`: a value that only moves one way.

use std::cmp::Ordering;

use serde_json::Value as Json;

use super::{MergeInput, Merged, Strategy, counter::whole_number, ours::Wanted};
use crate::entity::{Value, same_json};

/// The greater of the two values. A smaller one is left out (`not_greater`), whoever sends it and whatever it showed.
///
/// Numbers compare by value, texts by their bytes, so timestamps must be in one format. Texts that read as numbers
/// (`"9"`, `"10.50"`) are `not_comparable`, and so are values of different types. With the option `order`, a list from
/// the lowest to the highest, exactly those values compare, by their place; another value is `not_in_order`.
/// Any value beats absent and `null`; removing (or sending `null`) is taken where nobody changed the value since it
/// was shown, else it is a conflict. A replaced value its writer had not seen is named as lost.
#[derive(Clone, Copy, Debug)]
pub struct Max;

/// The smaller of the two values; a greater one is left out (`not_smaller`). In all else as [`Max`].
#[derive(Clone, Copy, Debug)]
pub struct Min;

impl Strategy for Max {
    fn name(&self) -> &'static str {
        "max"
    }

    fn options(&self) -> &'static [&'static str] {
        &["order"]
    }

    fn check(&self, options: &Json) -> Vec<(&'static str, String)> {
        check_order(options)
    }

    fn needs_base(&self) -> bool {
        false
    }

    fn merge(&self, input: MergeInput<'_>) -> Merged {
        decide(input, Ordering::Greater, "not_greater")
    }
}

impl Strategy for Min {
    fn name(&self) -> &'static str {
        "min"
    }

    fn options(&self) -> &'static [&'static str] {
        &["order"]
    }

    fn check(&self, options: &Json) -> Vec<(&'static str, String)> {
        check_order(options)
    }

    fn needs_base(&self) -> bool {
        false
    }

    fn merge(&self, input: MergeInput<'_>) -> Merged {
        decide(input, Ordering::Less, "not_smaller")
    }
}

fn decide(input: MergeInput<'_>, wins: Ordering, loses: &'static str) -> Merged {
    let ours = match Wanted::of(input.ours, input.theirs) {
        Wanted::Whole(value) | Wanted::Relative(value) => value,
        Wanted::Wrong(rule) => return Merged::conflict(rule),
    };
    let unseen = !input.base.is_some_and(|base| base.same(input.theirs));
    let (mine, stored) = match (something(&ours), something(input.theirs)) {
        (None, _) if !unseen => return Merged::take(ours),
        (None, _) if input.base.is_none() => return Merged::conflict("base_unknown"),
        (None, _) => return Merged::conflict("changed_since"),
        (Some(mine), None) => {
            if let Err(rule) = compare(mine, mine, input.options) {
                return Merged::conflict(rule);
            }
            // Somebody removed what had been shown: that removal is overruled.
            let removed = unseen && input.base.is_some_and(|base| something(base).is_some());
            let lost = if removed { vec![input.theirs.clone()] } else { Vec::new() };
            return Merged::Take { value: ours, lost };
        }
        (Some(mine), Some(stored)) => (mine, stored),
    };
    match compare(mine, stored, input.options) {
        Err(rule) => Merged::conflict(rule),
        Ok(order) if order == wins => {
            let lost = if unseen { vec![input.theirs.clone()] } else { Vec::new() };
            Merged::Take { value: ours, lost }
        }
        Ok(_) => Merged::Keep { rule: loses },
    }
}

fn something(value: &Value) -> Option<&Json> {
    value.json().filter(|json| !json.is_null())
}

fn compare(a: &Json, b: &Json, options: &Json) -> Result<Ordering, &'static str> {
    if let Some(Json::Array(order)) = options.get("order") {
        let place = |value: &Json| {
            order.iter().position(|entry| is_entry(entry, value)).ok_or("not_in_order")
        };
        return Ok(place(a)?.cmp(&place(b)?));
    }
    match (a, b) {
        (Json::Number(x), Json::Number(y)) => match (whole_number(a), whole_number(b)) {
            (Some(x), Some(y)) => Ok(x.cmp(&y)),
            _ => x.as_f64().partial_cmp(&y.as_f64()).ok_or("not_comparable"),
        },
        (Json::String(x), Json::String(y)) if !numeric(x) && !numeric(y) => Ok(x.cmp(y)),
        _ => Err("not_comparable"),
    }
}

/// The registry reads all scalars as text, so the entry `1` also means the number 1.
fn is_entry(entry: &Json, value: &Json) -> bool {
    let text = (value.is_number() || value.is_boolean()).then(|| value.to_string());
    same_json(entry, value) || (text.is_some() && entry.as_str() == text.as_deref())
}

fn numeric(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok()
}

fn check_order(options: &Json) -> Vec<(&'static str, String)> {
    let Some(order) = options.get("order") else { return Vec::new() };
    let problem = |text: &str| vec![("order", text.to_owned())];
    let Json::Array(entries) = order else {
        return problem("`order` is not a list of values from the lowest to the highest");
    };
    if entries.len() < 2 {
        return problem("`order` needs at least two values");
    }
    let mut problems = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        if entry.is_array() || entry.is_object() || entry.is_null() {
            problems.push(("order", format!("`order` holds {entry}, which is not one value")));
        } else if entries.iter().take(index).any(|earlier| same_json(earlier, entry)) {
            problems.push(("order", format!("`order` lists {entry} twice")));
        }
    }
    problems
}
