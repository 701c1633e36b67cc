//! The loop of a manager: renews and watches every lease, renews places in queues, and runs what others hand to it.
//!
//! Nothing that waits for the store is awaited in the loop itself, so trust ends in time even while a renewal hangs.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Moment,
    event::LossReason,
    hold::{
        after::After,
        book::Book,
        keeper::Keeper,
        policy,
        reaper::{self, Job},
        settle::Wakes,
        tenure::Phase,
    },
    lease::{Renew, Renewal},
    token::HolderToken,
};

/// Most renewals in one batch (RULES 19).
pub(crate) const BATCH_MAX: usize = 500;
/// A heartbeat that is due this soon goes along with one that is due now; never more than 1 % of its time to live.
const EARLY_MAX: Duration = Duration::from_millis(100);
/// Most tenures looked at in one go, so that the lock is given back in between.
const ROUND_MAX: usize = 4 * BATCH_MAX;
/// Most jobs under way at one time; more wait in the book.
const JOBS_MAX: usize = 1_024;
/// Pauses between subscriptions that end.
const WATCH_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// One batch of renewals on its way.
pub(crate) struct Flight {
    /// Drops the request: after that nothing of it can be sent.
    pub(crate) abort: CancellationToken,
    /// Fires when it is answered or dropped.
    pub(crate) over: CancellationToken,
}

struct Batch {
    /// Before the send: trust counts from here.
    begin: Moment,
    /// Nobody trusts any of these leases longer.
    until: Moment,
    flight: Arc<Flight>,
    renews: Vec<Renew>,
    /// Whether each renews a held lease; a place in a queue otherwise.
    held: Vec<bool>,
}

#[derive(Default)]
struct Work {
    batches: Vec<Batch>,
    jobs: Vec<Job>,
    /// When to look again.
    alarm: Option<Moment>,
    /// Nothing is left and nobody will come.
    over: bool,
}

/// Runs until the last manager and the last lease are gone.
pub(crate) async fn run(keeper: Arc<Keeper>) {
    let mut standing = JoinSet::new();
    standing.spawn(watch(Arc::clone(&keeper)));
    let mut underway = JoinSet::new();
    loop {
        let now = keeper.clock.now();
        let room = JOBS_MAX.saturating_sub(underway.len());
        let work = keeper.change(|book, after| collect(book, now, room, after));
        for batch in work.batches {
            underway.spawn(renew(Arc::clone(&keeper), batch));
        }
        for job in work.jobs {
            underway.spawn(reaper::run(Arc::clone(&keeper), job));
        }
        if work.over && underway.is_empty() {
            return;
        }
        let alarm = work.alarm.unwrap_or(Moment(Duration::MAX));
        // Every arm is safe to cancel: the bell keeps its ring, the join set its results.
        tokio::select! {
            () = keeper.bell.notified() => {}
            () = keeper.clock.sleep_until(alarm) => {}
            Some(_) = underway.join_next() => {}
        }
    }
}

/// Keeps one subscription to wake-ups. A new one begins with a look at everything.
async fn watch(keeper: Arc<Keeper>) {
    let mut ended = 0;
    loop {
        let sink = Arc::new(Wakes(Arc::clone(&keeper)));
        let began = keeper.clock.now();
        // The waiters' own timers cover the gap, whatever the reason was.
        let _ended = keeper.store.watch(sink).await;
        let (from, to) = WATCH_PAUSE;
        ended = if keeper.clock.now().since(began) > to { 0 } else { ended + 1 };
        let pause = policy::backoff(from, to, ended, keeper.entropy.bytes());
        keeper.clock.sleep_until(keeper.clock.now().plus(pause)).await;
    }
}

/// Takes out what is due.
fn collect(book: &mut Book, now: Moment, room: usize, after: &mut After) -> Work {
    let mut work = Work::default();
    let due =
        |from: &BTreeSet<(Moment, HolderToken)>, until: Moment| -> Vec<(Moment, HolderToken)> {
            from.iter().take_while(|(due, _)| *due <= until).take(ROUND_MAX).copied().collect()
        };
    let ripe = due(&book.due, now);
    for (due, token) in &ripe {
        look(book, *token, *due, now, &mut work, after);
    }
    if !ripe.is_empty() && ripe.len() < ROUND_MAX {
        for (due, token) in due(&book.due, now.plus(EARLY_MAX)) {
            if may_go_early(book, token, due, now) {
                look(book, token, due, now, &mut work, after);
            }
        }
    }
    while work.jobs.len() < room {
        let Some(job) = book.jobs.pop_front() else { break };
        work.jobs.push(job);
    }
    let next = book.due.first().map(|(due, _)| *due);
    book.alarm = next.unwrap_or(Moment(Duration::MAX));
    work.alarm = next;
    work.over = book.orphaned && book.tenures.is_empty() && book.jobs.is_empty();
    work
}

fn may_go_early(book: &Book, token: HolderToken, due: Moment, now: Moment) -> bool {
    let Some(tenure) = book.tenures.get(&token) else { return false };
    let held = matches!(&tenure.phase, Phase::Held(handle) if due < handle.deadline());
    held && tenure.step == 0 && due.since(now) <= tenure.span / 100
}

