//! Between our words and SQLite's columns.

use std::collections::BTreeMap;

use rusqlite::{Row, types::ValueRef};
use serde_json::Value as Json;

use crate::{
    clock::StoreTime,
    commit::Lifecycle,
    entity::{Value, Writer, WriterKind},
    path::Path,
    record::Record,
    scope::ScopeName,
    store::sqlite::{fault::Fault, words::Words},
    token::{
        Fence, Generation, HolderToken, Incarnation, OperationId, ScopeVersion, VersionNumber,
    },
};

type Decoded<T> = Result<T, Fault>;

/// A number as a signed column. Ours stay below 2^63.
pub(super) fn column(number: u64) -> Decoded<i64> {
    i64::try_from(number).map_err(|_| Fault::Broken(format!("{number} does not fit a column")))
}

/// A counter column.
pub(super) fn counter(row: &Row<'_>, index: usize) -> Decoded<u64> {
    let number: i64 = row.get(index)?;
    u64::try_from(number).map_err(|_| Fault::Broken(format!("{number} is below zero")))
}

pub(super) fn fence(row: &Row<'_>, index: usize) -> Decoded<Fence> {
    counter(row, index).map(Fence)
}

pub(super) fn version(row: &Row<'_>, index: usize) -> Decoded<ScopeVersion> {
    counter(row, index).map(ScopeVersion)
}

pub(super) fn incarnation(row: &Row<'_>, index: usize) -> Decoded<Incarnation> {
    counter(row, index).map(Incarnation)
}

pub(super) fn number(row: &Row<'_>, index: usize) -> Decoded<Option<VersionNumber>> {
    let number: Option<i64> = row.get(index)?;
    number.map(|_| counter(row, index).map(VersionNumber)).transpose()
}

pub(super) fn operation_id(row: &Row<'_>, index: usize) -> Decoded<OperationId> {
    let bytes: [u8; 16] = row.get(index)?;
    Ok(OperationId(u128::from_be_bytes(bytes)))
}

pub(super) fn operation_blob(operation: OperationId) -> [u8; 16] {
    operation.0.to_be_bytes()
}

pub(super) fn holder(row: &Row<'_>, index: usize) -> Decoded<Option<HolderToken>> {
    let bytes: Option<[u8; 16]> = row.get(index)?;
    Ok(bytes.map(HolderToken))
}

pub(super) fn generation(row: &Row<'_>, index: usize) -> Decoded<Generation> {
    let bytes: [u8; 32] = row.get(index)?;
    Ok(Generation(bytes))
}

pub(super) fn time(row: &Row<'_>, index: usize) -> Decoded<StoreTime> {
    Ok(StoreTime(row.get(index)?))
}

/// Text without a copy.
pub(super) fn text<'a>(row: &'a Row<'_>, index: usize) -> Decoded<&'a str> {
    let value = row.get_ref(index)?;
    value.as_str().map_err(|error| Fault::Broken(error.to_string()))
}

/// A path, parsed or remembered.
pub(super) fn path(words: &Words, row: &Row<'_>, index: usize) -> Decoded<Path> {
    words.path(text(row, index)?)
}

/// A scope's name, parsed or remembered.
pub(super) fn scope(words: &Words, row: &Row<'_>, index: usize) -> Decoded<ScopeName> {
    words.scope(text(row, index)?)
}

pub(super) fn scope_name(text: &str) -> Decoded<ScopeName> {
    ScopeName::parse(text).ok_or_else(|| {
        Fault::Broken(format!("the stored scope `{}` is not one", text.escape_debug()))
    })
}

pub(super) fn json(text: &str) -> Decoded<Json> {
    serde_json::from_str(text)
        .map_err(|error| Fault::Broken(format!("a stored value is not JSON: {error}")))
}

pub(super) fn value(row: &Row<'_>, index: usize) -> Decoded<Value> {
    let text: Option<&str> = match row.get_ref(index)? {
        ValueRef::Null => None,
        _ => Some(text(row, index)?),
    };
    text.map(json).transpose().map(Value::from)
}

/// Absent is NULL; JSON null is the text `null`.
pub(super) fn value_text(value: &Value) -> Option<String> {
    value.json().map(Json::to_string)
}

pub(super) fn record_text(record: &Record) -> String {
    record.to_json().to_string()
}

/// Three columns from `index` on: kind, name, on whose behalf.
pub(super) fn writer(words: &Words, row: &Row<'_>, index: usize) -> Decoded<Writer> {
    let kind = match text(row, index)? {
        "editor" => WriterKind::Editor,
        "worker" => WriterKind::Worker,
        other => return Err(Fault::Broken(format!("`{other}` is no kind of writer"))),
    };
    let name = words.name(text(row, index + 1)?)?;
    let on_behalf_of = match row.get_ref(index + 2)? {
        ValueRef::Null => None,
        _ => Some(words.name(text(row, index + 2)?)?),
    };
    Ok(Writer { kind, name, on_behalf_of })
}

pub(super) fn kind_text(kind: WriterKind) -> &'static str {
    match kind {
        WriterKind::Editor => "editor",
        WriterKind::Worker => "worker",
    }
}

pub(super) fn lifecycle_text(lifecycle: Lifecycle) -> &'static str {
    match lifecycle {
        Lifecycle::Update => "update",
        Lifecycle::Create => "create",
        Lifecycle::Delete => "delete",
    }
}

pub(super) fn lifecycle(text: &str) -> Decoded<Lifecycle> {
    match text {
        "update" => Ok(Lifecycle::Update),
        "create" => Ok(Lifecycle::Create),
        "delete" => Ok(Lifecycle::Delete),
        other => Err(Fault::Broken(format!("`{other}` is no lifecycle"))),
    }
}

/// One scope of a save, as `fl_operation.scopes` keeps it.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct ScopeStep {
    /// Version before the save.
    pub(super) before: ScopeVersion,
    /// Version after it.
    pub(super) after: ScopeVersion,
    /// The fence it was written under, for a claimed scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fence: Option<Fence>,
}

pub(super) type ScopeSteps = BTreeMap<ScopeName, ScopeStep>;

pub(super) fn scope_steps(text: &str) -> Decoded<ScopeSteps> {
    serde_json::from_str(text).map_err(|error| {
        Fault::Broken(format!("the stored scopes of a save are not readable: {error}"))
    })
}

pub(super) fn versions_after(steps: &ScopeSteps) -> BTreeMap<ScopeName, ScopeVersion> {
    steps.iter().map(|(scope, step)| (scope.clone(), step.after)).collect()
}
