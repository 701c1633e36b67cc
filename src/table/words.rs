//! What goes into the table and what comes out of it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    scope::{ScopeName, ScopeSet},
    token::HolderToken,
};

/// What a lease covers inside its entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// Every leased scope, split ones and those not named included (RULES 21).
    pub whole: bool,
    /// The scopes named; the entity is the table's.
    pub scopes: ScopeSet,
}

/// A request as the table sees it.
#[derive(Clone, Debug)]
pub struct Bid {
    /// The acquisition.
    pub token: HolderToken,
    /// What to cover.
    pub cover: Cover,
    /// Time to live of the grant.
    pub ttl: Duration,
    /// A longer remaining time of whoever is in the way is impossible and is cut to this.
    pub ttl_max: Duration,
    /// Who asks, for people.
    pub label: Arc<str>,
    /// Whether to take a place in the queue.
    pub queue: bool,
}

/// Who holds a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The scope.
    pub name: ScopeName,
    /// The holder's name.
    pub label: Arc<str>,
    /// Time left if it is not renewed.
    pub remaining: Duration,
    /// Time since the grant.
    pub held: Duration,
    /// Places in the queue that want this scope.
    pub waiting: u32,
}

/// The answer to a bid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The token holds the cover.
    Granted,
    /// Nothing was taken.
    Held {
        /// Who is in the way.
        by: Vec<Held>,
        /// Place from 1 among those who want the same.
        place: Option<u32>,
    },
    /// The queue has [`crate::table::PLACES_MAX`] places already.
    QueueFull,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The grant was prolonged.
    Grant,
    /// The place was prolonged. What stands in its way ends by itself after this time, at the earliest.
    Place(Option<Duration>),
    /// The token was neither held nor queued.
    Unknown,
}

/// What a step sets in motion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// This waiting token was granted what it waits for.
    Granted(HolderToken),
    /// Somebody waits for what this token holds.
    Wanted(HolderToken),
    /// The lease of this token was broken by an operator.
    Broken(HolderToken),
    /// A remaining time above the group's maximum was found and cut.
    Clamped {
        /// The scope.
        name: ScopeName,
        /// What was found.
        found: Duration,
    },
}

impl Cover {
    /// Whether both cannot be held at once.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        if self.whole || other.whole {
            return true;
        }
        let (a, b) = (self.names(), other.names());
        let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        few.iter().any(|name| many.contains(name))
    }

    pub(super) fn names(&self) -> &BTreeSet<ScopeName> {
        self.scopes.names()
    }

    pub(super) fn wants(&self, name: &ScopeName) -> bool {
        self.whole || self.names().contains(name)
    }
}
