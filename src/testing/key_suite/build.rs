//! Keys and attempts the way the engine makes them, small enough to read in a case.

use std::time::Duration;

use crate::{
    commit::{Commit, Committed, KeyMode, KeyUse, Refusal},
    entity::Writer,
    idempotency::{BeginAsk, Listed},
    key::{Attempt, Begin, Finish, Finished, HashAlgorithm, JobKey, Key, Owner, RequestHash},
    testing::{
        key_suite::{Rig, Verdict},
        store_suite::build::{Step, same, text_of},
    },
    token::SystemEntropy,
};

/// How long a lease of a case lasts. Steps of time are far longer or shorter, so that real time does not matter.
pub(super) const LEASE: Duration = Duration::from_secs(600);
/// Less than a lease.
pub(super) const SHORT: Duration = Duration::from_secs(120);
/// More than a lease.
pub(super) const LONG: Duration = Duration::from_secs(900);
/// How long ends are answered.
pub(super) const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn job(name: &str) -> Step<Key> {
    JobKey::text(name).map_err(text_of)?.key(&Writer::worker("thumbnailer")).map_err(text_of)
}

/// The hash of work number `number`.
pub(super) fn work(number: u8) -> RequestHash {
    RequestHash { algorithm: HashAlgorithm::JcsSha256, bytes: [number; 32] }
}

pub(super) fn owner() -> Owner {
    Owner::new(&SystemEntropy)
}

/// What a repeat is answered after [`done`].
pub(super) fn done() -> Finish {
    Finish::Done { result: r#"{"ok":true}"#.to_owned(), retention: DAY, inputs: None }
}

/// A save's use of a key.
pub(super) fn keyed(mut commit: Commit, key: &Key, hash: RequestHash, mode: KeyMode) -> Commit {
    let result = format!(r#"{{"by":"{}"}}"#, commit.operation);
    let key = KeyUse { key: key.clone(), hash, mode, result, retention: DAY, inputs: None };
    commit.key = Some(key);
    commit
}

impl Rig {
    pub(super) async fn begin_as(&self, key: &Key, hash: RequestHash, own: Owner) -> Step<Begin> {
        let ask = BeginAsk { key: key.clone(), hash, own, lease: LEASE };
        self.keys.begin(&ask).await.map_err(text_of)
    }

    pub(super) async fn begin(&self, key: &Key, hash: RequestHash) -> Step<Begin> {
        self.begin_as(key, hash, owner()).await
    }

    /// A begin that must acquire.
    pub(super) async fn acquired(&self, key: &Key, hash: RequestHash) -> Step<Attempt> {
        match self.begin(key, hash).await? {
            Begin::Acquired { attempt, .. } => Ok(attempt),
            other => Err(format!("{key} was not acquired: {other:?}")),
        }
    }

    /// A begin that must be answered with what the work ended with.
    pub(super) async fn replayed(&self, key: &Key, hash: RequestHash) -> Step<Finished> {
        match self.begin(key, hash).await? {
            Begin::Replay(finished) => Ok(*finished),
            other => Err(format!("{key} was not replayed: {other:?}")),
        }
    }

    pub(super) async fn finish(&self, key: &Key, attempt: Attempt, how: &Finish) -> Step<bool> {
        self.keys.finish(key, attempt, how).await.map_err(text_of)
    }

    /// A finish that must be accepted.
    pub(super) async fn finished(&self, key: &Key, attempt: Attempt, how: &Finish) -> Verdict {
        same("whether it was finished", self.finish(key, attempt, how).await?, true)
    }

    pub(super) async fn renew(&self, key: &Key, attempt: Attempt) -> Step<bool> {
        self.keys.renew(key, attempt, LEASE).await.map_err(text_of)
    }

    /// Every key there is.
    pub(super) async fn listed(&self) -> Step<Vec<Listed>> {
        self.keys.list(None, 1_000).await.map_err(text_of)
    }

    /// A save with a key that must be refused for this reason, and leave record, history and key as they were.
    pub(super) async fn refused(&self, commit: &Commit, refusal: Refusal) -> Verdict {
        let before = (self.stores.picture(&commit.entity).await?, self.listed().await?);
        let answer = self.stores.commit(commit).await?;
        same("the answer", answer, Committed::Refused(refusal))?;
        let after = (self.stores.picture(&commit.entity).await?, self.listed().await?);
        same("what a refused save left", after, before)
    }

    /// A save with a key that must be refused as busy.
    pub(super) async fn busy(&self, commit: &Commit) -> Verdict {
        let before = (self.stores.picture(&commit.entity).await?, self.listed().await?);
        match self.stores.commit(commit).await? {
            Committed::Refused(Refusal::KeyBusy(after)) if after <= LEASE => {}
            other => return Err(format!("not busy: {other:?}")),
        }
        let after = (self.stores.picture(&commit.entity).await?, self.listed().await?);
        same("what a busy save left", after, before)
    }
}

/// Whether others are kept out for at most a lease.
pub(super) fn in_progress(begin: &Begin) -> Verdict {
    match begin {
        Begin::InProgress { retry_after } if *retry_after <= LEASE => Ok(()),
        other => Err(format!("not in progress: {other:?}")),
    }
}
