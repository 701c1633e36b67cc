//! Bytes to text: size, encoding and characters that have no place in a registry.

use super::scan::split;
use crate::diagnostic::{Diagnostic, Span};

/// What a registry file may be at most (RULES 41).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file. Default 64 MiB; more costs memory, about six times the file.
    pub bytes: usize,
    /// Nodes after aliases are written out. Default 2,000,000; this is what stops an alias bomb.
    pub nodes: usize,
    /// Lists and maps inside each other. Default 32; no registry needs more than eight.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 64 << 20, nodes: 2_000_000, depth: 32 }
    }
}

/// The text of the file without a byte order mark, or what is wrong with it.
pub(crate) fn decode<'a>(
    bytes: &'a [u8],
    limits: &Limits,
    found: &mut Vec<Diagnostic>,
) -> Option<&'a str> {
    let start = Span::new(1, 1, 1);
    if bytes.len() > limits.bytes {
        let message = format!("the file has {} bytes; the limit is {}", bytes.len(), limits.bytes);
        found.push(Diagnostic::error(
            "file_too_large",
            start,
            message,
            "split it, or raise the limit",
        ));
        return None;
    }
    if let Some(name) = other_encoding(bytes) {
        let message = format!("the file is {name}, not UTF-8");
        found.push(Diagnostic::error(
            "not_utf8",
            start,
            message,
            "save it as UTF-8 without a byte order mark",
        ));
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            found.push(not_utf8(bytes, error.valid_up_to()));
            return None;
        }
    };
    let Some(rest) = text.strip_prefix('\u{feff}') else { return Some(text) };
    let message = "the file begins with a byte order mark";
    found.push(Diagnostic::error(
        "byte_order_mark",
        start,
        message,
        "save it as UTF-8 without a byte order mark",
    ));
    Some(rest)
}

/// The text as well as it can be read, for showing lines of a file that is not text.
#[must_use]
pub fn readable(bytes: &[u8]) -> String {
    if other_encoding(bytes).is_some() {
        return String::new();
    }
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

fn other_encoding(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] | [_, 0, 0, 0, ..] | [0, 0, 0, _, ..] => {
            Some("UTF-32")
        }
        [0xff, 0xfe, ..]
        | [0xfe, 0xff, ..]
        | [(1..), 0, (1..), 0, ..]
        | [0, (1..), 0, (1..), ..] => Some("UTF-16"),
        _ => None,
    }
}

fn not_utf8(bytes: &[u8], at: usize) -> Diagnostic {
    let before =
        bytes.get(..at).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
    let before = before.strip_prefix('\u{feff}').unwrap_or(before);
    let line = split(before).iter().filter(|(_, end)| !end.is_empty()).count() + 1;
    let column = before.rsplit(['\n', '\r']).next().unwrap_or_default().chars().count() + 1;
    let byte = bytes.get(at).copied().unwrap_or_default();
    let message = format!("byte {byte:#04x} is not UTF-8");
    Diagnostic::error("not_utf8", place(line, column), message, "save the file as UTF-8")
}

fn place(line: usize, column: usize) -> Span {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Span::new(number(line), number(column), 1)
}
