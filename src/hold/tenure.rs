//! A token at the lease store, from the first request to the last farewell.
//!
//! While a *tenure* lasts, callers of this process that want the same extent line up in it and get it from each other in
//! memory: the handle and its token change, the tenure goes on (RULES 17).

use std::{
    collections::VecDeque,
    hash::Hasher,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    clock::Moment,
    error::Result,
    hold::{Lease, OwnerId, handle::Handle, heartbeat::Flight, policy},
    lease::{Ask, Holder},
    table::PLACE_TTL,
    token::HolderToken,
};

/// Somebody of this process who wants a lease.
pub(crate) struct Candidate {
    /// Grows with the order of arrival.
    pub(crate) id: u64,
    pub(crate) asked: Moment,
    pub(crate) label: Arc<str>,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) max_hold: Duration,
    /// Stays in line when the lease is held.
    pub(crate) waits: bool,
}

/// A candidate in line.
pub(crate) struct Waiter {
    pub(crate) who: Candidate,
    pub(crate) tell: Tell,
}

pub(crate) type Tell = oneshot::Sender<Result<Lease>>;

/// Where a tenure stands.
pub(crate) enum Phase {
    /// An attempt is under way, or about to be.
    Asking {
        /// The store said meanwhile that there is something to ask for.
        woken: bool,
    },
    /// In the store's queue.
    Queued {
        /// When to ask again whatever was heard.
        retry_at: Moment,
    },
    /// Held, renewed, trusted.
    Held(Arc<Handle>),
    /// The holder still has its handle, but nothing is renewed any more.
    Lost(Arc<Handle>),
}

/// One token at the store.
pub(crate) struct Tenure {
    pub(crate) ask: Arc<Ask>,
    /// Of the extent, in the book's own hashing.
    pub(crate) hash: u64,
    pub(crate) phase: Phase,
    pub(crate) waiters: VecDeque<Waiter>,
    /// When the last confirmed attempt began.
    pub(crate) anchor: Moment,
    /// What the store counts from there.
    pub(crate) span: Duration,
    /// The next step of the ladder.
    pub(crate) step: usize,
    /// Attempts to acquire that failed in a row.
    pub(crate) failures: u32,
    /// Who was in the way at the last answer.
    pub(crate) by: Vec<Holder>,
    /// Renewals under way.
    pub(crate) flights: Vec<Arc<Flight>>,
    /// Since when somebody waits elsewhere, and hand-overs since.
    pub(crate) wanted: Option<(Moment, u32)>,
    pub(crate) handovers: u32,
    /// The store's number of this grant, once it was told.
    pub(crate) order: Option<u64>,
    pub(crate) due: Option<Moment>,
}

/// A held handle that was given back.
pub(crate) enum Ended {
    /// Other leases share it.
    Shared,
    /// The next waiter of this process has it.
    HandedOver,
    /// The store is to be told.
    Leaves(Farewell),
    /// Nothing is left to tell: the store said it is gone.
    Gone,
}

/// A tenure on its way out.
pub(crate) struct Farewell {
    pub(crate) ask: Arc<Ask>,
    /// `None`: it was only queued or asked for.
    pub(crate) handle: Option<Arc<Handle>>,
    pub(crate) flights: Vec<Arc<Flight>>,
    /// The line of waiters asks under this token afterwards.
    pub(crate) next: Option<HolderToken>,
    pub(crate) _counted: Leaving,
}

/// Counts a release that is not answered yet.
pub(crate) struct Leaving(Arc<AtomicUsize>);

impl Leaving {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tokens are random and hashes are hashed already: their bytes are the hash.
#[derive(Default)]
pub(crate) struct TokenHasher(u64);

impl Hasher for TokenHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    /// The length that goes before the bytes is the same for all.
    fn write_usize(&mut self, _: usize) {}

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.0 = self.0.rotate_left(32) ^ u64::from_ne_bytes(*word);
        }
        for byte in rest {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}

impl Tenure {
    pub(crate) fn new(ask: Arc<Ask>, hash: u64, now: Moment) -> Self {
        Self {
            span: ask.ttl,
            ask,
            hash,
            phase: Phase::Asking { woken: false },
            waiters: VecDeque::new(),
            anchor: now,
            step: 0,
            failures: 0,
            by: Vec::new(),
            flights: Vec::new(),
            wanted: None,
            handovers: 0,
            order: None,
            due: None,
        }
    }

    /// An attempt that began then was confirmed, and the store counts `span` from it.
    pub(crate) fn confirm(&mut self, begin: Moment, span: Duration) {
        self.anchor = begin;
        self.span = span;
        self.step = 0;
    }

    pub(crate) fn is_held_by(&self, handle: &Arc<Handle>) -> bool {
        matches!(&self.phase, Phase::Held(held) if Arc::ptr_eq(held, handle))
    }

    pub(crate) fn next_due(&self) -> Option<Moment> {
        let beat = policy::beat(self.anchor, self.span, self.step);
        match &self.phase {
            Phase::Held(handle) => {
                let end = handle.deadline();
                Some(beat.map_or(end, |beat| beat.min(end)))
            }
            Phase::Queued { retry_at } => {
                let end = self.anchor.plus(PLACE_TTL);
                Some(beat.unwrap_or(end).min(*retry_at))
            }
            Phase::Asking { .. } | Phase::Lost(_) => None,
        }
    }
}
