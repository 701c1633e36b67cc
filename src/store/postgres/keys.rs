//! Idempotency keys: each transition is one statement, or part of a save's.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio_postgres::{Row, types::Type};

use crate::{
    clock::BoxFuture,
    commit::{KeyMode, KeyUse, Refusal},
    database::postgres::{
        Call, Class, Fault,
        values::{JsonText, Uuid},
    },
    error::Result,
    idempotency::{BeginAsk, IdempotencyStore, KeyState, Listed},
    key::{
        ABANDONED_AFTER, Attempt, Begin, Finish, Finished, Key, KeyKind, Owner, RequestHash,
        SWEEP_AFTER,
    },
    store::{
        keys::{End, KeyRow, lease_us, micros},
        postgres::{PostgresStore, rows},
    },
    token::{Incarnation, OperationId, VersionNumber},
};

type Done<T> = std::result::Result<T, Fault>;

/// How an ended key ended, as `fl_key_step` tells it.
#[derive(Deserialize)]
struct Ended {
    state: String,
    result: Option<String>,
    inputs: Option<String>,
    operation: Option<OperationId>,
    incarnation: Option<Incarnation>,
    number: Option<VersionNumber>,
    scopes: Option<String>,
}

impl IdempotencyStore for PostgresStore {
    fn begin<'a>(&'a self, ask: &'a BeginAsk) -> BoxFuture<'a, Result<Begin>> {
        Box::pin(async move {
            let call =
                with_hash(with_key(Call::new(&self.statements.begin_key), &ask.key), &ask.hash)
                    .with(Type::UUID, Uuid(ask.own.0))
                    .with(Type::INT8, lease_us(ask.lease)?);
            let row = self.database.row(call).await;
            row.and_then(|row| begun(rows::the_row(row.as_ref())?, ask.own))
                .map_err(|fault| self.error(fault))
        })
    }

    fn renew<'a>(
        &'a self,
        key: &'a Key,
        attempt: Attempt,
        lease: Duration,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let call = with_attempt(Call::new(&self.statements.renew_key), key, attempt)
                .with(Type::INT8, lease_us(lease)?);
            self.changed(call).await
        })
    }

    fn finish<'a>(
        &'a self,
        key: &'a Key,
        attempt: Attempt,
        how: &'a Finish,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let Some(end) = End::of(how) else {
                let call = Call::new(&self.statements.release_key);
                return self.changed(with_attempt(call, key, attempt)).await;
            };
            let text = |text: Option<&str>| {
                text.map(rows::plain).transpose().map_err(|fault| self.error(fault))
            };
            let call = with_attempt(Call::new(&self.statements.end_key), key, attempt)
                .with(Type::INT8, end.until_us)
                .with(Type::TEXT, end.state)
                .with(Type::TEXT, text(end.class)?)
                .with(Type::TEXT, text(end.result)?)
                .with(Type::TEXT, end.inputs);
            self.changed(call).await
        })
    }

    fn peek<'a>(&'a self, key: &'a Key, hash: RequestHash) -> BoxFuture<'a, Result<Option<Begin>>> {
        Box::pin(async move {
            // Nobody's attempt: the owner is not one that could have been drawn.
            let nobody = Owner([0; 16]);
            let call = with_hash(with_key(Call::new(&self.statements.peek_key), key), &hash)
                .with(Type::UUID, Uuid(nobody.0));
            let row = self.database.row(call).await;
            let found = row.and_then(|row| row.map(|row| begun(&row, nobody)).transpose());
            let found = found.map_err(|fault| self.error(fault))?;
            Ok(found.filter(|begin| !matches!(begin, Begin::Acquired { .. })))
        })
    }

    fn sweep(&self, most: u32) -> BoxFuture<'_, Result<u32>> {
        Box::pin(async move {
            let call = Call::new(&self.statements.sweep_keys)
                .with(Type::INT8, micros(SWEEP_AFTER))
                .with(Type::INT8, micros(ABANDONED_AFTER))
                .with(Type::INT8, i64::from(most));
            let swept = self.database.rows(call).await.map_err(|fault| self.error(fault))?;
            Ok(u32::try_from(swept.len()).unwrap_or(u32::MAX))
        })
    }

    fn list<'a>(&'a self, after: Option<&'a Key>, most: u32) -> BoxFuture<'a, Result<Vec<Listed>>> {
        Box::pin(async move {
            let call = Call::new(&self.statements.keys)
                .with(Type::TEXT, after.map(|key| key.kind().as_str()))
                .with(Type::TEXT, after.map(|key| key.scope().to_owned()))
                .with(Type::TEXT, after.map(|key| key.name().to_owned()))
                .with(Type::INT8, i64::from(most));
            let found = self.database.rows(call).await;
            found
                .and_then(|found| found.iter().map(listed).collect())
                .map_err(|fault| self.error(fault))
        })
    }
}

