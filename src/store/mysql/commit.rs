//! One save: one call, and what its answer means.

use std::sync::Arc;

use crate::{
    commit::{Committed, Refusal},
    database::mysql::{Fault, fault::too_large, pool::Work, session},
    error::{Error, Result},
    path::Path,
    scope::ScopeName,
    store::{
        mysql::{
            encode, keys,
            rows::{self, Sets},
            statements::Statements,
        },
        prepare::Prepared,
        text as stored,
    },
    token::{Generation, OperationId},
};

type Done<T> = std::result::Result<T, Fault>;

/// Applies it in a transaction of its own. What is larger than a packet is not sent.
pub(super) fn commit(
    sql: &Arc<Statements>,
    save: &Prepared,
    packet_max: u64,
) -> Result<Work<Committed>> {
    check(save)?;
    let sql = sql.commit.clone();
    let operation = save.operation;
    let params = encode::params(save).map_err(|fault| fault.into_error("a save", None))?;
    if encode::size(&params) > packet_max {
        return Err(too_large(&save.entity.to_string()));
    }
    Ok(Arc::new(move |conn| {
        let (sql, params) = (sql.clone(), params.clone());
        Box::pin(async move {
            let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
            committed(&mut sets, operation)
        })
    }))
}

/// What the columns of this schema cannot hold.
pub(super) fn check(save: &Prepared) -> Result<()> {
    let Some(long) = save.scopes.iter().find(|scope| scope.text.len() > encode::SCOPE_BYTES_MAX)
    else {
        return Ok(());
    };
    let group = long.name.group_name();
    Err(Error::invalid(
        "scope_too_long",
        format!("a scope of `{group}` is longer than {} bytes", encode::SCOPE_BYTES_MAX),
        "use shorter axis values",
    ))
}

/// Outcome, incarnation, number and list; after `key_replay` the row of the key.
pub(super) fn committed(sets: &mut Sets, operation: OperationId) -> Done<Committed> {
    let mut row = sets.always()?;
    let outcome = row.text()?;
    let incarnation = row.number_or_null()?;
    let number = rows::number(&mut row)?;
    let list = row.text_or_null()?;
    let list = list.as_deref();
    let refusal = match outcome.as_str() {
        "applied" => {
            let steps = stored::scope_steps(list.unwrap_or_default())?;
            let incarnation = crate::token::Incarnation(incarnation.unwrap_or_default());
            let versions = stored::versions_after(&steps);
            return Ok(Committed::Applied { versions, number, incarnation });
        }
        "already" => return Ok(Committed::AlreadyApplied),
        "void" => {
            return Err(Fault::Unreached(format!(
                "operation {operation} was asked for and given up before it arrived"
            )));
        }
        "stale" => Refusal::Stale(scopes(list)?),
        "fenced" => Refusal::Fenced(scopes(list)?),
        "input_moved" => Refusal::InputMoved(paths(list)?),
        "parent_gone" => Refusal::ParentGone(paths(list)?),
        "not_found" => Refusal::NotFound,
        "exists" => Refusal::Exists,
        "gone" => Refusal::Gone,
        "recreated" => Refusal::Recreated,
        "not_queued" => Refusal::NotQueued,
        "stale_registry" => Refusal::StaleRegistry(generation(list)?),
        other => keys::refusal(other, list, sets)?,
    };
    Ok(Committed::Refused(refusal))
}

/// What a save by this operation id did.
pub(super) fn resolve(sql: &Arc<Statements>, operation: OperationId) -> Work<Option<Committed>> {
    let sql = sql.resolve.clone();
    Arc::new(move |conn| {
        let sql = sql.clone();
        Box::pin(async move {
            let params = vec![rows::operation_bytes(operation)];
            let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
            let Some(mut row) = sets.row() else { return Ok(None) };
            Ok(Some(Committed::Applied {
                incarnation: rows::incarnation(&mut row)?,
                number: rows::number(&mut row)?,
                versions: stored::versions_after(&stored::scope_steps(&row.text()?)?),
            }))
        })
    })
}

fn texts(list: Option<&str>) -> Done<Vec<String>> {
    serde_json::from_str(list.unwrap_or_default())
        .map_err(|error| Fault::Broken(format!("a refusal is not readable: {error}")))
}

/// In the order scopes are locked.
fn scopes(list: Option<&str>) -> Done<Vec<ScopeName>> {
    let read = |text: String| Ok(stored::scope_name(&text)?);
    let mut scopes = texts(list)?.into_iter().map(read).collect::<Done<Vec<_>>>()?;
    scopes.sort();
    Ok(scopes)
}

/// In path order, each once.
fn paths(list: Option<&str>) -> Done<Vec<Path>> {
    let read = |text: String| rows::parse_path(&text);
    let mut paths = texts(list)?.into_iter().map(read).collect::<Done<Vec<_>>>()?;
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn generation(list: Option<&str>) -> Done<Generation> {
    let broken = || Fault::Broken("the rules in force are not readable".to_owned());
    let text = list.ok_or_else(broken)?;
    let digit = |index: usize| {
        let digits = text.get(2 * index..2 * index + 2)?;
        u8::from_str_radix(digits, 16).ok()
    };
    let bytes: Option<Vec<u8>> = (0..32).map(digit).collect();
    let bytes = bytes.ok_or_else(broken)?;
    bytes.try_into().map(Generation).map_err(|_| broken())
}
