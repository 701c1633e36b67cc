//! Lints: it loads, but somebody should look.

use std::collections::BTreeSet;

use super::{
    Locking, Owner,
    buckets::Buckets,
    cover::{inside, keys_inside, overlap},
    extends::{Draft, Home},
    groups::Groups,
    raw::Enforcement,
    resolve::{Findings, Listed},
    shared::Known,
};
use crate::{
    diagnostic::Span,
    path::{Marker, Pattern, Segment, Tail},
};

/// Lints of a single entry: said even when other entries are faulty.
pub(crate) fn local(draft: &Draft<'_>, groups: &Groups, findings: &mut Findings) {
    for group in &draft.groups {
        if let Some(writers) = group.writers
            && writers.is_empty()
        {
            let message =
                format!("nobody may write the group `{}`: `writers` is empty", group.name.value);
            let help =
                "name a writer, or leave `writers` out to admit every one of the owner's kind";
            findings.warning("nobody_writes", group.name.span, message, help);
        }
    }
    if draft.faulty {
        return;
    }
    for group in &draft.groups {
        let default = groups.default.as_ref();
        if !group.has_fields
            && default.is_none_or(|default| default.name.as_str() != group.name.value)
        {
            let message = format!("the group `{}` has no fields", group.name.value);
            findings.error(
                "empty_group",
                group.name.span,
                message,
                "list its fields, or remove it",
            );
        }
    }
}

/// Lints about an entity type as a whole; only when it has no error.
pub(crate) fn whole(
    draft: &Draft<'_>,
    groups: &Groups,
    listed: &[Listed],
    buckets: &Buckets<'_, Listed>,
    findings: &mut Findings,
) {
    if groups.default.is_none() {
        structure_unowned(listed, findings);
        unknown_inputs(draft, listed, findings);
    }
    shadowed(draft, listed, buckets, findings);
    base_not_kept(draft, listed, findings);
    one_group(draft, groups, listed, findings);
}

/// Items (keys with rules below them) come and go only through `#keys`; somebody must own it.
fn structure_unowned(listed: &[Listed], findings: &mut Findings) {
    let mut reported = BTreeSet::new();
    for rule in listed {
        let pattern = &rule.rule.pattern;
        let segments = pattern.segments();
        for (depth, segment) in segments.iter().enumerate() {
            let last = depth + 1 == segments.len() && pattern.marker().is_none();
            if matches!(segment, Segment::Key(_)) || last {
                continue;
            }
            let above = segments.get(..depth).unwrap_or_default().to_vec();
            let keys = Pattern::from_parts(above, Tail::Marker(Marker::Keys), Vec::new());
            let owned = listed.iter().any(|other| keys_inside(&keys, &other.rule.pattern));
            if owned || !reported.insert(keys.clone()) {
                continue;
            }
            let message = format!("nobody may add or remove items: `{keys}` has no owner");
            let help = format!("list `{keys}` for the one who may");
            findings.warning("structure_unowned", rule.span, message, help);
        }
    }
}

/// An input that is in no rule: a slip, or a path of another entity type.
fn unknown_inputs(draft: &Draft<'_>, listed: &[Listed], findings: &mut Findings) {
    for input in draft.groups.iter().filter_map(|group| group.derived_from).flatten() {
        if listed.iter().any(|rule| overlap(&rule.rule.pattern, &input.value)) {
            continue;
        }
        let known = listed.iter().map(|rule| rule.rule.pattern.as_str());
        let help = super::suggest::nearest(input.value.as_str(), known).map_or_else(
            || "list it, or correct it".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        let message =
            format!("the input `{}` belongs to no rule of `{}`", input.value, draft.name.value);
        findings.warning("unknown_input", input.span, message, help);
    }
}

/// A rule that changes nothing: the next wider one says the same, or declared axis values leave it nothing.
fn shadowed(
    draft: &Draft<'_>,
    listed: &[Listed],
    buckets: &Buckets<'_, Listed>,
    findings: &mut Findings,
) {
    for rule in listed {
        let pattern = &rule.rule.pattern;
        let others = buckets.around(pattern).filter(|other| other.rule.order != rule.rule.order);
        let around: Vec<&Listed> =
            others.filter(|other| inside(pattern, &other.rule.pattern)).collect();
        if let Some(wider) = redundant(rule, &around) {
            let message =
                format!("`{pattern}` changes nothing: `{}` gives the same", wider.rule.pattern);
            findings.warning("shadowed", rule.span, message, "remove it");
        } else if let Some(axis) = used_up(draft, rule, listed) {
            let message =
                format!("`{pattern}` never applies: every value of `{axis}` has a rule of its own");
            findings.warning("shadowed", rule.span, message, "remove it");
        }
    }
}

/// Whether all rules next around one give the same outcome and the same units; a rule that settles a crossing has
/// rules of different outcomes around it.
fn redundant<'l>(rule: &Listed, around: &[&'l Listed]) -> Option<&'l Listed> {
    let own = &rule.rule.pattern;
    let axes =
        |pattern: &Pattern| pattern.axes().iter().map(|(axis, _)| axis.clone()).collect::<Vec<_>>();
    let same = |other: &Listed| {
        let wider = &other.rule.pattern;
        let leaves = own.tail() == Tail::Subtree && wider.tail() == Tail::Subtree;
        let node = own.tail() == wider.tail() && own.segments().len() == wider.segments().len();
        other.outcome == rule.outcome && (leaves || node) && axes(own) == axes(wider)
    };
    let mut next = around.iter().filter(|other| {
        !around.iter().any(|third| {
            let (third, other) = (&third.rule.pattern, &other.rule.pattern);
            inside(third, other) && !inside(other, third)
        })
    });
    let first = next.next().filter(|other| same(other))?;
    next.all(|other| same(other)).then_some(*first)
}

