//! What handles, callers and the loop of one manager share.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    task::Poll,
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use crate::{
    clock::{BoxFuture, Clock, Moment},
    error::{Error, Result},
    event::{EventSink, LossReason},
    hold::{
        Lease, Released, Settings,
        after::After,
        book::Book,
        handle::Handle,
        policy,
        reaper::Job,
        settle::{no_answer, seat, settle_failed, settle_granted, settle_held, shutting_down},
        tenure::{Candidate, Ended},
    },
    lease::{Acquire, Ask, Holder, LeaseStore},
    token::Entropy,
};

/// The ports, the book, and the bell that wakes the loop.
pub(crate) struct Keeper {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) settings: Settings,
    pub(crate) bell: Notify,
    pub(crate) owners: AtomicU64,
    deaf: bool,
    book: Mutex<Book>,
}

/// What became of an attempt, for the candidate that made it.
pub(crate) enum Settled {
    /// The candidate holds it.
    Granted(Arc<Handle>),
    /// The candidate stands in line.
    Seated(oneshot::Receiver<Result<Lease>>),
    /// Held by these, and the candidate does not wait.
    Busy(Vec<Holder>),
    /// Try again with the same token.
    Again(Candidate),
    /// Given up.
    Failed(Error),
    /// The attempt was made for the line alone, and is settled.
    Nobody,
    /// The attempt was made for the line alone, and is to be repeated.
    Retry,
}

impl Keeper {
    pub(crate) fn new(
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        events: Arc<dyn EventSink>,
        settings: Settings,
    ) -> Self {
        let book = Mutex::new(Book::new(Arc::clone(&entropy)));
        let (bell, owners, deaf) = (Notify::new(), AtomicU64::new(0), events.is_deaf());
        Self { store, clock, entropy, events, settings, bell, owners, deaf, book }
    }

