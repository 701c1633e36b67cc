//! Leases held for clients that cannot renew by themselves.
//!
//! The engine renews a lease as long as its claim lives here. It lives here until the time its client asked for is
//! over, and no longer unless the client says so again; `max_hold` of the group ends it in any case.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    clock::{Clock, Moment},
    engine::Claim,
    entity::{EntityRef, Writer},
    hold::Released,
    server::problem::Problem,
    token::{HolderToken, SystemEntropy},
};

/// One client's lease. Its name is drawn here and is not the holder's token: the store's secrets stay inside.
pub(crate) struct Held {
    pub(crate) claim: Claim,
    pub(crate) entity: EntityRef,
}

struct Slot {
    writer: Writer,
    ttl: Duration,
    until: Moment,
    /// Empty while the acquire is on its way: the place counts already.
    held: Option<Arc<Held>>,
}

/// All leases of clients.
pub(crate) struct LeaseTable {
    slots: Mutex<HashMap<HolderToken, Slot>>,
    changed: Notify,
    most: usize,
    most_per_writer: usize,
}

/// A place in the table for a lease on its way. Dropped without [`Place::fill`], it is free again.
pub(crate) struct Place<'a> {
    table: &'a LeaseTable,
    token: HolderToken,
}

impl LeaseTable {
    pub(crate) fn new(most: usize, most_per_writer: usize) -> Self {
        let slots = Mutex::new(HashMap::new());
        Self { slots, changed: Notify::new(), most, most_per_writer }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<HolderToken, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more lease of this writer.
    pub(crate) fn reserve(&self, writer: &Writer, ttl: Duration) -> Result<Place<'_>, Problem> {
        let token = HolderToken::new(&SystemEntropy);
        let mut slots = self.slots();
        let own = slots.values().filter(|slot| slot.writer == *writer).count();
        if own >= self.most_per_writer || slots.len() >= self.most {
            return Err(Problem::new("too_many_leases", "no more leases can be held at once")
                .help("release leases that are no longer needed"));
        }
        let until = Moment(Duration::MAX);
        slots.insert(token, Slot { writer: writer.clone(), ttl, until, held: None });
        Ok(Place { table: self, token })
    }

    /// The lease of this name, if it is this writer's. Somebody else's is as unknown as one that never was.
    pub(crate) fn find(&self, text: &str, writer: &Writer) -> Result<Arc<Held>, Problem> {
        let token = HolderToken::parse(text).ok_or_else(unknown)?;
        let slots = self.slots();
        let slot = slots.get(&token).filter(|slot| slot.writer == *writer).ok_or_else(unknown)?;
        slot.held.clone().ok_or_else(unknown)
    }

    /// Keeps a lease for another period from `now`: the asked one, else the one of the acquire.
    pub(crate) fn renew(
        &self,
        text: &str,
        writer: &Writer,
        ttl: Option<Duration>,
        now: Moment,
    ) -> Result<Duration, Problem> {
        let held = self.find(text, writer)?;
        if held.claim.lost().is_cancelled() {
            drop(held);
            self.take(text, writer)?;
            return Err(lost());
        }
        let token = HolderToken::parse(text).ok_or_else(unknown)?;
        let ttl = {
            let mut slots = self.slots();
            let slot = slots.get_mut(&token).ok_or_else(unknown)?;
            slot.ttl = ttl.unwrap_or(slot.ttl);
            slot.until = now.plus(slot.ttl);
            slot.ttl
        };
        self.changed.notify_one();
        Ok(ttl)
    }

    /// Takes a lease out of the table.
    pub(crate) fn take(&self, text: &str, writer: &Writer) -> Result<Arc<Held>, Problem> {
        self.find(text, writer)?;
        let token = HolderToken::parse(text).ok_or_else(unknown)?;
        self.slots().remove(&token).and_then(|slot| slot.held).ok_or_else(unknown)
    }

    /// Ends leases whose clients' time is over, until `stop`.
    pub(crate) async fn sweep(&self, clock: &dyn Clock, stop: &CancellationToken) {
        loop {
            let next = self.slots().values().map(|slot| slot.until).min();
            let next = next.unwrap_or(Moment(Duration::MAX));
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.changed.notified() => {}
                () = clock.sleep_until(next) => self.end_before(clock.now()),
            }
        }
    }

    fn end_before(&self, now: Moment) {
        let mut over = Vec::new();
        self.slots().retain(|_, slot| {
            let keep = slot.until > now;
            if !keep {
                over.extend(slot.held.take());
            }
            keep
        });
        // Dropping a claim hands its release over; a save still running under it keeps it until it is done.
        drop(over);
    }

    /// Gives every lease back; answers how many.
    pub(crate) async fn release_all(&self) -> usize {
        let slots: Vec<Slot> = self.slots().drain().map(|(_, slot)| slot).collect();
        let mut count: usize = 0;
        for held in slots.into_iter().filter_map(|slot| slot.held) {
            count = count.saturating_add(1);
            if let Some(held) = Arc::into_inner(held)
                && held.claim.release().await == Released::Unknown
            {
                tracing::warn!("a lease could not be given back; it ends by its time to live");
            }
        }
        count
    }
}

impl Place<'_> {
    /// Puts the lease there and answers its name.
    pub(crate) fn fill(self, held: Held, now: Moment) -> String {
        if let Some(slot) = self.table.slots().get_mut(&self.token) {
            slot.until = now.plus(slot.ttl);
            slot.held = Some(Arc::new(held));
        }
        self.table.changed.notify_one();
        self.token.to_string()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut slots = self.table.slots();
        if slots.get(&self.token).is_some_and(|slot| slot.held.is_none()) {
            slots.remove(&self.token);
        }
    }
}

fn unknown() -> Problem {
    Problem::new("lease_unknown", "this token holds no such lease")
        .help("it may have ended: acquire again")
}

pub(crate) fn lost() -> Problem {
    Problem::new("lease_lost", "the lease has ended").help("acquire again and repeat the work")
}
