//! Acquiring under a policy.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    clock::{Clock, Moment},
    error::{Error, Result},
    event::EventSink,
    hold::{
        AcquireAsk, Acquired, Background, Lease, OwnerId, Settings, ShutdownReport,
        book::Book,
        heartbeat,
        here::local_holders,
        keeper::{Keeper, Settled},
        policy,
        settle::shutting_down,
        tenure::{Candidate, Phase},
    },
    lease::{Ask, Extent, Holder, LeaseStore, whole_ms},
    registry::OnBusy,
    token::{Entropy, HolderToken},
};

/// All leases of one process over one store. Cheap to clone.
///
/// When the last clone is dropped, leases still held are renewed until they are given back; then the loop ends.
#[derive(Clone)]
pub struct Manager {
    life: Arc<Life>,
}

/// Tells the loop when the last manager is gone.
struct Life {
    keeper: Arc<Keeper>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.keeper.change(|book, after| {
            book.orphaned = true;
            after.ring = true;
        });
    }
}

impl Manager {
    /// Starts the loop of this manager.
    ///
    /// # Errors
    /// When its thread cannot be started, or [`Background::Runtime`] is asked for outside of a runtime.
    pub fn new(
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        events: Arc<dyn EventSink>,
        settings: Settings,
    ) -> Result<Self> {
        let keeper = Arc::new(Keeper::new(store, clock, entropy, events, settings));
        let run = heartbeat::run(Arc::clone(&keeper));
        let failed = |what: String| Error::unavailable(format!("leases cannot be kept: {what}"));
        match settings.background {
            Background::Runtime => {
                let runtime = tokio::runtime::Handle::try_current();
                runtime.map_err(|error| failed(error.to_string()))?.spawn(run);
            }
            Background::Thread => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|error| failed(error.to_string()))?;
                let thread = std::thread::Builder::new().name("fieldlease-leases".to_owned());
                let started = thread.spawn(move || runtime.block_on(run));
                started.map_err(|error| failed(error.to_string()))?;
            }
        }
        Ok(Self { life: Arc::new(Life { keeper }) })
    }

    pub(crate) fn keeper(&self) -> &Arc<Keeper> {
        &self.life.keeper
    }

    /// Asks for a lease and follows the policy while it is held. Dropping the future leaves nothing behind.
    ///
    /// # Errors
    /// `ttl_too_small`, `ttl_too_large`; unavailable when the store cannot be reached, the manager is shutting down, or
    /// [`Settings::leases_max`] or [`Settings::waiters_max`] is reached.
    pub async fn acquire(&self, ask: AcquireAsk) -> Result<Acquired> {
        let (ttl, ttl_max) = (whole_ms(ask.ttl)?, whole_ms(ask.ttl_max)?);
        let ask = AcquireAsk { ttl: ttl.min(ttl_max), ttl_max, ..ask };
        let asked = self.keeper().clock.now();
        if let Some(nested) = self.nested(&ask, asked) {
            return Ok(nested);
        }
        match ask.on_busy {
            OnBusy::Skip => Ok(match self.ask_once(ask, asked, asked).await? {
                Ok(lease) => Acquired::Held(lease),
                Err(by) => Acquired::Skipped { by },
            }),
            OnBusy::Fail | OnBusy::Enqueue => Ok(match self.ask_once(ask, asked, asked).await? {
                Ok(lease) => Acquired::Held(lease),
                Err(by) => busy(by),
            }),
            OnBusy::Retry { times, from, to } => {
                let clock = &self.keeper().clock;
                for attempt in 0..times {
                    let again = ask.clone();
                    if let Ok(lease) = self.ask_once(again, asked, clock.now()).await? {
                        return Ok(Acquired::Held(lease));
                    }
                    let pause = policy::backoff(from, to, attempt, self.keeper().entropy.bytes());
                    clock.sleep_until(clock.now().plus(pause)).await;
                }
                Ok(match self.ask_once(ask, asked, clock.now()).await? {
                    Ok(lease) => Acquired::Held(lease),
                    Err(by) => busy(by),
                })
            }
            OnBusy::Wait(patience) => self.wait(ask, asked, patience).await,
        }
    }

    /// What the owner holds already (RULES 22).
    fn nested(&self, ask: &AcquireAsk, now: Moment) -> Option<Acquired> {
        let owner = ask.owner?;
        let keeper = self.keeper();
        keeper.change(|book, _| {
            let handle = book.held_by(owner, &ask.extent, now)?;
            if !ask.reentrant || !handle.ask.extent.includes(&ask.extent) {
                return Some(Acquired::AlreadyHeld);
            }
            handle.share().then(|| Acquired::Held(Lease::new(Arc::clone(keeper), handle)))
        })
    }

    /// One try that takes no place in a queue.
    async fn ask_once(
        &self,
        ask: AcquireAsk,
        asked: Moment,
        begin: Moment,
    ) -> Result<std::result::Result<Lease, Vec<Holder>>> {
        let keeper = self.keeper();
        let (request, who) = keeper.change(|book, _| {
            self.check_room(book)?;
            let who = candidate(book, &ask, asked, false);
            let request = self.request(ask, false);
            let hash = book.hash(&request.extent);
            book.open(Arc::clone(&request), hash, asked, false);
            Ok::<_, Error>((request, who))
        })?;
        match keeper.attempt(&request, begin, who).await {
            Settled::Granted(handle) => Ok(Ok(Lease::new(Arc::clone(keeper), handle))),
            Settled::Busy(by) => Ok(Err(by)),
            Settled::Failed(error) => Err(error),
            Settled::Seated(_) | Settled::Again(_) | Settled::Nobody | Settled::Retry => {
                Err(Error::internal("an attempt without queue was answered as one with"))
            }
        }
    }

    /// Takes a place in line, of this process or of the store, for as long as patience lasts.
    async fn wait(&self, ask: AcquireAsk, asked: Moment, patience: Duration) -> Result<Acquired> {
        let keeper = self.keeper();
        let (mut seat, first) = self.line_up(ask, asked)?;
        if let Some((request, who)) = first {
            match keeper.attempt(&request, asked, who).await {
                Settled::Granted(handle) => {
                    return Ok(Acquired::Held(Lease::new(Arc::clone(keeper), handle)));
                }
                Settled::Seated(told) => seat.told = Some(told),
                Settled::Failed(error) => return Err(error),
                Settled::Busy(by) => return Ok(busy(by)),
                Settled::Again(_) | Settled::Nobody | Settled::Retry => return Err(shutting_down()),
            }
        }
        let Some(told) = seat.told.as_mut() else { return Err(shutting_down()) };
        let answer = keeper.within(told, asked.plus(patience)).await;
        let answer = answer.or_else(|| {
            // Out of the line first, so that no lease comes between the look and the end.
            let by = seat.leave(keeper.clock.now());
            seat.told.as_mut().and_then(|told| told.try_recv().ok()).map(Ok).or_else(|| {
                seat.by = by;
                None
            })
        });
        match answer {
            Some(Ok(Ok(lease))) => Ok(Acquired::Held(lease)),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(_)) => Err(shutting_down()),
            None => Ok(busy(std::mem::take(&mut seat.by))),
        }
    }

    /// Joins the line of this process for the extent, or opens one; then the caller makes the first attempt.
    #[expect(clippy::type_complexity, reason = "used once, right above")]
    fn line_up(
        &self,
        ask: AcquireAsk,
        asked: Moment,
    ) -> Result<(Seat<'_>, Option<(Arc<Ask>, Candidate)>)> {
        let keeper = self.keeper();
        keeper.change(|book, after| {
            self.check_room(book)?;
            if book.waiting >= keeper.settings.waiters_max {
                return Err(full("waiters", book.waiting));
            }
            let who = candidate(book, &ask, asked, true);
            let (id, hash) = (who.id, book.hash(&ask.extent));
            let line = book.joinable_at(hash, &ask.extent).map(|tenure| {
                if let Phase::Held(handle) = &tenure.phase {
                    let holders = local_holders(handle, tenure.waiters.len(), asked);
                    after.busy(&ask.label, &holders);
                }
                (tenure.ask.token, Arc::clone(&tenure.ask))
            });
            let Some((token, request)) = line else {
                let request = self.request(ask, true);
                book.open(Arc::clone(&request), hash, asked, true);
                let seat =
                    Seat { keeper, ask: Arc::clone(&request), id, told: None, by: Vec::new() };
                return Ok((seat, Some((request, who))));
            };
            let (tell, told) = oneshot::channel();
            book.seat(token, who, tell).ok_or_else(shutting_down)?;
            Ok((Seat { keeper, ask: request, id, told: Some(told), by: Vec::new() }, None))
        })
    }

    fn request(&self, ask: AcquireAsk, queue: bool) -> Arc<Ask> {
        Arc::new(Ask {
            extent: ask.extent,
            token: HolderToken::new(&*self.keeper().entropy),
            ttl: ask.ttl,
            ttl_max: ask.ttl_max,
            label: ask.label,
            generation: ask.generation,
            queue,
            order: self.keeper().settings.weak_fences,
        })
    }

    fn check_room(&self, book: &Book) -> Result<()> {
        if book.closed {
            return Err(shutting_down());
        }
        let count = book.count();
        if count >= self.keeper().settings.leases_max { Err(full("leases", count)) } else { Ok(()) }
    }

    /// A fresh owner, for [`AcquireAsk::owner`].
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        OwnerId(self.keeper().owners.fetch_add(1, Ordering::Relaxed))
    }

    /// Leases held, asked for or being released by this process.
    #[must_use]
    pub fn held(&self) -> usize {
        self.keeper().change(|book, _| book.count())
    }

    /// Callers of this process waiting for a lease.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.keeper().change(|book, _| book.waiting)
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn LeaseStore> {
        &self.keeper().store
    }

    /// Grants no more and sends waiters away; leases that are held stay. Answers how many waited.
    #[must_use]
    pub fn close(&self) -> usize {
        self.keeper().close()
    }

    /// Refuses new requests, sends waiters away, ends every lease (its holder sees it as lost) and gives it back.
    /// Needs no runtime of the caller's.
    pub async fn shutdown(&self, timeout: Duration) -> ShutdownReport {
        self.keeper().shut_down(timeout).await
    }
}

