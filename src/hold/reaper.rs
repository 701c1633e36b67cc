//! Giving back: releases that nobody awaits any more, attempts whose caller went away, and the end of everything.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::oneshot, task::JoinSet};

use crate::{
    clock::{BoxFuture, Moment},
    error::Result,
    event::LossReason,
    hold::{
        Released, ShutdownReport,
        after::After,
        book::Book,
        fence,
        handle::Handle,
        heartbeat::Flight,
        keeper::{Keeper, Settled},
        policy,
        settle::{no_answer, shutting_down},
        tenure::{Farewell, Phase},
    },
    lease::{Acquire, Ask, Release},
    token::HolderToken,
};

/// Most tries to release one token; after that its time to live is the net.
const RELEASES_MAX: u32 = 3;
/// How long a release waits for a renewal of the same lease that is under way before it drops it: longer than a far
/// store takes to answer, as the whole batch is dropped with it and has to be sent again.
const RENEWAL_WAIT: Duration = Duration::from_millis(250);
/// Most releases at one time while shutting down.
const SHUTDOWN_AT_ONCE: usize = 256;

/// Work handed to the loop. The queue of jobs is bounded by what there is: one per token, at most.
pub(crate) enum Job {
    /// Tell the store.
    Release(Farewell),
    /// A release its caller does not wait for any more.
    Finish(BoxFuture<'static, Released>),
    /// An attempt whose caller went away or waits in line.
    Attempt { ask: Arc<Ask>, begin: Moment, future: BoxFuture<'static, Result<Acquire>> },
    /// Ask for a tenure on behalf of its line.
    Ask(HolderToken),
    /// Ask for the order of a held tenure.
    Order(HolderToken, oneshot::Sender<Result<()>>),
    /// A handle whose waiter was gone when it came.
    LetGo(Arc<Handle>),
    /// Release all of these and report.
    Shutdown { farewells: Vec<Farewell>, until: Moment, reply: oneshot::Sender<ShutdownReport> },
}

/// Does one job to its end.
pub(crate) async fn run(keeper: Arc<Keeper>, job: Job) {
    match job {
        Job::Release(farewell) => {
            bid(keeper, farewell).await;
        }
        Job::Finish(future) => {
            future.await;
        }
        Job::Attempt { ask, begin, mut future } => {
            // Its caller has waited once already. The next attempt, or the release, finds what this one took.
            let end = begin.plus(keeper.patience(ask.ttl) * 2);
            let answer = keeper.within(&mut future, end).await;
            let settled = keeper.settle(&ask, begin, answer.unwrap_or(Err(no_answer())), None);
            if matches!(settled, Settled::Retry) {
                keeper.pause(&ask).await;
                ask_for_line(&keeper, ask.token).await;
            }
        }
        Job::Ask(token) => ask_for_line(&keeper, token).await,
        Job::Order(token, reply) => {
            // Whoever asked may have gone away.
            let _gone = reply.send(fence::ask_for_order(&keeper, token).await);
        }
        Job::LetGo(handle) => keeper.let_go(&handle),
        Job::Shutdown { farewells, until, reply } => {
            let report = bid_all(&keeper, farewells, until).await;
            // Whoever asked may have gone away.
            let _gone = reply.send(report);
        }
    }
}

/// Attempts to acquire for the waiters of this process. Ends: each failure counts.
async fn ask_for_line(keeper: &Arc<Keeper>, token: HolderToken) {
    loop {
        let ask = keeper.change(|book, _| {
            let tenure = book.tenures.get(&token)?;
            matches!(tenure.phase, Phase::Asking { .. }).then(|| Arc::clone(&tenure.ask))
        });
        let Some(ask) = ask else { return };
        let begin = keeper.clock.now();
        let mut future = keeper.store.acquire(&ask);
        let end = begin.plus(keeper.patience(ask.ttl));
        let answer = keeper.within(&mut future, end).await.unwrap_or(Err(no_answer()));
        match keeper.settle(&ask, begin, answer, None) {
            Settled::Retry => keeper.pause(&ask).await,
            _ => return,
        }
    }
}

/// Tells the store that a token is given up.
async fn bid(keeper: Arc<Keeper>, farewell: Farewell) -> Released {
    ground(&keeper, &farewell.flights).await;
    let first = send_release(&keeper, &farewell.ask);
    go_on(keeper, farewell, first).await
}

fn send_release(keeper: &Keeper, ask: &Arc<Ask>) -> BoxFuture<'static, Result<Release>> {
    let (store, ask) = (Arc::clone(&keeper.store), Arc::clone(ask));
    Box::pin(async move { store.release(&ask.extent, ask.token).await })
}

/// As [`bid`], when the first try is under way.
async fn go_on(
    keeper: Arc<Keeper>,
    farewell: Farewell,
    mut release: BoxFuture<'static, Result<Release>>,
) -> Released {
    let ask = &farewell.ask;
    for attempt in 0..RELEASES_MAX {
        if attempt > 0 {
            keeper.pause(ask).await;
            release = send_release(&keeper, ask);
        }
        if let Some(Ok(answer)) = keeper.for_a(&mut release, keeper.patience(ask.ttl)).await {
            return settle_release(&keeper, &farewell, Some(answer));
        }
    }
    settle_release(&keeper, &farewell, None)
}

/// Waits for renewals of a lease that are under way. One that takes long is dropped: what was sent of it changes
/// nothing after the release, and nothing more can be sent.
async fn ground(keeper: &Keeper, flights: &[Arc<Flight>]) {
    if flights.is_empty() {
        return;
    }
    let end = keeper.clock.now().plus(RENEWAL_WAIT);
    for flight in flights {
        let mut over = Box::pin(flight.over.cancelled());
        if keeper.within(&mut over, end).await.is_none() {
            flight.abort.cancel();
            over.await;
        }
    }
}

fn settle_release(keeper: &Arc<Keeper>, farewell: &Farewell, answer: Option<Release>) -> Released {
    if let Some(next) = farewell.next {
        keeper.change(|book, after| book.ask_in_background(next, after));
    }
    let Some(handle) = &farewell.handle else { return Released::Released };
    keeper.tell(|after| match answer {
        Some(Release::Released) => after.released(handle, keeper.clock.now()),
        Some(Release::Lost) => after.release_refused(handle),
        None => after.release_failed(handle),
    });
    match (answer, handle.lost()) {
        (Some(Release::Released), None) => Released::Released,
        (Some(_), _) => Released::Lost,
        (None, _) => Released::Unknown,
    }
}

/// A release under way in its caller; dropped, it goes on in the loop.
struct Carried {
    keeper: Arc<Keeper>,
    future: Option<BoxFuture<'static, Released>>,
}

/// The first try of a release; when it is not waited for any longer, it goes on in the loop.
struct Parting<'a> {
    keeper: &'a Arc<Keeper>,
    open: Option<(Farewell, BoxFuture<'static, Result<Release>>)>,
}

impl Drop for Parting<'_> {
    fn drop(&mut self) {
        if let Some((farewell, first)) = self.open.take() {
            let future = Box::pin(go_on(Arc::clone(self.keeper), farewell, first));
            self.keeper.change(|book, after| {
                book.jobs.push_back(Job::Finish(future));
                after.ring = true;
            });
        }
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.keeper.change(|book, after| {
                book.jobs.push_back(Job::Finish(future));
                after.ring = true;
            });
        }
    }
}

