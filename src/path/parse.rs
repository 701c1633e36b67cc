//! The one parser of paths and patterns.

use super::{
    AXES_MAX, AxisMatch, KEY_BYTES_MAX, KEYS_MAX, Marker, PathError, Segment, TEXT_BYTES_MAX, Tail,
};

/// A path or pattern as read; axes sorted.
pub(super) struct Read {
    pub(super) segments: Vec<Segment>,
    pub(super) tail: Tail,
    pub(super) axes: Vec<(Box<str>, AxisMatch)>,
    /// Characters before the separator of each axis, in the order of `axes`.
    pub(super) axes_at: Vec<u16>,
}

pub(super) fn parse(text: &str, path: bool) -> Result<Read, PathError> {
    if let Some(segments) = plain(text) {
        return Ok(Read { segments, tail: Tail::Node, axes: Vec::new(), axes_at: Vec::new() });
    }
    let mut parser = Parser { chars: text.chars().collect(), at: 0, path };
    if text.is_empty() {
        return Err(parser.error(0, 1, "path_empty", "a path is empty", "write a field name"));
    }
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("a path of {} bytes is too long", text.len());
        let help = format!("a path has at most {TEXT_BYTES_MAX} bytes");
        return Err(parser.error(0, parser.chars.len(), "path_too_long", message, help));
    }
    let (segments, tail) = parser.keys()?;
    let mut placed = parser.axes()?;
    placed.sort();
    let (axes, axes_at) = placed.into_iter().unzip();
    Ok(Read { segments, tail, axes, axes_at })
}

/// Escapes may make the canonical text longer than what was written; it is bounded too, so that it reads back.
pub(super) fn check_printed(text: &str, canonical: &str) -> Result<(), PathError> {
    if canonical.len() <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let message = format!("a path of {} bytes is too long", canonical.len());
    let help = format!("with its escapes a path has at most {TEXT_BYTES_MAX} bytes");
    let length = text.chars().count().max(1);
    Err(PathError { code: "path_too_long", at: 0, length, message, help })
}

/// The common case, `price.amount`, without a look at every character's meaning.
pub(super) fn plain(text: &str) -> Option<Vec<Segment>> {
    let simple = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if text.len() > KEY_BYTES_MAX || !text.bytes().all(simple) {
        return None;
    }
    let count = text.split('.').count();
    if count > KEYS_MAX || text.split('.').any(str::is_empty) {
        return None;
    }
    let mut segments = Vec::with_capacity(count);
    segments.extend(text.split('.').map(|key| Segment::Key(key.into())));
    Some(segments)
}

/// An axis and the characters before its separator.
type PlacedAxis = ((Box<str>, AxisMatch), u16);

struct Parser {
    chars: Vec<char>,
    at: usize,
    path: bool,
}

/// One key, prefix or star as read, before it is known where it stands.
struct Piece {
    text: String,
    star: bool,
    empty_key: bool,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn slice(&self, from: usize, to: usize) -> String {
        self.chars.iter().skip(from).take(to.saturating_sub(from)).collect()
    }

    #[expect(clippy::unused_self, reason = "reads better at the call site")]
    fn error(
        &self,
        at: usize,
        length: usize,
        code: &'static str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> PathError {
        PathError { code, at, length: length.max(1), message: message.into(), help: help.into() }
    }

    fn keys(&mut self) -> Result<(Vec<Segment>, Tail), PathError> {
        let mut segments = Vec::new();
        let mut tail = Tail::Node;
        loop {
            let start = self.at;
            if self.peek() == Some('#') {
                tail = Tail::Marker(self.marker()?);
            } else if self.peek() == Some('*') && self.chars.get(self.at + 1) == Some(&'*') {
                self.at += 2;
                if self.path {
                    return Err(self.wildcard(start, 2));
                }
                tail = Tail::Subtree;
                if !matches!(self.peek(), None | Some('@')) {
                    let help = "`**` stands alone at the end of a path; write `*` for one key";
                    return Err(self.error(
                        start,
                        2,
                        "star_not_last",
                        "`**` is not at the end",
                        help,
                    ));
                }
            } else {
                let piece = self.piece(false)?;
                segments.push(self.segment(piece, start)?);
            }
            let count = segments.len() + usize::from(matches!(tail, Tail::Marker(_)));
            if count > KEYS_MAX {
                let help = format!("a path has at most {KEYS_MAX} keys");
                return Err(self.error(start, 1, "path_too_deep", "the path is too deep", help));
            }
            match self.peek() {
                Some('.') if tail == Tail::Node => self.at += 1,
                _ => return Ok((segments, tail)),
            }
        }
    }

