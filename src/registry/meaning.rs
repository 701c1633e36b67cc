//! Checks that need more than one entry: axes against their declaration, split groups, coupled paths.

use std::sync::Arc;

use super::{
    cover::inside,
    extends::{Draft, RuleDraft},
    groups::Groups,
    places,
    raw::RawAxis,
    resolve::{Findings, Listed},
    suggest::or_known,
};
use crate::{
    diagnostic::{Span, Spanned},
    path::{AxisMatch, Pattern, Segment, Tail},
};

/// Checks a draft against its own declarations.
pub(crate) fn check(
    draft: &Draft<'_>,
    groups: &Groups,
    listed: &[Listed],
    findings: &mut Findings,
) {
    if let Some(axes) = &draft.axes {
        declared_axes(draft, axes, findings);
    }
    split_axes(draft, groups, findings);
    coupled(draft, groups, listed, findings);
    collections(draft, findings);
    places::check(draft, listed, findings);
}

/// With `axes` declared, every axis and every literal value must be one of them.
fn declared_axes(draft: &Draft<'_>, axes: &[&RawAxis], findings: &mut Findings) {
    let fields = draft.rules.iter().map(|rule: &RuleDraft<'_>| rule.pattern);
    let inputs = draft.groups.iter().filter_map(|group| group.derived_from).flatten();
    let coupled = draft.coupled.iter().flat_map(|set| &set.value);
    let lists = draft.collections.iter().map(|(pattern, _)| *pattern);
    let places = draft.places.iter().map(|(pattern, _)| pattern);
    for pattern in fields.chain(inputs).chain(coupled).chain(lists).chain(places) {
        for (name, value) in pattern.value.axes() {
            let Some(axis) = axes.iter().find(|axis| *axis.name.value == **name) else {
                let span = axis_span(pattern, name);
                unknown_axis(name, span, axes, findings);
                continue;
            };
            if let (AxisMatch::Exact(value), Some(values)) = (value, &axis.values)
                && !values.iter().any(|known| *known.value == **value)
            {
                let known = values.iter().map(|value| value.value.as_str());
                let message = format!("`{value}` is not a value of the axis `{name}`");
                let span = axis_span(pattern, name);
                findings.error("unknown_axis_value", span, message, or_known(value, known));
            }
        }
    }
    for axis in draft.groups.iter().filter_map(|group| group.split_by).flatten() {
        if axes.iter().all(|known| known.name.value != axis.value) {
            unknown_axis(&axis.value, axis.span, axes, findings);
        }
    }
}

fn unknown_axis(name: &str, span: Span, axes: &[&RawAxis], findings: &mut Findings) {
    let known = axes.iter().map(|axis| axis.name.value.as_str());
    let message = format!("the axis `{name}` is not declared in `axes`");
    findings.error("unknown_axis", span, message, or_known(name, known));
}

/// The separator and name of an axis inside a pattern. Where YAML escapes stand in between, the whole pattern.
fn axis_span(pattern: &Spanned<Pattern>, axis: &str) -> Span {
    let span = pattern.span;
    let Some(at) = pattern.value.axis_at(axis) else { return span };
    let chars = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    let quotes = match span.length.checked_sub(chars(pattern.value.as_str())) {
        Some(0) => 0,
        Some(2) => 1,
        _ => return span,
    };
    let column = span.column.saturating_add(u32::from(at)).saturating_add(quotes);
    Span { line: span.line, column, length: chars(axis).saturating_add(1) }
}

/// Every field of a split group names every axis it is split by.
fn split_axes(draft: &Draft<'_>, groups: &Groups, findings: &mut Findings) {
    for rule in &draft.rules {
        let Some(group) = groups.of(rule.home) else { continue };
        let pattern = &rule.pattern.value;
        let missing: Vec<&str> = group
            .split_by
            .iter()
            .filter(|axis| pattern.axis(axis).is_none())
            .map(|axis| &**axis)
            .collect();
        if missing.is_empty() {
            continue;
        }
        let axes = missing.join("`, `");
        let message =
            format!("`{}` is split by `{axes}`, but `{pattern}` does not name it", group.name);
        let joint = if pattern.axes().is_empty() { '@' } else { '+' };
        let help = format!(
            "write `{pattern}{joint}{}`, or move the field to a group that is not split",
            missing.join("+")
        );
        findings.error("split_axis_missing", rule.pattern.span, message, help);
    }
}

/// Members of a coupled set are bound to the same keys and values, and share owner, group and strategy.
fn coupled(draft: &Draft<'_>, groups: &Groups, listed: &[Listed], findings: &mut Findings) {
    for set in &draft.coupled {
        let Some((first, others)) = set.value.split_first() else {
            findings.error(
                "coupled_binding",
                set.span,
                "a coupled set is empty",
                "name at least two paths",
            );
            continue;
        };
        if others.is_empty() {
            let message = format!("`{}` is coupled with nothing", first.value);
            findings.error("coupled_binding", set.span, message, "name at least two paths");
            continue;
        }
        let bound = binding(&first.value);
        let mut sound = true;
        if let Some(again) = twice(&set.value) {
            let message = format!("`{}` is coupled with itself", again.value);
            findings.error("coupled_binding", again.span, message, "name every path once");
            sound = false;
        }
        for other in others {
            if binding(&other.value) != bound {
                let message = format!(
                    "`{}` and `{}` do not name the same wildcards and axes",
                    first.value, other.value
                );
                let help = "coupled paths are bound to the same keys and values: each names the same stars and axes, in one order";
                findings.note(
                    "coupled_binding",
                    other.span,
                    message,
                    help,
                    (first.span, "the first member".to_owned()),
                );
                sound = false;
            }
        }
        if sound && !draft.faulty {
            one_outcome(first, others, groups, listed, findings);
        }
    }
}

/// The first path of a set that stood there before.
fn twice(set: &[Spanned<Pattern>]) -> Option<&Spanned<Pattern>> {
    let before = |index: usize| set.get(..index).unwrap_or_default();
    let mut again = set.iter().enumerate();
    again.find(|(index, path)| before(*index).iter().any(|p| p.value == path.value)).map(|(_, p)| p)
}

/// The wildcards in their order, and the axes.
fn binding(pattern: &Pattern) -> Binding<'_> {
    let stars = pattern.segments().iter().filter(|s| !matches!(s, Segment::Key(_)));
    Binding {
        stars: stars.collect(),
        leaves: pattern.tail() == Tail::Subtree,
        axes: pattern.axes(),
    }
}

