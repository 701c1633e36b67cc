//! Between our words and PostgreSQL's columns.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use tokio_postgres::{Row, types::FromSql};

use crate::{
    clock::StoreTime,
    database::postgres::{
        Class, Fault,
        values::{Time, Uuid},
    },
    entity::{EntityRef, Value, Writer},
    path::Path,
    record::Record,
    scope::ScopeName,
    store::text::{self as stored, Broken},
    token::{Fence, Generation, Incarnation, OperationId, ScopeVersion, VersionNumber},
};

type Decoded<T> = Result<T, Fault>;

impl From<Broken> for Fault {
    fn from(Broken(message): Broken) -> Self {
        Self::new(Class::Broken, message)
    }
}

fn broken(message: impl std::fmt::Display) -> Fault {
    Fault::new(Class::Broken, message.to_string())
}

/// The row of a statement that always answers one.
pub(super) fn the_row(row: Option<&Row>) -> Decoded<&Row> {
    row.ok_or_else(|| broken("a routine answered no row"))
}

pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Decoded<T> {
    row.try_get(index).map_err(broken)
}

/// A number as a signed column. Ours stay below 2^63.
pub(super) fn number_column(number: u64) -> Decoded<i64> {
    i64::try_from(number).map_err(|_| broken(format!("{number} does not fit a column")))
}

pub(super) fn counter(number: i64) -> Decoded<u64> {
    u64::try_from(number).map_err(|_| broken(format!("{number} is below zero")))
}

pub(super) fn fence(row: &Row, index: usize) -> Decoded<Fence> {
    counter(column(row, index)?).map(Fence)
}

pub(super) fn incarnation(row: &Row, index: usize) -> Decoded<Incarnation> {
    counter(column(row, index)?).map(Incarnation)
}

pub(super) fn number(row: &Row, index: usize) -> Decoded<Option<VersionNumber>> {
    let number: Option<i64> = column(row, index)?;
    number.map(|number| counter(number).map(VersionNumber)).transpose()
}

pub(super) fn generation(row: &Row, index: usize) -> Decoded<Generation> {
    let bytes: &[u8] = column(row, index)?;
    bytes.try_into().map(Generation).map_err(|_| broken("a stored generation is not 32 bytes"))
}

pub(super) fn time(row: &Row, index: usize) -> Decoded<StoreTime> {
    column(row, index).map(|Time(time)| time)
}

pub(super) fn operation(row: &Row, index: usize) -> Decoded<OperationId> {
    column(row, index).map(|Uuid(bytes)| OperationId(u128::from_be_bytes(bytes)))
}

pub(super) fn operation_column(operation: OperationId) -> Uuid {
    Uuid(operation.0.to_be_bytes())
}

/// Text that is stored as it is; PostgreSQL has no zero byte in texts.
pub(super) fn plain(text: &str) -> Decoded<String> {
    if text.contains('\0') {
        return Err(Fault {
            class: Class::Unfit,
            state: None,
            message: format!("`{}` contains a zero byte", text.escape_debug()),
            help: "PostgreSQL keeps none in texts: leave it out of names and rules; values may contain it",
        });
    }
    Ok(text.to_owned())
}

/// An id as `fl_entity` keeps it: a backslash twice, a zero byte as `\0`.
pub(super) fn id_column(entity: &EntityRef) -> String {
    let id = entity.id.as_str();
    if id.contains(['\\', '\0']) {
        id.replace('\\', r"\\").replace('\0', r"\0")
    } else {
        id.to_owned()
    }
}

/// A scope's name. Its own escapes are of `,`, `]` and the backslash, so `\0` is free for a zero byte.
pub(super) fn scope_column(scope: &ScopeName) -> String {
    scope.to_string().replace('\0', r"\0")
}

pub(super) fn scope(text: &str) -> Decoded<ScopeName> {
    if !text.contains(r"\0") {
        return Ok(stored::scope_name(text)?);
    }
    let (mut plain, mut chars) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = chars.next() {
        match (c, chars.clone().next()) {
            ('\\', Some('0')) => {
                chars.next();
                plain.push('\0');
            }
            ('\\', Some(next)) => {
                chars.next();
                plain.extend([c, next]);
            }
            _ => plain.push(c),
        }
    }
    Ok(stored::scope_name(&plain)?)
}

pub(super) fn path(text: &str) -> Decoded<Path> {
    Path::parse(text).map_err(|error| {
        broken(format!("the stored path `{}` is not one: {error}", text.escape_debug()))
    })
}

/// A record as stored: path -> the leaf's JSON as text.
pub(super) fn record(text: &str) -> Decoded<Record> {
    let leaves: BTreeMap<String, String> = serde_json::from_str(text)
        .map_err(|error| broken(format!("a stored record is not readable: {error}")))?;
    let read = |(text, leaf): (String, String)| Ok((path(&text)?, stored::json(&leaf)?));
    Ok(Record::from_stored(leaves.into_iter().map(read).collect::<Decoded<_>>()?))
}

/// A record to be stored.
pub(super) fn record_text<'a>(
    leaves: impl Iterator<Item = (&'a Path, &'a Json)>,
) -> Decoded<String> {
    let leaves: BTreeMap<&str, String> =
        leaves.map(|(path, leaf)| (path.as_str(), leaf.to_string())).collect();
    serde_json::to_string(&leaves).map_err(broken)
}

/// A value as stored: NULL is absent.
pub(super) fn value(text: Option<&str>) -> Decoded<Value> {
    Ok(Value::from(text.map(stored::json).transpose()?))
}

pub(super) fn versions(
    scopes: Option<Vec<&str>>,
    versions: Option<Vec<i64>>,
) -> Decoded<BTreeMap<ScopeName, ScopeVersion>> {
    let (scopes, versions) = (scopes.unwrap_or_default(), versions.unwrap_or_default());
    let pairs = scopes.into_iter().zip(versions);
    pairs.map(|(name, version)| Ok((scope(name)?, ScopeVersion(counter(version)?)))).collect()
}

/// Three columns from `index` on: kind, name, on whose behalf.
pub(super) fn writer(row: &Row, index: usize) -> Decoded<Writer> {
    let on_behalf_of: Option<&str> = column(row, index + 2)?;
    Ok(Writer {
        kind: stored::kind(column(row, index)?)?,
        name: column::<&str>(row, index + 1)?.into(),
        on_behalf_of: on_behalf_of.map(Into::into),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_bytes_and_backslashes_in_names_come_back() {
        for value in ["", "\0", "\\", "\\0", "a\0b,c]\\\0", "de"] {
            let group = crate::entity::GroupName::new("t").unwrap();
            let name = ScopeName::split(group, vec![("locale".into(), value.into())]);

            let column = scope_column(&name);

            assert!(!column.contains('\0'), "{column}");
            assert_eq!(scope(&column).unwrap(), name, "{column}");
        }
        let ids = ["a\0", "a\\0", "a\\\\0", "a\\", "\0\\"];
        let columns: std::collections::BTreeSet<_> =
            ids.iter().map(|id| id_column(&EntityRef::new("P", id).unwrap())).collect();
        assert_eq!(columns.len(), ids.len());
        assert!(plain("a\0").is_err());
    }
}
