//! Reading a record, and claiming its scopes.

use std::collections::BTreeMap;

use tokio_postgres::{Row, types::Type};

use crate::{
    clock::StoreTime,
    commit::Refusal,
    database::postgres::{Call, Class, Fault, values::Uuid},
    entity::{EntityRef, Writer},
    path::Path,
    scope::{Scope, ScopeName},
    snapshot::{Snapshot, Stamp},
    store::{
        Claim, ClaimAsk, Claimed,
        postgres::{rows, statements::Statements},
        text as stored,
    },
    token::{Fence, OperationId, ScopeVersion, VersionNumber},
};

type Done<T> = Result<T, Fault>;

/// A stamp as stored: version, save, operation, microseconds, kind, name, on behalf of.
type Stored<'a> = (u64, u64, &'a str, i64, &'a str, String, Option<String>);

pub(super) fn load_call(sql: &Statements, entity: &EntityRef) -> Call {
    of_entity(Call::new(&sql.load), entity)
}

/// The first two parameters of everything about one record.
pub(super) fn of_entity(call: Call, entity: &EntityRef) -> Call {
    call.with(Type::TEXT, entity.kind.as_str().to_owned()).with(Type::TEXT, rows::id_column(entity))
}

pub(super) fn claim_call(sql: &Statements, ask: &ClaimAsk) -> Call {
    let names: Vec<String> = ask.scopes.names().iter().map(rows::scope_column).collect();
    of_entity(Call::new(&sql.claim), ask.scopes.entity())
        .with(Type::BYTEA, ask.generation.0.to_vec())
        .with(Type::UUID, Uuid(ask.holder.0))
        .with(Type::TEXT_ARRAY, names)
        .with(Type::BOOL, ask.whole)
}

pub(super) fn break_call(sql: &Statements, scope: &Scope) -> Call {
    of_entity(Call::new(&sql.break_claim), &scope.entity)
        .with(Type::TEXT, rows::scope_column(&scope.name))
}

/// From the columns of `fl_load`.
pub(super) fn loaded(entity: &EntityRef, row: &Row) -> Done<Snapshot> {
    let deleted_at: Option<crate::database::postgres::values::Time> = rows::column(row, 1)?;
    Ok(Snapshot {
        deleted_at: deleted_at.map(|time| time.0),
        ..snapshot(entity, row, [0, 2, 3, 4, 5])?
    })
}

/// From the columns of `fl_claim`.
pub(super) fn claimed(ask: &ClaimAsk, row: Option<&Row>) -> Done<Claimed> {
    let row = rows::the_row(row)?;
    let refusal = match rows::column(row, 0)? {
        "claimed" => {
            let fences: Vec<i64> = rows::column::<Option<_>>(row, 2)?.unwrap_or_default();
            let fences = ask.scopes.names().iter().zip(fences);
            let fences =
                fences.map(|(name, fence)| Ok((name.clone(), Fence(rows::counter(fence)?))));
            let fences = fences.collect::<Done<BTreeMap<_, _>>>()?;
            let snapshot = snapshot(ask.scopes.entity(), row, [3, 4, 5, 6, 7])?;
            return Ok(Claimed::Claimed(Box::new(Claim { snapshot, fences })));
        }
        "stale_registry" => Refusal::StaleRegistry(rows::generation(row, 1)?),
        "not_found" => Refusal::NotFound,
        "gone" => Refusal::Gone,
        other => return Err(Fault::new(Class::Broken, format!("a claim answered `{other}`"))),
    };
    Ok(Claimed::Refused(refusal))
}

/// From the places of incarnation, number, fence, data, and of scopes, versions, stamps and time behind one another.
fn snapshot(entity: &EntityRef, row: &Row, at: [usize; 5]) -> Done<Snapshot> {
    let [incarnation, number, fence, data, scopes] = at;
    let names: Option<Vec<&str>> = rows::column(row, scopes)?;
    let stamps: Option<Vec<&str>> = rows::column(row, scopes + 2)?;
    let mut newest: BTreeMap<Path, (u64, Stamp)> = BTreeMap::new();
    for (name, text) in names.iter().flatten().zip(stamps.iter().flatten()) {
        let name = rows::scope(name)?;
        for (path, save, stamp) in stamps_of(&name, text)? {
            // A path that moved to another scope left a stamp behind.
            if newest.get(&path).is_none_or(|(other, _)| *other < save) {
                newest.insert(path, (save, stamp));
            }
        }
    }
    let number: i64 = rows::column(row, number)?;
    Ok(Snapshot {
        entity: entity.clone(),
        incarnation: rows::incarnation(row, incarnation)?,
        deleted_at: None,
        record: rows::record(rows::column(row, data)?)?,
        stamps: newest.into_iter().map(|(path, (_, stamp))| (path, stamp)).collect(),
        versions: rows::versions(names, rows::column(row, scopes + 1)?)?,
        entity_fence: rows::fence(row, fence)?,
        number: VersionNumber(rows::counter(number)?),
        read_at: rows::time(row, scopes + 3)?,
    })
}

fn stamps_of(scope: &ScopeName, text: &str) -> Done<Vec<(Path, u64, Stamp)>> {
    let broken = |error: &dyn std::fmt::Display| {
        Fault::new(
            Class::Broken,
            format!("the stored stamps of `{scope}` are not readable: {error}"),
        )
    };
    let found: BTreeMap<String, Stored<'_>> =
        serde_json::from_str(text).map_err(|error| broken(&error))?;
    let read = |(path, stamp): (String, Stored<'_>)| {
        let (version, save, operation, at, kind, name, on_behalf_of) = stamp;
        let operation = OperationId::parse(operation).ok_or_else(|| broken(&"not an operation"))?;
        let stamp = Stamp {
            scope: scope.clone(),
            version: ScopeVersion(version),
            operation,
            at: StoreTime(at),
            writer: Writer {
                kind: stored::kind(kind)?,
                name: name.into(),
                on_behalf_of: on_behalf_of.map(Into::into),
            },
        };
        Ok((rows::path(&path)?, save, stamp))
    };
    found.into_iter().map(read).collect()
}
