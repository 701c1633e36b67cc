//! Diagnostics as a person reads them, and as JSON.
//!
//! Text of the user may hold control and bidirectional characters. They are written as escapes, so that a file
//! can neither drive the terminal nor show another order of letters than it has.

use std::{borrow::Cow, fmt::Write as _, ops::Range};

use annotate_snippets::{
    Annotation, AnnotationKind, Group, Level as Severity, Origin, Padding, Renderer, Snippet,
};
use serde_json::{Value as Json, json};

use crate::diagnostic::{Diagnostic, Level, Span};

/// Lines between two places of one diagnostic that are still shown as one piece.
const GAP_MAX: u32 = 50;
/// Characters of a line that are shown around the place.
const LINE_CHARS_MAX: usize = 400;

/// Whether to use terminal colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    #[default]
    Never,
    /// ANSI escapes.
    Always,
}

/// Every diagnostic with its line of the file, then one line that counts them.
#[must_use]
pub fn text(file: &str, source: &str, diagnostics: &[Diagnostic], colour: Colour) -> String {
    let lines = Lines::new(source);
    let renderer = match colour {
        Colour::Never => Renderer::plain(),
        Colour::Always => Renderer::styled(),
    };
    let file = escape(file);
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&renderer.render(&[group(&file, &lines, diagnostic)]));
        out.push_str("\n\n");
    }
    out.push_str(&summary(diagnostics));
    out
}

/// `3 errors, 1 warning` and a line end, or nothing.
#[must_use]
pub fn summary(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.level == Level::Error).count();
    let counts = [(errors, "error"), (diagnostics.len() - errors, "warning")];
    let mut parts = Vec::new();
    for (count, word) in counts {
        match count {
            0 => {}
            1 => parts.push(format!("1 {word}")),
            _ => parts.push(format!("{count} {word}s")),
        }
    }
    if parts.is_empty() { String::new() } else { parts.join(", ") + "\n" }
}

/// `{"code", "line", "column", "level", "message", "help"}`.
#[must_use]
pub fn json(diagnostic: &Diagnostic) -> Json {
    json!({
        "code": diagnostic.code,
        "line": diagnostic.span.line,
        "column": diagnostic.span.column,
        "level": diagnostic.level,
        "message": escape(&diagnostic.message),
        "help": escape(&diagnostic.help),
    })
}

/// Control and bidirectional characters as `\u{..}`; everything else as it is.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        push_escaped(c, &mut out);
    }
    Cow::Owned(out)
}

fn push_escaped(c: char, out: &mut String) {
    match c {
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        c if is_hidden(c) => {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// Characters that act on the terminal, reorder what is around them, or take no room.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn group<'a>(file: &'a str, lines: &Lines<'_>, diagnostic: &'a Diagnostic) -> Group<'a> {
    let severity = match diagnostic.level {
        Level::Error => Severity::ERROR,
        Level::Warning => Severity::WARNING,
    };
    let title = severity.primary_title(escape(&diagnostic.message)).id(diagnostic.code);
    let mut group = Group::with_title(title);
    let (near, far): (Vec<_>, Vec<_>) = diagnostic
        .notes
        .iter()
        .partition(|(span, _)| span.line.abs_diff(diagnostic.span.line) <= GAP_MAX);
    match Piece::new(
        lines,
        std::iter::once(&diagnostic.span).chain(near.iter().map(|(span, _)| span)),
    ) {
        Some(piece) => {
            let mut annotations = vec![piece.mark(AnnotationKind::Primary, diagnostic.span)];
            annotations.extend(near.iter().map(|(span, text)| {
                piece.mark(AnnotationKind::Context, *span).label(escape(text))
            }));
            group = group.element(piece.snippet(file, annotations));
        }
        None => {
            let origin = Origin::path(file).line(diagnostic.span.line as usize);
            group = group.element(origin.char_column(diagnostic.span.column as usize));
        }
    }
    for (span, text) in far {
        if let Some(piece) = Piece::new(lines, std::iter::once(span)) {
            let mark = piece.mark(AnnotationKind::Context, *span).label(escape(text));
            group = group.element(piece.snippet(file, vec![mark]));
        }
    }
    if !diagnostic.help.is_empty() {
        group = group.element(Padding).element(Severity::HELP.message(escape(&diagnostic.help)));
    }
    group
}

/// The file as lines.
struct Lines<'a>(Vec<&'a str>);

impl<'a> Lines<'a> {
    fn new(source: &'a str) -> Self {
        let mut lines = Vec::new();
        let mut rest = source;
        while let Some(at) = rest.find(['\n', '\r']) {
            let (line, after) = rest.split_at(at);
            lines.push(line);
            rest = after.strip_prefix("\r\n").or_else(|| after.get(1..)).unwrap_or_default();
        }
        lines.push(rest);
        Self(lines)
    }

    fn get(&self, line: u32) -> Option<&'a str> {
        self.0.get((line as usize).checked_sub(1)?).copied()
    }
}

