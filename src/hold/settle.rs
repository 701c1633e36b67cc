//! What follows from the store's answers and wake-ups: plain changes of the book.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{
    clock::Moment,
    error::Error,
    event::LossReason,
    hold::{
        after::After,
        book::Book,
        keeper::{Keeper, Settled},
        policy,
        tenure::{Candidate, Phase},
    },
    lease::{Holder, Wake, WakeSink},
    table::PLACE_TTL,
    token::HolderToken,
};

/// Most attempts to acquire after errors or answers that came too late, all with the same token.
const ATTEMPTS_MAX: u32 = 3;

/// Takes wake-ups from the store.
pub(crate) struct Wakes(pub(crate) Arc<Keeper>);

impl WakeSink for Wakes {
    fn wake(&self, wake: Wake) {
        let now = self.0.clock.now();
        self.0.change(|book, after| match wake {
            Wake::Granted(token) => wake_granted(book, token, now, after),
            Wake::Try(token) => ask_again(book, token, now, after),
            Wake::Wanted(token) => {
                if let Some(tenure) = book.tenures.get_mut(&token) {
                    tenure.wanted.get_or_insert((now, 0));
                }
            }
            Wake::Broken(token) => book.lose(token, LossReason::Broken, after),
            Wake::CheckAll => {
                let tokens: Vec<HolderToken> = book.tenures.keys().copied().collect();
                for token in tokens {
                    ask_again(book, token, now, after);
                }
            }
        });
    }
}

/// A queued tenure was granted by the store. It may be trusted from the last time it was known to be queued only; if
/// too little is left of that, it asks first.
fn wake_granted(book: &mut Book, token: HolderToken, now: Moment, after: &mut After) {
    let Some(tenure) = book.tenures.get_mut(&token) else { return };
    match &mut tenure.phase {
        Phase::Queued { .. } => {}
        Phase::Asking { woken } => {
            *woken = true;
            return;
        }
        Phase::Held(_) | Phase::Lost(_) => return,
    }
    let span = tenure.ask.ttl.min(PLACE_TTL);
    let left = policy::deadline(tenure.anchor, span).since(now);
    if left < span / 4 {
        ask_again(book, token, now, after);
        return;
    }
    let anchor = tenure.anchor;
    tenure.confirm(anchor, span);
    grant_line(book, token, now, after);
}

/// Has the loop ask again for a queued tenure.
fn ask_again(book: &mut Book, token: HolderToken, now: Moment, after: &mut After) {
    let Some(tenure) = book.tenures.get_mut(&token) else { return };
    match &mut tenure.phase {
        Phase::Queued { retry_at } => *retry_at = now,
        Phase::Asking { woken } => *woken = true,
        Phase::Held(_) | Phase::Lost(_) => return,
    }
    book.plan(token, after);
}

/// Gives a granted tenure to the first in line, or back to the store when the line is empty.
fn grant_line(book: &mut Book, token: HolderToken, now: Moment, after: &mut After) {
    let Some(waiter) = book.next_waiter(token) else {
        book.give_up(token, after);
        return;
    };
    if let Some(handle) = book.hold(token, token, &waiter.who, now, after) {
        after.granted(&handle);
        after.granted.push((waiter.tell, handle));
    }
}

pub(crate) fn settle_granted(
    book: &mut Book,
    token: HolderToken,
    begin: Moment,
    now: Moment,
    (order, who): (Option<u64>, Option<Candidate>),
    after: &mut After,
) -> Settled {
    let Some(tenure) = book.tenures.get_mut(&token) else {
        return Settled::Failed(shutting_down());
    };
    let ttl = tenure.ask.ttl;
    tenure.order = order.or(tenure.order);
    if matches!(tenure.phase, Phase::Held(_)) {
        // Woken by the grant before this answer came: it confirms the grant.
        book.confirm_held(token, begin, now, after);
        return Settled::Nobody;
    }
    if book.closed {
        book.give_up(token, after);
        return Settled::Failed(shutting_down());
    }
    if now >= policy::deadline(begin, ttl) {
        return settle_failed(book, token, too_late(), who, after);
    }
    tenure.confirm(begin, ttl);
    let Some(who) = who else {
        grant_line(book, token, now, after);
        return Settled::Nobody;
    };
    match book.hold(token, token, &who, now, after) {
        Some(handle) => {
            after.granted(&handle);
            Settled::Granted(handle)
        }
        None => Settled::Failed(shutting_down()),
    }
}

pub(crate) fn settle_held(
    book: &mut Book,
    token: HolderToken,
    begin: Moment,
    now: Moment,
    (by, who): (Vec<Holder>, Option<Candidate>),
    after: &mut After,
) -> Settled {
    let closed = book.closed;
    let Some(tenure) = book.tenures.get_mut(&token) else {
        return Settled::Failed(shutting_down());
    };
    let woken = match &tenure.phase {
        Phase::Asking { woken } => *woken,
        Phase::Queued { .. } => false,
        // An older answer, overtaken by the grant.
        Phase::Held(_) | Phase::Lost(_) => return Settled::Nobody,
    };
    if let Some(who) = &who {
        after.busy(&who.label, &by);
    }
    let who = match who {
        Some(who) if !who.waits => {
            book.close(token);
            return Settled::Busy(by);
        }
        who => who,
    };
    if who.is_none() && tenure.waiters.is_empty() || closed {
        book.give_up(token, after);
        return Settled::Nobody;
    }
    tenure.failures = 0;
    tenure.confirm(begin, PLACE_TTL);
    let retry_at = if woken { now } else { now.plus(policy::retry_after(&by)) };
    tenure.phase = Phase::Queued { retry_at };
    tenure.by = by;
    book.plan(token, after);
    match who {
        Some(who) => seat(book, token, who),
        None => Settled::Nobody,
    }
}

pub(crate) fn settle_failed(
    book: &mut Book,
    token: HolderToken,
    error: Error,
    who: Option<Candidate>,
    after: &mut After,
) -> Settled {
    let Some(tenure) = book.tenures.get_mut(&token) else {
        return Settled::Failed(shutting_down());
    };
    if matches!(tenure.phase, Phase::Held(_) | Phase::Lost(_)) {
        return Settled::Nobody;
    }
    tenure.failures += 1;
    let again = matches!(error, Error::Unavailable { .. }) && tenure.failures < ATTEMPTS_MAX;
    if again {
        tenure.phase = Phase::Asking { woken: false };
        return who.map_or(Settled::Retry, Settled::Again);
    }
    while let Some(waiter) = book.next_waiter(token) {
        after.refused.push((waiter.tell, Error::unavailable(error.to_string())));
    }
    // An attempt whose answer was lost may have been granted or queued.
    book.give_up(token, after);
    Settled::Failed(error)
}

pub(crate) fn seat(book: &mut Book, token: HolderToken, who: Candidate) -> Settled {
    let (tell, told) = oneshot::channel();
    match book.seat(token, who, tell) {
        Some(()) => Settled::Seated(told),
        None => Settled::Failed(shutting_down()),
    }
}

pub(crate) fn shutting_down() -> Error {
    Error::unavailable("leases are shutting down")
}

pub(crate) fn no_answer() -> Error {
    Error::unavailable("the lease store does not answer")
}

fn too_late() -> Error {
    Error::unavailable("the lease store answered after the lease had ended")
}
