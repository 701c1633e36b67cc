//! Quoted texts in the line scan: unclosed ones, text behind the closing quote, escapes YAML does not know.

use super::{Scanner, indentation, line::Line};
use crate::diagnostic::Diagnostic;

impl Scanner<'_> {
    /// Reads a quoted text. `None` when it goes on in the next line.
    pub(super) fn quoted(&mut self, line: &mut Line, at: usize, quote: char) -> Option<usize> {
        let in_flow = !self.flow.is_empty();
        let Some(close) = line.closing(at + 1, quote) else {
            if self.goes_on(line, quote) {
                self.check_escapes(line, at + 1, quote);
                self.quote = Some(quote);
                return None;
            }
            let end = line.plain_end(at, in_flow);
            let text = line.slice(at, end);
            let message = format!("`{text}` begins with `{quote}`, and the quote is never closed");
            return Some(self.quote_needed(line, at, end, message));
        };
        let next = line.skip_blank(close + 1);
        let ends = match line.get(next) {
            None => true,
            // Outside brackets a key ends with a colon and a blank.
            Some(':') => in_flow || line.get(next + 1).is_none_or(|c| matches!(c, ' ' | '\t')),
            Some('#') => next > close + 1,
            Some(',' | ']' | '}') => in_flow,
            Some(_) => false,
        };
        if ends {
            self.check_escapes(line, at + 1, quote);
            return line.closing(at + 1, quote).map(|close| close + 1);
        }
        let end = line.plain_end(at, in_flow);
        let message = format!("`{}` goes on behind the closing quote", line.slice(at, end));
        Some(self.quote_needed(line, at, end, message))
    }

    /// Whether a later, deeper line closes the quote.
    fn goes_on(&self, line: &Line, quote: char) -> bool {
        let least = line.leading();
        for (text, _) in self.lines.iter().skip(line.index() + 1) {
            if text.trim().is_empty() {
                continue;
            }
            if indentation(text) <= least {
                return false;
            }
            if Line::new(0, text).closing(0, quote).is_some() {
                return true;
            }
        }
        false
    }

    /// In double quotes `\.` is not an escape of YAML: reports it and doubles the backslash.
    pub(super) fn check_escapes(&mut self, line: &mut Line, mut at: usize, quote: char) {
        if quote != '"' {
            return;
        }
        while let Some(c) = line.get(at) {
            let next = line.get(at + 1);
            match (c, next) {
                ('"', _) => return,
                ('\\', Some(next)) if !is_escape(next) || !line.has_digits(at + 2, next) => {
                    let message = format!("`\\{next}` is not an escape in double quotes");
                    let help = format!("write `\\\\{next}`, or put the text in 'single' quotes");
                    let span = line.span(at, at + 2);
                    self.found.push(Diagnostic::error("bad_escape", span, message, help));
                    line.insert(at + 1, '\\');
                    at += 2;
                }
                ('\\', Some(_)) => at += 2,
                _ => at += 1,
            }
        }
    }
}

impl Line {
    /// Whether the digits an escape needs are there.
    fn has_digits(&self, at: usize, letter: char) -> bool {
        (at..at + digits(letter)).all(|at| self.get(at).is_some_and(|c| c.is_ascii_hexdigit()))
    }

    /// Where the quote is closed, looking from `at`.
    pub(super) fn closing(&self, mut at: usize, quote: char) -> Option<usize> {
        while let Some(c) = self.get(at) {
            if c == '\\' && quote == '"' {
                at += 2;
            } else if c != quote {
                at += 1;
            } else if quote == '\'' && self.get(at + 1) == Some('\'') {
                at += 2;
            } else {
                return Some(at);
            }
        }
        None
    }
}

/// Hexadecimal digits that a letter behind a backslash needs.
fn digits(letter: char) -> usize {
    match letter {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => 0,
    }
}

/// The letters YAML knows behind a backslash.
fn is_escape(c: char) -> bool {
    "0abt\tnvfre \"/\\N_LPxuU".contains(c)
}
