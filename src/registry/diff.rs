//! What changes for whom between two registries: who owns which field, in which group, by which strategy.

use std::{collections::BTreeSet, fmt};

use super::{
    EntityRules, Group, Registry, Rule,
    cover::{inside, same_fields},
    hash::{millis, on_busy},
};
use crate::{
    entity::EntityType,
    path::{Pattern, Tail},
};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// The entity type.
    pub entity: EntityType,
    /// The fields; `None` for what concerns the type or a group as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
    /// What changes: `type`, `owner`, `group`, `strategy`, `unit`, or the name of a setting.
    pub what: String,
    /// Before; `None` when there was nothing.
    pub before: Option<String>,
    /// After; `None` when there is nothing.
    pub after: Option<String>,
}

/// Every difference, by entity type and then by pattern.
#[must_use]
pub fn diff(old: &Registry, new: &Registry) -> Vec<Difference> {
    let kinds: BTreeSet<&EntityType> = old.entities.keys().chain(new.entities.keys()).collect();
    let mut found = Vec::new();
    for kind in kinds {
        match (old.entities.get(kind), new.entities.get(kind)) {
            (Some(old), Some(new)) if old.generation == new.generation => {}
            (Some(old), Some(new)) => entity(old, new, &mut found),
            (old, new) => found.push(Difference {
                entity: kind.clone(),
                pattern: None,
                what: "type".to_owned(),
                before: old.map(|_| "listed".to_owned()),
                after: new.map(|_| "listed".to_owned()),
            }),
        }
    }
    found
}

fn entity(old: &EntityRules, new: &EntityRules, found: &mut Vec<Difference>) {
    let mut add =
        |pattern: Option<&Pattern>, what: &str, before: Option<String>, after: Option<String>| {
            if before != after {
                let what = what.to_owned();
                let (entity, pattern) = (old.kind.clone(), pattern.cloned());
                found.push(Difference { entity, pattern, what, before, after });
            }
        };
    let patterns: BTreeSet<&Pattern> =
        old.rules.iter().chain(&new.rules).map(|rule| &rule.pattern).collect();
    for pattern in patterns {
        let (before, after) = (answer(old, pattern), answer(new, pattern));
        let at = Some(pattern);
        add(at, "owner", Some(before.owner), Some(after.owner));
        add(at, "group", before.group, after.group);
        add(at, "strategy", before.strategy, after.strategy);
        if before.listed && after.listed {
            add(at, "unit", Some(before.unit.to_owned()), Some(after.unit.to_owned()));
        }
    }
    let names: BTreeSet<_> = old.groups.keys().chain(new.groups.keys()).collect();
    for name in names {
        let (Some(before), Some(after)) = (old.groups.get(name), new.groups.get(name)) else {
            continue;
        };
        for ((key, before), (_, after)) in settings(before).into_iter().zip(settings(after)) {
            add(None, &format!("{key} of `{name}`"), before, after);
        }
    }
    for ((key, before), (_, after)) in whole(old).into_iter().zip(whole(new)) {
        add(None, key, before, after);
    }
}

struct Answer {
    owner: String,
    group: Option<String>,
    strategy: Option<String>,
    unit: &'static str,
    listed: bool,
}

/// What the rules say about all paths of a pattern that have no rule further inside.
fn answer(rules: &EntityRules, pattern: &Pattern) -> Answer {
    let around = rules.rules.iter().filter(|rule| inside(pattern, &rule.pattern));
    let rule = around.max_by_key(|rule| rule.weight);
    let group = rule.map(|rule| &rule.group).or(rules.default.as_ref());
    let same =
        rule.is_some_and(|rule| same_fields(&rule.pattern, pattern) || same_node(rule, pattern));
    let leaves = rule.is_none_or(|rule| rule.pattern.tail() == Tail::Subtree);
    Answer {
        owner: group.map_or_else(|| "deny".to_owned(), |group| group.owner.to_string()),
        group: group.map(|group| group.name.to_string()),
        strategy: rule
            .and_then(|rule| rule.strategy.as_ref())
            .map(|strategy| format!("{strategy:?}")),
        unit: if leaves { "every leaf" } else { "one value" },
        listed: same,
    }
}

/// `p` and `p.**`.
fn same_node(rule: &Rule, pattern: &Pattern) -> bool {
    rule.pattern.segments() == pattern.segments() && rule.pattern.axes() == pattern.axes()
}

fn settings(group: &Group) -> Vec<(&'static str, Option<String>)> {
    let list = |items: Vec<String>| (!items.is_empty()).then(|| items.join(", "));
    vec![
        ("owner", Some(group.owner.to_string())),
        ("writers", group.writers.as_ref().map(|names| names.join(", "))),
        ("locking", Some(format!("{:?}", group.locking).to_lowercase())),
        ("ttl", Some(format!("{}ms", millis(group.ttl)))),
        ("max_hold", Some(format!("{}ms", millis(group.max_hold)))),
        ("on_busy", Some(on_busy(group.on_busy))),
        ("derived_from", list(group.derived_from.iter().map(ToString::to_string).collect())),
        ("split_by", list(group.split_by.iter().map(ToString::to_string).collect())),
    ]
}

fn whole(rules: &EntityRules) -> Vec<(&'static str, Option<String>)> {
    let names = |names: &[crate::entity::GroupName]| {
        let names: Vec<&str> = names.iter().map(crate::entity::GroupName::as_str).collect();
        Some(names.join(", "))
    };
    let json = |value: &Option<serde_json::Value>| value.as_ref().map(ToString::to_string);
    let mut coupled: Vec<String> = rules
        .coupled
        .iter()
        .map(|set| set.iter().map(Pattern::as_str).collect::<Vec<_>>().join(" + "))
        .collect();
    coupled.sort();
    let mut collections: Vec<String> = rules
        .collections
        .iter()
        .map(|c| format!("{} by {}", c.pattern, c.keys.join(",")))
        .collect();
    collections.sort();
    let list = |items: Vec<String>| (!items.is_empty()).then(|| items.join("; "));
    vec![
        ("default_owner", rules.default.as_ref().map(|group| group.name.to_string())),
        ("enforcement", Some(format!("{:?}", rules.enforcement).to_lowercase())),
        ("create", names(&rules.lifecycle.create)),
        ("delete", names(&rules.lifecycle.delete)),
        ("axes", rules.axes.as_ref().map(|axes| format!("{axes:?}"))),
        ("collections", list(collections)),
        ("coupled", list(coupled)),
        ("history", Some(format!("{:?}", rules.history).to_lowercase())),
        ("storage", json(&rules.storage)),
        ("select", json(&rules.select)),
    ]
}

/// ``Product: `price`: owner editor -> system``.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = "(none)";
        let before = self.before.as_deref().unwrap_or(none);
        let after = self.after.as_deref().unwrap_or(none);
        write!(f, "{}: ", self.entity)?;
        if let Some(pattern) = &self.pattern {
            write!(f, "`{pattern}`: ")?;
        }
        match (self.what.as_str(), &self.before) {
            ("type", None) => f.write_str("added"),
            ("type", Some(_)) => f.write_str("removed"),
            (what, _) => write!(f, "{what} {before} -> {after}"),
        }
    }
}