/// What ties a pattern to keys and axis values.
#[derive(PartialEq)]
struct Binding<'p> {
    stars: Vec<&'p Segment>,
    leaves: bool,
    axes: &'p [(Box<str>, AxisMatch)],
}

fn one_outcome(
    first: &Spanned<Pattern>,
    others: &[Spanned<Pattern>],
    groups: &Groups,
    listed: &[Listed],
    findings: &mut Findings,
) {
    let usual = outcome(&first.value, groups, listed);
    for member in [first].into_iter().chain(others) {
        let own = outcome(&member.value, groups, listed);
        if own.outcome != usual.outcome {
            let message = format!(
                "`{}` is {}, but `{}` is {}",
                member.value, own.whose, first.value, usual.whose
            );
            let help = "coupled paths have one owner, one group and one strategy";
            findings.note(
                "coupled_split",
                member.span,
                message,
                help,
                (first.span, "coupled with this".to_owned()),
            );
        } else if let Some(part) = listed.iter().find(|rule| {
            Some(rule.outcome) != own.outcome
                && inside(&rule.rule.pattern, &member.value)
                && rule.rule.pattern != member.value
        }) {
            let message = format!(
                "part of `{}`, `{}`, is {}",
                member.value, part.rule.pattern, part.rule.group
            );
            let help = "coupled paths have one owner, one group and one strategy";
            findings.note(
                "coupled_split",
                member.span,
                message,
                help,
                (part.span, "listed here".to_owned()),
            );
        }
    }
}

struct Outcome {
    outcome: Option<u32>,
    whose: String,
}

/// The outcome of the most specific rule that contains a pattern, else the default owner's.
fn outcome(pattern: &Pattern, groups: &Groups, listed: &[Listed]) -> Outcome {
    let around = listed.iter().filter(|rule| inside(pattern, &rule.rule.pattern));
    if let Some(rule) = around.max_by_key(|rule| rule.rule.weight) {
        let strategy = rule.rule.strategy.as_ref();
        let by = strategy.map(|s| format!(" by `{}`", s.strategy.name())).unwrap_or_default();
        return Outcome { outcome: Some(rule.outcome), whose: format!("{}{by}", rule.rule.group) };
    }
    let Some(default) = &groups.default else {
        return Outcome { outcome: None, whose: "not listed".to_owned() };
    };
    let same = listed.iter().find(|rule| Arc::ptr_eq(&rule.rule.group, default));
    Outcome {
        outcome: Some(same.map_or(u32::MAX, |rule| rule.outcome)),
        whose: format!("{default} by default"),
    }
}

/// A collection names lists, not leaves or structure.
fn collections(draft: &Draft<'_>, findings: &mut Findings) {
    for (pattern, _) in &draft.collections {
        if pattern.value.tail() != Tail::Node {
            let message = format!("`{}` is not the path of a list", pattern.value);
            let help = "a collection is named by the list itself: `gallery: uid`";
            findings.error("collection_path", pattern.span, message, help);
        }
    }
}
