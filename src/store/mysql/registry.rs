//! The rules in force.

use std::{sync::Arc, time::Duration};

use mysql_async::Value as Column;

use crate::{
    database::mysql::{pool::Work, session},
    entity::EntityType,
    store::mysql::{
        rows::{self, Sets},
        statements::Statements,
    },
    token::Generation,
};

/// Generation and text in force.
pub(super) fn active(
    sql: &Arc<Statements>,
    kind: &EntityType,
) -> Work<Option<(Generation, String)>> {
    let (sql, kind) = (sql.registry.clone(), kind.clone());
    Arc::new(move |conn| {
        let (sql, params) = (sql.clone(), vec![rows::bytes(kind.as_str())]);
        Box::pin(async move {
            let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
            let Some(mut row) = sets.row() else { return Ok(None) };
            Ok(Some((rows::generation(&mut row)?, row.text()?)))
        })
    })
}

/// Replaces the rules if those expected are in force. The same generation again only replaces the text.
pub(super) fn activate(
    sql: &Arc<Statements>,
    kind: &EntityType,
    was: Option<Generation>,
    generation: Generation,
    text: &str,
    delay: Duration,
) -> Work<bool> {
    let sql = sql.activate.clone();
    let delay = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    let params = vec![
        rows::bytes(kind.as_str()),
        was.map_or(Column::NULL, |was| rows::bytes(was.0)),
        rows::bytes(generation.0),
        rows::bytes(text),
        Column::Int(delay),
    ];
    Arc::new(move |conn| {
        let (sql, params) = (sql.clone(), params.clone());
        Box::pin(async move {
            let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
            Ok(sets.always()?.number()? == 1)
        })
    })
}