/// Does what is due for one tenure: its end, its renewal, or another try.
fn look(
    book: &mut Book,
    token: HolderToken,
    due: Moment,
    now: Moment,
    work: &mut Work,
    after: &mut After,
) {
    let Some(tenure) = book.tenures.get_mut(&token) else { return };
    let held = match &tenure.phase {
        Phase::Held(handle) => {
            if !handle.is_valid(now) {
                book.lose(token, LossReason::Expired, after);
                return;
            }
            let late = now.since(due);
            if tenure.step == 0 && late > tenure.span / 20 {
                after.late(handle, late);
            }
            Some(handle.deadline())
        }
        Phase::Queued { retry_at } => {
            let placed = policy::beat(tenure.anchor, tenure.span, tenure.step);
            if *retry_at <= now || placed.is_none() {
                tenure.phase = Phase::Asking { woken: false };
                work.jobs.push(Job::Ask(token));
                book.plan(token, after);
                return;
            }
            None
        }
        Phase::Asking { .. } | Phase::Lost(_) => {
            book.plan(token, after);
            return;
        }
    };
    // Steps that were slept through are not made up for: one renewal says it all.
    while policy::beat(tenure.anchor, tenure.span, tenure.step).is_some_and(|beat| beat <= now) {
        tenure.step += 1;
    }
    if due > now {
        tenure.step += 1;
    }
    let until = held.unwrap_or_else(|| tenure.anchor.plus(tenure.span));
    let renew = Renew { extent: tenure.ask.extent.clone(), token, ttl: tenure.ask.ttl };
    let flight = work.add(renew, held.is_some(), now, until);
    tenure.flights.push(flight);
    book.plan(token, after);
}

impl Work {
    fn add(&mut self, renew: Renew, held: bool, begin: Moment, until: Moment) -> Arc<Flight> {
        if self.batches.last().is_none_or(|batch| batch.renews.len() >= BATCH_MAX) {
            let (abort, over) = (CancellationToken::new(), CancellationToken::new());
            let flight = Arc::new(Flight { abort, over });
            let (renews, held) = (Vec::new(), Vec::new());
            self.batches.push(Batch { begin, until, flight, renews, held });
        }
        let Some(batch) = self.batches.last_mut() else {
            // Unreachable after the push; a flight of its own would only never be waited for.
            let over = CancellationToken::new();
            return Arc::new(Flight { abort: over.clone(), over });
        };
        batch.renews.push(renew);
        batch.held.push(held);
        batch.until = batch.until.max(until);
        Arc::clone(&batch.flight)
    }
}

/// Sends one batch and takes its answers in.
async fn renew(keeper: Arc<Keeper>, batch: Batch) {
    let answers = tokio::select! {
        biased;
        () = batch.flight.abort.cancelled() => Vec::new(),
        answers = keeper.store.renew(&batch.renews) => answers,
        () = keeper.clock.sleep_until(batch.until) => Vec::new(),
    };
    // The request was dropped or answered with the end of the statement above: nothing of it is sent from here on.
    let now = keeper.clock.now();
    keeper.change(|book, after| {
        let unknown = std::iter::repeat(Renewal::Unknown);
        let answers = answers.into_iter().chain(unknown);
        for ((renew, held), answer) in batch.renews.iter().zip(&batch.held).zip(answers) {
            if let Some(tenure) = book.tenures.get_mut(&renew.token) {
                tenure.flights.retain(|flight| !Arc::ptr_eq(flight, &batch.flight));
            }
            match held {
                true => take_in(book, renew.token, batch.begin, answer, now, after),
                false => take_in_place(book, renew.token, batch.begin, answer, now, after),
            }
        }
    });
    batch.flight.over.cancel();
}

/// The answer to the renewal of a held lease.
fn take_in(
    book: &mut Book,
    token: HolderToken,
    begin: Moment,
    answer: Renewal,
    now: Moment,
    after: &mut After,
) {
    let Some(tenure) = book.tenures.get_mut(&token) else { return };
    let Phase::Held(handle) = &tenure.phase else { return };
    let ttl = tenure.ask.ttl;
    match answer {
        Renewal::Renewed if handle.extend(policy::deadline(begin, ttl), now) => {
            after.renewed(handle);
            if begin >= tenure.anchor {
                tenure.confirm(begin, ttl);
            }
            book.plan(token, after);
        }
        // Confirmed, but after trust had ended: loss is final.
        Renewal::Renewed => book.lose(token, LossReason::Expired, after),
        Renewal::Lost => book.lose(token, LossReason::NotOurs, after),
        Renewal::Unknown => after.renew_failed(handle),
    }
}

/// The answer to the renewal of a place in a queue.
fn take_in_place(
    book: &mut Book,
    token: HolderToken,
    begin: Moment,
    answer: Renewal,
    now: Moment,
    after: &mut After,
) {
    let Some(tenure) = book.tenures.get_mut(&token) else { return };
    // Granted meanwhile: the answer speaks of the place, not of the grant, whose time is another.
    let Phase::Queued { retry_at } = &mut tenure.phase else { return };
    match answer {
        Renewal::Renewed if begin >= tenure.anchor => tenure.confirm(begin, tenure.span),
        Renewal::Renewed | Renewal::Unknown => {}
        Renewal::Lost => *retry_at = now,
    }
    book.plan(token, after);
}
