//! Idempotency keys: each transition is one transaction, or part of a save's.

use std::time::Duration;

use rusqlite::Row as SqlRow;

use crate::{
    clock::{BoxFuture, StoreTime},
    commit::{KeyMode, KeyUse, Refusal},
    error::Result,
    idempotency::{BeginAsk, IdempotencyStore, KeyState, Listed},
    key::{
        self, ABANDONED_AFTER, Attempt, Begin, Finish, Key, KeyKind, Owner, RequestHash, Row,
        SWEEP_AFTER, Step,
    },
    store::{
        keys::{End as KeyEnd, KeyRow, lease_us, micros},
        sqlite::{
            SqliteStore,
            fault::Fault,
            rows,
            session::{End, Tx},
        },
    },
    token::{Incarnation, OperationId, VersionNumber},
};

type Done<T> = std::result::Result<T, Fault>;

impl IdempotencyStore for SqliteStore {
    fn begin<'a>(&'a self, ask: &'a BeginAsk) -> BoxFuture<'a, Result<Begin>> {
        let ask = ask.clone();
        Box::pin(async move {
            let lease = lease_us(ask.lease)?;
            self.write(None, move |tx| begin(tx, &ask, lease)).await
        })
    }

    fn renew<'a>(
        &'a self,
        key: &'a Key,
        attempt: Attempt,
        lease: Duration,
    ) -> BoxFuture<'a, Result<bool>> {
        let key = key.clone();
        Box::pin(async move {
            let lease = lease_us(lease)?;
            self.write(None, move |tx| {
                let (kind, scope, name) = columns(&key);
                let until = tx.now.0.saturating_add(lease);
                let number = rows::column(attempt.number)?;
                let params = (kind, scope, name, attempt.owner.0, number, until);
                Ok(End::Keep(tx.change(&tx.sql.renew_key, params)? == 1))
            })
            .await
        })
    }

    fn finish<'a>(
        &'a self,
        key: &'a Key,
        attempt: Attempt,
        how: &'a Finish,
    ) -> BoxFuture<'a, Result<bool>> {
        let (key, how) = (key.clone(), how.clone());
        Box::pin(self.write(None, move |tx| {
            let ended = match KeyEnd::of(&how) {
                Some(end) => end_key(tx, &key, attempt, &end, None)?,
                None => {
                    let (kind, scope, name) = columns(&key);
                    let number = rows::column(attempt.number)?;
                    let params = (kind, scope, name, attempt.owner.0, number);
                    tx.change(&tx.sql.release_key, params)? == 1
                }
            };
            Ok(End::Keep(ended))
        }))
    }

    fn peek<'a>(&'a self, key: &'a Key, hash: RequestHash) -> BoxFuture<'a, Result<Option<Begin>>> {
        let key = key.clone();
        Box::pin(self.read(move |tx| {
            let Some(row) = key_row(tx, &key, &hash)? else { return Ok(None) };
            // Nobody's attempt: the owner is not one that could have been drawn.
            Ok(match key::begin(Some(&row), Owner([0; 16]), tx.now) {
                Step::Acquire { .. } => None,
                Step::Answer(answer) => Some(answer),
            })
        }))
    }

    fn sweep(&self, most: u32) -> BoxFuture<'_, Result<u32>> {
        Box::pin(self.write(None, move |tx| {
            let before = |time: Duration| tx.now.0.saturating_sub(micros(time));
            let params = (before(SWEEP_AFTER), before(ABANDONED_AFTER), most);
            let swept = tx.change(&tx.sql.sweep_keys, params)?;
            Ok(End::Keep(u32::try_from(swept).unwrap_or(u32::MAX)))
        }))
    }

    fn list<'a>(&'a self, after: Option<&'a Key>, most: u32) -> BoxFuture<'a, Result<Vec<Listed>>> {
        let after = after.cloned();
        Box::pin(self.read(move |tx| {
            let after = after.as_ref().map(columns);
            let params = (
                after.map(|(kind, _, _)| kind),
                after.map(|(_, scope, _)| scope),
                after.map(|(_, _, name)| name),
                most,
            );
            let mut listed = Vec::new();
            tx.each(&tx.sql.keys, params, |row| {
                listed.push(listed_of(row)?);
                Ok(())
            })?;
            Ok(listed)
        }))
    }
}

/// Makes a save's key its own, or says why the save must not happen. What it writes goes with the save's transaction.
pub(super) fn take(tx: &Tx<'_>, key: &KeyUse) -> Done<std::result::Result<Attempt, Refusal>> {
    let row = key_row(tx, &key.key, &key.hash)?;
    let own = match key.mode {
        KeyMode::Claimed(attempt) => return Ok(still_has(row.as_ref(), attempt)),
        KeyMode::Once(own) => own,
    };
    Ok(match key::begin(row.as_ref(), own, tx.now) {
        Step::Acquire { attempt, .. } => {
            acquire(tx, &key.key, &key.hash, attempt, tx.now)?;
            Ok(attempt)
        }
        Step::Answer(Begin::Replay(finished)) => Err(Refusal::KeyReplay(finished)),
        Step::Answer(Begin::InProgress { retry_after } | Begin::RetryLater { retry_after }) => {
            Err(Refusal::KeyBusy(retry_after))
        }
        Step::Answer(Begin::Mismatch | Begin::Acquired { .. }) => Err(Refusal::KeyMismatch),
    })
}