    /// Changes the book under its lock, then does what that asks for.
    pub(crate) fn change<T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Book, &mut After) -> T,
    ) -> T {
        let mut after = After::new(self.deaf);
        let answer = {
            let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut book, &mut after)
        };
        self.carry_out(after);
        answer
    }

    /// Tells of something that changes nothing in the book.
    pub(crate) fn tell(self: &Arc<Self>, tell: impl FnOnce(&mut After)) {
        if !self.deaf {
            let mut after = After::new(false);
            tell(&mut after);
            self.carry_out(after);
        }
    }

    fn carry_out(self: &Arc<Self>, after: After) {
        for event in &after.events {
            self.events.emit(event);
        }
        for (tell, handle) in after.granted {
            let lease = Lease::new(Arc::clone(self), handle);
            if let Err(Ok(lease)) = tell.send(Ok(lease)) {
                // The waiter left between being chosen and being told. Not dropped here: each lease dropped inside the
                // drop of another would be one more level of the stack.
                if let Some(handle) = lease.into_handle() {
                    let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
                    book.jobs.push_back(Job::LetGo(handle));
                    self.bell.notify_one();
                }
            }
        }
        for (tell, error) in after.refused {
            // A waiter that is gone needs no answer.
            let _gone = tell.send(Err(error));
        }
        if after.ring {
            self.bell.notify_one();
        }
    }

    /// Makes attempts for a tenure that is `Asking`, the first of which begins at `begin`: now, or just before. Dropping the future lets the loop finish the attempt, so that a
    /// request on its way never leaves a key behind.
    pub(crate) async fn attempt(
        self: &Arc<Self>,
        ask: &Arc<Ask>,
        begin: Moment,
        who: Candidate,
    ) -> Settled {
        let mut who = who;
        let mut underway = Underway { keeper: self, ask, begin, future: None, open: true };
        loop {
            let Some(answer) = underway.answer().await else {
                // Underway's drop leaves the attempt to the loop.
                return self.change(|book, _| match who.waits {
                    true => seat(book, ask.token, who),
                    false => Settled::Failed(no_answer()),
                });
            };
            match self.settle(ask, underway.begin, answer, Some(who)) {
                Settled::Again(again) => who = again,
                settled => {
                    underway.open = false;
                    return settled;
                }
            }
            self.pause(ask).await;
            underway.begin = self.clock.now();
        }
    }

    /// Waits a little after a failed attempt.
    pub(crate) async fn pause(self: &Arc<Self>, ask: &Ask) {
        let failures =
            self.change(|book, _| book.tenures.get(&ask.token).map_or(1, |t| t.failures));
        let (from, to) = (self.patience(ask.ttl) / 100, self.patience(ask.ttl) / 10);
        let pause = policy::backoff(from, to, failures, self.entropy.bytes());
        self.clock.sleep_until(self.clock.now().plus(pause)).await;
    }

    /// How long one request about a lease of this time to live may take.
    pub(crate) fn patience(&self, ttl: Duration) -> Duration {
        policy::patience(self.settings.ask_timeout, ttl)
    }

    /// The future's answer, or `None` when it takes longer than until `end`.
    pub(crate) async fn within<F: Future + Unpin>(
        &self,
        future: &mut F,
        end: Moment,
    ) -> Option<F::Output> {
        match self.at_once(future).await {
            Some(answer) => Some(answer),
            None => self.until(future, end).await,
        }
    }

    /// As [`Keeper::within`], from now on; asks for the time only if the answer does not come at once.
    pub(crate) async fn for_a<F: Future + Unpin>(
        &self,
        future: &mut F,
        span: Duration,
    ) -> Option<F::Output> {
        match self.at_once(future).await {
            Some(answer) => Some(answer),
            None => self.until(future, self.clock.now().plus(span)).await,
        }
    }

    /// The common answer, which needs no timer.
    pub(crate) async fn at_once<F: Future + Unpin>(&self, future: &mut F) -> Option<F::Output> {
        let first = poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await;
        match first {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    async fn until<F: Future + Unpin>(&self, future: &mut F, end: Moment) -> Option<F::Output> {
        tokio::select! {
            biased;
            answer = future => Some(answer),
            () = self.clock.sleep_until(end) => None,
        }
    }

    /// Takes in the store's answer to an attempt that began at `begin`, whoever made it.
    pub(crate) fn settle(
        self: &Arc<Self>,
        ask: &Arc<Ask>,
        begin: Moment,
        answer: Result<Acquire>,
        who: Option<Candidate>,
    ) -> Settled {
        let (now, token) = (self.clock.now(), ask.token);
        self.change(|book, after| match answer {
            answer if !book.tenures.contains_key(&token) => {
                // Closed while the attempt was on its way; what it may have taken goes back.
                if answer.is_ok() {
                    book.jobs.push_back(Job::Release(book.stray(Arc::clone(ask))));
                    after.ring = true;
                }
                Settled::Failed(shutting_down())
            }
            Ok(Acquire::Granted { order }) => {
                settle_granted(book, token, begin, now, (order, who), after)
            }
            Ok(Acquire::Held { by, .. }) => settle_held(book, token, begin, now, (by, who), after),
            Err(error) => settle_failed(book, token, error, who, after),
        })
    }

    /// A writer learnt that the handle is worth nothing any more.
    pub(crate) fn lose_handle(self: &Arc<Self>, handle: &Arc<Handle>, reason: LossReason) {
        handle.lose(reason);
        self.change(|book, after| {
            let tenure = book.tenures.get(&handle.tenure);
            if tenure.is_some_and(|tenure| tenure.is_held_by(handle)) {
                book.lose(handle.tenure, reason, after);
            }
        });
    }

    /// Gives a handle back and waits for the store, at most the release timeout.
    pub(crate) async fn release(self: Arc<Self>, handle: Arc<Handle>) -> Released {
        let (now, most) = (self.clock.now(), self.settings.handovers_max);
        let lost = |handle: &Handle| match handle.lost() {
            Some(_) => Released::Lost,
            None => Released::Released,
        };
        let ended = self.change(|book, after| book.end(&handle, most, now, after));
        match ended {
            Ended::Shared => Released::StillShared,
            Ended::HandedOver => lost(&handle),
            Ended::Gone => Released::Lost,
            Ended::Leaves(farewell) => self.say_farewell(farewell).await,
        }
    }

    /// Gives a handle back in the background.
    pub(crate) fn let_go(self: &Arc<Self>, handle: &Arc<Handle>) {
        let (now, most) = (self.clock.now(), self.settings.handovers_max);
        self.change(|book, after| {
            if let Ended::Leaves(farewell) = book.end(handle, most, now, after) {
                book.jobs.push_back(Job::Release(farewell));
                after.ring = true;
            }
        });
    }
}

/// An attempt on its way.
struct Underway<'a> {
    keeper: &'a Arc<Keeper>,
    ask: &'a Arc<Ask>,
    begin: Moment,
    future: Option<BoxFuture<'static, Result<Acquire>>>,
    /// Not settled yet.
    open: bool,
}

impl Underway<'_> {
    /// The store's answer to a new attempt, or `None` when it takes longer than the ask timeout.
    async fn answer(&mut self) -> Option<Result<Acquire>> {
        let (store, ask) = (Arc::clone(&self.keeper.store), Arc::clone(self.ask));
        let future: BoxFuture<'static, _> = Box::pin(async move { store.acquire(&ask).await });
        let future = self.future.insert(future);
        let end = self.begin.plus(self.keeper.patience(self.ask.ttl));
        let answer = self.keeper.within(future, end).await;
        if answer.is_some() {
            self.future = None;
        }
        answer
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let job = match self.future.take() {
            _ if !self.open => return,
            Some(future) => Job::Attempt { ask: Arc::clone(self.ask), begin: self.begin, future },
            // Between two attempts: the first may have left a key.
            None => Job::Ask(self.ask.token),
        };
        self.keeper.change(|book, after| {
            book.jobs.push_back(job);
            after.ring = true;
        });
    }
}
