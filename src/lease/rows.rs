//! Leases in rows of a database, for teams without Redis.
//!
//! One row per record keeps the whole lease table of it, as text. A step reads the row with the server's time, runs the
//! same automaton as the memory backend, and writes the row back if nobody wrote it meanwhile; so an operation costs two
//! round trips, and more when processes are busy with one record at the same moment. Deadlines are microseconds on the
//! database's clock: a clock that is set back prolongs leases, one that is set forward ends them early; the claim in the
//! record store keeps writes safe either way (RULES 10).

mod line;
#[cfg(feature = "mysql")]
pub mod mysql;
mod notices;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod poll;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod step;

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

pub(crate) use self::line::{Line, Lines, Origin, Write};
use self::{
    notices::Sinks,
    step::{Step, Stepped},
};
use crate::{
    clock::{BoxFuture, Clock, SystemClock},
    entity::EntityRef,
    error::{Error, Result},
    event::{Event, EventSink, NoEvents},
    lease::{
        Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, WakeSink, page, whole_ms,
    },
    scope::Scope,
    table::{Answer, Bid, Effect, Kept, PLACES_MAX},
    token::{Entropy, HolderToken, SystemEntropy},
};

/// What leases in rows need beside the rows.
#[derive(Clone)]
pub struct RowOptions {
    /// Who shares these leases, as the first column of every row. Default `fieldlease`.
    pub namespace: String,
    /// Time of this process, for pauses between attempts. Default: the system's.
    pub clock: Arc<dyn Clock>,
    /// Randomness for names of revisions and processes. Default: the system's.
    pub entropy: Arc<dyn Entropy>,
    /// Where an impossible time to live is told. Default: nowhere.
    pub events: Arc<dyn EventSink>,
}

impl Default for RowOptions {
    fn default() -> Self {
        Self {
            namespace: "fieldlease".to_owned(),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            events: Arc::new(NoEvents),
        }
    }
}

/// Leases in rows: the same for every database.
pub struct RowLeases {
    lines: Arc<dyn Lines>,
    options: RowOptions,
    sinks: Arc<Sinks>,
    /// Names this process in notices, so that it does not hear its own twice.
    origin: Origin,
    /// Ends what still listens when the store is dropped.
    ended: CancellationToken,
}

impl RowLeases {
    pub(crate) fn new(lines: Arc<dyn Lines>, options: RowOptions) -> Self {
        let origin = Origin::new(HolderToken(options.entropy.bytes()), &options.namespace);
        let sinks = Arc::new(Sinks::default());
        Self { lines, options, sinks, origin, ended: CancellationToken::new() }
    }

    /// Tells the sinks of this process, and events; other processes read the notices written with the row.
    fn tell(&self, entity: &EntityRef, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Clamped { name, found } => {
                    let scope = Scope { entity: entity.clone(), name };
                    let found_ms = i64::try_from(found.as_millis()).unwrap_or(i64::MAX);
                    self.options.events.emit(&Event::LeaseTtlAnomaly { scope, found_ms });
                }
                other => self.sinks.wake_of(&other),
            }
        }
    }

    async fn acquire_now(&self, ask: &Ask) -> Result<Acquire> {
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
        let (answer, order) = self
            .step(entity, |Step { table, now, effects, order: last }| {
                let answer = table.acquire(bid.clone(), now, effects);
                let told = ask.order && answer == Answer::Granted;
                // Above every order of this entity: microseconds since 1970, below 2^53.
                let micros = u64::try_from(now.0.as_micros()).unwrap_or(0);
                let next = micros.max(last.saturating_add(1));
                let order = if told { table.order(ask.token, || next) } else { None };
                *last = order.unwrap_or(0).max(*last);
                (answer, order)
            })
            .await?;
        match answer {
            Answer::Granted => {
                self.sinks.holds(self.options.clock.now(), ttl);
                Ok(Acquire::Granted { order })
            }
            Answer::Held { by, place } => {
                if place.is_some() {
                    self.sinks.waits(self.options.clock.now());
                }
                let by = by.into_iter().map(|held| Holder::of(entity, held)).collect();
                Ok(Acquire::Held { by, place })
            }
            Answer::QueueFull => Err(Error::unavailable(format!(
                "the queue of `{entity}` has {PLACES_MAX} places already"
            ))),
        }
    }

    async fn inspect_now(
        &self,
        entity: Option<&EntityRef>,
        cursor: Option<&str>,
        most: u32,
    ) -> Result<(Vec<Holder>, Option<String>)> {
        let after = cursor.map(page::read_cursor).transpose()?;
        let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        let mut from = after.as_ref().map(|after| after.entity.clone());
        loop {
            let page = match entity {
                Some(entity) => self.lines.read(std::slice::from_ref(entity)).await?,
                None => self.lines.page(from.as_ref(), PAGE_LINES).await?,
            };
            let last = page.lines.last().map(|line| line.entity.clone());
            let full = entity.is_none() && page.lines.len() >= PAGE_LINES;
            for line in page.lines {
                let (mut table, _) = line.table()?;
                let held = table.holders(page.now, &mut Vec::new());
                let held = held.into_iter().map(|held| Holder::of(&line.entity, held));
                let new =
                    held.filter(|held| after.as_ref().is_none_or(|after| held.scope > *after));
                found.extend(new);
            }
            // The page begins with the entity of the cursor: the next one must begin further on.
            let further = last.is_some() && last != from;
            if !full || !further || found.len() > most {
                return Ok(page::cut(found, most));
            }
            from = last;
        }
    }
}