/// The transition itself compares again; this is only told first.
fn still_has(row: Option<&Row>, attempt: Attempt) -> std::result::Result<Attempt, Refusal> {
    let pending = row.filter(|row| row.attempt == attempt.number).map(|row| &row.state);
    match pending {
        Some(key::State::Pending { owner, .. }) if *owner == attempt.owner => Ok(attempt),
        _ => Err(Refusal::KeyLost),
    }
}

/// What the save that completes a key leaves in its row.
pub(super) struct Completion<'a> {
    pub(super) operation: OperationId,
    pub(super) incarnation: Incarnation,
    pub(super) number: Option<VersionNumber>,
    pub(super) scopes: &'a str,
}

/// Completes the key of a save. `false`: it is not this attempt's any more.
pub(super) fn complete(
    tx: &Tx<'_>,
    key: &KeyUse,
    attempt: Attempt,
    by: &Completion<'_>,
) -> Done<bool> {
    end_key(tx, &key.key, attempt, &KeyEnd::by(key), Some(by))
}

fn begin(tx: &Tx<'_>, ask: &BeginAsk, lease: i64) -> Done<End<Begin>> {
    let row = key_row(tx, &ask.key, &ask.hash)?;
    Ok(match key::begin(row.as_ref(), ask.own, tx.now) {
        Step::Acquire { attempt, taken_over } => {
            let until = StoreTime(tx.now.0.saturating_add(lease));
            acquire(tx, &ask.key, &ask.hash, attempt, until)?;
            End::Keep(Begin::Acquired { attempt, taken_over })
        }
        Step::Answer(answer) => End::Undo(answer),
    })
}

fn acquire(
    tx: &Tx<'_>,
    key: &Key,
    hash: &RequestHash,
    attempt: Attempt,
    until: StoreTime,
) -> Done<()> {
    let (kind, scope, name) = columns(key);
    let params = (
        kind,
        scope,
        name,
        hash.algorithm.as_str(),
        hash.bytes,
        attempt.owner.0,
        rows::column(attempt.number)?,
        until.0,
        tx.now.0,
    );
    tx.change(&tx.sql.acquire_key, params)?;
    Ok(())
}

fn end_key(
    tx: &Tx<'_>,
    key: &Key,
    attempt: Attempt,
    end: &KeyEnd<'_>,
    by: Option<&Completion<'_>>,
) -> Done<bool> {
    let (kind, scope, name) = columns(key);
    let number = by.and_then(|by| by.number).map(|number| rows::column(number.0)).transpose()?;
    let incarnation = by.map(|by| rows::column(by.incarnation.0)).transpose()?;
    let params = (
        kind,
        scope,
        name,
        attempt.owner.0,
        rows::column(attempt.number)?,
        tx.now.0.saturating_add(end.until_us),
        end.state,
        end.class,
        end.result,
        end.inputs.as_deref(),
        by.map(|by| rows::operation_blob(by.operation)),
        incarnation,
        number,
        by.map(|by| by.scopes),
    );
    Ok(tx.change(&tx.sql.end_key, params)? == 1)
}

fn columns(key: &Key) -> (&'static str, &str, &str) {
    (key.kind().as_str(), key.scope(), key.name())
}

fn key_row(tx: &Tx<'_>, key: &Key, hash: &RequestHash) -> Done<Option<Row>> {
    let row = tx.one(&tx.sql.key, columns(key), |row| {
        let incarnation: Option<i64> = row.get(9)?;
        Ok(KeyRow {
            state: row.get(0)?,
            owner: row.get(1)?,
            attempt: rows::counter(row, 2)?,
            until_at: rows::time(row, 3)?,
            hash_algorithm: row.get(4)?,
            hash: row.get(5)?,
            result: row.get(6)?,
            inputs: row.get(7)?,
            operation: operation(row, 8)?,
            incarnation: incarnation.map(|_| rows::incarnation(row, 9)).transpose()?,
            number: rows::number(row, 10)?,
            scopes: row.get(11)?,
        })
    })?;
    Ok(row.map(|row| row.row(hash)).transpose()?)
}

fn operation(row: &SqlRow<'_>, index: usize) -> Done<Option<OperationId>> {
    let bytes: Option<[u8; 16]> = row.get(index)?;
    Ok(bytes.map(|bytes| OperationId(u128::from_be_bytes(bytes))))
}

fn listed_of(row: &SqlRow<'_>) -> Done<Listed> {
    let broken = |what: &str| Fault::Broken(format!("a stored key has an unknown {what}"));
    let kind = KeyKind::parse(rows::text(row, 0)?).ok_or_else(|| broken("kind"))?;
    Ok(Listed {
        key: Key::stored(kind, rows::text(row, 1)?, rows::text(row, 2)?),
        state: KeyState::parse(rows::text(row, 3)?).ok_or_else(|| broken("state"))?,
        attempt: rows::counter(row, 4)?,
        created_at: rows::time(row, 5)?,
        until: rows::time(row, 6)?,
        class: row.get(7)?,
    })
}