impl PostgresStore {
    /// Whether a transition found its attempt.
    async fn changed(&self, call: Call) -> Result<bool> {
        let row = self.database.row(call).await.map_err(|fault| self.error(fault))?;
        Ok(row.is_some())
    }
}

fn with_key(call: Call, key: &Key) -> Call {
    call.with(Type::TEXT, key.kind().as_str())
        .with(Type::TEXT, key.scope().to_owned())
        .with(Type::TEXT, key.name().to_owned())
}

fn with_hash(call: Call, hash: &RequestHash) -> Call {
    call.with(Type::TEXT, hash.algorithm.as_str()).with(Type::BYTEA, hash.bytes.to_vec())
}

fn with_attempt(call: Call, key: &Key, attempt: Attempt) -> Call {
    with_key(call, key)
        .with(Type::UUID, Uuid(attempt.owner.0))
        .with(Type::INT8, i64::try_from(attempt.number).unwrap_or(i64::MAX))
}

/// From the columns step, details and attempt.
fn begun(row: &Row, own: Owner) -> Done<Begin> {
    let step: &str = rows::column(row, 0)?;
    let details: Option<&str> = rows::column(row, 1)?;
    Ok(match step {
        "new" | "fresh" | "same" | "taken_over" => {
            let number = rows::counter(rows::column(row, 2)?)?;
            let attempt = Attempt { owner: own, number };
            Begin::Acquired { attempt, taken_over: step == "taken_over" }
        }
        "mismatch" => Begin::Mismatch,
        "replay" => Begin::Replay(Box::new(finished(details)?)),
        "in_progress" => Begin::InProgress { retry_after: retry_after(details)? },
        "retry_later" => Begin::RetryLater { retry_after: retry_after(details)? },
        other => return Err(Fault::new(Class::Broken, format!("a key answered `{other}`"))),
    })
}

fn retry_after(details: Option<&str>) -> Done<Duration> {
    let micros = details.and_then(|text| text.parse().ok());
    let micros = micros.ok_or_else(|| Fault::new(Class::Broken, "a busy key without a time"))?;
    Ok(Duration::from_micros(micros))
}

fn finished(details: Option<&str>) -> Done<Finished> {
    let ended: Ended = serde_json::from_str(details.unwrap_or_default()).map_err(|error| {
        Fault::new(Class::Broken, format!("a stored key is not readable: {error}"))
    })?;
    let row = KeyRow {
        state: ended.state,
        result: ended.result,
        inputs: ended.inputs,
        operation: ended.operation,
        incarnation: ended.incarnation,
        number: ended.number,
        scopes: ended.scopes,
        ..KeyRow::default()
    };
    Ok(row.finished()?)
}

fn listed(row: &Row) -> Done<Listed> {
    let broken =
        |what: &str| Fault::new(Class::Broken, format!("a stored key has an unknown {what}"));
    let kind = KeyKind::parse(rows::column(row, 0)?).ok_or_else(|| broken("kind"))?;
    Ok(Listed {
        key: Key::stored(kind, rows::column(row, 1)?, rows::column(row, 2)?),
        state: KeyState::parse(rows::column(row, 3)?).ok_or_else(|| broken("state"))?,
        attempt: rows::counter(rows::column(row, 4)?)?,
        created_at: rows::time(row, 5)?,
        until: rows::time(row, 6)?,
        class: rows::column(row, 7)?,
    })
}

/// The key of a save, as `fl_take_key` and `fl_complete_key` read it.
pub(super) fn key_text(key: &KeyUse) -> Done<JsonText> {
    let end = End::by(key);
    let result = end.result.map(rows::plain).transpose()?;
    let (owner, attempt) = match key.mode {
        KeyMode::Claimed(attempt) => (attempt.owner, Some(attempt.number)),
        KeyMode::Once(owner) => (owner, None),
    };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = json!({
        "kind": key.key.kind().as_str(),
        "scope": key.key.scope(),
        "name": key.key.name(),
        "algorithm": key.hash.algorithm.as_str(),
        "hash": hex(&key.hash.bytes),
        "owner": hex(&owner.0),
        "attempt": attempt,
        "until_us": end.until_us,
        "result": result,
        "inputs": end.inputs,
    });
    Ok(JsonText(text.to_string()))
}

/// Why the key refuses a save.
pub(super) fn refusal(answer: &str, details: Option<&str>) -> Done<Refusal> {
    Ok(match answer {
        "key_lost" => Refusal::KeyLost,
        "key_mismatch" => Refusal::KeyMismatch,
        "key_replay" => Refusal::KeyReplay(Box::new(finished(details)?)),
        "key_busy" => Refusal::KeyBusy(retry_after(details)?),
        other => return Err(Fault::new(Class::Broken, format!("a commit answered `{other}`"))),
    })
}
