//! What the parser's refusals mean, in the user's words.

use serde_yaml::granit_parser::{ErrorKind, ScanError};

use super::{Builder, number};
use crate::diagnostic::{Diagnostic, Span};

impl Builder<'_, '_> {
    /// The diagnostic for a text that is not YAML.
    pub(super) fn syntax(&self, error: &ScanError) -> Diagnostic {
        let marker = error.marker();
        let span = self.inserted.span(number(marker.line().max(1)), number(marker.col() + 1), 1);
        if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
            let message =
                format!("lists and maps lie more than {} deep in each other", self.limits.depth);
            let help =
                "a registry needs at most eight levels; raise the limit if yours is different";
            return Diagnostic::error("too_deep", span, message, help);
        }
        let (reason, help) = reason(error.kind());
        let message = format!("this is not YAML: {reason}");
        let mut diagnostic = Diagnostic::error("yaml_syntax", span, message, help);
        if let Some((open, bracket)) = self.open_bracket()
            && open.line != span.line
        {
            diagnostic = diagnostic.note(open, format!("this `{bracket}` is still open"));
        }
        diagnostic
    }

    /// The innermost `[` or `{` that is not closed.
    fn open_bracket(&self) -> Option<(Span, char)> {
        let span = self.stack.last()?.span;
        let line = self.text.split_inclusive('\n').nth(span.line.saturating_sub(1) as usize)?;
        let mended = (0..).zip(line.chars());
        let c = mended
            .filter(|(column, _)| self.inserted.original(span.line, column + 1) == span.column)
            .map(|(_, c)| c)
            .last()?;
        matches!(c, '[' | '{').then_some((Span { length: 1, ..span }, c))
    }
}

fn reason(kind: &ErrorKind) -> (String, &'static str) {
    let bracket = "close the bracket, or quote a text that contains one";
    let indent = "entries of one list or map begin in the same column";
    let (reason, help) = match kind {
        ErrorKind::InvalidColonPlacement => ("a colon inside a list in brackets", bracket),
        ErrorKind::UnclosedFlowCollection { .. } => ("this bracket is never closed", bracket),
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::BlockEntryInFlowCollection
        | ErrorKind::InvalidIndentation => ("a bracket is not closed before this", bracket),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            return (format!("`{open}` is closed by `{close}`"), bracket);
        }
        ErrorKind::MisplacedFlowCollectionEnd => {
            ("a closing bracket without its opening one", bracket)
        }
        ErrorKind::MappingValueNotAllowed => (
            "a colon where no key can be",
            "a key ends with `: `, the lines above too; quote a text that contains `: `",
        ),
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::SimpleKeyExpected
        | ErrorKind::InvalidSimpleKey => ("a key with a colon is expected here", indent),
        ErrorKind::ExpectedBlockSequenceEntry => ("another list item is expected here", indent),
        ErrorKind::BlockSequenceEntryNotAllowed => ("a list item cannot be here", indent),
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabInPlainScalar
        | ErrorKind::TabAtBlockScalarStart => ("a tab", "use spaces"),
        ErrorKind::UnclosedQuotedScalar => ("a quote is not closed", "close it"),
        ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            ("text behind a closing quote", "put the whole text into quotes")
        }
        ErrorKind::CommentNotSeparated => {
            ("a comment needs a blank before `#`", "quote the text, or write ` #`")
        }
        ErrorKind::UnexpectedCharacter { character } => {
            let reason = format!("`{character}` cannot begin a text");
            return (reason, "quote the text");
        }
        other => return (other.to_string(), "quote the text, or look at what stands before it"),
    };
    (reason.to_owned(), help)
}
