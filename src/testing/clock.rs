//! A clock moved by hand.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::clock::{BoxFuture, Clock, Moment, StoreTime};

/// How often [`ManualClock::settle`] lets every ready task run. A chain of more hand-offs than this needs another call.
const SETTLE_ROUNDS: usize = 64;
/// Where the wall clock starts: 2026-01-01T00:00:00Z, in microseconds.
const WALL_START: i64 = 1_767_225_600_000_000;

/// Time stands still until it is moved. On a current-thread runtime, tests with it are deterministic.
#[derive(Debug)]
pub struct ManualClock(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    now: Moment,
    wall: StoreTime,
    sleepers: BTreeMap<(Moment, u64), Waker>,
    next: u64,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// Starts at 1,000 s on the boot clock, at the beginning of 2026 on the wall.
    #[must_use]
    pub fn new() -> Self {
        Self(Mutex::new(Inner {
            now: Moment(Duration::from_secs(1_000)),
            wall: StoreTime(WALL_START),
            sleepers: BTreeMap::new(),
            next: 0,
        }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves time on, stopping at every moment somebody sleeps until; there the sleepers wake in order, and everything
    /// that follows from it runs before time goes on.
    pub async fn advance(&self, by: Duration) {
        let end = self.now().plus(by);
        self.settle().await;
        loop {
            let next = self.inner().sleepers.keys().next().map(|(at, _)| *at);
            let stop = next.map_or(end, |at| at.min(end));
            self.move_to(stop);
            self.settle().await;
            if stop >= end {
                return;
            }
        }
    }

    /// Moves time on at once, as a machine that was suspended finds it: everybody wakes late.
    pub fn jump(&self, by: Duration) {
        let end = self.now().plus(by);
        self.move_to(end);
    }

    /// Sets the wall clock off by so many microseconds; nothing that ends trust may look at it.
    pub fn shift_wall(&self, micros: i64) {
        let mut inner = self.inner();
        inner.wall = StoreTime(inner.wall.0.saturating_add(micros));
    }

    /// Lets every task that can run do so, until nothing moves any more. Needs a current-thread runtime.
    pub async fn settle(&self) {
        for _ in 0..SETTLE_ROUNDS {
            tokio::task::yield_now().await;
        }
    }

    /// How many sleep.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.inner().sleepers.len()
    }

    fn move_to(&self, to: Moment) {
        let mut due = Vec::new();
        let mut inner = self.inner();
        let by = to.since(inner.now);
        inner.now = inner.now.max(to);
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        inner.wall = StoreTime(inner.wall.0.saturating_add(micros));
        while let Some(entry) = inner.sleepers.first_entry() {
            if entry.key().0 > to {
                break;
            }
            due.push(entry.remove());
        }
        drop(inner);
        due.into_iter().for_each(Waker::wake);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        self.inner().now
    }

    fn wall(&self) -> StoreTime {
        self.inner().wall
    }

    fn sleep_until(&self, at: Moment) -> BoxFuture<'_, ()> {
        Box::pin(Sleep { clock: self, at, id: None })
    }
}

struct Sleep<'a> {
    clock: &'a ManualClock,
    at: Moment,
    id: Option<u64>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock;
        let mut inner = clock.inner();
        if inner.now >= self.at {
            return Poll::Ready(());
        }
        let id = *self.id.get_or_insert_with(|| {
            inner.next += 1;
            inner.next
        });
        inner.sleepers.insert((self.at, id), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.clock.inner().sleepers.remove(&(self.at, id));
        }
    }
}
