//! Idempotency keys: each transition is one call, or part of a save's.

use std::{sync::Arc, time::Duration};

use mysql_async::Value as Column;
use serde_json::Value as Json;

use crate::{
    clock::{BoxFuture, StoreTime},
    commit::{KeyMode, KeyUse, Refusal},
    database::mysql::{
        Cells, Fault,
        pool::{Repeat, Work},
        session,
    },
    error::Result,
    idempotency::{BeginAsk, IdempotencyStore, KeyState, Listed},
    key::{
        self, ABANDONED_AFTER, Attempt, Begin, Finish, Key, KeyKind, Owner, RequestHash,
        SWEEP_AFTER, Step,
    },
    store::{
        keys::{End, KeyRow, lease_us, micros},
        mysql::{
            MysqlStore,
            rows::{self, Sets},
        },
    },
    token::{Incarnation, OperationId},
};

type Done<T> = std::result::Result<T, Fault>;

impl IdempotencyStore for MysqlStore {
    fn begin<'a>(&'a self, ask: &'a BeginAsk) -> BoxFuture<'a, Result<Begin>> {
        Box::pin(async move {
            let lease = lease_us(ask.lease)?;
            let (ask, sql) = (ask.clone(), self.sql.key_begin.clone());
            let mut params = columns(&ask.key).to_vec();
            params.extend([
                rows::bytes(ask.hash.algorithm.as_str()),
                rows::bytes(ask.hash.bytes),
                rows::bytes(ask.own.0),
                Column::Int(lease),
            ]);
            let work: Work<Begin> = Arc::new(move |conn| {
                let (sql, params, ask) = (sql.clone(), params.clone(), ask.clone());
                Box::pin(async move {
                    let sets = Sets::new(session::sets(conn, &sql, params).await?);
                    begun(sets, &ask)
                })
            });
            // The same owner asking again acquires what it has.
            self.run(Repeat::Harmless, None, work).await
        })
    }

    fn renew<'a>(
        &'a self,
        key: &'a Key,
        attempt: Attempt,
        lease: Duration,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let end = End {
                state: "pending",
                until_us: lease_us(lease)?,
                class: None,
                result: None,
                inputs: None,
            };
            self.moved(Repeat::Harmless, key, attempt, "renew", Some(end)).await
        })
    }

    fn finish<'a>(
        &'a self,
        key: &'a Key,
        attempt: Attempt,
        how: &'a Finish,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let end = End::of(how);
            let how = if end.is_some() { "end" } else { "release" };
            self.moved(Repeat::Never, key, attempt, how, end).await
        })
    }

    fn peek<'a>(&'a self, key: &'a Key, hash: RequestHash) -> BoxFuture<'a, Result<Option<Begin>>> {
        let (sql, params) = (self.sql.key.clone(), columns(key).to_vec());
        let work: Work<Option<Begin>> = Arc::new(move |conn| {
            let (sql, params) = (sql.clone(), params.clone());
            Box::pin(async move {
                let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
                let Some(mut cells) = sets.row() else { return Ok(None) };
                let now = rows::time(&mut cells)?;
                let row = key_row(cells)?.row(&hash)?;
                // Nobody's attempt: the owner is not one that could have been drawn.
                Ok(match key::begin(Some(&row), Owner([0; 16]), now) {
                    Step::Acquire { .. } => None,
                    Step::Answer(answer) => Some(answer),
                })
            })
        });
        Box::pin(self.run(Repeat::Harmless, None, work))
    }

    fn sweep(&self, most: u32) -> BoxFuture<'_, Result<u32>> {
        let sql = self.sql.key_sweep.clone();
        let work: Work<u32> = Arc::new(move |conn| {
            let params = vec![
                Column::Int(micros(SWEEP_AFTER)),
                Column::Int(micros(ABANDONED_AFTER)),
                Column::UInt(u64::from(most)),
            ];
            let sql = sql.clone();
            Box::pin(async move {
                let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
                Ok(u32::try_from(sets.always()?.number()?).unwrap_or(u32::MAX))
            })
        });
        Box::pin(self.run(Repeat::Harmless, None, work))
    }

    fn list<'a>(&'a self, after: Option<&'a Key>, most: u32) -> BoxFuture<'a, Result<Vec<Listed>>> {
        let sql = self.sql.keys.clone();
        let (kind, scope, name) =
            after.map_or(("", "", ""), |key| (key.kind().as_str(), key.scope(), key.name()));
        let mut params: Vec<Column> =
            [kind, kind, scope, kind, scope, name].into_iter().map(rows::bytes).collect();
        params.push(Column::UInt(u64::from(most)));
        let work: Work<Vec<Listed>> = Arc::new(move |conn| {
            let (sql, params) = (sql.clone(), params.clone());
            Box::pin(async move {
                let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
                sets.rows().map(listed).collect()
            })
        });
        Box::pin(self.run(Repeat::Harmless, None, work))
    }
}