/// Some lines of the file, ready to be shown: escaped, and very long ones cut around the places.
struct Piece {
    first: u32,
    text: String,
    /// For each line: the byte at which it begins in `text`, and its characters as they are shown.
    lines: Vec<(usize, Shown)>,
}

/// A line as it is shown: for each character of the file, from `from` on, its byte in `text`.
struct Shown {
    from: usize,
    text: String,
    bytes: Vec<usize>,
}

impl Piece {
    fn new<'s>(lines: &Lines<'_>, spans: impl Iterator<Item = &'s Span>) -> Option<Self> {
        let mut spans: Vec<&Span> = spans.collect();
        spans.sort();
        let (first, last) = (spans.first()?.line, spans.last()?.line);
        let mut piece = Self { first, text: String::new(), lines: Vec::new() };
        for number in first..=last {
            let column =
                spans.iter().find(|span| span.line == number).map_or(1, |span| span.column);
            let shown = Shown::new(lines.get(number)?, column as usize);
            if number > first {
                piece.text.push('\n');
            }
            let start = piece.text.len();
            piece.text.push_str(&shown.text);
            piece.lines.push((start, shown));
        }
        Some(piece)
    }

    fn mark<'a>(&self, kind: AnnotationKind, span: Span) -> Annotation<'a> {
        kind.span(self.range(span))
    }

    fn range(&self, span: Span) -> Range<usize> {
        let index = span.line.saturating_sub(self.first) as usize;
        let Some((start, shown)) = self.lines.get(index) else { return 0..0 };
        let from = (span.column as usize).saturating_sub(1);
        let to = from.saturating_add(span.length as usize);
        (start + shown.byte(from))..(start + shown.byte(to))
    }

    fn snippet<'a>(self, file: &'a str, marks: Vec<Annotation<'a>>) -> Snippet<'a, Annotation<'a>> {
        Snippet::source(self.text).line_start(self.first as usize).path(file).annotations(marks)
    }
}

impl Shown {
    fn new(line: &str, column: usize) -> Self {
        let from = if line.len() <= LINE_CHARS_MAX {
            0
        } else {
            column.saturating_sub(LINE_CHARS_MAX / 4)
        };
        let mut shown = Self { from, text: String::new(), bytes: Vec::new() };
        for c in line.chars().skip(from).take(LINE_CHARS_MAX) {
            shown.bytes.push(shown.text.len());
            push_escaped(c, &mut shown.text);
        }
        shown
    }

    /// The byte at which a character of the file is shown; the end for one beyond.
    fn byte(&self, at: usize) -> usize {
        self.bytes.get(at.saturating_sub(self.from)).copied().unwrap_or(self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{Colour, escape, json, text};
    use crate::diagnostic::{Diagnostic, Span};

    #[test]
    fn characters_that_act_on_the_terminal_are_written_out() {
        let file = "a\u{1b}[31m: \u{202e}x";
        let found =
            [Diagnostic::error("code", Span::new(1, 9, 1), "bad \u{1b}]0;x\u{7}", "\u{200f}")];

        let shown = text("f\n.yaml", file, &found, Colour::Never);
        let data = json(&found[0]).to_string();

        for output in [&shown, &data] {
            assert!(
                output.chars().all(|c| c == '\n' || (!c.is_control() && !super::is_hidden(c))),
                "{output:?}"
            );
        }
        assert!(shown.contains("a\\u{1b}[31m: \\u{202e}x"), "{shown}");
    }

    #[test]
    fn a_place_beyond_the_file_is_shown_without_a_line() {
        let found = [Diagnostic::error("code", Span::new(9, 3, 1), "the end", "")];

        assert!(text("f.yaml", "a\n", &found, Colour::Never).contains("f.yaml:9:3"));
    }

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(escape("plain"), std::borrow::Cow::Borrowed(_)));
    }
}