/// Rows read at once for a list of all holders.
const PAGE_LINES: usize = 500;

impl Drop for RowLeases {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl LeaseStore for RowLeases {
    fn acquire<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Acquire>> {
        Box::pin(self.acquire_now(ask))
    }

    fn renew<'a>(&'a self, batch: &'a [Renew]) -> BoxFuture<'a, Vec<Renewal>> {
        Box::pin(async move {
            let kept: Mutex<Vec<Renewal>> = Mutex::new(vec![Renewal::Unknown; batch.len()]);
            let set = |at: usize, renewal: Renewal| {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(slot) = kept.get_mut(at) {
                    *slot = renewal;
                }
            };
            let sound = (0..).zip(batch).filter_map(|(at, renew)| {
                let ttl = whole_ms(renew.ttl).ok()?;
                Some((at, renew.extent.entity().clone(), (renew.token, ttl)))
            });
            let each = |at: usize, stepped: Stepped<'_, (HolderToken, std::time::Duration)>| {
                let Stepped { table, now, effects, of: (token, ttl) } = stepped;
                set(
                    at,
                    match table.renew(*token, *ttl, now, effects) {
                        Kept::Grant => Renewal::Renewed,
                        Kept::Place(again) => Renewal::Placed { again },
                        Kept::Unknown => Renewal::Lost,
                    },
                );
            };
            let unknown = self.step_all(sound.collect(), each).await;
            for at in unknown {
                set(at, Renewal::Unknown);
            }
            let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
            let now = self.options.clock.now();
            for (renew, kept) in batch.iter().zip(&kept) {
                match kept {
                    Renewal::Renewed => self.sinks.holds(now, renew.ttl),
                    Renewal::Placed { .. } => self.sinks.waits(now),
                    Renewal::Lost | Renewal::Unknown => {}
                }
            }
            kept
        })
    }

    fn release<'a>(
        &'a self,
        extent: &'a Extent,
        token: HolderToken,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            let known = self
                .step(extent.entity(), |Step { table, now, effects, .. }| {
                    table.release(token, now, effects)
                })
                .await?;
            Ok(if known { Release::Released } else { Release::Lost })
        })
    }

    fn watch<'a>(&'a self, sink: Arc<dyn WakeSink>) -> BoxFuture<'a, Result<()>> {
        Box::pin(notices::watch(self, sink))
    }

    fn inspect<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        cursor: Option<&'a str>,
        most: u32,
    ) -> BoxFuture<'a, Result<(Vec<Holder>, Option<String>)>> {
        Box::pin(self.inspect_now(entity, cursor, most))
    }

    fn break_lease<'a>(
        &'a self,
        scope: &'a Scope,
        _reason: &'a str,
    ) -> BoxFuture<'a, Result<Option<Holder>>> {
        Box::pin(async move {
            let held = self
                .step(&scope.entity, |Step { table, now, effects, .. }| {
                    table.break_scope(&scope.name, now, effects)
                })
                .await?;
            Ok(held.map(|held| Holder::of(&scope.entity, held)))
        })
    }
}
