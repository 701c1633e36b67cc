//! History entries as JSON, the same over HTTP and from the command line.

use serde_json::{Map, Value as Json, json};

use crate::{
    commit::{Changed, Lifecycle, Trace},
    entity::Value,
    history::Entry,
};

/// One save, without the full state a version remembers. An absent value is a missing member.
#[must_use]
pub fn entry_json(entry: &Entry) -> Json {
    let action = match entry.lifecycle {
        Lifecycle::Create => "create",
        Lifecycle::Update => "update",
        Lifecycle::Delete => "delete",
    };
    let mut json = Map::new();
    let mut add = |name: &str, value: Json| {
        json.insert(name.to_owned(), value);
    };
    add("version", entry.number.map(|number| number.0).into());
    add("operation", entry.operation.to_string().into());
    add("at", entry.at.to_string().into());
    add("writer", json!(entry.writer));
    add("action", action.into());
    add("incarnation", entry.incarnation.0.into());
    let versions =
        entry.versions.iter().map(|(scope, version)| (scope.to_string(), version.0.into()));
    add("versions", Json::Object(versions.collect()));
    add("changed", entry.changed.iter().map(changed_json).collect());
    match &entry.trace {
        Trace::Version { reason, .. } => add("reason", json!(reason)),
        Trace::Operation(detail) => add("detail", json!(detail)),
    }
    Json::Object(json)
}

fn changed_json(changed: &Changed) -> Json {
    let mut json = Map::new();
    json.insert("path".to_owned(), changed.path.as_str().into());
    json.insert("scope".to_owned(), changed.scope.to_string().into());
    for (name, value) in [("old", &changed.old), ("new", &changed.new)] {
        if let Value::Present(value) = value {
            json.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(strategy) = &changed.strategy {
        json.insert("strategy".to_owned(), strategy.clone().into());
    }
    Json::Object(json)
}
