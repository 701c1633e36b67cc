//! The handle a job holds while it works.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    clock::Moment,
    error::Result,
    event::LossReason,
    hold::{OwnerId, Released, WeakFence, keeper::Keeper},
    lease::{Ask, Extent, Renew, Renewal},
    token::HolderToken,
};

/// A held lease. Dropping it gives it back in the background: never blocking, on any thread, with or without a runtime.
///
/// A lease that is leaked (`std::mem::forget`) is renewed until its `max_hold`.
#[must_use]
pub struct Lease {
    keeper: Arc<Keeper>,
    /// Taken by `release`, so that Drop does not send a second one.
    handle: Option<Arc<Handle>>,
    /// What a lease without handle answers with; never seen, as only `release` takes the handle.
    shown: Arc<Ask>,
    token: HolderToken,
}

/// What a [`Lease`] and the loop share.
pub(crate) struct Handle {
    /// The holder's name in claims; the same as the tenure's for the first handle only.
    pub(crate) token: HolderToken,
    /// The token known to the lease store.
    pub(crate) tenure: HolderToken,
    pub(crate) ask: Arc<Ask>,
    pub(crate) label: Arc<str>,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) since: Moment,
    pub(crate) waited: Duration,
    /// The heartbeat stops here.
    pub(crate) max_end: Moment,
    /// Local hand-overs of the tenure before this one.
    pub(crate) turn: u32,
    /// Nanoseconds of the moment trust ends unless something is confirmed before. Only ever moved on.
    deadline: AtomicU64,
    /// Once set, it stays: whatever the deadline says, the handle is over.
    lost: OnceLock<LossReason>,
    /// Leases that share this handle (`reentrant`). Changed under the book's lock only.
    shares: AtomicU32,
    signal: OnceLock<CancellationToken>,
}

impl Lease {
    pub(crate) fn new(keeper: Arc<Keeper>, handle: Arc<Handle>) -> Self {
        let (shown, token) = (Arc::clone(&handle.ask), handle.token);
        Self { keeper, handle: Some(handle), shown, token }
    }

    /// Gives the handle up without releasing it.
    pub(crate) fn into_handle(mut self) -> Option<Arc<Handle>> {
        self.handle.take()
    }

    /// The holder's name in the record store's claim.
    #[must_use]
    pub fn token(&self) -> HolderToken {
        self.token
    }

    /// What it covers.
    #[must_use]
    pub fn extent(&self) -> &Extent {
        &self.shown.extent
    }

    /// Until when it may be trusted if no further renewal is confirmed.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        self.handle.as_ref().map_or(Moment(Duration::ZERO), |handle| handle.deadline())
    }

    /// Whether it may be trusted now: not lost, and its deadline not reached. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let now = self.keeper.clock.now();
        self.handle.as_ref().is_some_and(|handle| handle.is_valid(now))
    }

    /// Fires when the lease can no longer be trusted.
    #[must_use]
    pub fn lost(&self) -> CancellationToken {
        self.handle.as_ref().map_or_else(CancellationToken::new, |handle| handle.signal())
    }

    /// Why it was lost.
    #[must_use]
    pub fn loss_reason(&self) -> Option<LossReason> {
        self.handle.as_ref().and_then(|handle| handle.lost())
    }

    /// How long the caller waited for it. Data read before a wait is old.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.handle.as_ref().map_or(Duration::ZERO, |handle| handle.waited)
    }

    /// How long it has been held.
    #[must_use]
    pub fn held(&self) -> Duration {
        let now = self.keeper.clock.now();
        self.handle.as_ref().map_or(Duration::ZERO, |handle| now.since(handle.since))
    }

    /// Ends the lease with [`LossReason::Fenced`]: the record store refused its holder, a successor has claimed.
    pub fn mark_fenced(&self) {
        if let Some(handle) = &self.handle {
            self.keeper.lose_handle(handle, LossReason::Fenced);
        }
    }

    /// Asks the lease store whether it still knows this lease, before the next heartbeat would; one that it does not
    /// know is lost. No answer by its deadline is the deadline's end.
    pub async fn confirm(&self) -> bool {
        let Some(handle) = &self.handle else { return false };
        let (extent, ttl) = (handle.ask.extent.clone(), handle.ask.ttl);
        let batch = [Renew { extent, token: handle.tenure, ttl }];
        let answers = tokio::select! {
            biased;
            answers = self.keeper.store.renew(&batch) => answers,
            () = self.keeper.clock.sleep_until(handle.deadline()) => Vec::new(),
        };
        if answers.first() == Some(&Renewal::Lost) {
            self.keeper.lose_handle(handle, LossReason::NotOurs);
        }
        self.is_valid()
    }

    /// A number above that of every earlier holder of these scopes, and the same for as long as this handle is held;
    /// `None` when the lease has ended. Read what it guarantees and what not at [`WeakFence`]. The first one of a grant
    /// asks the store, unless [`crate::hold::Settings::weak_fences`] had it told with the grant.
    ///
    /// # Errors
    /// Unavailable when the store does not answer.
    pub async fn weak_fence(&self) -> Result<Option<WeakFence>> {
        match &self.handle {
            Some(handle) => self.keeper.weak_fence(handle).await,
            None => Ok(None),
        }
    }

    /// Gives it back. After this returned, no renewal of this lease is sent. Dropping the future finishes the release in
    /// the background; it answers [`Released::Unknown`] when the store does not within the release timeout.
    pub async fn release(mut self) -> Released {
        let keeper = Arc::clone(&self.keeper);
        match self.handle.take() {
            Some(handle) => keeper.release(handle).await,
            None => Released::Lost,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.keeper.let_go(&handle);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("token", &self.token)
            .field("extent", self.extent())
            .field("lost", &self.loss_reason())
            .finish_non_exhaustive()
    }
}

