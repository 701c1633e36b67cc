//! Wake-ups: what this process set in motion itself, and what others wrote beside the rows.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    clock::{Clock, Moment},
    error::Result,
    lease::{
        Wake, WakeSink,
        rows::{
            Origin, RowLeases,
            line::{Ear, Told, read_notice},
        },
    },
    table::{Effect, PLACE_TTL},
};

/// How often rows nobody uses any more are removed, and how long ago they must have ended.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How late a notice may be heard where the database has to be asked for it, while somebody of this process waits.
const LATE_WAITING: Duration = Duration::from_millis(50);
/// The same while somebody only holds: to hear that others wait, or that a lease was broken.
const LATE_HOLDING: Duration = Duration::from_millis(500);

/// Subscribers of this process.
#[derive(Default)]
pub(super) struct Sinks {
    inner: Mutex<Subscribed>,
}

#[derive(Default)]
struct Subscribed {
    sinks: Vec<(u64, Arc<dyn WakeSink>)>,
    last: u64,
    /// Until when somebody of this process waits, and until when one holds, as far as is known.
    waits: Option<Moment>,
    holds: Option<Moment>,
}

impl Sinks {
    fn locked(&self) -> std::sync::MutexGuard<'_, Subscribed> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, wake: &Wake) {
        let sinks = self.locked().sinks.clone();
        for (_, sink) in sinks {
            sink.wake(wake.clone());
        }
    }

    pub(super) fn wake_of(&self, effect: &Effect) {
        match effect {
            Effect::Granted(token) => self.wake(&Wake::Granted(*token)),
            Effect::Wanted(token) => self.wake(&Wake::Wanted(*token)),
            Effect::Broken(token) => self.wake(&Wake::Broken(*token)),
            Effect::Clamped { .. } => {}
        }
    }

    /// Somebody of this process waits; places are renewed long before this ends.
    pub(super) fn waits(&self, now: Moment) {
        self.locked().waits = Some(now.plus(PLACE_TTL));
    }

    /// Somebody of this process holds for this long.
    pub(super) fn holds(&self, now: Moment, ttl: Duration) {
        let mut subscribed = self.locked();
        subscribed.holds = subscribed.holds.max(Some(now.plus(ttl)));
    }
}

/// Hears for the sinks.
struct Listener<'a> {
    sinks: &'a Sinks,
    clock: &'a dyn Clock,
    origin: &'a Origin,
}

impl Ear for Listener<'_> {
    fn hear(&self, notice: &str) {
        for told in read_notice(self.origin, notice).into_iter().flatten() {
            match told {
                Told::One(effect) => self.sinks.wake_of(&effect),
                Told::All => self.sinks.wake(&Wake::CheckAll),
            }
        }
    }

    fn missed(&self) {
        self.sinks.wake(&Wake::CheckAll);
    }

    fn patience(&self) -> Option<Duration> {
        let now = self.clock.now();
        let subscribed = self.sinks.locked();
        let lasts = |until: Option<Moment>| until.is_some_and(|until| now < until);
        match (lasts(subscribed.waits), lasts(subscribed.holds)) {
            (true, _) => Some(LATE_WAITING),
            (false, true) => Some(LATE_HOLDING),
            (false, false) => None,
        }
    }
}

/// Ends a subscription when its future is dropped.
struct Subscription<'a> {
    sinks: &'a Sinks,
    id: u64,
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        self.sinks.locked().sinks.retain(|(id, _)| *id != self.id);
    }
}

pub(super) async fn watch(leases: &RowLeases, sink: Arc<dyn WakeSink>) -> Result<()> {
    let id = {
        let mut subscribed = leases.sinks.locked();
        subscribed.last += 1;
        let id = subscribed.last;
        subscribed.sinks.push((id, sink));
        id
    };
    let _subscription = Subscription { sinks: &leases.sinks, id };
    let clock = &*leases.options.clock;
    let listener = Listener { sinks: &leases.sinks, clock, origin: &leases.origin };
    let listening = leases.lines.listen(&listener, leases.ended.clone());
    tokio::pin!(listening);
    loop {
        // Both arms are safe to cancel: listening goes on where it is, and a sweep begins anew.
        tokio::select! {
            ended = &mut listening => return ended,
            () = clock.sleep_until(clock.now().plus(SWEEP_EVERY)) => {
                if let Err(error) = leases.lines.sweep(SWEEP_EVERY).await {
                    tracing::warn!(%error, "old rows of leases were not removed");
                }
            }
        }
    }
}
