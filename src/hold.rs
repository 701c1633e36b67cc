//! Leases as a service of one process: acquiring, waiting, renewing, losing and giving back.
//!
//! The [`Manager`] speaks to one [`crate::lease::LeaseStore`]. Its promises:
//!
//! - A token is drawn before the first send. A caller that goes away leaves neither a key nor a place in a queue behind.
//! - Trust in a lease counts from the moment the attempt *began* and ends before the lease does ([`policy::drift`]).
//!   A lost lease is lost for good: its cancellation token fires, whatever answer comes later.
//! - One loop renews and watches every lease of the process: no task and no timer per lease.
//! - After [`Lease::release`] returned, no renewal of that lease is sent any more.
//! - Dropping a lease never blocks and needs no runtime; where nobody is left to release it, its time to live is the net.
//!
//! A lease is admission, not proof: whether a write counts is decided by the claim in the record store (RULES 10).

mod after;
mod book;
mod fence;
pub mod handle;
mod heartbeat;
mod here;
mod keeper;
pub mod manager;
pub mod policy;
mod reaper;
mod settle;
mod tenure;

pub use fence::WeakFence;
pub use handle::Lease;
pub use manager::Manager;

use std::{sync::Arc, time::Duration};

use crate::{
    lease::{Extent, Holder},
    registry::OnBusy,
    token::Generation,
};

/// Who asks, for telling a nested acquisition from a competing one. Draw one per session with [`Manager::owner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId(pub u64);

/// One request to the [`Manager`].
#[derive(Clone, Debug)]
pub struct AcquireAsk {
    /// What to cover, all or nothing.
    pub extent: Extent,
    /// Time to live, 100 ms to 24 h.
    pub ttl: Duration,
    /// The group's upper bound; a longer remaining time found in the store is clamped to it.
    pub ttl_max: Duration,
    /// The heartbeat never keeps the lease longer than this.
    pub max_hold: Duration,
    /// What to do when it is held. [`OnBusy::Enqueue`] answers as [`OnBusy::Fail`]: queueing saves is the engine's part.
    pub on_busy: OnBusy,
    /// Who asks, for people.
    pub label: Arc<str>,
    /// The rules the caller goes by.
    pub generation: Generation,
    /// With `owner`: share the lease the owner already holds instead of answering [`Acquired::AlreadyHeld`].
    pub reentrant: bool,
    /// `None` switches the detection of nested acquisition off.
    pub owner: Option<OwnerId>,
}

/// The answer to an acquire.
#[derive(Debug)]
#[must_use]
pub enum Acquired {
    /// Every scope asked for is held.
    Held(Lease),
    /// It stayed held by others for as long as the policy allows.
    Busy {
        /// Who is in the way.
        by: Vec<Holder>,
        /// When asking again makes sense.
        retry_after: Duration,
    },
    /// It is held, and the policy is to leave the work undone.
    Skipped {
        /// Who is in the way.
        by: Vec<Holder>,
    },
    /// The same owner holds some of it already (RULES 22).
    AlreadyHeld,
}

/// The answer to giving a lease back. None of them replaces the job's own result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It is gone from the store, or went to the next waiter of this process.
    Released,
    /// Another handle of the same owner goes on holding it.
    StillShared,
    /// It had ended before; a successor was left alone.
    Lost,
    /// The store did not answer in time; the lease ends by its time to live.
    Unknown,
}

/// What [`Manager::shutdown`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Leases released at the store.
    pub released: usize,
    /// Leases that had ended before.
    pub lost: usize,
    /// Leases whose release was not answered in time; they end by their time to live.
    pub failed: usize,
    /// Waiters sent away.
    pub waiters: usize,
}

/// Where the loop of a manager runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// On a thread and runtime of its own: a busy worker never delays renewals, and leases may be dropped anywhere.
    #[default]
    Thread,
    /// As a task of the runtime that calls [`Manager::new`]. For tests with a clock moved by hand; when that runtime is
    /// gone, nobody renews or releases, and leases end by their time to live.
    Runtime,
}

/// Bounds of a manager.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Most leases held, asked for or being released at one time; more are refused. Default 200,000.
    pub leases_max: usize,
    /// Most callers of this process waiting at one time; more are refused. Default 100,000.
    pub waiters_max: usize,
    /// Most local hand-overs in a row once somebody waits elsewhere (RULES 17). Default 64; 0 hands nothing over.
    pub handovers_max: u32,
    /// How long one request to the store may take before it is given up, and at most a third of the time to live it is
    /// about. Default 2 s; longer waits for a slow store.
    pub ask_timeout: Duration,
    /// How long [`Lease::release`] waits for the store, and at most a third of the time to live. Default 500 ms; longer
    /// delays the end of a job whose store is gone.
    pub release_timeout: Duration,
    /// Whether every request asks for the order of its grant, for callers that take a [`Lease::weak_fence`] of nearly
    /// every lease. Default false: the order is asked for when a fence is. True saves that round trip and costs the
    /// quickest way to acquire.
    pub weak_fences: bool,
    /// Where the loop runs.
    pub background: Background,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            leases_max: 200_000,
            waiters_max: 100_000,
            handovers_max: 64,
            ask_timeout: Duration::from_secs(2),
            release_timeout: Duration::from_millis(500),
            weak_fences: false,
            background: Background::Thread,
        }
    }
}
