//! A board in the memory of one process: for a service that is one process. Several need one on Redis.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    clock::{BoxFuture, Clock, Moment},
    error::{Error, Result},
    guard::{Guard, GuardBoard, GuardId, whole_ms},
    token::Entropy,
};

/// Most guards, and most of one owner: nobody takes all the room.
const GUARDS_MAX: usize = 100_000;
const GUARDS_PER_OWNER_MAX: usize = 10_000;

/// A map with deadlines. What has ended is dropped when the next one is opened.
pub struct MemoryGuards {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    guards: Mutex<Guards>,
}

struct Guards {
    by_id: HashMap<GuardId, (Guard, Moment)>,
    by_owner: HashMap<Arc<str>, usize>,
    /// Nothing ends before this.
    quiet_until: Moment,
}

impl Default for Guards {
    fn default() -> Self {
        let quiet_until = Moment(Duration::MAX);
        Self { by_id: HashMap::new(), by_owner: HashMap::new(), quiet_until }
    }
}

impl MemoryGuards {
    /// An empty board.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { clock, entropy, guards: Mutex::default() }
    }

    /// Guards that are up now.
    #[must_use]
    pub fn count(&self) -> usize {
        let now = self.clock.now();
        let mut guards = self.guards();
        guards.drop_ended(now);
        guards.by_id.len()
    }

    fn guards(&self) -> MutexGuard<'_, Guards> {
        self.guards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_now(&self, guard: &Guard, ttl: Duration) -> Result<GuardId> {
        let (ttl, now) = (whole_ms(ttl)?, self.clock.now());
        let mut guards = self.guards();
        guards.drop_ended(now);
        let own = guards.by_owner.get(&guard.owner).copied().unwrap_or_default();
        if guards.by_id.len() >= GUARDS_MAX || own >= GUARDS_PER_OWNER_MAX {
            return Err(Error::unavailable("too many version guards are open already"));
        }
        let (id, until) = (GuardId::new(&*self.entropy), now.plus(ttl));
        guards.by_id.insert(id, (guard.clone(), until));
        guards.by_owner.insert(Arc::clone(&guard.owner), own + 1);
        guards.quiet_until = guards.quiet_until.min(until);
        Ok(id)
    }

    fn keep_now(&self, ids: &[GuardId], ttl: Duration) -> Result<Vec<bool>> {
        let (ttl, now) = (whole_ms(ttl)?, self.clock.now());
        let mut guards = self.guards();
        guards.quiet_until = guards.quiet_until.min(now.plus(ttl));
        let mut keep = |id| {
            let known = guards.by_id.get_mut(id).filter(|(_, until)| now < *until);
            known.map(|(_, until)| *until = now.plus(ttl)).is_some()
        };
        Ok(ids.iter().map(&mut keep).collect())
    }

    fn close_now(&self, id: GuardId) -> bool {
        let now = self.clock.now();
        self.guards().remove(id).is_some_and(|(_, until)| now < until)
    }

    fn look_now(&self, id: GuardId) -> Option<Guard> {
        let now = self.clock.now();
        let guards = self.guards();
        let known = guards.by_id.get(&id).filter(|(_, until)| now < *until);
        known.map(|(guard, _)| guard.clone())
    }
}

impl Guards {
    fn remove(&mut self, id: GuardId) -> Option<(Guard, Moment)> {
        let (guard, until) = self.by_id.remove(&id)?;
        if let Some(count) = self.by_owner.get_mut(&guard.owner) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_owner.remove(&guard.owner);
            }
        }
        Some((guard, until))
    }

    fn drop_ended(&mut self, now: Moment) {
        if now < self.quiet_until {
            return;
        }
        let ended = self.by_id.iter().filter(|(_, (_, until))| *until <= now);
        let ended: Vec<GuardId> = ended.map(|(id, _)| *id).collect();
        for id in ended {
            self.remove(id);
        }
        let ends = self.by_id.values().map(|(_, until)| *until);
        self.quiet_until = ends.min().unwrap_or(Moment(Duration::MAX));
    }
}

impl GuardBoard for MemoryGuards {
    fn open<'a>(&'a self, guard: &'a Guard, ttl: Duration) -> BoxFuture<'a, Result<GuardId>> {
        Box::pin(async move { self.open_now(guard, ttl) })
    }

    fn keep<'a>(&'a self, ids: &'a [GuardId], ttl: Duration) -> BoxFuture<'a, Result<Vec<bool>>> {
        Box::pin(async move { self.keep_now(ids, ttl) })
    }

    fn close(&self, id: GuardId) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { Ok(self.close_now(id)) })
    }

    fn look(&self, id: GuardId) -> BoxFuture<'_, Result<Option<Guard>>> {
        Box::pin(async move { Ok(self.look_now(id)) })
    }
}
