//! A plan as stable JSON: the dry run, the body of a refusal and the audit record are this one form.
//!
//! A value that is absent has no key; `null` is a value. A base nobody knows is `"base_known": false`. Keys stand in
//! the order of their letters.

mod text;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value as Json;

use super::{Conflict, Decided, Decision, DenyRule, Plan, Verdict, Written};
use crate::{
    entity::{Change, Value},
    path::Path,
    registry::{Locking, Owner},
    snapshot::Stamp,
};

pub use self::text::report_text;

/// The plan as JSON. Paths come in path order.
#[must_use]
pub fn report_json(plan: &Plan) -> Json {
    // Every key is a text, so nothing can fail.
    serde_json::to_value(plan).unwrap_or_default()
}

/// The report, written straight to where it goes: what [`report_json`] answers, without the tree in between.
impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let applied = self.verdict == Verdict::Apply;
        let (verdict, refusal) = match &self.verdict {
            Verdict::Apply => ("apply", None),
            Verdict::Nothing => ("nothing", None),
            Verdict::Refuse { code, message } => ("refuse", Some((code, message))),
        };
        let mut map = serializer.serialize_map(None)?;
        put(&mut map, "code", refusal.map(|(code, _)| code))?;
        map.serialize_entry("entity", &self.entity)?;
        put(&mut map, "inputs", Some(&self.inputs).filter(|inputs| applied && !inputs.is_empty()))?;
        map.serialize_entry("intent", &self.intent)?;
        if applied {
            map.serialize_entry("leased", &Scopes(self, Some(Locking::Lease)))?;
        }
        put(&mut map, "message", refusal.map(|(_, text)| text).filter(|text| !text.is_empty()))?;
        map.serialize_entry("paths", &self.decisions)?;
        let removed = Some(&self.removed_items);
        put(&mut map, "removed_items", removed.filter(|items| applied && !items.is_empty()))?;
        if applied {
            map.serialize_entry("scopes", &Scopes(self, None))?;
        }
        map.serialize_entry("verdict", verdict)?;
        map.serialize_entry("writer", &self.writer)?;
        map.end()
    }
}

/// Scopes a plan writes, all or those kept apart in one way.
struct Scopes<'a>(&'a Plan, Option<Locking>);

impl Serialize for Scopes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let scopes = self.0.written.iter();
        let scopes = scopes.filter(|(_, locking)| self.1.is_none_or(|only| only == **locking));
        serializer.collect_seq(scopes.map(|(scope, _)| scope))
    }
}

/// What there is to say about one decision.
#[derive(Default)]
struct Told<'a> {
    at: &'a [String],
    /// The base, and whether it is known.
    base: Option<Option<&'a Value>>,
    inputs: Option<&'a [Path]>,
    message: Option<&'a str>,
    ours: Option<&'a Change>,
    owner: Option<Owner>,
    parent: Option<&'a Path>,
    rule: Option<&'a str>,
    denied: Option<DenyRule>,
    since: Option<&'a Stamp>,
    strategy: Option<&'a str>,
    theirs: Option<&'a Value>,
    written: Option<&'a Written>,
}

impl<'a> Told<'a> {
    fn of(decision: &'a Decision) -> Self {
        let told = Self { written: decision.written(), ..Self::default() };
        match decision {
            Decision::Unchanged | Decision::Write(_) => told,
            Decision::Merge { strategy, base, ours, .. } => Self {
                strategy: Some(strategy),
                base: Some(base.as_ref()),
                ours: Some(ours),
                ..told
            },
            Decision::Kept { strategy, rule, theirs } => {
                Self { strategy: Some(strategy), rule: Some(rule), theirs: Some(theirs), ..told }
            }
            Decision::Denied { owner, rule } => {
                Self { owner: Some(*owner), denied: Some(*rule), ..told }
            }
            Decision::Conflict(conflict) => Self::conflict(conflict),
            Decision::StaleInput { inputs } => Self { inputs: Some(inputs), ..told },
            Decision::ParentGone { parent } => Self { parent: Some(parent), ..told },
            Decision::Invalid { code, message, .. } => {
                Self { rule: Some(code), message: Some(message), ..told }
            }
        }
    }

    fn conflict(conflict: &'a Conflict) -> Self {
        let inside = conflict.at.iter().any(|at| !at.is_empty());
        Self {
            at: if inside { &conflict.at } else { &[] },
            base: Some(conflict.base.as_ref()),
            ours: Some(&conflict.ours),
            rule: Some(conflict.rule),
            since: conflict.since.as_ref(),
            strategy: conflict.strategy.as_deref(),
            theirs: Some(&conflict.theirs),
            ..Self::default()
        }
    }
}

