//! The generation: a hash of what one entity type's rules mean, whatever way they are written down.
//!
//! The hashed text has one line per fact, in a fixed order. Values are written as JSON, so no value can look like the
//! end of its line or like another fact. Whatever changes behaviour changes a line.

use serde_json::json;
use sha2::{Digest, Sha256};

use super::{EntityRules, Group, OnBusy, Rule};
use crate::{path::Pattern, token::Generation};

/// Rises when the text is made in another way; then every generation changes once.
const FORMAT: &str = "fieldlease-rules 1";

/// The generation of these rules. `ties` are pairs between which only the order in the file decides.
pub(crate) fn generation(rules: &EntityRules, ties: &[(Pattern, Pattern)]) -> Generation {
    Generation(Sha256::digest(text(rules, ties)).into())
}

fn text(rules: &EntityRules, ties: &[(Pattern, Pattern)]) -> Vec<u8> {
    let mut out = Text(Vec::with_capacity(4_096));
    out.line(FORMAT, &[&rules.kind.as_str()]);
    out.line("default", &[&rules.default.as_ref().map(|group| group.name.as_str())]);
    out.line("enforcement", &[&format!("{:?}", rules.enforcement)]);
    out.line("history", &[&rules.history]);
    out.line("create", &[&sorted(&rules.lifecycle.create)]);
    out.line("delete", &[&sorted(&rules.lifecycle.delete)]);
    if let Some(axes) = &rules.axes {
        for (axis, values) in axes {
            out.line("axis", &[axis, &values.as_ref().map(|values| sorted(values))]);
        }
        out.line("axes declared", &[]);
    }
    let mut collections: Vec<_> = rules.collections.iter().collect();
    collections.sort_by(|a, b| a.pattern.cmp(&b.pattern));
    for collection in collections {
        out.line("collection", &[&collection.pattern, &collection.keys]);
    }
    rules.groups.values().for_each(|group| group_line(&mut out, group));
    let mut listed: Vec<&Rule> = rules.rules.iter().collect();
    listed.sort_by(|a, b| a.pattern.cmp(&b.pattern));
    for rule in listed {
        let strategy = rule.strategy.as_ref().map(|s| (s.strategy.name(), &*s.options));
        out.line("rule", &[&rule.pattern, &rule.group.name, &strategy]);
    }
    let mut ties: Vec<&(Pattern, Pattern)> = ties.iter().collect();
    ties.sort();
    ties.iter().for_each(|(a, b)| out.line("before", &[a, b]));
    let mut coupled: Vec<Vec<String>> = rules.coupled.iter().map(|set| sorted(set)).collect();
    coupled.sort();
    coupled.iter().for_each(|set| out.line("coupled", &[set]));
    for (key, value) in [("storage", &rules.storage), ("select", &rules.select)] {
        if let Some(value) = value {
            out.line(key, &[value]);
        }
    }
    out.0
}

fn group_line(out: &mut Text, group: &Group) {
    let settings = json!({
        "owner": group.owner,
        "writers": group.writers,
        "locking": group.locking,
        "ttl_ms": millis(group.ttl),
        "max_hold_ms": millis(group.max_hold),
        "on_busy": on_busy(group.on_busy),
        "derived_from": sorted(&group.derived_from),
        "split_by": group.split_by,
    });
    out.line("group", &[&group.name, &settings]);
}

/// The settings of a group in one canonical word.
pub(crate) fn on_busy(policy: OnBusy) -> String {
    match policy {
        OnBusy::Skip => "skip".to_owned(),
        OnBusy::Fail => "fail".to_owned(),
        OnBusy::Wait(time) => format!("wait {}ms", millis(time)),
        OnBusy::Retry { times, from, to } => {
            format!("retry {times} backoff {}ms..{}ms", millis(from), millis(to))
        }
        OnBusy::Enqueue => "enqueue".to_owned(),
    }
}

/// Durations of a registry are whole milliseconds of at most a day.
pub(crate) fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// As texts, without regard to order and repetition.
fn sorted<T: ToString>(values: &[T]) -> Vec<String> {
    let mut values: Vec<String> = values.iter().map(ToString::to_string).collect();
    values.sort();
    values.dedup();
    values
}

/// The text that is hashed.
struct Text(Vec<u8>);

impl Text {
    fn line(&mut self, fact: &str, values: &[&dyn erased::Json]) {
        self.0.extend_from_slice(fact.as_bytes());
        for value in values {
            self.0.push(b' ');
            value.write(&mut self.0);
        }
        self.0.push(b'\n');
    }
}

/// Anything that can be written as JSON, behind one reference.
mod erased {
    pub(super) trait Json {
        fn write(&self, out: &mut Vec<u8>);
    }

    impl<T: serde::Serialize> Json for T {
        fn write(&self, out: &mut Vec<u8>) {
            // Texts, numbers, lists and maps with text keys: writing them to memory does not fail.
            let _ = serde_json::to_writer(out, self);
        }
    }
}
