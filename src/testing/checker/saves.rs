//! What each writer was told, against what is stored: C3, C8, C9, and conflicts that were none.

use std::collections::{BTreeMap, HashMap};

use crate::{
    entity::{EntityRef, WriterKind},
    path::Path,
    testing::checker::{Check, History, Save, Saves, Told, Verdict, chains::Chains, operation_of},
    token::{OperationId, VersionNumber},
};

/// What one operation left.
#[derive(Clone, Copy, Default)]
struct Left {
    effects: u32,
    versions: u32,
    operations: u32,
}

pub(super) fn check(
    history: &History,
    saves: &Saves<'_>,
    chains: &Chains<'_>,
    verdict: &mut Verdict,
) {
    let mut left: HashMap<OperationId, Left> = HashMap::new();
    for entry in &history.entries {
        let left = left.entry(entry.operation).or_default();
        left.effects += u32::from(!entry.changed.is_empty());
        left.versions += u32::from(entry.number.is_some());
        left.operations += u32::from(entry.number.is_none());
        if !saves.contains_key(&entry.operation) {
            verdict.found(Check::Effect, || {
                format!("{}: nobody sent {}", entry.entity, entry.operation)
            });
        }
    }
    let mut keys: HashMap<_, u32> = HashMap::new();
    for save in &history.saves {
        let operation = operation_of(save);
        let left = operation.and_then(|it| left.get(&it)).copied().unwrap_or_default();
        verdict.saves += u64::from(matches!(save.told, Told::Applied(_)));
        check_effect(save, left, verdict);
        if let (Some(key), true) = (&save.key, left.effects > 0) {
            let times = keys.entry((&save.entity, key)).or_default();
            *times += 1;
            if *times > 1 {
                verdict.found(Check::Key, || {
                    format!(
                        "{}: key `{}` took effect {times} times",
                        save.entity,
                        key.escape_debug()
                    )
                });
            }
        }
        check_conflicts(save, saves, chains, verdict);
    }
    check_numbers(history, verdict);
}

fn check_effect(save: &Save, left: Left, verdict: &mut Verdict) {
    let fits = match save.told {
        Told::Applied(_) => left.effects == 1,
        Told::Unknown(_) => left.effects <= 1,
        Told::Unchanged | Told::Refused { .. } => left.effects == 0,
    };
    if !fits {
        verdict.found(Check::Effect, || {
            let (writer, entity, told) = (&save.writer, &save.entity, &save.told);
            format!(
                "{entity}: {writer} was told {told:?}, and it took effect {} times",
                left.effects
            )
        });
    }
    let once = u32::from(left.effects > 0);
    let fits = match save.writer.kind {
        WriterKind::Editor => (left.versions, left.operations) == (once, 0),
        WriterKind::Worker => (left.versions, left.operations) == (0, once),
    };
    if !fits {
        verdict.found(Check::Trace, || {
            let Left { versions, operations, .. } = left;
            format!(
                "{}: a save of {} left {versions} versions and {operations} operation records",
                save.entity, save.writer
            )
        });
    }
}

/// A conflict is true when somebody else changed the path after the writer was shown it.
fn check_conflicts(save: &Save, saves: &Saves<'_>, chains: &Chains<'_>, verdict: &mut Verdict) {
    let Told::Refused { conflicts, .. } = &save.told else { return };
    // Backwards, up to the last write that had surely been shown.
    let by_another = |path: &Path| {
        let writes = chains.writers(&save.entity, path).iter().rev();
        let others = writes.filter_map(|operation| saves.get(operation));
        let mut unseen = others.take_while(|other| {
            !matches!(other.told, Told::Applied(_)) || other.returned >= save.read
        });
        unseen.any(|other| other.process != save.process && other.invoked <= save.returned)
    };
    for path in conflicts.iter().filter(|path| !by_another(path)) {
        verdict.found(Check::FalseConflict, || {
            format!(
                "{} {path}: {} was refused, but nobody else changed it",
                save.entity, save.writer
            )
        });
    }
}

/// C1 for history: numbers of a record's versions have no gap and come once.
fn check_numbers(history: &History, verdict: &mut Verdict) {
    let mut numbers: BTreeMap<&EntityRef, Vec<VersionNumber>> = BTreeMap::new();
    for entity in history.end.keys() {
        numbers.insert(entity, Vec::new());
    }
    for entry in &history.entries {
        numbers.entry(&entry.entity).or_default().extend(entry.number);
    }
    for (entity, mut numbers) in numbers {
        numbers.sort_unstable();
        let start = history.start.get(entity).map(|it| it.number).unwrap_or_default();
        let end = history.end.get(entity).map(|it| it.number).unwrap_or_default();
        let mut expected = start;
        for number in numbers {
            if number != expected.next() {
                verdict.found(Check::Sequence, || {
                    format!("{entity}: version number {number} follows {expected}")
                });
            }
            expected = number;
        }
        if end != expected {
            verdict.found(Check::Sequence, || {
                format!("{entity} counts {end} versions, but the newest is {expected}")
            });
        }
    }
}
