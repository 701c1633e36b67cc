//! The version guard as other processes see it: a board on which a save says what it is, for as long as it runs.
//!
//! A hook of a CMS that makes versions by itself may run in another process than the save that caused it. It is given
//! the id of the save's guard and asks the board. Whatever the board does not know **makes a version**: so a worker
//! that was killed leaves versioning on, and an editor's save beside a worker's is never touched, because a guard
//! belongs to one save and to no record and no process (RULES 34).

pub mod memory;

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    clock::BoxFuture,
    entity::{EntityRef, WriterKind},
    error::{Error, Result},
    token::Entropy,
};

/// Shortest time a guard is kept.
pub const GUARD_TTL_MIN: Duration = Duration::from_millis(100);
/// Longest: a crashed worker's guard answers for its own save this long, which nobody asks about any more.
pub const GUARD_TTL_MAX: Duration = Duration::from_secs(60 * 60);

/// Names the guard of one save: 128 random bits. Not a secret: it says nothing and allows nothing but asking.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GuardId(pub [u8; 16]);

impl GuardId {
    /// A new one.
    #[must_use]
    pub fn new(entropy: &dyn Entropy) -> Self {
        Self(entropy.bytes())
    }

    /// Reads 32 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let valid = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        valid.then(|| u128::from_str_radix(text, 16).ok().map(|n| Self(n.to_be_bytes())))?
    }
}

impl fmt::Display for GuardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for GuardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuardId({self})")
    }
}

/// What a board knows of one save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// What its writer is. It alone decides: an editor's guard never suppresses.
    pub kind: WriterKind,
    /// Whose it is: the only one who may keep or close it.
    pub owner: Arc<str>,
    /// The record it saves, for people.
    pub entity: EntityRef,
}

impl Guard {
    /// Whether the save makes a version.
    #[must_use]
    pub fn makes_version(&self) -> bool {
        self.kind == WriterKind::Editor
    }
}

/// The answer to a hook: what is not known makes a version.
#[must_use]
pub fn makes_version(guard: Option<&Guard>) -> bool {
    guard.is_none_or(Guard::makes_version)
}

/// Cuts a time to live to whole milliseconds.
///
/// # Errors
/// `ttl_too_small` below 100 ms, `ttl_too_large` above an hour.
pub fn whole_ms(ttl: Duration) -> Result<Duration> {
    let (code, what) = if ttl < GUARD_TTL_MIN {
        ("ttl_too_small", "short")
    } else if ttl > GUARD_TTL_MAX {
        ("ttl_too_large", "long")
    } else {
        return Ok(Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)));
    };
    let message = format!("a time to live of {ttl:?} is too {what} for a version guard");
    Err(Error::invalid(code, message, "choose one between 100ms and 1h"))
}

/// Where guards are seen. Object safe.
pub trait GuardBoard: Send + Sync {
    /// Puts a guard up under a new id, for `ttl` from now.
    fn open<'a>(&'a self, guard: &'a Guard, ttl: Duration) -> BoxFuture<'a, Result<GuardId>>;
    /// Keeps guards for `ttl` from now. One answer per id, in order: whether it was still there. Never puts one up.
    fn keep<'a>(&'a self, ids: &'a [GuardId], ttl: Duration) -> BoxFuture<'a, Result<Vec<bool>>>;
    /// Takes a guard down; whether it was there. When this returns, its save makes versions again.
    fn close(&self, id: GuardId) -> BoxFuture<'_, Result<bool>>;
    /// The guard of this id, if it is up.
    fn look(&self, id: GuardId) -> BoxFuture<'_, Result<Option<Guard>>>;
}
