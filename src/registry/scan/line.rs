//! One line under repair: its characters, and the way back to its columns in the file.

use super::number;
use crate::diagnostic::Span;

/// A line as characters. Positions count from 0 in the line as it is now.
pub(super) struct Line {
    index: usize,
    chars: Vec<char>,
    /// Where characters were put in, ascending.
    inserted: Vec<usize>,
}

impl Line {
    pub(super) fn new(index: usize, text: &str) -> Self {
        Self { index, chars: text.chars().collect(), inserted: Vec::new() }
    }

    /// The characters, and the columns from 1 of those that were put in.
    pub(super) fn finish(self) -> (Vec<char>, Vec<u32>) {
        let places = self.inserted.iter().map(|place| number(place + 1)).collect();
        (self.chars, places)
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn number(&self) -> u32 {
        number(self.index + 1)
    }

    pub(super) fn len(&self) -> usize {
        self.chars.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<char> {
        self.chars.get(at).copied()
    }

    pub(super) fn slice(&self, from: usize, to: usize) -> String {
        self.chars.iter().skip(from).take(to.saturating_sub(from)).collect()
    }

    /// The column in the file, from 1.
    pub(super) fn original(&self, at: usize) -> u32 {
        number(at + 1 - self.inserted.iter().filter(|place| **place < at).count())
    }

    pub(super) fn span(&self, from: usize, to: usize) -> Span {
        let start = self.original(from);
        Span::new(self.number(), start, self.original(to).saturating_sub(start))
    }

    pub(super) fn leading(&self) -> usize {
        self.chars.iter().take_while(|c| matches!(c, ' ' | '\t')).count()
    }

    pub(super) fn skip_blank(&self, at: usize) -> usize {
        at + self.chars.iter().skip(at).take_while(|c| matches!(c, ' ' | '\t')).count()
    }

    pub(super) fn replace(&mut self, at: usize, c: char) {
        if let Some(place) = self.chars.get_mut(at) {
            *place = c;
        }
    }

    /// Puts a character in. Insertions go from left to right.
    pub(super) fn insert(&mut self, at: usize, c: char) {
        let at = at.min(self.chars.len());
        self.chars.insert(at, c);
        self.inserted.push(at);
    }

    /// Puts single quotes around a range and returns the new end.
    pub(super) fn quote(&mut self, from: usize, to: usize) -> usize {
        self.insert(from, '\'');
        let (mut at, mut end) = (from + 1, to + 1);
        while at < end {
            if self.get(at) == Some('\'') {
                self.insert(at, '\'');
                at += 1;
                end += 1;
            }
            at += 1;
        }
        self.insert(end, '\'');
        end + 1
    }

    /// Moves the characters of a range to the left, to `to`, and fills up with blanks.
    pub(super) fn pull(&mut self, to: usize, from: usize, end: usize) {
        let length = end.saturating_sub(from);
        for offset in 0..end.saturating_sub(to) {
            let c = if offset < length { self.get(from + offset) } else { Some(' ') };
            self.replace(to + offset, c.unwrap_or(' '));
        }
    }

    /// `---` or `...` at the start of the line.
    pub(super) fn is_document_mark(&self) -> bool {
        let mark = self.slice(0, 3);
        (mark == "---" || mark == "...") && self.get(3).is_none_or(|c| matches!(c, ' ' | '\t'))
    }

    /// The end of an anchor, alias or tag that begins at `at`.
    pub(super) fn token_end(&self, at: usize) -> usize {
        let inside = |c: &&char| !matches!(c, ' ' | '\t' | ',' | '[' | ']' | '{' | '}');
        at + self.chars.iter().skip(at).take_while(inside).count()
    }

    /// The end of an unquoted text that begins at `at`, without blanks behind it.
    pub(super) fn plain_end(&self, at: usize, in_flow: bool) -> usize {
        let flow = |c: char| in_flow && matches!(c, ',' | '[' | ']' | '{' | '}');
        let mut end = at;
        let mut before = None;
        for (offset, c) in self.chars.iter().skip(at).copied().enumerate() {
            let next = self.get(at + offset + 1);
            let colon = c == ':' && next.is_none_or(|c| matches!(c, ' ' | '\t') || flow(c));
            let comment = c == '#' && matches!(before, Some(' ' | '\t'));
            if colon || comment || flow(c) {
                break;
            }
            if !matches!(c, ' ' | '\t') {
                end = at + offset + 1;
            }
            before = Some(c);
        }
        end
    }

    /// Whether `|` or `>` at `at` opens a block of text: only signs, a digit and a comment may follow.
    pub(super) fn is_block_header(&self, at: usize) -> bool {
        let rest = self.slice(at + 1, self.len());
        let rest = rest.trim_start_matches(['+', '-', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
        let comment = rest.starts_with([' ', '\t']) && rest.trim_start().starts_with('#');
        comment || rest.trim().is_empty()
    }

    /// The end of a marker with its axes, if the comment that begins at `at` is nothing else.
    pub(super) fn marker_end(&self, at: usize) -> Option<usize> {
        if self.get(at) != Some('#') {
            return None;
        }
        let rest = self.slice(at, self.len());
        let after = rest.strip_prefix("#keys").or_else(|| rest.strip_prefix("#order"))?;
        let axes = if after.starts_with('@') {
            after.find([':', ',', ' ', '\t', ']', '}']).unwrap_or(after.len())
        } else {
            0
        };
        let behind = after.get(axes..)?.trim_start_matches([' ', '\t']);
        let alone = behind.is_empty() || behind.starts_with([':', ',', ']', '}', '#']);
        let taken = rest.len() - after.len() + axes;
        alone.then(|| at + rest.get(..taken).map_or(0, |text| text.chars().count()))
    }
}