/// What a new handle starts from.
pub(crate) struct NewHandle {
    pub(crate) token: HolderToken,
    pub(crate) tenure: HolderToken,
    pub(crate) ask: Arc<Ask>,
    pub(crate) label: Arc<str>,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) asked: Moment,
    pub(crate) max_hold: Duration,
    pub(crate) turn: u32,
}

impl Handle {
    pub(crate) fn new(new: NewHandle, now: Moment, deadline: Moment) -> Self {
        Self {
            token: new.token,
            tenure: new.tenure,
            ask: new.ask,
            label: new.label,
            owner: new.owner,
            since: now,
            waited: now.since(new.asked),
            max_end: now.plus(new.max_hold),
            turn: new.turn,
            deadline: AtomicU64::new(nanos(deadline)),
            lost: OnceLock::new(),
            shares: AtomicU32::new(1),
            signal: OnceLock::new(),
        }
    }

    /// Never after `max_hold`, however far the lease itself goes.
    pub(crate) fn deadline(&self) -> Moment {
        let deadline = Duration::from_nanos(self.deadline.load(Ordering::Acquire));
        Moment(deadline).min(self.max_end)
    }

    pub(crate) fn lost(&self) -> Option<LossReason> {
        self.lost.get().copied()
    }

    pub(crate) fn is_valid(&self, now: Moment) -> bool {
        if self.lost.get().is_none() && now < self.deadline() {
            return true;
        }
        // What was seen as over stays over, even if the loop is late and a renewal was confirmed meanwhile.
        self.lose(if now < self.max_end { LossReason::Expired } else { LossReason::MaxHold });
        false
    }

    /// Moves the deadline on. Refused when trust has ended: loss is final.
    pub(crate) fn extend(&self, deadline: Moment, now: Moment) -> bool {
        let alive = self.lost.get().is_none() && now < self.deadline();
        if alive {
            self.deadline.fetch_max(nanos(deadline), Ordering::AcqRel);
        }
        alive
    }

    /// Ends trust and fires the signal; the first reason stays.
    pub(crate) fn lose(&self, reason: LossReason) {
        self.lost.get_or_init(|| reason);
        if let Some(signal) = self.signal.get() {
            signal.cancel();
        }
    }

    /// Made when first asked for: most holders never do.
    fn signal(&self) -> CancellationToken {
        let signal = self.signal.get_or_init(CancellationToken::new).clone();
        if self.lost().is_some() {
            signal.cancel();
        }
        signal
    }

    /// One more lease on this handle; false when it is over. Called under the book's lock.
    pub(crate) fn share(&self) -> bool {
        if self.lost.get().is_some() || self.shares.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.shares.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// One lease less; answers whether it was the last. Called under the book's lock.
    pub(crate) fn unshare(&self) -> bool {
        self.shares.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// Far enough for five hundred years after the machine's start.
fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.0.as_nanos()).unwrap_or(u64::MAX)
}
