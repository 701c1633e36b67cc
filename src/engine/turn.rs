//! Saves of one record that were overtaken take turns in this process, so that a busy counter is not lost to luck.
//!
//! A courtesy, not a lock: who waits too long goes on without a turn, and what keeps saves apart is the store.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{engine::core::Core, entity::EntityRef};

/// Records that share a turn by chance wait for each other, which only costs time.
const SHARDS: usize = 64;
/// Longest wait for a turn: a save that hangs must not hold up others for long.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// Whose turn it is.
pub(super) struct Turns {
    shards: Vec<Arc<Mutex<()>>>,
    hasher: RandomState,
}

/// One save's turn; it ends when this is dropped. Nobody waits for a lease while having one.
pub(super) type Turn = OwnedMutexGuard<()>;

impl Turns {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Arc::default()).collect();
        Self { shards, hasher: RandomState::new() }
    }

    /// Waits for the turn behind those who came before, or goes on without.
    pub(super) async fn take(&self, core: &Core, entity: &EntityRef) -> Option<Turn> {
        let number = u64::try_from(self.shards.len()).ok()?;
        let hash = self.hasher.hash_one(entity).checked_rem(number)?;
        let shard = self.shards.get(usize::try_from(hash).ok()?)?;
        core.before(core.after(WAIT_MAX), Arc::clone(shard).lock_owned()).await
    }
}
