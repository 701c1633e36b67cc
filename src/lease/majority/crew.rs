//! Work that goes on after its caller went away.
//!
//! Driven by whoever watches the store. While nobody does, it is spawned on the runtime of the call that left it behind;
//! outside of a runtime it waits for the next watch or call. The time to live is the net below all of these.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

use crate::clock::BoxFuture;

/// Most jobs kept; more are dropped, and the time to live is their net.
const JOBS_MAX: usize = 10_000;

type Slot = Arc<Mutex<BoxFuture<'static, ()>>>;

/// A set of futures without a task of its own: each is polled only when it was woken.
#[derive(Default)]
pub(super) struct Crew {
    slots: Mutex<(u64, HashMap<u64, Slot>)>,
    ready: Arc<Ready>,
}

#[derive(Default)]
struct Ready {
    due: Mutex<Vec<u64>>,
    drivers: Mutex<Vec<Waker>>,
}

struct Bell {
    id: u64,
    ready: Arc<Ready>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ready {
    fn ring(&self, id: u64) {
        lock(&self.due).push(id);
        std::mem::take(&mut *lock(&self.drivers)).into_iter().for_each(Waker::wake);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ready.ring(self.id);
    }
}

impl Crew {
    /// Adds a job; it starts when the crew is polled next.
    pub(super) fn add(&self, job: BoxFuture<'static, ()>) {
        let mut slots = lock(&self.slots);
        if slots.1.len() >= JOBS_MAX {
            return;
        }
        slots.0 += 1;
        let id = slots.0;
        slots.1.insert(id, Arc::new(Mutex::new(job)));
        drop(slots);
        self.ready.ring(id);
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.slots).1.is_empty()
    }

    /// Polls what was woken; ready when nothing is left. Never calls a job while the table of jobs is locked, as a job
    /// may end in a new one.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut drivers = lock(&self.ready.drivers);
        if !drivers.iter().any(|known| known.will_wake(context.waker())) {
            drivers.push(context.waker().clone());
        }
        drop(drivers);
        loop {
            let due = std::mem::take(&mut *lock(&self.ready.due));
            if due.is_empty() {
                return if self.is_empty() { Poll::Ready(()) } else { Poll::Pending };
            }
            for id in due {
                let Some(slot) = lock(&self.slots).1.get(&id).map(Arc::clone) else { continue };
                let bell = Waker::from(Arc::new(Bell { id, ready: Arc::clone(&self.ready) }));
                let over = lock(&slot).as_mut().poll(&mut Context::from_waker(&bell)).is_ready();
                if over {
                    lock(&self.slots).1.remove(&id);
                }
            }
        }
    }
}
