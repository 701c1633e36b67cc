//! Inputs of computed results: their stamps, and whether they are still those the result was computed from (RULES 24).

use std::collections::BTreeMap;

use super::{PlanInput, Seen, units};
use crate::{
    entity::GroupName,
    path::{Path, Pattern, Segment, Tail},
    registry::{EntityRules, covers},
    snapshot::Snapshot,
    token::OperationId,
};

/// The present stamps of the inputs of fields: what a job carries from the moment it reads to the moment it saves.
/// An input that has no stamp is listed with `None`.
#[must_use]
pub fn input_stamps<'p>(
    rules: &EntityRules,
    snapshot: &Snapshot,
    fields: impl IntoIterator<Item = &'p Path>,
) -> BTreeMap<Path, Option<OperationId>> {
    let mut stamps = BTreeMap::new();
    for field in fields {
        for input in rules.inputs(field) {
            collect(rules, snapshot, &input, &mut stamps);
        }
    }
    stamps
}

fn collect(
    rules: &EntityRules,
    snapshot: &Snapshot,
    input: &Pattern,
    stamps: &mut BTreeMap<Path, Option<OperationId>>,
) {
    // A plain path names one unit, whether it has a stamp or not.
    if let Some(unit) = literal(input).and_then(|path| rules.lookup(&path).ok()) {
        let operation = snapshot.stamps.get(&unit.unit).map(|stamp| stamp.operation);
        stamps.insert(unit.unit.clone(), operation);
    }
    for (path, stamp) in &snapshot.stamps {
        if covers(input, path) {
            stamps.insert(path.clone(), Some(stamp.operation));
        }
    }
}

/// Groups whose results are computed from one of these units, each with the units that moved (RULES 26).
#[must_use]
pub fn requeues<'p>(
    rules: &EntityRules,
    changed: impl IntoIterator<Item = &'p Path>,
) -> BTreeMap<GroupName, Vec<Path>> {
    let computed: Vec<_> =
        rules.groups.values().filter(|group| !group.derived_from.is_empty()).collect();
    let mut moved: BTreeMap<GroupName, Vec<Path>> = BTreeMap::new();
    if computed.is_empty() {
        return moved;
    }
    for path in changed {
        for group in &computed {
            let hit = group.derived_from.iter().any(|input| {
                let named = || literal(input).and_then(|input| rules.lookup(&input).ok());
                covers(input, path) || named().is_some_and(|unit| unit.unit == *path)
            });
            if hit {
                moved.entry(group.name.clone()).or_default().push(path.clone());
            }
        }
    }
    moved
}

fn literal(pattern: &Pattern) -> Option<Path> {
    let keys = pattern.segments().iter().map(|segment| match segment {
        Segment::Key(key) => Some(key.clone()),
        Segment::Any | Segment::Prefix(_) => None,
    });
    let axes = pattern.axes().iter().map(|(axis, wanted)| match wanted {
        crate::path::AxisMatch::Exact(value) => Some((axis.clone(), value.clone())),
        crate::path::AxisMatch::Any | crate::path::AxisMatch::Prefix(_) => None,
    });
    let marker = match pattern.tail() {
        Tail::Marker(marker) => Some(marker),
        Tail::Node | Tail::Subtree => None,
    };
    Some(Path::from_parts(keys.collect::<Option<_>>()?, marker, axes.collect::<Option<_>>()?))
}

/// The inputs a written field depends on.
#[derive(Default)]
pub(super) struct Inputs {
    /// Their stamps as the result was computed from them.
    pub(super) computed_from: BTreeMap<Path, Option<OperationId>>,
    /// Those that changed since.
    pub(super) moved: Vec<Path>,
    /// Patterns that may cover further units later.
    pub(super) open: Vec<Pattern>,
}

/// Whether a pattern may cover a unit that nobody has written yet, beside the one it names.
fn is_open(rules: &EntityRules, input: &Pattern) -> bool {
    let named = literal(input).and_then(|path| rules.lookup(&path).ok());
    named.is_none_or(|unit| unit.inner || units::is_per_leaf(&unit))
}

pub(super) fn inputs_of(input: &PlanInput<'_>, field: &Path) -> Inputs {
    let now = input_stamps(input.rules, input.snapshot, [field]);
    let then = match (input.inputs, input.seen) {
        (Some(carried), _) => {
            let known = now.keys().map(|path| (path.clone(), carried.get(path).copied().flatten()));
            let mut then: BTreeMap<_, _> = known.collect();
            let patterns = input.rules.inputs(field);
            let gone = carried.iter().filter(|(path, _)| patterns.iter().any(|p| covers(p, path)));
            then.extend(gone.map(|(path, operation)| (path.clone(), *operation)));
            then
        }
        (None, Seen::Record(seen)) => {
            let mut then = input_stamps(input.rules, seen, [field]);
            for path in now.keys() {
                then.entry(path.clone()).or_insert(None);
            }
            then
        }
        (None, _) => now.clone(),
    };
    let stamp = |path: &Path| now.get(path).copied().flatten();
    let moved = then.iter().filter(|(path, operation)| stamp(path) != **operation);
    let moved = moved.map(|(path, _)| path.clone()).collect();
    let patterns = input.rules.inputs(field);
    let open = patterns.into_iter().filter(|pattern| is_open(input.rules, pattern)).collect();
    Inputs { computed_from: then, moved, open }
}
