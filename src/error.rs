//! What went wrong, named after what the caller does next. Being refused is an answer, not an error.

use crate::token::OperationId;

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Only what is *not* an answer: held, stale, conflicting and denied are answers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Mend the call: what was passed in is not valid, whatever the state of the store.
    #[error("{message}")]
    Invalid {
        /// Stable code of the fault.
        code: &'static str,
        /// What is wrong, in the user's words.
        message: String,
        /// What to do about it.
        help: String,
    },
    /// Try again later: a server or file could not be reached, and nothing was done.
    #[error("{message}")]
    Unavailable {
        /// What could not be reached, and why.
        message: String,
    },
    /// Try again later with the same values: other writers were faster, too often in a row. Nothing was done.
    #[error("too many other writers: gave up after {attempts} attempts")]
    Contended {
        /// How often the save was planned.
        attempts: u32,
    },
    /// Ask again for this operation: a commit was sent and its answer never came.
    #[error("the outcome of operation {0} is not known")]
    OutcomeUnknown(OperationId),
    /// Change the registry: it declares something this version parses and checks, but does not do yet.
    #[error("{message}")]
    NotYet {
        /// The key and what is missing.
        message: String,
    },
    /// Report this: an invariant of the library or of its stored rows does not hold.
    #[error("{message}")]
    Internal {
        /// What does not hold.
        message: String,
    },
}

impl Error {
    /// The stable code, the same in JSON, logs and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { code, .. } => code,
            Self::Unavailable { .. } => "unavailable",
            Self::Contended { .. } => "contended",
            Self::OutcomeUnknown(_) => "outcome_unknown",
            Self::NotYet { .. } => "not_yet",
            Self::Internal { .. } => "internal",
        }
    }

    /// A fault of the caller's input.
    pub fn invalid(
        code: &'static str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self::Invalid { code, message: message.into(), help: help.into() }
    }

    /// A server or file that cannot be reached.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable { message: message.into() }
    }

    /// A broken invariant.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::Internal { message: message.into() }
    }
}

impl From<crate::entity::NameError> for Error {
    fn from(error: crate::entity::NameError) -> Self {
        Self::invalid("bad_name", error.to_string(), "")
    }
}

impl From<crate::path::PathError> for Error {
    fn from(error: crate::path::PathError) -> Self {
        Self::Invalid { code: error.code, message: error.message, help: error.help }
    }
}