impl Serialize for Decided {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let told = Told::of(&self.decision);
        let change = |pick: fn(&Change) -> Option<&Vec<Json>>| told.ours.and_then(pick);
        let add = told.ours.and_then(|ours| if let Change::Add(n) = ours { Some(n) } else { None });
        let ours =
            told.ours.and_then(|o| if let Change::Set(json) = o { Some(json) } else { None });
        let mut map = serializer.serialize_map(None)?;
        put(&mut map, "add", add)?;
        put(&mut map, "at", Some(told.at).filter(|at| !at.is_empty()))?;
        put(&mut map, "base", told.base.flatten().and_then(Value::json))?;
        put(&mut map, "base_known", (told.base == Some(None)).then_some(false))?;
        map.serialize_entry("decision", self.decision.code())?;
        put(
            &mut map,
            "exclude",
            change(|c| if let Change::Exclude(l) = c { Some(l) } else { None }),
        )?;
        put(&mut map, "forced", told.written.filter(|w| w.forced).map(|_| true))?;
        put(&mut map, "group", self.group())?;
        put(&mut map, "help", remedy(&self.decision))?;
        put(
            &mut map,
            "include",
            change(|c| if let Change::Include(l) = c { Some(l) } else { None }),
        )?;
        put(&mut map, "inputs", told.inputs)?;
        put(
            &mut map,
            "lost",
            told.written.map(|w| Lost(&w.lost)).filter(|lost| !lost.0.is_empty()),
        )?;
        put(&mut map, "message", told.message)?;
        put(&mut map, "new", told.written.and_then(|written| written.new.json()))?;
        put(&mut map, "old", told.written.and_then(|written| written.old.json()))?;
        put(&mut map, "ours", ours)?;
        put(&mut map, "owner", told.owner)?;
        put(&mut map, "parent", told.parent)?;
        map.serialize_entry("path", &self.path)?;
        put(&mut map, "rule", told.rule)?;
        put(&mut map, "rule", told.denied)?;
        put(&mut map, "scope", self.scope())?;
        put(&mut map, "since", told.since.map(Since))?;
        put(&mut map, "strategy", told.strategy)?;
        put(&mut map, "theirs", told.theirs.and_then(Value::json))?;
        put(&mut map, "whose", told.since.map(|stamp| &stamp.writer))?;
        map.end()
    }
}

fn put<M: SerializeMap>(
    map: &mut M,
    key: &'static str,
    value: Option<impl Serialize>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, &value))
}

/// Where and when a value was last changed; its writer stands beside it.
struct Since<'a>(&'a Stamp);

impl Serialize for Since<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("at", &self.0.at.to_string())?;
        map.serialize_entry("operation", &self.0.operation)?;
        map.serialize_entry("scope", &self.0.scope)?;
        map.serialize_entry("version", &self.0.version)?;
        map.end()
    }
}

/// Values that are gone: `{}` for one that was absent.
struct Lost<'a>(&'a [Value]);

#[derive(serde::Serialize)]
struct LostValue<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a Json>,
}

impl Serialize for Lost<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|value| LostValue { value: value.json() }))
    }
}

/// What a person or program can do about a decision.
pub(super) fn remedy(decision: &Decision) -> Option<&str> {
    match decision {
        Decision::Conflict(conflict) => Some(match conflict.rule {
            "base_unknown" => {
                "load the record, look at the stored value, and save with the new token"
            }
            "below_min" | "above_max" => "send a number inside the bounds",
            "not_an_integer" | "not_a_list" | "not_comparable" | "not_in_order" => {
                "mend the stored value or send one of the kind the strategy knows"
            }
            _ => {
                "keep the stored value, or save yours again with the token of this answer; \
                 of a path that is to be merged send its `new`, or nothing"
            }
        }),
        Decision::Denied { rule, .. } => Some(match rule {
            DenyRule::Owner | DenyRule::Below => "leave it out: its owner writes it",
            DenyRule::Writers => "leave it out: its group names who writes it",
            DenyRule::Credential => "leave it out, or use a credential with this group",
            DenyRule::Unlisted => "list the field in the registry",
            DenyRule::Structure => "leave it out: the owner of `#keys` creates items",
            DenyRule::Apply => "save it without `apply`",
        }),
        Decision::StaleInput { .. } => Some("compute it again from the present inputs"),
        Decision::ParentGone { .. } => Some("drop it: the item was removed"),
        Decision::Kept { .. } => Some("nothing: the stored value stays by the field's strategy"),
        Decision::Invalid { help, .. } => Some(help),
        Decision::Write(_) | Decision::Merge { .. } | Decision::Unchanged => None,
    }
}