impl Keeper {
    /// Tells the store and waits for it, at most the release timeout.
    pub(crate) async fn say_farewell(self: &Arc<Self>, farewell: Farewell) -> Released {
        let patience = policy::patience(self.settings.release_timeout, farewell.ask.ttl);
        if !farewell.flights.is_empty() {
            let future = Box::pin(bid(Arc::clone(self), farewell));
            return self.carry(future, patience).await;
        }
        let first = send_release(self, &farewell.ask);
        let mut parting = Parting { keeper: self, open: Some((farewell, first)) };
        let Some((_, first)) = &mut parting.open else { return Released::Unknown };
        let answer = self.for_a(first, patience).await;
        match (answer, parting.open.take()) {
            (Some(Ok(answer)), Some((farewell, _))) => {
                settle_release(self, &farewell, Some(answer))
            }
            (Some(failed), Some((farewell, _))) => {
                let failed = Box::pin(std::future::ready(failed));
                let future = Box::pin(go_on(Arc::clone(self), farewell, failed));
                self.carry(future, patience).await
            }
            (_, open) => {
                parting.open = open;
                Released::Unknown
            }
        }
    }

    async fn carry(
        self: &Arc<Self>,
        future: BoxFuture<'static, Released>,
        patience: Duration,
    ) -> Released {
        let mut carried = Carried { keeper: Arc::clone(self), future: Some(future) };
        let Some(future) = &mut carried.future else { return Released::Unknown };
        let answer = self.for_a(future, patience).await;
        if answer.is_some() {
            carried.future = None;
        }
        answer.unwrap_or(Released::Unknown)
    }

