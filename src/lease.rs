//! The lease port: admission of one holder per scope.
//!
//! A lease is not a mutex. Whether a write counts is decided by the record store's claim (RULES 10); the lease
//! only keeps writers of one group from working at the same time for nothing.

pub mod majority;
pub mod memory;
pub(crate) mod page;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub mod rows;

use std::{sync::Arc, time::Duration};

use crate::{
    clock::BoxFuture,
    entity::EntityRef,
    error::{Error, Result},
    scope::{Scope, ScopeSet},
    table::{Cover, Held},
    token::{Generation, HolderToken},
};

/// Shortest time to live.
pub const TTL_MIN: Duration = Duration::from_millis(100);
/// Longest time to live.
pub const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Checks a time to live and cuts it to whole milliseconds, the unit every backend keeps. Done before sending: a store
/// that is told to keep a key for 0 ms removes it and reports success.
///
/// # Errors
/// `ttl_too_small` below 100 ms, `ttl_too_large` above 24 h.
pub fn whole_ms(ttl: Duration) -> Result<Duration> {
    let (code, message) = if ttl < TTL_MIN {
        ("ttl_too_small", format!("a time to live of {ttl:?} is too short"))
    } else if ttl > TTL_MAX {
        ("ttl_too_large", format!("a time to live of {ttl:?} is too long"))
    } else {
        return Ok(Duration::new(ttl.as_secs(), ttl.subsec_millis() * 1_000_000));
    };
    Err(Error::invalid(code, message, "choose one between 100ms and 24h"))
}

/// What one lease covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// These scopes, all or nothing.
    Groups(ScopeSet),
    /// Every leased scope of the entity, split ones included (RULES 21). The set names the unsplit ones.
    Whole(ScopeSet),
}

impl Extent {
    /// As the lease automaton sees it.
    #[must_use]
    pub fn cover(&self) -> Cover {
        Cover { whole: matches!(self, Self::Whole(_)), scopes: self.scopes().clone() }
    }

    /// Whether whoever holds this may do what `other` asks for.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        let same = self.entity() == other.entity();
        same && match (self, other) {
            (Self::Whole(_), _) => true,
            (Self::Groups(ours), Self::Groups(theirs)) => theirs.names().is_subset(ours.names()),
            (Self::Groups(_), Self::Whole(_)) => false,
        }
    }

    /// Whether both cannot be held at once.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        let whole = matches!((self, other), (Self::Whole(_), _) | (_, Self::Whole(_)));
        self.entity() == other.entity()
            && (whole || !self.scopes().names().is_disjoint(other.scopes().names()))
    }

    /// The record.
    #[must_use]
    pub fn entity(&self) -> &EntityRef {
        self.scopes().entity()
    }

    /// The scopes named.
    #[must_use]
    pub fn scopes(&self) -> &ScopeSet {
        match self {
            Self::Groups(scopes) | Self::Whole(scopes) => scopes,
        }
    }
}

/// One request for a lease.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What to cover.
    pub extent: Extent,
    /// Made before the first send and kept for its retries.
    pub token: HolderToken,
    /// Time to live, 100 ms to 24 h; checked by the store too.
    pub ttl: Duration,
    /// The group's upper bound: a longer remaining time found in the store is clamped to it.
    pub ttl_max: Duration,
    /// Who asks, for people: `thumbnailer`.
    pub label: Arc<str>,
    /// The rules the caller goes by.
    pub generation: Generation,
    /// Whether to take a place in the queue when it is held.
    pub queue: bool,
    /// Whether the answer must carry the order of the grant, from which weak fences are made (RULES 17). Asked again
    /// with a token that holds already, it gives the order of that grant.
    pub order: bool,
}

/// Who holds a scope, for people and for refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The scope.
    pub scope: Scope,
    /// The name the holder gave.
    pub label: Arc<str>,
    /// Time left if it is not renewed.
    pub remaining: Duration,
    /// Time since the grant.
    pub held: Duration,
    /// Waiters in the queue of this scope.
    pub waiting: u32,
}

