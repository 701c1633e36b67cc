//! Tabs in the indentation.

use super::{Scanner, line::Line};
use crate::diagnostic::{Diagnostic, Span};

impl Scanner<'_> {
    /// Notes tabs in the indentation and makes two spaces of each.
    pub(super) fn indent(&mut self, line: &mut Line) {
        let indent = line.leading();
        if line.get(indent).is_none_or(|c| c == '#') || !self.flow.is_empty() {
            return;
        }
        self.spaces |= line.get(0) == Some(' ');
        let mut at = 0;
        let mut first = None;
        while let Some(c) = line.get(at).filter(|c| matches!(c, ' ' | '\t')) {
            if c == '\t' {
                first = first.or(Some(line.original(at)));
                line.replace(at, ' ');
                line.insert(at + 1, ' ');
                at += 1;
            }
            at += 1;
        }
        self.tabs.extend(first.map(|column| (line.number(), column)));
    }

    /// One diagnostic per run of lines with tabs. Says whether the structure can be trusted.
    pub(super) fn report_tabs(&mut self) -> bool {
        let help = "YAML indents with spaces: replace each tab by two spaces";
        let mut lines = self.tabs.iter().copied().peekable();
        while let Some((line, column)) = lines.next() {
            let mut last = line;
            while let Some((next, _)) = lines.next_if(|(next, _)| *next == last + 1) {
                last = next;
            }
            let message = if last == line {
                "a tab in the indentation".to_owned()
            } else {
                format!("tabs in the indentation of lines {line} to {last}")
            };
            self.found.push(Diagnostic::error("tab", Span::new(line, column, 1), message, help));
        }
        self.tabs.is_empty() || !self.spaces
    }
}
