//! Crossings: two rules that overlap, neither inside the other, with different outcomes.
//!
//! A path in the overlap is matched by both, and nobody can say by counting which one was meant. A third rule that
//! contains the overlap and lies inside both settles it. The test is exact: among the rules that contain the meet,
//! do the innermost disagree?

use std::collections::BTreeSet;

use super::{
    Rule,
    buckets::Buckets,
    cover::{inside, meet, overlap},
    resolve::{Findings, Listed},
};
use crate::path::{Pattern, Tail};

/// Most crossings reported for one entity type; that there are more is said once.
const REPORTED_MAX: usize = 100;

/// Reports every crossing that nothing settles. Answers the pairs of rules with one outcome between which only their
/// order in the file decides what is one value: they are part of the hash.
pub(crate) fn check(
    buckets: &Buckets<'_, Listed>,
    findings: &mut Findings,
) -> Vec<(Pattern, Pattern)> {
    let mut ties = Vec::new();
    let mut reported: BTreeSet<Pattern> = BTreeSet::new();
    let mut full = false;
    buckets.pairs(|a, b| {
        if a.outcome == b.outcome {
            if decided_by_order(&a.rule, &b.rule) {
                let (first, second) = if a.rule.order < b.rule.order { (a, b) } else { (b, a) };
                ties.push((first.rule.pattern.clone(), second.rule.pattern.clone()));
            }
            return;
        }
        if full || !crosses(&a.rule.pattern, &b.rule.pattern) {
            return;
        }
        let Some(both) = meet(&a.rule.pattern, &b.rule.pattern) else { return };
        if settled(buckets, a, b, &both) || !reported.insert(both.clone()) {
            return;
        }
        full = reported.len() > REPORTED_MAX;
        if full {
            let message = format!("more than {REPORTED_MAX} crossings: the others are not listed");
            let help = "settle these first; one wide rule is often behind all of them";
            findings.error("too_many_problems", a.span.max(b.span), message, help);
        } else {
            report(a, b, &both, findings);
        }
    });
    ties
}

/// Whether two patterns overlap with neither inside the other.
pub(crate) fn crosses(p: &Pattern, q: &Pattern) -> bool {
    overlap(p, q) && !inside(p, q) && !inside(q, p)
}

/// Whether one of two crossing rules is not innermost at their meet: then other pairs tell the whole story.
fn settled(buckets: &Buckets<'_, Listed>, a: &Listed, b: &Listed, both: &Pattern) -> bool {
    let around = buckets.around(both).filter(|rule| inside(both, &rule.rule.pattern));
    let mut beaten = (false, false);
    for third in around {
        let pattern = &third.rule.pattern;
        beaten.0 |= strictly_inside(pattern, &a.rule.pattern);
        beaten.1 |= strictly_inside(pattern, &b.rule.pattern);
    }
    beaten.0 || beaten.1
}

fn strictly_inside(p: &Pattern, q: &Pattern) -> bool {
    inside(p, q) && !inside(q, p)
}

fn decided_by_order(a: &Rule, b: &Rule) -> bool {
    let subtree = |rule: &Rule| rule.pattern.tail() == Tail::Subtree;
    subtree(a) != subtree(b) && a.weight == b.weight && crosses(&a.pattern, &b.pattern)
}

fn report(a: &Listed, b: &Listed, both: &Pattern, findings: &mut Findings) {
    let (first, second) = if a.span <= b.span { (a, b) } else { (b, a) };
    let message = format!(
        "`{}` ({}) and `{}` ({}) both match `{both}`: add `{both}` to the one that owns it",
        first.rule.pattern, first.rule.group, second.rule.pattern, second.rule.group,
    );
    let help = "neither lies inside the other, so nothing says which one is meant";
    let note = (first.span, format!("the other rule, {}", first.rule.group));
    findings.note("ambiguous", second.span, message, help, note);
}