impl Holder {
    /// What a lease table tells of one scope of a record.
    pub(crate) fn of(entity: &EntityRef, held: Held) -> Self {
        Self {
            scope: Scope { entity: entity.clone(), name: held.name },
            label: held.label,
            remaining: held.remaining,
            held: held.held,
            waiting: held.waiting,
        }
    }
}

/// The answer to an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquire {
    /// The token holds every scope asked for.
    Granted {
        /// A number below 2^53 that grows from grant to grant of this entity while the store keeps its memory or its
        /// clock; only when it was asked for.
        order: Option<u64>,
    },
    /// Nothing was taken.
    Held {
        /// Who is in the way.
        by: Vec<Holder>,
        /// Place in the queue from 1, when one was asked for.
        place: Option<u32>,
    },
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease was prolonged. For a token that was queued when last heard of: it has been granted meanwhile.
    Renewed,
    /// The place in the queue was prolonged.
    Placed {
        /// When what stands in the way ends unless it is renewed, counted from the answer: ask again then.
        again: Option<Duration>,
    },
    /// The token is neither held nor queued. Final.
    Lost,
    /// No answer. The lease may live on until its deadline.
    Unknown,
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The token is gone from the store and the next waiter was woken.
    Released,
    /// The token was neither held nor queued; nobody was touched.
    Lost,
}

/// A message to waiters of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The lease was handed to this queued token.
    Granted(HolderToken),
    /// It is this token's turn to try.
    Try(HolderToken),
    /// Somebody waits for what this token holds: its process ends its local hand-overs in time (RULES 17).
    Wanted(HolderToken),
    /// The lease of this token was broken by an operator.
    Broken(HolderToken),
    /// Messages may have been missed: everybody looks again.
    CheckAll,
}

/// Where wake-ups go.
pub trait WakeSink: Send + Sync {
    /// Never blocks.
    fn wake(&self, wake: Wake);
}

/// One renewal in a batch: what, whose, for how long.
#[derive(Clone, Debug)]
pub struct Renew {
    /// What the token covers.
    pub extent: Extent,
    /// The token.
    pub token: HolderToken,
    /// The new time to live, counted from the store's now.
    pub ttl: Duration,
}

/// A place that keeps leases. Object safe; every backend passes `testing`'s conformance suite.
pub trait LeaseStore: Send + Sync {
    /// Takes every scope of the extent or none, in one round trip. Repeating it with the same token finds the same
    /// grant, or the same place in the queue, and renews it. A queued token may be granted later, without another call:
    /// then [`Wake::Granted`] is sent, and the grant lasts `ttl` or [`crate::table::PLACE_TTL`], whichever is
    /// shorter, until it is confirmed by a renewal or another acquire.
    fn acquire<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Acquire>>;
    /// One answer per request, in order. Never creates a lease. A place in the queue is renewed the same way, by
    /// [`crate::table::PLACE_TTL`] whatever the request's `ttl`, so that a place granted meanwhile gets its full time.
    fn renew<'a>(&'a self, batch: &'a [Renew]) -> BoxFuture<'a, Vec<Renewal>>;
    /// Forgets the token wherever it is, held or queued, and hands over to the next live waiter.
    fn release<'a>(
        &'a self,
        extent: &'a Extent,
        token: HolderToken,
    ) -> BoxFuture<'a, Result<Release>>;
    /// Sends wake-ups to the sink until the future is dropped; one subscription per process. [`Wake::CheckAll`] is the
    /// first, and the first after every gap.
    fn watch<'a>(&'a self, sink: Arc<dyn WakeSink>) -> BoxFuture<'a, Result<()>>;
    /// Who holds what, in scope order: of one entity, or page by page of all. Answers a cursor when there is more.
    fn inspect<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        cursor: Option<&'a str>,
        most: u32,
    ) -> BoxFuture<'a, Result<(Vec<Holder>, Option<String>)>>;
    /// Removes whoever holds the scope and answers who it was. The caller has raised the fence in the record store
    /// first (RULES 20).
    fn break_lease<'a>(
        &'a self,
        scope: &'a Scope,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<Option<Holder>>>;
}