/// The axis whose declared values all have rules of their own, for the same keys and the same other axes.
fn used_up(draft: &Draft<'_>, rule: &Listed, listed: &[Listed]) -> Option<String> {
    use crate::path::AxisMatch;
    let pattern = &rule.rule.pattern;
    for axis in draft.axes.iter().flatten() {
        let Some(values) = axis.values.as_ref().filter(|values| !values.is_empty()) else {
            continue;
        };
        if pattern.axis(&axis.name.value) != Some(&AxisMatch::Any) {
            continue;
        }
        let taken = |value: &str| {
            let axes = pattern.axes().iter().map(|(name, wanted)| {
                let exact = **name == *axis.name.value;
                (name.clone(), if exact { AxisMatch::Exact(value.into()) } else { wanted.clone() })
            });
            let segments = pattern.segments().to_vec();
            let one = Pattern::from_parts(segments, pattern.tail(), axes.collect());
            listed.iter().any(|other| {
                other.rule.order != rule.rule.order
                    && inside(&one, &other.rule.pattern)
                    && inside(&other.rule.pattern, pattern)
            })
        };
        if values.iter().all(|value| taken(&value.value)) {
            return Some(axis.name.value.clone());
        }
    }
    None
}

/// A strategy that compares with what the form showed, where history keeps no values to compare with.
fn base_not_kept(draft: &Draft<'_>, listed: &[Listed], findings: &mut Findings) {
    let poor = |word: &str| matches!(word, "hash_only" | "none");
    for rule in &draft.rules {
        let Home::Shared(entry) = rule.home else { continue };
        let values = entry.history.values.as_ref().or(draft.history.values);
        let Some(values) = values.filter(|values| poor(&values.value)) else { continue };
        let made = listed.iter().find(|listed| listed.rule.pattern == rule.pattern.value);
        let Some(strategy) = made.and_then(|made| made.rule.strategy.as_ref()) else { continue };
        if strategy.strategy.needs_base() {
            let name = strategy.strategy.name();
            let message = format!(
                "`{name}` of `{}` needs the value a form showed, but `values: {}` does not keep it",
                rule.pattern.value, values.value
            );
            let help =
                "keep `values: full`, or expect a conflict whenever a client sends no `base`";
            let span = entry.strategy.as_ref().map_or(rule.pattern.span, |word| word.span);
            findings.warning("base_not_kept", span, message, help);
        }
    }
}

/// Every field behind one lease: then it is a lock on the record.
fn one_group(draft: &Draft<'_>, groups: &Groups, listed: &[Listed], findings: &mut Findings) {
    let mut used = groups.by_name.values();
    let (Some(only), None) = (used.next(), used.next()) else { return };
    if only.locking != Locking::Lease || only.owner == Owner::Deny || listed.len() < 2 {
        return;
    }
    if !only.split_by.is_empty() {
        return;
    }
    let message = format!("every field of `{}` is in the group `{}`", draft.name.value, only.name);
    let help = "its writers all wait for one another: give fields that change for different reasons groups of their own";
    findings.warning("one_group", draft.name.span, message, help);
}

/// What is read and checked, but has no effect in this version: one warning each, and their names.
pub(crate) fn not_yet(
    draft: &Draft<'_>,
    known: &Known<'_>,
    findings: &mut Findings,
) -> Vec<String> {
    let mut found: Vec<(Span, String)> = Vec::new();
    if let Some(enforcement) = draft.enforcement {
        match enforcement.value {
            Enforcement::Observe => {
                found.push((enforcement.span, "enforcement: observe".to_owned()))
            }
            Enforcement::Warn => found.push((enforcement.span, "enforcement: warn".to_owned())),
            Enforcement::Enforce => {}
        }
    }
    if let Some(values) = draft.history.values.filter(|values| values.value != "full") {
        found.push((values.span, format!("history.values: {}", values.value)));
    }
    for group in &draft.groups {
        if let Some(word) = group.history.first() {
            found.push((word.span, format!("history of the group `{}`", group.name.value)));
        }
    }
    for rule in &draft.rules {
        let Home::Shared(entry) = rule.home else { continue };
        let pattern = &entry.pattern.value;
        if let Some(word) = entry.strategy.as_ref().filter(|word| known.is_later(&word.value)) {
            found.push((word.span, format!("strategy `{}` of `{pattern}`", word.value)));
        }
        let history = &entry.history;
        if let Some(word) =
            history.values.as_ref().or(history.editor.as_ref()).or(history.worker.as_ref())
        {
            found.push((word.span, format!("history of `{pattern}`")));
        }
    }
    let coupled = draft.coupled.iter().map(|set| (set.span, "coupled".to_owned()));
    found.extend(coupled);
    found.extend(draft.select.map(|select| (select.span, "select".to_owned())));
    for (span, what) in &found {
        let message = format!("{what} is read and checked, but has no effect in this version yet");
        let help = format!(
            "saves of `{}` are refused until it has, or until it is removed",
            draft.name.value
        );
        findings.warning("not_yet", *span, message, help);
    }
    let mut names: Vec<String> = found.into_iter().map(|(_, what)| what).collect();
    names.sort();
    names.dedup();
    names
}