impl MysqlStore {
    async fn moved(
        &self,
        repeat: Repeat,
        key: &Key,
        attempt: Attempt,
        how: &'static str,
        end: Option<End<'_>>,
    ) -> Result<bool> {
        let fault = |fault: Fault| fault.into_error(&self.place, None);
        let sql = self.sql.key_move.clone();
        let mut params = columns(key).to_vec();
        params.extend([
            rows::bytes(attempt.owner.0),
            rows::column(attempt.number).map_err(fault)?,
            rows::bytes(how),
            rows::or_null(end.as_ref().map(|end| end.state)),
            end.as_ref().map_or(Column::NULL, |end| Column::Int(end.until_us)),
            rows::or_null(end.as_ref().and_then(|end| end.class)),
            rows::or_null(end.as_ref().and_then(|end| end.result)),
            rows::or_null(end.as_ref().and_then(|end| end.inputs.as_deref())),
        ]);
        let work: Work<bool> = Arc::new(move |conn| {
            let (sql, params) = (sql.clone(), params.clone());
            Box::pin(async move {
                let mut sets = Sets::new(session::sets(conn, &sql, params).await?);
                Ok(sets.always()?.number()? == 1)
            })
        });
        self.run(repeat, None, work).await
    }
}

/// The key a save completes, as `fl_apply` wants it.
pub(super) fn param(key: Option<&KeyUse>) -> Column {
    let Some(used) = key else { return Column::NULL };
    let (how, owner, attempt) = match used.mode {
        KeyMode::Claimed(attempt) => ("claimed", attempt.owner, Some(attempt.number)),
        KeyMode::Once(own) => ("once", own, None),
    };
    let end = End::by(used);
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02X}")).collect() };
    let parts = [
        Json::from(used.key.kind().as_str()),
        Json::from(used.key.scope()),
        Json::from(used.key.name()),
        Json::from(used.hash.algorithm.as_str()),
        Json::from(hex(&used.hash.bytes)),
        Json::from(how),
        Json::from(hex(&owner.0)),
        Json::from(attempt),
        Json::from(end.result),
        Json::from(end.until_us),
        Json::from(end.inputs),
    ];
    rows::bytes(Json::from(parts.to_vec()).to_string())
}

/// What a save is refused for its key; `list` is how long to wait, and the row comes in the next set.
pub(super) fn refusal(outcome: &str, list: Option<&str>, sets: &mut Sets) -> Done<Refusal> {
    match outcome {
        "key_lost" => Ok(Refusal::KeyLost),
        "key_mismatch" => Ok(Refusal::KeyMismatch),
        "key_busy" => {
            let wait = list.and_then(|text| text.parse().ok()).unwrap_or_default();
            Ok(Refusal::KeyBusy(Duration::from_micros(wait)))
        }
        "key_replay" => Ok(Refusal::KeyReplay(Box::new(key_row(sets.always()?)?.finished()?))),
        other => Err(Fault::Broken(format!("a save was answered `{other}`"))),
    }
}

fn columns(key: &Key) -> [Column; 3] {
    [rows::bytes(key.kind().as_str()), rows::bytes(key.scope()), rows::bytes(key.name())]
}

/// Outcome, attempt and how long to wait; then the row after `replay`.
fn begun(mut sets: Sets, ask: &BeginAsk) -> Done<Begin> {
    let mut row = sets.always()?;
    let outcome = row.text()?;
    let number = row.number()?;
    let wait = Duration::from_micros(u64::try_from(row.signed()?).unwrap_or_default());
    let attempt = Attempt { owner: ask.own, number };
    match outcome.as_str() {
        "acquired" => Ok(Begin::Acquired { attempt, taken_over: false }),
        "taken_over" => Ok(Begin::Acquired { attempt, taken_over: true }),
        "mismatch" => Ok(Begin::Mismatch),
        "in_progress" => Ok(Begin::InProgress { retry_after: wait }),
        "retry_later" => Ok(Begin::RetryLater { retry_after: wait }),
        "replay" => Ok(Begin::Replay(Box::new(key_row(sets.always()?)?.finished()?))),
        other => Err(Fault::Broken(format!("a key was answered `{other}`"))),
    }
}

fn key_row(mut cells: Cells) -> Done<KeyRow> {
    Ok(KeyRow {
        state: cells.text()?,
        owner: cells.array()?,
        attempt: cells.number()?,
        until_at: rows::time(&mut cells)?,
        hash_algorithm: cells.text()?,
        hash: cells.bytes()?,
        result: cells.text_or_null()?,
        inputs: cells.text_or_null()?,
        operation: cells.array_or_null()?.map(|bytes| OperationId(u128::from_be_bytes(bytes))),
        incarnation: cells.number_or_null()?.map(Incarnation),
        number: rows::number(&mut cells)?,
        scopes: cells.text_or_null()?,
    })
}

fn listed(mut cells: Cells) -> Done<Listed> {
    let broken = |what: &str| Fault::Broken(format!("a stored key has an unknown {what}"));
    let kind = KeyKind::parse(&cells.text()?).ok_or_else(|| broken("kind"))?;
    let (scope, name) = (cells.text()?, cells.text()?);
    Ok(Listed {
        key: Key::stored(kind, &scope, &name),
        state: KeyState::parse(&cells.text()?).ok_or_else(|| broken("state"))?,
        attempt: cells.number()?,
        created_at: rows::time(&mut cells)?,
        until: StoreTime(cells.signed()?),
        class: cells.text_or_null()?,
    })
}
