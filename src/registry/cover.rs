//! What patterns cover: which paths, which other patterns, and where two of them meet.
//!
//! Everything follows from one definition: a pattern covers the paths whose keys it matches one by one, all that lies
//! below them, and of these the ones that have a matching value for every axis it names.

use crate::path::{AxisMatch, Marker, Path, Pattern, Segment, Tail};

/// How specific a pattern is (at most 32 keys, 8 axes and 1,024 bytes). Compared field by field; a pattern strictly inside another always weighs more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Weight {
    pub(crate) keys: KeyWeight,
    axes_named: u16,
    axes_fixed: u16,
    axis_prefixes: u16,
}

/// The part of the weight that the keys give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyWeight {
    depth: u16,
    literals: u16,
    prefixes: u16,
}

/// One step of a pattern with the marker as a step of its own.
#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Prefix(&'a str),
    Any,
    Marker(Marker),
}

fn steps(pattern: &Pattern) -> impl ExactSizeIterator<Item = Step<'_>> {
    let marker = pattern.marker();
    let segments = pattern.segments();
    let count = segments.len() + usize::from(marker.is_some());
    (0..count).map(move |index| match (segments.get(index), marker) {
        (Some(Segment::Key(key)), _) => Step::Key(key),
        (Some(Segment::Prefix(prefix)), _) => Step::Prefix(prefix),
        (Some(Segment::Any), _) | (None, None) => Step::Any,
        (None, Some(marker)) => Step::Marker(marker),
    })
}

/// The weight of a pattern (GRAMMAR, "Which rule wins"); a trailing `**` counts nothing.
pub(crate) fn weight(pattern: &Pattern) -> Weight {
    let mut weight = Weight::default();
    for step in steps(pattern) {
        weight.keys.depth += 1;
        match step {
            Step::Key(_) | Step::Marker(_) => weight.keys.literals += 1,
            Step::Prefix(prefix) => weight.keys.prefixes += length(prefix),
            Step::Any => {}
        }
    }
    for (_, value) in pattern.axes() {
        weight.axes_named += 1;
        match value {
            AxisMatch::Exact(_) => weight.axes_fixed += 1,
            AxisMatch::Prefix(prefix) => weight.axis_prefixes += length(prefix),
            AxisMatch::Any => {}
        }
    }
    weight
}

/// Bytes of a prefix. All of a pattern is at most 1,024 bytes long, so sums stay far below the limit.
fn length(prefix: &str) -> u16 {
    u16::try_from(prefix.len()).unwrap_or(u16::MAX / 64)
}

/// Whether a pattern covers a path: the path lies at or below it.
#[must_use]
pub fn covers(pattern: &Pattern, path: &Path) -> bool {
    covers_keys(pattern, path)
        && pattern
            .axes()
            .iter()
            .all(|(axis, wanted)| path.axis(axis).is_some_and(|value| takes(wanted, value)))
}

fn covers_keys(pattern: &Pattern, path: &Path) -> bool {
    let keys = path.keys();
    steps(pattern).enumerate().all(|(index, step)| match (step, keys.get(index)) {
        (Step::Key(wanted), Some(key)) => *wanted == **key,
        (Step::Prefix(prefix), Some(key)) => key.starts_with(prefix),
        (Step::Any, Some(_)) => true,
        (Step::Marker(wanted), None) => index == keys.len() && path.marker() == Some(wanted),
        _ => false,
    })
}

/// Whether an axis value is one of those a pattern takes.
#[must_use]
pub fn takes(wanted: &AxisMatch, value: &str) -> bool {
    match wanted {
        AxisMatch::Exact(exact) => **exact == *value,
        AxisMatch::Prefix(prefix) => value.starts_with(&**prefix),
        AxisMatch::Any => true,
    }
}

/// Whether every path of `p` is a path of `q`.
#[must_use]
pub fn inside(p: &Pattern, q: &Pattern) -> bool {
    keys_inside(p, q)
        && q.axes()
            .iter()
            .all(|(axis, wide)| p.axis(axis).is_some_and(|own| axis_inside(own, wide)))
}

/// [`inside`] without a look at axes.
pub(crate) fn keys_inside(p: &Pattern, q: &Pattern) -> bool {
    let (p, q) = (steps(p), steps(q));
    q.len() <= p.len() && p.zip(q).all(|(p, q)| step_inside(p, q))
}

