//! What there is to say about a server before records or leases are trusted to it.

use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// To be known: where a guarantee ends on this server.
    Info,
    /// It works, and something should be done.
    Warn,
    /// It does not work, or cannot be trusted.
    Refuse,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Refuse => "refuse",
        })
    }
}

/// One thing about one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// Its stable code.
    pub code: &'static str,
    /// The server: `HOST:PORT`, `HOST:PORT/DATABASE` or the path of a file.
    pub place: String,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl Finding {
    pub(crate) fn new(
        level: Level,
        code: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level, code, place: String::new(), message: message.into(), remedy: remedy.into() }
    }

    /// The same, about this server.
    #[must_use]
    pub fn at(mut self, place: &str) -> Self {
        place.clone_into(&mut self.place);
        self
    }
}
