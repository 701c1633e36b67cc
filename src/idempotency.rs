//! The port of idempotency keys: beginning work, keeping it, and ending it without an effect.
//!
//! An effect ends it too, in the transaction of the effect: see [`crate::commit::KeyUse`]. Every time is the store's.

use std::time::Duration;

use crate::{
    clock::{BoxFuture, StoreTime},
    error::Result,
    key::{Attempt, Begin, Finish, Key, Owner, RequestHash},
};

/// Beginning the work of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct BeginAsk {
    /// The key.
    pub key: Key,
    /// What the work is.
    pub hash: RequestHash,
    /// Fresh for this acquisition, and the same in every repeat of the call.
    pub own: Owner,
    /// How long others are kept out without a renewal: at most [`crate::key::LEASE_MAX`].
    pub lease: Duration,
}

/// One stored key, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The key.
    pub key: Key,
    /// `pending`, `completed`, `failed` or `retry`.
    pub state: KeyState,
    /// Number of the newest attempt.
    pub attempt: u64,
    /// When the first attempt began.
    pub created_at: StoreTime,
    /// What comes next and when: the lease's end, the retry, or the end's expiry.
    pub until: StoreTime,
    /// The class of the error that is tried again.
    pub class: Option<String>,
}

/// Where a stored key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// An attempt is at it, or was.
    Pending,
    /// It ended well, or there was nothing to do.
    Completed,
    /// It failed for good.
    Failed,
    /// It failed and may be tried again.
    Retry,
}

impl KeyState {
    /// As stores keep it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Retry => "retry",
        }
    }

    /// Reads what [`KeyState::as_str`] says.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::Pending, Self::Completed, Self::Failed, Self::Retry];
        all.into_iter().find(|state| state.as_str() == text)
    }
}

/// Keeps keys. What may happen to one is decided as [`crate::key::begin`] says.
pub trait IdempotencyStore: Send + Sync {
    /// Acquires the key, or says why not; it always answers. Of any number of calls at once exactly one acquires. A
    /// call with the owner of the pending attempt acquires that attempt again, with a fresh lease. Another hash changes
    /// nothing, whatever the state.
    fn begin<'a>(&'a self, ask: &'a BeginAsk) -> BoxFuture<'a, Result<Begin>>;
    /// The attempt's lease ends `lease` from now, also when it had lapsed and nobody took over. `false`: the key is no
    /// longer this attempt's; nothing changed.
    fn renew<'a>(
        &'a self,
        key: &'a Key,
        attempt: Attempt,
        lease: Duration,
    ) -> BoxFuture<'a, Result<bool>>;
    /// The attempt has ended without an effect, also when its lease had lapsed and nobody took over. `false`: the key is
    /// no longer this attempt's; nothing changed. A call that is repeated answers `false`.
    fn finish<'a>(
        &'a self,
        key: &'a Key,
        attempt: Attempt,
        how: &'a Finish,
    ) -> BoxFuture<'a, Result<bool>>;
    /// What [`IdempotencyStore::begin`] would answer a newcomer; `None`: it would acquire. Writes nothing.
    fn peek<'a>(&'a self, key: &'a Key, hash: RequestHash) -> BoxFuture<'a, Result<Option<Begin>>>;
    /// Removes up to `most` rows: ends that expired [`crate::key::SWEEP_AFTER`] ago, and attempts and failures whose
    /// time came [`crate::key::ABANDONED_AFTER`] ago. Answers how many. Several sweepers at once remove each row once
    /// and do not wait for each other.
    fn sweep(&self, most: u32) -> BoxFuture<'_, Result<u32>>;
    /// Up to `most` keys after this one, in the order of kind, scope and name as bytes.
    fn list<'a>(&'a self, after: Option<&'a Key>, most: u32) -> BoxFuture<'a, Result<Vec<Listed>>>;
}
