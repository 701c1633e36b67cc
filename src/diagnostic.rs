//! Diagnostics: what the registry checker says, as data and as text.

pub mod render;

/// A place in a file. Line and column count from 1; a column counts characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Line, from 1.
    pub line: u32,
    /// Column of the first character, from 1.
    pub column: u32,
    /// Characters to underline, at least 1.
    pub length: u32,
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its place.
    pub span: Span,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The registry does not load.
    Error,
    /// It loads; somebody should look.
    Warning,
}

/// One problem of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// Stable code, in `docs/`.
    pub code: &'static str,
    /// Error or warning.
    pub level: Level,
    /// The offending text.
    pub span: Span,
    /// What is wrong: lower case, one line, no full stop.
    pub message: String,
    /// What to do about it; may be empty.
    pub help: String,
    /// Other places that belong to it, each with a few words.
    pub notes: Vec<(Span, String)>,
}

impl Span {
    /// The place of some characters in one line.
    #[must_use]
    pub fn new(line: u32, column: u32, length: u32) -> Self {
        Self { line, column, length: length.max(1) }
    }
}

impl Diagnostic {
    /// Something that keeps the registry from loading.
    #[must_use]
    pub fn error(
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let (message, help) = (message.into(), help.into());
        Self { code, level: Level::Error, span, message, help, notes: Vec::new() }
    }

    /// Something that somebody should look at.
    #[must_use]
    pub fn warning(
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { level: Level::Warning, ..Self::error(code, span, message, help) }
    }

    /// Adds another place that belongs to it.
    #[must_use]
    pub fn note(mut self, span: Span, text: impl Into<String>) -> Self {
        self.notes.push((span, text.into()));
        self
    }
}

/// Puts diagnostics in the order of the file; those of one place stay in the order they were found.
pub fn in_file_order(diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_by_key(|diagnostic| (diagnostic.span.line, diagnostic.span.column));
}

/// Whether any of them keeps the registry from loading.
#[must_use]
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.level == Level::Error)
}
