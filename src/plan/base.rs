//! What the writer had been shown: the base of every unit, found in the order of RULES 9.

use std::{borrow::Cow, collections::BTreeMap};

use super::{Decision, Intent, Mode, Plan, PlanInput, Seen, expand::expand, units, walk::Walk};
use crate::{
    entity::{Change, Value},
    path::Path,
    registry::Resolved,
    scope::ScopeName,
    snapshot::Stamp,
    token::ScopeVersion,
};

/// A base only the history knows: the value the unit had when its scope stood at `version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingBase {
    /// The unit.
    pub path: Path,
    /// Its scope.
    pub scope: ScopeName,
    /// The scope version the form had seen.
    pub version: ScopeVersion,
}

/// What is known about the base of a unit.
#[derive(Clone, Debug)]
pub(super) enum Base<'a> {
    /// It is this value.
    Known(Cow<'a, Value>),
    /// It is the stored value: nobody changed it since.
    Stored,
    /// Nobody knows.
    Unknown,
    /// The history has to be asked.
    Ask(MissingBase),
}

impl<'a> Base<'a> {
    /// The value, `theirs` being the stored one; `None` when it is not known.
    pub(super) fn value<'v>(&'v self, theirs: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Known(value) => Some(value),
            Self::Stored => Some(theirs),
            Self::Unknown | Self::Ask(_) => None,
        }
    }

    /// The same as a value of its own.
    pub(super) fn into_value(self, theirs: &Value) -> Option<Value> {
        match self {
            Self::Known(value) => Some(value.into_owned()),
            Self::Stored => Some(theirs.clone()),
            Self::Unknown | Self::Ask(_) => None,
        }
    }

    /// The base of a unit, `stamp` being its present one.
    pub(super) fn find(
        input: &PlanInput<'a>,
        resolved: &Resolved,
        stamp: Option<&Stamp>,
        sent: Option<&Cow<'a, Value>>,
    ) -> Self {
        if let Some(sent) = sent {
            return Self::Known(sent.clone());
        }
        if input.intent == Intent::Create || matches!(input.mode, Mode::Apply { .. }) {
            return Self::Stored;
        }
        let unit = &resolved.unit;
        match input.seen {
            Seen::Record(seen) => match (stamp, seen.stamps.get(unit)) {
                (Some(now), Some(then)) if now.operation == then.operation => Self::Stored,
                _ => Self::Known(Cow::Owned(units::value_of(&seen.record, unit, input.rules))),
            },
            Seen::Token(token) => {
                let (Some(stamp), scope) = (stamp, resolved.scope.as_ref()) else {
                    return Self::Stored;
                };
                let version =
                    scope.and_then(|scope| token.versions.get(scope)).copied().unwrap_or_default();
                match scope {
                    Some(scope) if *scope == stamp.scope => {
                        if stamp.version <= version {
                            return Self::Stored;
                        }
                        Self::fetched(input, unit, scope, version)
                    }
                    // It has moved to another scope since: the history's order says nothing about this token.
                    _ => Self::Unknown,
                }
            }
            // Where nothing is and nothing was, there was nothing to be seen.
            Seen::Nothing if stamp.is_none() && input.snapshot.record.get(unit).is_absent() => {
                Self::Stored
            }
            Seen::Nothing => Self::Unknown,
        }
    }

    fn fetched(
        input: &PlanInput<'a>,
        unit: &Path,
        scope: &ScopeName,
        version: ScopeVersion,
    ) -> Self {
        match input.fetched_bases.get(unit) {
            Some(Some(value)) => Self::Known(Cow::Borrowed(value)),
            Some(None) => Self::Unknown,
            None => Self::Ask(MissingBase { path: unit.clone(), scope: scope.clone(), version }),
        }
    }
}

/// Bases to ask the history for before planning, because their units moved since the form was loaded.
/// Put the answers into [`PlanInput::fetched_bases`], `None` for those it no longer knows, and plan.
#[must_use]
pub fn needed_bases(input: &PlanInput<'_>) -> Vec<MissingBase> {
    if !matches!(input.seen, Seen::Token(_)) || input.intent != Intent::Update {
        return Vec::new();
    }
    let mut missing = Vec::new();
    let mut ask = |base: Base<'_>| {
        if let Base::Ask(base) = base
            && !missing.contains(&base)
        {
            missing.push(base);
        }
    };
    let expanded = expand(input);
    let mut stored = Walk::new(input.snapshot.record.leaves());
    let mut stamps = Walk::new(&input.snapshot.stamps);
    for asked in &expanded.asked {
        let unit = asked.unit();
        if asked.is_as_stored(input, stored.find(unit)) {
            continue;
        }
        ask(asked.base(input, stamps.find(unit)));
        for keys in super::items::structure_above(input, unit) {
            let stamp = input.snapshot.stamps.get(&keys.resolved.unit);
            ask(Base::find(input, &keys.resolved, stamp, None));
        }
    }
    missing
}

/// Whether the writer has seen what this stamp says.
pub(super) fn is_seen(input: &PlanInput<'_>, path: &Path, stamp: &Stamp) -> bool {
    match input.seen {
        Seen::Nothing => true,
        Seen::Record(seen) => {
            seen.stamps.get(path).is_some_and(|then| then.operation == stamp.operation)
        }
        Seen::Token(token) => {
            token.versions.get(&stamp.scope).is_some_and(|version| stamp.version <= *version)
        }
    }
}

/// Units whose value is not the one the writer shows now: changed by others since it looked, merged, or kept. An
/// answer that gives the next token must carry them, because that token says that they have been seen.
#[must_use]
pub fn news(input: &PlanInput<'_>, plan: &Plan) -> BTreeMap<Path, Value> {
    let mut news = BTreeMap::new();
    for (path, stamp) in &input.snapshot.stamps {
        if !is_seen(input, path, stamp) {
            news.insert(path.clone(), units::value_of(&input.snapshot.record, path, input.rules));
        }
    }
    let applied = plan.verdict == super::Verdict::Apply;
    for decided in &plan.decisions {
        match &decided.decision {
            Decision::Write(_) if applied && decided.path.marker().is_none() => {
                news.remove(&decided.path);
            }
            Decision::Merge { ours, written, .. } if applied => {
                let as_asked = matches!(ours, Change::Set(json) if written.new.same(&Value::Present(json.clone())));
                if as_asked {
                    news.remove(&decided.path);
                } else {
                    news.insert(decided.path.clone(), written.new.clone());
                }
            }
            Decision::Kept { theirs, .. } => {
                news.insert(decided.path.clone(), theirs.clone());
            }
            _ => {}
        }
    }
    news
}