    fn segment(&self, piece: Piece, start: usize) -> Result<Segment, PathError> {
        let length = self.at.saturating_sub(start);
        if piece.star && self.path {
            return Err(self.wildcard(self.at - 1, 1));
        }
        if piece.text.is_empty() && !piece.star && !piece.empty_key {
            let axis_only = self.peek() == Some('@') && start == 0;
            let (message, help) = if axis_only {
                let rest = self.slice(self.at, self.chars.len());
                ("an axis but no field".to_owned(), format!("write `**{rest}` for every field"))
            } else {
                let help = "remove the extra dot; an empty key is written `\\e`".to_owned();
                ("a key of the path is empty".to_owned(), help)
            };
            return Err(self.error(start, 1, "empty_segment", message, help));
        }
        if piece.text.len() > KEY_BYTES_MAX {
            let help = format!("a key has at most {KEY_BYTES_MAX} bytes");
            return Err(self.error(start, length, "key_too_long", "a key is too long", help));
        }
        Ok(match (piece.star, piece.text.is_empty()) {
            (true, true) => Segment::Any,
            (true, false) => Segment::Prefix(piece.text.into()),
            (false, _) => Segment::Key(piece.text.into()),
        })
    }

    fn wildcard(&self, at: usize, length: usize) -> PathError {
        let help = "a path names one place: write the key, and `axis=value`";
        self.error(at, length, "pattern_in_path", "a path has no wildcard", help)
    }

    fn marker(&mut self) -> Result<Marker, PathError> {
        let start = self.at;
        while !matches!(self.peek(), None | Some('.' | '@')) {
            self.at += 1;
        }
        let word = self.slice(start, self.at);
        let marker = match word.as_str() {
            "#keys" => Marker::Keys,
            "#order" => Marker::Order,
            _ => {
                let message = format!("`{word}` is neither `#keys` nor `#order`");
                let help = format!("a key that starts with `#` is written `\\{word}`");
                return Err(self.error(start, self.at - start, "unknown_marker", message, help));
            }
        };
        if self.peek() == Some('.') {
            let message = format!("`{word}` is not at the end");
            let help = format!("nothing lies below `{word}`");
            return Err(self.error(start, self.at - start, "marker_not_last", message, help));
        }
        Ok(marker)
    }

    /// Reads up to the end of a key or axis value.
    fn piece(&mut self, axis: bool) -> Result<Piece, PathError> {
        let start = self.at;
        let mut piece = Piece { text: String::new(), star: false, empty_key: false };
        let mut last_bare = None;
        while let Some(c) = self.peek() {
            if c == '.' || c == '@' || (axis && matches!(c, '+' | '=')) {
                break;
            }
            if piece.star {
                let help = "a star stands alone or at the end of a key; a literal star is `\\*`";
                let at = self.at - 1;
                return Err(self.error(at, 1, "star_not_last", "a star inside a key", help));
            }
            if c == '*' {
                piece.star = true;
                self.at += 1;
            } else if c == '\\' {
                last_bare = None;
                if self.chars.get(self.at + 1) == Some(&'e') {
                    self.empty_key(start, axis)?;
                    piece.empty_key = true;
                } else {
                    piece.text.push(self.escape()?);
                }
            } else {
                if c.is_whitespace() && self.at == start {
                    return Err(self.edge_space(start));
                }
                last_bare = Some(self.at);
                piece.text.push(c);
                self.at += 1;
            }
        }
        if let Some(at) = last_bare
            && !piece.star
            && self.chars.get(at).is_some_and(|c| c.is_whitespace())
        {
            return Err(self.edge_space(at));
        }
        Ok(piece)
    }

    fn edge_space(&self, at: usize) -> PathError {
        let help = "remove it, or write `\\u{20}` if the key really has it";
        self.error(at, 1, "space_at_edge", "a space at the edge of a key", help)
    }

    /// `\e` is a whole key or nothing.
    fn empty_key(&mut self, start: usize, axis: bool) -> Result<(), PathError> {
        let at = self.at;
        self.at += 2;
        let ends = match self.peek() {
            None | Some('.' | '@') => true,
            Some('+' | '=') => axis,
            Some(_) => false,
        };
        if at == start && ends {
            return Ok(());
        }
        let help = "`\\e` alone is the empty key; a backslash is `\\\\`";
        Err(self.error(at, 2, "bad_escape", "`\\e` is not an escape inside a key", help))
    }

