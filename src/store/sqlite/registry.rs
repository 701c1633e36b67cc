//! The rules in force.

use std::time::Duration;

use crate::{
    entity::EntityType,
    store::sqlite::{
        fault::Fault,
        rows,
        session::{End, Tx},
    },
    token::Generation,
};

type Done<T> = Result<T, Fault>;

/// Generation and text in force.
pub(super) fn active(tx: &Tx<'_>, kind: &EntityType) -> Done<Option<(Generation, String)>> {
    tx.one(&tx.sql.registry, [kind.as_str()], |row| Ok((rows::generation(row, 0)?, row.get(1)?)))
}

/// What `activate` is asked for.
pub(super) struct Activation {
    pub(super) kind: EntityType,
    pub(super) was: Option<Generation>,
    pub(super) generation: Generation,
    pub(super) text: String,
    pub(super) delay: Duration,
}

/// Replaces the rules if those expected are in force. The same generation again only replaces the text.
pub(super) fn activate(tx: &Tx<'_>, ask: &Activation) -> Done<End<bool>> {
    let kind = ask.kind.as_str();
    let present = tx.one(&tx.sql.registry, [kind], |row| {
        Ok((rows::generation(row, 0)?, rows::time(row, 2)?.0))
    })?;
    if present.map(|(generation, _)| generation) != ask.was {
        return Ok(End::Undo(false));
    }
    let delay = i64::try_from(ask.delay.as_micros()).unwrap_or(i64::MAX);
    let changed = ask.was != Some(ask.generation);
    let effective_at = match present {
        Some((_, at)) if !changed => at,
        _ => tx.now.0.saturating_add(delay),
    };
    let previous = ask.was.map(|was| was.0);
    let params = (kind, ask.generation.0, &ask.text, effective_at, previous);
    tx.change(&tx.sql.put_registry, params)?;
    if changed {
        tx.change(&tx.sql.void_claims, [kind])?;
    }
    Ok(End::Keep(true))
}
