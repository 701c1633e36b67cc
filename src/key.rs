//! Idempotency keys: one key takes effect at most once (P4).
//!
//! A key names a piece of work, a [`RequestHash`] says what the work was, and an [`Attempt`] is one try at it. Who may
//! try, who must wait and what a repeat is answered is decided by [`begin`], a plain function; stores carry it out.
//! Keys of requests ([`ApiKey`]) and of jobs ([`JobKey`]) never meet: they differ in kind, and so in their rows.

mod automaton;
mod canonical;
mod job;
mod text;

use std::{collections::BTreeMap, fmt, time::Duration};

pub use self::{
    automaton::{Row, State, Step, begin},
    canonical::{INTEGER_MAX, canonical, canonical_text},
    job::{JobKey, KeySource, stamps_of},
    text::{ApiKey, NAME_CHARS_MAX},
};
use crate::{
    path::Path,
    scope::ScopeName,
    token::{Entropy, Incarnation, OperationId, ScopeVersion, VersionNumber},
};

/// Longest lease of an attempt: [`SWEEP_AFTER`] must be longer, or a row could go while its attempt lives.
pub const LEASE_MAX: Duration = Duration::from_secs(15 * 60);

/// How long an expired row stays before it is swept.
pub const SWEEP_AFTER: Duration = Duration::from_secs(60 * 60);

/// How long an attempt nobody finished or took over stays before it is swept: two weeks.
pub const ABANDONED_AFTER: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Whose key it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// A client's request.
    Api,
    /// A worker's job.
    Job,
}

/// What a store keeps a key under. Two keys are one only if kind, scope and name are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    kind: KeyKind,
    scope: Box<str>,
    name: Box<str>,
}

/// How a request was hashed. Hashes of different algorithms never match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// SHA-256 over a domain tag, operation, target and the canonical JSON of the body (RFC 8785).
    JcsSha256,
    /// The same over the bytes of a body that is not JSON.
    RawSha256,
}

/// What a request was, so that a key used for another one is noticed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestHash {
    /// How it was made.
    pub algorithm: HashAlgorithm,
    /// SHA-256.
    pub bytes: [u8; 32],
}

/// 128 random bits, made before the first send of an acquisition and kept for its retries; never used for another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub [u8; 16]);

/// One try at the work of a key. Every transition compares both for equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// Who tries.
    pub owner: Owner,
    /// 1 for the first; never restarts while the row lives.
    pub number: u64,
}

/// The answer to beginning the work of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Begin {
    /// The work is this attempt's.
    Acquired {
        /// The attempt.
        attempt: Attempt,
        /// An attempt before it went away without finishing.
        taken_over: bool,
    },
    /// It ended before: this is what it answered.
    Replay(Box<Finished>),
    /// The key was used for other work.
    Mismatch,
    /// Another attempt is at it.
    InProgress {
        /// When its lease ends, if it is not renewed.
        retry_after: Duration,
    },
    /// It failed and may be tried again, but not yet.
    RetryLater {
        /// When.
        retry_after: Duration,
    },
}

/// How an attempt ends without an effect. With one, it ends by its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// There was nothing to do, on current inputs; repeats are answered this (RULES 32).
    Done {
        /// What repeats are answered.
        result: String,
        /// How long.
        retention: Duration,
        /// As [`Finished::inputs`].
        inputs: Option<InputStamps>,
    },
    /// The work itself failed and always will; repeats are answered this.
    Failed {
        /// What repeats are answered.
        result: String,
        /// How long.
        retention: Duration,
    },
    /// The work failed and may be tried again after a while.
    Retry {
        /// The class of the error, for people.
        class: String,
        /// How long after now.
        after: Duration,
    },
    /// It was not done: the row goes, and whoever comes next begins anew.
    Release,
}

/// Stamps of inputs: the save that last changed each; `None` for a unit without a stamp.
pub type InputStamps = BTreeMap<Path, Option<OperationId>>;

/// How the work of a key ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Well, or for good not.
    pub ending: Ending,
    /// What was stored to be answered.
    pub result: String,
    /// The save that completed it; `None` when there was nothing to do.
    pub effect: Option<Effect>,
    /// For a key made of a content hash: the stamps of the inputs it was computed from. It may only be replayed while
    /// they are the present ones (RULES 32).
    pub inputs: Option<InputStamps>,
}

/// Whether the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was, or there was nothing to do.
    Completed,
    /// It failed for good.
    Failed,
}

/// What the save that completed a key did: what its first answer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Its name in history.
    pub operation: OperationId,
    /// New versions of the scopes it wrote.
    pub versions: BTreeMap<ScopeName, ScopeVersion>,
    /// The version it made, for an editor's save.
    pub number: Option<VersionNumber>,
    /// The incarnation after it.
    pub incarnation: Incarnation,
}

impl KeyKind {
    /// As stores keep it: `api` or `job`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Job => "job",
        }
    }

    /// Reads what [`KeyKind::as_str`] says.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Api, Self::Job].into_iter().find(|kind| kind.as_str() == text)
    }
}

impl Key {
    /// A request's or a job's.
    #[must_use]
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Whose it is: 1 to 255 visible ASCII characters.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// The key itself: 1 to 255 visible ASCII characters.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As a store kept it.
    #[must_use]
    pub fn stored(kind: KeyKind, scope: &str, name: &str) -> Self {
        Self { kind, scope: scope.into(), name: name.into() }
    }
}

/// `job worker:thumbnailer 2026-11-30`, for logs and messages.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.kind.as_str(), self.scope, self.name)
    }
}

impl HashAlgorithm {
    /// As stores keep it; the digit is the version of what is hashed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JcsSha256 => "jcs-sha256/1",
            Self::RawSha256 => "raw-sha256/1",
        }
    }

    /// Reads what [`HashAlgorithm::as_str`] says.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::JcsSha256, Self::RawSha256].into_iter().find(|known| known.as_str() == text)
    }
}

impl RequestHash {
    /// Whether a stored hash is this one. One of an algorithm we do not know never is.
    #[must_use]
    pub fn is_stored_as(&self, algorithm: &str, bytes: &[u8]) -> bool {
        HashAlgorithm::parse(algorithm) == Some(self.algorithm) && bytes == self.bytes
    }
}

impl Owner {
    /// A new one.
    #[must_use]
    pub fn new(entropy: &dyn Entropy) -> Self {
        Self(entropy.bytes())
    }
}

/// Its first digits are enough to tell one from another.
impl fmt::Debug for RequestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.bytes;
        write!(f, "RequestHash({} {a:02x}{b:02x}{c:02x}{d:02x}..)", self.algorithm.as_str())
    }
}

/// An owner is a credential: logs show its first four digits only.
impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, ..] = self.0;
        write!(f, "Owner({a:02x}{b:02x}..)")
    }
}
