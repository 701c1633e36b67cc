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

impl Flight {
    fn new() -> Arc<Self> {
        Arc::new(Self { abort: CancellationToken::new(), over: CancellationToken::new() })
    }
}

struct Batch {
    /// Before the send: trust counts from here.
    begin: Moment,
    /// Nobody trusts any of these leases longer.
    end: Moment,
    /// Nobody waits longer for the answer.
    patience: Duration,
    flight: Arc<Flight>,
    renews: Vec<Renew>,
    /// Whether each renews a held lease; a place in a queue otherwise.
    held: Vec<bool>,
}

struct Work {
    now: Moment,
    ask_timeout: Duration,
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
        let work = Work::new(keeper.clock.now(), keeper.settings.ask_timeout);
        let room = JOBS_MAX.saturating_sub(underway.len());
        let work = keeper.change(|book, after| collect(book, work, room, after));
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
fn collect(book: &mut Book, mut work: Work, room: usize, after: &mut After) -> Work {
    let now = work.now;
    let due =
        |from: &BTreeSet<(Moment, HolderToken)>, until: Moment| -> Vec<(Moment, HolderToken)> {
            from.iter().take_while(|(due, _)| *due <= until).take(ROUND_MAX).copied().collect()
        };
    let ripe = due(&book.due, now);
    for (due, token) in &ripe {
        look(book, *token, *due, &mut work, after);
    }
    if !ripe.is_empty() && ripe.len() < ROUND_MAX {
        for (due, token) in due(&book.due, now.plus(EARLY_MAX)) {
            if may_go_early(book, token, due, now) {
                look(book, token, due, &mut work, after);
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
fn look(book: &mut Book, token: HolderToken, due: Moment, work: &mut Work, after: &mut After) {
    let now = work.now;
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
    let end = held.unwrap_or_else(|| tenure.anchor.plus(tenure.span));
    let renew = Renew { extent: tenure.ask.extent.clone(), token, ttl: tenure.ask.ttl };
    let flight = work.add(renew, held.is_some(), end, tenure.span);
    tenure.flights.push(flight);
    book.plan(token, after);
}

impl Work {
    fn new(now: Moment, ask_timeout: Duration) -> Self {
        let (batches, jobs) = (Vec::new(), Vec::new());
        Self { now, ask_timeout, batches, jobs, alarm: None, over: false }
    }

    fn add(&mut self, renew: Renew, held: bool, end: Moment, span: Duration) -> Arc<Flight> {
        if self.batches.last().is_none_or(|batch| batch.renews.len() >= BATCH_MAX) {
            let (flight, renews, held) = (Flight::new(), Vec::new(), Vec::new());
            let (begin, patience) = (self.now, Duration::ZERO);
            self.batches.push(Batch { begin, end: begin, patience, flight, renews, held });
        }
        let Some(batch) = self.batches.last_mut() else {
            // Unreachable after the push; a flight of its own would only never be waited for.
            let flight = Flight::new();
            flight.over.cancel();
            return flight;
        };
        batch.renews.push(renew);
        batch.held.push(held);
        batch.end = batch.end.max(end);
        batch.patience = batch.patience.max(policy::patience(self.ask_timeout, span));
        Arc::clone(&batch.flight)
    }
}

/// Sends one batch and takes its answers in. A release that drops a batch has the rest of it sent again at once: it
/// must not cost five hundred others a heartbeat.
async fn renew(keeper: Arc<Keeper>, mut batch: Batch) {
    loop {
        let until = batch.end.min(batch.begin.plus(batch.patience));
        let answers = tokio::select! {
            biased;
            () = batch.flight.abort.cancelled() => None,
            answers = keeper.store.renew(&batch.renews) => Some(answers),
            () = keeper.clock.sleep_until(until) => Some(Vec::new()),
        };
        // The request was dropped or answered with the end of the statement above: nothing of it is sent from here on.
        let now = keeper.clock.now();
        let dropped = std::mem::replace(&mut batch.flight, Flight::new());
        keeper.change(|book, after| match answers {
            Some(answers) => settle(book, &batch, &dropped, answers, now, after),
            None => reduce(book, &mut batch, &dropped, now),
        });
        dropped.over.cancel();
        if batch.renews.is_empty() || !dropped.abort.is_cancelled() {
            return;
        }
    }
}

fn settle(
    book: &mut Book,
    batch: &Batch,
    flight: &Arc<Flight>,
    answers: Vec<Renewal>,
    now: Moment,
    after: &mut After,
) {
    let answers = answers.into_iter().chain(std::iter::repeat(Renewal::Unknown));
    for ((renew, held), answer) in batch.renews.iter().zip(&batch.held).zip(answers) {
        if let Some(tenure) = book.tenures.get_mut(&renew.token) {
            tenure.flights.retain(|other| !Arc::ptr_eq(other, flight));
        }
        match held {
            true => take_in(book, renew.token, batch.begin, answer, now, after),
            false => take_in_place(book, renew.token, batch.begin, answer, now, after),
        }
    }
}

/// Leaves in a batch what is still to be renewed and has no other renewal under way, under the batch's new flight.
fn reduce(book: &mut Book, batch: &mut Batch, dropped: &Arc<Flight>, now: Moment) {
    let (renews, held) = (std::mem::take(&mut batch.renews), std::mem::take(&mut batch.held));
    let began = std::mem::replace(&mut batch.begin, now);
    for (renew, held) in renews.into_iter().zip(held) {
        let Some(tenure) = book.tenures.get_mut(&renew.token) else { continue };
        tenure.flights.retain(|other| !Arc::ptr_eq(other, dropped));
        let wanted = matches!(&tenure.phase, Phase::Held(_) | Phase::Queued { .. });
        if !wanted || !tenure.flights.is_empty() || tenure.anchor > began {
            continue;
        }
        tenure.flights.push(Arc::clone(&batch.flight));
        batch.renews.push(renew);
        batch.held.push(held);
    }
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
    let Some(tenure) = book.tenures.get(&token) else { return };
    let Phase::Held(handle) = &tenure.phase else { return };
    match answer {
        Renewal::Renewed => {
            let handle = Arc::clone(handle);
            book.confirm_held(token, begin, now, after);
            if handle.lost().is_none() {
                after.renewed(&handle);
            }
        }
        Renewal::Lost | Renewal::Placed { .. } => book.lose(token, LossReason::NotOurs, after),
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
    match (&mut tenure.phase, answer) {
        // The message that it was granted came first; this confirms the grant.
        (Phase::Held(_), Renewal::Renewed) => {
            take_in(book, token, begin, answer, now, after);
            return;
        }
        // Granted, and the message is late or lost; or gone from the queue.
        (Phase::Queued { retry_at }, Renewal::Renewed | Renewal::Lost) => *retry_at = now,
        (Phase::Queued { retry_at }, Renewal::Placed { again }) => {
            if let Some(again) = again {
                // What stands in the way may be dead, or a message may get lost: then nobody else says when it ends.
                *retry_at = now.plus(policy::ask_again(again)).min(*retry_at);
            }
            if begin >= tenure.anchor {
                tenure.confirm(begin, tenure.span);
            }
        }
        (Phase::Queued { .. }, Renewal::Unknown) => {}
        // Any other answer speaks of the place, which is over.
        (Phase::Asking { .. } | Phase::Held(_) | Phase::Lost(_), _) => return,
    }
    book.plan(token, after);
}
