//! Leases in one process: the embedded default, and the reference for every other backend.
//!
//! Its guarantee ends at the process: two processes over the same database need another backend, or rely on claims alone.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dashmap::{DashMap, Entry};

use crate::{
    clock::{BoxFuture, Clock, Moment},
    entity::EntityRef,
    error::{Error, Result},
    event::{Event, EventSink, NoEvents},
    lease::{
        Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, Wake, WakeSink, page,
        whole_ms,
    },
    scope::Scope,
    table::{Answer, Bid, Effect, Kept, PLACES_MAX, Table},
    token::HolderToken,
};

/// How often entities whose leases all ran out unnoticed are dropped.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// A sharded map with one [`Table`] per entity. An entity without leases and waiters has no entry.
pub struct MemoryLeases {
    clock: Arc<dyn Clock>,
    events: Arc<dyn EventSink>,
    tables: DashMap<EntityRef, Table>,
    sinks: Mutex<Vec<(u64, Arc<dyn WakeSink>)>>,
    subscriptions: AtomicU64,
    /// The last order told.
    order: AtomicU64,
}

impl MemoryLeases {
    /// An empty place on this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_events(clock, Arc::new(NoEvents))
    }

    /// As [`MemoryLeases::new`]; impossible times to live are reported to the sink.
    #[must_use]
    pub fn with_events(clock: Arc<dyn Clock>, events: Arc<dyn EventSink>) -> Self {
        Self {
            clock,
            events,
            tables: DashMap::new(),
            sinks: Mutex::default(),
            subscriptions: AtomicU64::new(0),
            order: AtomicU64::new(0),
        }
    }

    /// Whether nothing is held and nobody waits. What has ended by now does not count and is dropped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sweep();
        self.tables.is_empty()
    }

    /// Places in all queues.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.sweep();
        self.tables.iter().map(|table| table.waiting()).sum()
    }

    fn sweep(&self) {
        let now = self.clock.now();
        let mut all: Vec<(EntityRef, Vec<Effect>)> = Vec::new();
        self.tables.retain(|entity, table| {
            let mut effects = Vec::new();
            table.advance(now, &mut effects);
            if !effects.is_empty() {
                all.push((entity.clone(), effects));
            }
            !table.is_empty()
        });
        for (entity, effects) in all {
            self.send(&entity, effects);
        }
    }

    /// One step of an entity's table under its shard's lock; effects go out after it.
    fn step<T>(
        &self,
        entity: &EntityRef,
        step: impl FnOnce(&mut Table, Moment, &mut Vec<Effect>) -> T,
    ) -> T {
        let mut effects = Vec::new();
        let answer = match self.tables.entry(entity.clone()) {
            Entry::Occupied(mut entry) => {
                let answer = step(entry.get_mut(), self.clock.now(), &mut effects);
                if entry.get().is_empty() {
                    entry.remove();
                }
                answer
            }
            Entry::Vacant(entry) => {
                let mut table = Table::default();
                let answer = step(&mut table, self.clock.now(), &mut effects);
                if !table.is_empty() {
                    entry.insert(table);
                }
                answer
            }
        };
        if !effects.is_empty() {
            self.send(entity, effects);
        }
        answer
    }

    fn send(&self, entity: &EntityRef, effects: Vec<Effect>) {
        let sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for effect in effects {
            let wake = match effect {
                Effect::Granted(token) => Wake::Granted(token),
                Effect::Wanted(token) => Wake::Wanted(token),
                Effect::Broken(token) => Wake::Broken(token),
                Effect::Clamped { name, found } => {
                    let scope = Scope { entity: entity.clone(), name };
                    let found_ms = i64::try_from(found.as_millis()).unwrap_or(i64::MAX);
                    self.events.emit(&Event::LeaseTtlAnomaly { scope, found_ms });
                    continue;
                }
            };
            for (_, sink) in &sinks {
                sink.wake(wake.clone());
            }
        }
    }

    fn acquire_now(&self, ask: &Ask) -> Result<Acquire> {
        let (ttl, ttl_max) = (whole_ms(ask.ttl)?, whole_ms(ask.ttl_max)?);
        let entity = ask.extent.entity();
        let bid = Bid {
            token: ask.token,
            cover: ask.extent.cover(),
            ttl,
            ttl_max,
            label: ask.label.clone(),
            queue: ask.queue,
        };
        let (answer, order) = self.step(entity, |table, now, effects| {
            let answer = table.acquire(bid, now, effects);
            let told = ask.order && answer == Answer::Granted;
            // Drawn under the table's lock, so that orders grow as grants do.
            let order = if told { table.order(ask.token, || self.next_order()) } else { None };
            (answer, order)
        });
        match answer {
            Answer::Granted => Ok(Acquire::Granted { order }),
            Answer::Held { by, place } => {
                let by = by.into_iter().map(|held| Holder::of(entity, held)).collect();
                Ok(Acquire::Held { by, place })
            }
            Answer::QueueFull => Err(Error::unavailable(format!(
                "the queue of `{entity}` has {PLACES_MAX} places already"
            ))),
        }
    }

    fn renew_now(&self, renew: &Renew) -> Renewal {
        let Ok(ttl) = whole_ms(renew.ttl) else { return Renewal::Unknown };
        let kept = self.step(renew.extent.entity(), |table, now, effects| {
            table.renew(renew.token, ttl, now, effects)
        });
        match kept {
            Kept::Grant => Renewal::Renewed,
            Kept::Place(again) => Renewal::Placed { again },
            Kept::Unknown => Renewal::Lost,
        }
    }

    /// Above every order of this store, and of an earlier one on the same clock: microseconds since 1970, below 2^53.
    fn next_order(&self) -> u64 {
        let wall = u64::try_from(self.clock.wall().0).unwrap_or(0);
        let next = |last: u64| wall.max(last.saturating_add(1));
        let last = self.order.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(next(n)));
        last.map_or(wall, next)
    }

    fn inspect_now(
        &self,
        entity: Option<&EntityRef>,
        cursor: Option<&str>,
        most: u32,
    ) -> Result<(Vec<Holder>, Option<String>)> {
        let after = cursor.map(page::read_cursor).transpose()?;
        let mut entities: Vec<EntityRef> = match entity {
            Some(entity) => vec![entity.clone()],
            None => self.tables.iter().map(|table| table.key().clone()).collect(),
        };
        if let Some(after) = &after {
            entities.retain(|entity| *entity >= after.entity);
        }
        entities.sort();
        let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        for entity in &entities {
            let held = self.step(entity, |table, now, effects| table.holders(now, effects));
            let held = held.into_iter().map(|held| Holder::of(entity, held));
            found
                .extend(held.filter(|held| after.as_ref().is_none_or(|after| held.scope > *after)));
            if found.len() > most {
                break;
            }
        }
        Ok(page::cut(found, most))
    }
}