fn step_inside(p: Step<'_>, q: Step<'_>) -> bool {
    match (p, q) {
        (Step::Key(p), Step::Key(q)) => p == q,
        (Step::Key(p) | Step::Prefix(p), Step::Prefix(q)) => p.starts_with(q),
        (Step::Key(_) | Step::Prefix(_) | Step::Any, Step::Any) => true,
        (Step::Marker(p), Step::Marker(q)) => p == q,
        _ => false,
    }
}

fn axis_inside(p: &AxisMatch, q: &AxisMatch) -> bool {
    match (p, q) {
        (_, AxisMatch::Any) => true,
        (AxisMatch::Exact(p), AxisMatch::Exact(q)) => p == q,
        (AxisMatch::Exact(p) | AxisMatch::Prefix(p), AxisMatch::Prefix(q)) => p.starts_with(&**q),
        _ => false,
    }
}

/// Whether two patterns cover the same paths: equal but for a trailing `**`.
pub(crate) fn same_fields(p: &Pattern, q: &Pattern) -> bool {
    p == q || (p.segments() == q.segments() && p.marker() == q.marker() && p.axes() == q.axes())
}

/// The paths both cover, which is always one pattern; `None` when there is none.
#[must_use]
pub fn meet(p: &Pattern, q: &Pattern) -> Option<Pattern> {
    let (mut left, mut right) = (steps(p), steps(q));
    let mut segments = Vec::new();
    let mut tail = Tail::Node;
    loop {
        let step = match (left.next(), right.next()) {
            (None, None) => break,
            // Nothing lies below a marker.
            (Some(_), None) | (None, Some(_)) if tail != Tail::Node => return None,
            (Some(step), None) | (None, Some(step)) => step,
            (Some(a), Some(b)) => meet_steps(a, b)?,
        };
        match step {
            Step::Key(key) => segments.push(Segment::Key(key.into())),
            Step::Prefix(prefix) => segments.push(Segment::Prefix(prefix.into())),
            Step::Any => segments.push(Segment::Any),
            Step::Marker(marker) => tail = Tail::Marker(marker),
        }
    }
    let mut axes = Vec::new();
    for (axis, own) in p.axes() {
        let value = match q.axis(axis) {
            Some(other) => narrower_axis(own, other)?,
            None => own,
        };
        axes.push((axis.clone(), value.clone()));
    }
    axes.extend(q.axes().iter().filter(|(axis, _)| p.axis(axis).is_none()).cloned());
    Some(Pattern::from_parts(segments, tail, axes))
}

/// Whether two patterns cover a path in common; [`meet`] without building it.
pub(crate) fn overlap(p: &Pattern, q: &Pattern) -> bool {
    let (mut left, mut right) = (steps(p), steps(q));
    let mut marked = false;
    loop {
        match (left.next(), right.next()) {
            (None, None) => break,
            (Some(_), None) | (None, Some(_)) => {
                if marked {
                    return false;
                }
            }
            (Some(a), Some(b)) => {
                if meet_steps(a, b).is_none() {
                    return false;
                }
                marked = matches!(a, Step::Marker(_));
            }
        }
    }
    p.axes()
        .iter()
        .all(|(axis, own)| q.axis(axis).is_none_or(|other| narrower_axis(own, other).is_some()))
}

fn meet_steps<'a>(a: Step<'a>, b: Step<'a>) -> Option<Step<'a>> {
    if step_inside(a, b) {
        Some(a)
    } else if step_inside(b, a) {
        Some(b)
    } else {
        None
    }
}

fn narrower_axis<'a>(a: &'a AxisMatch, b: &'a AxisMatch) -> Option<&'a AxisMatch> {
    if axis_inside(a, b) {
        Some(a)
    } else if axis_inside(b, a) {
        Some(b)
    } else {
        None
    }
}

/// Whether a path stands at or above some place a pattern covers, by its keys and by the axes both name.
pub(crate) fn above(pattern: &Pattern, path: &Path) -> bool {
    let mut steps = steps(pattern);
    let keys = path.keys().iter().all(|key| match steps.next() {
        Some(Step::Key(wanted)) => *wanted == **key,
        Some(Step::Prefix(prefix)) => key.starts_with(prefix),
        Some(Step::Any) => true,
        Some(Step::Marker(_)) | None => false,
    });
    let axes = pattern.axes();
    keys && axes
        .iter()
        .all(|(axis, wanted)| path.axis(axis).is_none_or(|value| takes(wanted, value)))
}
