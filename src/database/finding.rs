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

/// Places shown of those that were written past the engine.
pub(crate) const BYPASSED_MAX: u32 = 5;

/// Columns of a CMS that were written past the engine, as the printed triggers counted them: `table.column`, how often.
pub(crate) fn bypassed(places: &[(String, i64)]) -> Option<Finding> {
    if places.is_empty() {
        return None;
    }
    let told: Vec<String> =
        places.iter().map(|(place, times)| format!("{place} ({times} times)")).collect();
    Some(Finding::new(
        Level::Warn,
        "bypassed",
        format!("guarded columns are written past the engine: {}", told.join(", ")),
        "see fl_bypass for when and by whom, lead that program through the engine or `fieldlease sql guard`, and empty the table",
    ))
}
