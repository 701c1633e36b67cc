//! Where a character of a scalar stands in the file, quotes and escapes counted.

use super::Text;
use crate::{diagnostic::Span, registry::scan::Scanned};

/// The place of `length` characters of a text, `at` characters behind its beginning.
pub(crate) fn inside(scanned: &Scanned, span: Span, text: &Text, at: usize, length: usize) -> Span {
    let source = scanned.text.get(text.bytes.0 as usize..text.bytes.1 as usize).unwrap_or_default();
    let places = columns(source);
    // A text over several lines, or a block, is underlined as a whole.
    let whole = source.is_empty() || source.contains(['\n', '\r']);
    let (Some(start), false) = (places.get(at), whole) else { return span };
    let end = places.get(at + length.max(1)).or(places.last()).copied().unwrap_or(start + 1);
    let first = mended_column(scanned, span);
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    scanned.inserted.span(
        span.line,
        first.saturating_add(number(*start)),
        number(end.saturating_sub(*start)),
    )
}

/// For each character of the value, and for its end, the characters of the source before it.
fn columns(source: &str) -> Vec<usize> {
    let chars: Vec<char> = source.chars().collect();
    let quote = chars.first().copied().filter(|c| matches!(c, '\'' | '"'));
    let mut at = usize::from(quote.is_some());
    let end = chars.len().saturating_sub(at);
    let mut places = Vec::with_capacity(chars.len());
    while at < end {
        places.push(at);
        let next = chars.get(at + 1);
        at += match (quote, chars.get(at)) {
            (Some('\''), Some('\'')) => 2,
            (Some('"'), Some('\\')) => match next {
                Some('x') => 4,
                Some('u') => 6,
                Some('U') => 10,
                _ => 2,
            },
            _ => 1,
        };
    }
    places.push(end);
    places
}

/// The column in the mended line at which a text begins.
fn mended_column(scanned: &Scanned, span: Span) -> u32 {
    // The first mended column that leads back to the file's column is the opening quote, where one was put in.
    let mut column = span.column;
    while scanned.inserted.original(span.line, column) < span.column {
        column = column.saturating_add(1);
    }
    column
}
