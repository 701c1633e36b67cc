//! Comments that were meant as rules: `#keys`, `a. #order`.

use super::{Scanner, line::Line};
use crate::diagnostic::Diagnostic;

impl Scanner<'_> {
    /// A comment where a value may stand. A marker there is quoted and read; its end is returned.
    pub(super) fn comment(&mut self, line: &mut Line, at: usize, opened: bool) -> Option<usize> {
        let end = line.marker_end(at)?;
        let text = line.slice(at, end);
        let help = format!("quote it: '{text}'");
        if opened || !self.flow.is_empty() {
            let message = format!("`{text}` begins with `#`: YAML reads a comment there");
            return Some(self.quote_needed(line, at, end, message));
        }
        let message = format!("`{text}` is a comment in YAML, not a rule");
        let diagnostic = Diagnostic::error("comment_like_rule", line.span(at, end), message, help);
        self.found.push(diagnostic);
        (line.get(line.skip_blank(end)) == Some(':')).then(|| line.quote(at, end))
    }

    /// `a. #order` reads `a.`: a marker cut off by a blank.
    pub(super) fn marker_behind(&mut self, line: &mut Line, at: usize, end: usize) {
        let place = line.skip_blank(end);
        let Some(marker_end) = line.marker_end(place) else { return };
        let (path, marker) = (line.slice(at, end), line.slice(place, marker_end));
        let message = format!("`{marker}` is a comment in YAML: only `{path}` is read");
        let span = line.span(place, marker_end);
        if path.ends_with('.') {
            let help = format!("write `{path}{marker}` without the blank");
            self.found.push(Diagnostic::error("comment_like_rule", span, message, help));
            line.pull(end, place, marker_end);
        } else {
            let help =
                format!("write `{path}.{marker}` for the rule, or `# {marker}` for a comment");
            let help = help.replace("# #", "# ");
            self.found.push(Diagnostic::warning("comment_like_rule", span, message, help));
        }
    }
}
