//! Between our words and the text every database keeps them as.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::{
    commit::Lifecycle,
    entity::{Value, WriterKind},
    record::Record,
    scope::ScopeName,
    token::{Fence, ScopeVersion},
};

/// A stored row that cannot be one of ours; says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) String);

type Read<T> = Result<T, Broken>;

pub(crate) fn scope_name(text: &str) -> Read<ScopeName> {
    ScopeName::parse(text)
        .ok_or_else(|| Broken(format!("the stored scope `{}` is not one", text.escape_debug())))
}

pub(crate) fn json(text: &str) -> Read<Json> {
    serde_json::from_str(text)
        .map_err(|error| Broken(format!("a stored value is not JSON: {error}")))
}

/// Absent is NULL; JSON null is the text `null`.
pub(crate) fn value_text(value: &Value) -> Option<String> {
    value.json().map(Json::to_string)
}

pub(crate) fn record_text(record: &Record) -> String {
    record.to_json().to_string()
}

pub(crate) fn kind_text(kind: WriterKind) -> &'static str {
    match kind {
        WriterKind::Editor => "editor",
        WriterKind::Worker => "worker",
    }
}

pub(crate) fn kind(text: &str) -> Read<WriterKind> {
    match text {
        "editor" => Ok(WriterKind::Editor),
        "worker" => Ok(WriterKind::Worker),
        other => Err(Broken(format!("`{other}` is no kind of writer"))),
    }
}

pub(crate) fn lifecycle_text(lifecycle: Lifecycle) -> &'static str {
    match lifecycle {
        Lifecycle::Update => "update",
        Lifecycle::Create => "create",
        Lifecycle::Delete => "delete",
    }
}

pub(crate) fn lifecycle(text: &str) -> Read<Lifecycle> {
    match text {
        "update" => Ok(Lifecycle::Update),
        "create" => Ok(Lifecycle::Create),
        "delete" => Ok(Lifecycle::Delete),
        other => Err(Broken(format!("`{other}` is no lifecycle"))),
    }
}

/// One scope of a save, as `fl_operation.scopes` keeps it.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct ScopeStep {
    /// Version before the save.
    pub(crate) before: ScopeVersion,
    /// Version after it.
    pub(crate) after: ScopeVersion,
    /// The fence it was written under, for a claimed scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<Fence>,
}

pub(crate) type ScopeSteps = BTreeMap<ScopeName, ScopeStep>;

pub(crate) fn scope_steps(text: &str) -> Read<ScopeSteps> {
    serde_json::from_str(text)
        .map_err(|error| Broken(format!("the stored scopes of a save are not readable: {error}")))
}

pub(crate) fn versions_after(steps: &ScopeSteps) -> BTreeMap<ScopeName, ScopeVersion> {
    steps.iter().map(|(scope, step)| (scope.clone(), step.after)).collect()
}