/// A place in the line of this process; dropping it leaves the line.
struct Seat<'a> {
    keeper: &'a Arc<Keeper>,
    ask: Arc<Ask>,
    id: u64,
    told: Option<oneshot::Receiver<Result<Lease>>>,
    by: Vec<Holder>,
}

impl Seat<'_> {
    /// Leaves the line and answers who was in the way.
    fn leave(&self, now: Moment) -> Vec<Holder> {
        self.keeper.change(|book, after| {
            let by = in_the_way(book, &self.ask.extent, now);
            book.leave(&self.ask.extent, self.id, after);
            by
        })
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if self.told.is_some() {
            self.keeper.change(|book, after| book.leave(&self.ask.extent, self.id, after));
        }
    }
}

fn candidate(book: &mut Book, ask: &AcquireAsk, asked: Moment, waits: bool) -> Candidate {
    Candidate {
        id: book.ticket(),
        asked,
        label: Arc::clone(&ask.label),
        owner: ask.owner,
        max_hold: ask.max_hold,
        waits,
    }
}

fn in_the_way(book: &mut Book, extent: &Extent, now: Moment) -> Vec<Holder> {
    let Some(tenure) = book.joinable(extent) else { return Vec::new() };
    match &tenure.phase {
        Phase::Held(handle) => local_holders(handle, tenure.waiters.len(), now),
        _ => tenure.by.clone(),
    }
}

fn busy(by: Vec<Holder>) -> Acquired {
    let retry_after = policy::retry_after(&by);
    Acquired::Busy { by, retry_after }
}

fn full(what: &str, count: usize) -> Error {
    Error::unavailable(format!("this process has {count} {what} already"))
}
