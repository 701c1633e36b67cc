//! Between our words and SQLite's columns.

use crate::{
    clock::StoreTime,
    entity::{Value, Writer},
    path::Path,
    scope::ScopeName,
    store::{
        sqlite::{fault::Fault, words::Words},
        text as stored,
    },
    token::{
        Fence, Generation, HolderToken, Incarnation, OperationId, ScopeVersion, VersionNumber,
    },
};
use rusqlite::{Row, types::ValueRef};

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

pub(super) fn value(row: &Row<'_>, index: usize) -> Decoded<Value> {
    let text: Option<&str> = match row.get_ref(index)? {
        ValueRef::Null => None,
        _ => Some(text(row, index)?),
    };
    Ok(Value::from(text.map(stored::json).transpose()?))
}

/// Three columns from `index` on: kind, name, on whose behalf.
pub(super) fn writer(words: &Words, row: &Row<'_>, index: usize) -> Decoded<Writer> {
    let kind = stored::kind(text(row, index)?)?;
    let name = words.name(text(row, index + 1)?)?;
    let on_behalf_of = match row.get_ref(index + 2)? {
        ValueRef::Null => None,
        _ => Some(words.name(text(row, index + 2)?)?),
    };
    Ok(Writer { kind, name, on_behalf_of })
}