/// Ends a subscription when its future is dropped.
struct Subscription<'a> {
    leases: &'a MemoryLeases,
    id: u64,
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        let mut sinks = self.leases.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        sinks.retain(|(id, _)| *id != self.id);
    }
}

impl LeaseStore for MemoryLeases {
    fn acquire<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Acquire>> {
        Box::pin(async move { self.acquire_now(ask) })
    }

    fn renew<'a>(&'a self, batch: &'a [Renew]) -> BoxFuture<'a, Vec<Renewal>> {
        Box::pin(async move { batch.iter().map(|renew| self.renew_now(renew)).collect() })
    }

    fn release<'a>(
        &'a self,
        extent: &'a Extent,
        token: HolderToken,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            let known = self
                .step(extent.entity(), |table, now, effects| table.release(token, now, effects));
            Ok(if known { Release::Released } else { Release::Lost })
        })
    }

    fn watch<'a>(&'a self, sink: Arc<dyn WakeSink>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let id = self.subscriptions.fetch_add(1, Ordering::Relaxed);
            let subscription = Subscription { leases: self, id };
            self.sinks.lock().unwrap_or_else(PoisonError::into_inner).push((id, Arc::clone(&sink)));
            sink.wake(Wake::CheckAll);
            loop {
                self.clock.sleep_until(self.clock.now().plus(SWEEP_EVERY)).await;
                subscription.leases.sweep();
            }
        })
    }

    fn inspect<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        cursor: Option<&'a str>,
        most: u32,
    ) -> BoxFuture<'a, Result<(Vec<Holder>, Option<String>)>> {
        Box::pin(async move { self.inspect_now(entity, cursor, most) })
    }

    fn break_lease<'a>(
        &'a self,
        scope: &'a Scope,
        _reason: &'a str,
    ) -> BoxFuture<'a, Result<Option<Holder>>> {
        Box::pin(async move {
            let held = self.step(&scope.entity, |table, now, effects| {
                table.break_scope(&scope.name, now, effects)
            });
            Ok(held.map(|held| Holder::of(&scope.entity, held)))
        })
    }
}