    fn escape(&mut self) -> Result<char, PathError> {
        let start = self.at;
        let Some(c) = self.chars.get(start + 1).copied() else {
            let help = "a backslash itself is `\\\\`";
            return Err(self.error(start, 1, "bad_escape", "a backslash at the end", help));
        };
        if matches!(c, '.' | '@' | '*' | '#' | '+' | '=' | '\\') {
            self.at += 2;
            return Ok(c);
        }
        if c == 'u' && self.chars.get(start + 2) == Some(&'{') {
            let digits: String =
                self.chars.iter().skip(start + 3).take_while(|c| **c != '}').collect();
            let end = start + 3 + digits.chars().count();
            let valid =
                (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
            let value = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
            if let (true, Some(value), Some('}')) = (valid, value, self.chars.get(end)) {
                self.at = end + 1;
                return Ok(value);
            }
            let help = "write one to six hexadecimal digits of a Unicode character: `\\u{20}`";
            let length = end.min(self.chars.len()) - start;
            return Err(self.error(start, length, "bad_escape", "not a character number", help));
        }
        let message = format!("`\\{c}` is not an escape");
        let help = "escapes are `\\. \\@ \\* \\# \\+ \\= \\\\ \\u{..} \\e`; a plain `:` needs none";
        Err(self.error(start, 2, "bad_escape", message, help))
    }

    fn axes(&mut self) -> Result<Vec<PlacedAxis>, PathError> {
        let mut axes: Vec<PlacedAxis> = Vec::new();
        while matches!(self.peek(), Some('@' | '+')) {
            let separator = self.at;
            if !axes.is_empty() && self.peek() == Some('@') {
                let help = "write `@` once: `name@locale+channel`";
                return Err(self.error(separator, 1, "bad_axis", "a second `@`", help));
            }
            self.at += 1;
            let start = self.at;
            let name = self.axis_name()?;
            if axes.iter().any(|((other, _), _)| **other == *name) {
                let message = format!("the path names `{name}` twice");
                let help = "name every axis once";
                let length = self.at - start;
                return Err(self.error(start, length, "axis_twice", message, help));
            }
            let value = self.axis_value()?;
            // A text has at most 1,024 bytes.
            let place = u16::try_from(separator).unwrap_or(u16::MAX);
            axes.push(((name.into(), value), place));
            if axes.len() > AXES_MAX {
                let help = format!("a path has at most {AXES_MAX} axes");
                return Err(self.error(start, 1, "bad_axis", "too many axes", help));
            }
        }
        if self.peek().is_none() {
            return Ok(axes);
        }
        Err(self.after_axes())
    }

    fn after_axes(&self) -> PathError {
        let at = self.chars.iter().position(|c| *c == '@').unwrap_or(self.at);
        if self.peek() == Some('.') {
            let (keys, axis) = (self.slice(0, at), self.slice(at, self.at));
            let rest = self.slice(self.at, self.chars.len());
            let help = format!("write `{keys}{rest}{axis}`");
            let message = "an axis belongs at the end of the path";
            return self.error(self.at, 1, "axis_not_last", message, help);
        }
        let help = "an axis is a name, or `name=value`; several are joined by `+`";
        self.error(self.at, 1, "bad_axis", "not an axis", help)
    }

    fn axis_name(&mut self) -> Result<String, PathError> {
        let start = self.at;
        while let Some(c) = self.peek() {
            let first = self.at == start;
            let valid = c == '_' || c.is_alphabetic() || (!first && (c == '-' || c.is_numeric()));
            if !valid {
                break;
            }
            self.at += 1;
        }
        if self.at == start {
            let help = "an axis name starts with a letter or `_`: `name@locale=de`";
            return Err(self.error(start, 1, "bad_axis", "an axis has no name", help));
        }
        let name = self.slice(start, self.at);
        if name.len() > KEY_BYTES_MAX {
            let help = format!("an axis name has at most {KEY_BYTES_MAX} bytes");
            return Err(self.error(
                start,
                self.at - start,
                "bad_axis",
                "the name is too long",
                help,
            ));
        }
        Ok(name)
    }

    fn axis_value(&mut self) -> Result<AxisMatch, PathError> {
        let start = self.at;
        if self.peek() != Some('=') {
            if self.path {
                return Err(self.wildcard(start.saturating_sub(1), 1));
            }
            return Ok(AxisMatch::Any);
        }
        self.at += 1;
        let piece = self.piece(true)?;
        if piece.star && self.path {
            return Err(self.wildcard(self.at - 1, 1));
        }
        if piece.text.len() > KEY_BYTES_MAX {
            let help = format!("an axis value has at most {KEY_BYTES_MAX} bytes");
            return Err(self.error(start, 1, "key_too_long", "an axis value is too long", help));
        }
        match (piece.star, piece.text.is_empty()) {
            (true, true) => Ok(AxisMatch::Any),
            (true, false) => Ok(AxisMatch::Prefix(piece.text.into())),
            (false, true) if !piece.empty_key => {
                let help = "write the value after `=`; the empty value is `\\e`";
                Err(self.error(start, 1, "bad_axis", "an axis without a value", help))
            }
            (false, _) => Ok(AxisMatch::Exact(piece.text.into())),
        }
    }
}