    /// Grants no more, and sends waiters away.
    pub(crate) fn close(self: &Arc<Self>) -> usize {
        self.change(|book, after| {
            book.closed = true;
            send_waiters_away(book, after)
        })
    }

    /// Ends everything. The report comes from the loop, on its own timer.
    pub(crate) async fn shut_down(self: &Arc<Self>, timeout: Duration) -> ShutdownReport {
        let until = self.clock.now().plus(timeout);
        let (reply, answer) = oneshot::channel();
        let (waiters, leases) = self.change(|book, after| {
            book.closed = true;
            let waiters = send_waiters_away(book, after);
            let farewells = close_all(book, after);
            let leases = farewells.iter().filter(|farewell| farewell.handle.is_some()).count();
            book.jobs.push_back(Job::Shutdown { farewells, until, reply });
            after.ring = true;
            (waiters, leases)
        });
        // Without a loop, nobody answers, and the time to live is the net.
        let report =
            answer.await.unwrap_or(ShutdownReport { failed: leases, ..Default::default() });
        ShutdownReport { waiters, ..report }
    }
}

fn send_waiters_away(book: &mut Book, after: &mut After) -> usize {
    let tokens: Vec<HolderToken> = book.tenures.keys().copied().collect();
    let before = after.refused.len();
    for token in tokens {
        while let Some(waiter) = book.next_waiter(token) {
            after.refused.push((waiter.tell, shutting_down()));
        }
    }
    after.refused.len() - before
}

/// Closes every tenure but those with an attempt under way, which give themselves up when it is answered.
fn close_all(book: &mut Book, after: &mut After) -> Vec<Farewell> {
    let tokens: Vec<HolderToken> = book.tenures.keys().copied().collect();
    let mut farewells = Vec::new();
    for token in tokens {
        book.lose(token, LossReason::Shutdown, after);
        let Some(tenure) = book.tenures.get(&token) else { continue };
        let handle = match &tenure.phase {
            Phase::Asking { .. } => continue,
            Phase::Queued { .. } => None,
            Phase::Held(handle) | Phase::Lost(handle) => Some(Arc::clone(handle)),
        };
        if let Some(tenure) = book.close(token) {
            farewells.push(book.farewell(tenure, handle, None));
        }
    }
    farewells
}

async fn bid_all(keeper: &Arc<Keeper>, farewells: Vec<Farewell>, until: Moment) -> ShutdownReport {
    let total = farewells.iter().filter(|farewell| farewell.handle.is_some()).count();
    let (released, lost) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut left = farewells.into_iter();
    let mut underway = JoinSet::new();
    loop {
        while underway.len() < SHUTDOWN_AT_ONCE {
            let Some(farewell) = left.next() else { break };
            let (keeper, released, lost) =
                (Arc::clone(keeper), Arc::clone(&released), Arc::clone(&lost));
            underway.spawn(async move {
                let counts = farewell.handle.is_some();
                let handle = farewell.handle.clone();
                let answer = bid(keeper, farewell).await;
                let ended_here =
                    handle.is_some_and(|handle| handle.lost() == Some(LossReason::Shutdown));
                let count = match answer {
                    _ if !counts => return,
                    Released::Unknown => return,
                    Released::Lost if !ended_here => lost,
                    _ => released,
                };
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        tokio::select! {
            biased;
            joined = underway.join_next() => if joined.is_none() { break },
            () = keeper.clock.sleep_until(until) => break,
        }
    }
    let (released, lost) = (released.load(Ordering::Relaxed), lost.load(Ordering::Relaxed));
    ShutdownReport { released, lost, failed: total.saturating_sub(released + lost), waiters: 0 }
}
