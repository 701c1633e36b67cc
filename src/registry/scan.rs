//! The line scan: finds what YAML would read as something else, before YAML reads it.
//!
//! `- *.x` is an alias, `- #keys` is nothing and a comment, `- !x y` silently reads `y`. The scan reports each of
//! them and mends the line in memory, only by putting characters in or by replacing one character with another,
//! so that parsing goes on and one run shows everything. [`Inserted`] leads back to the columns of the file.

mod comment;
mod line;
mod quote;
mod tab;

use std::collections::{BTreeMap, HashSet};

use crate::diagnostic::{Diagnostic, Span};
use line::Line;

/// After so many findings the scan gives up: mending costs more the more there is of it.
const FOUND_MAX: usize = 1_000;

/// Characters the scan put into lines: line to columns in the mended line, all from 1.
#[derive(Debug, Default)]
pub(crate) struct Inserted(BTreeMap<u32, Vec<u32>>);

/// A text that is ready for the parser.
pub(crate) struct Scanned {
    /// The mended text.
    pub(crate) text: String,
    /// The way back to the file's own columns.
    pub(crate) inserted: Inserted,
    /// Whether the text is worth parsing: tabs beside spaces cannot be mended, and neither can everything.
    pub(crate) readable: bool,
}

impl Inserted {
    /// The column in the file of a column in the mended line.
    pub(crate) fn original(&self, line: u32, column: u32) -> u32 {
        let Some(places) = self.0.get(&line) else { return column };
        let before = places.iter().filter(|place| **place < column).count();
        column.saturating_sub(u32::try_from(before).unwrap_or(u32::MAX)).max(1)
    }

    /// The place in the file of some characters of one mended line.
    pub(crate) fn span(&self, line: u32, column: u32, length: u32) -> Span {
        let start = self.original(line, column);
        let end = self.original(line, column.saturating_add(length));
        Span::new(line, start, end.saturating_sub(start))
    }
}

/// Scans the whole text.
pub(crate) fn scan(text: &str, found: &mut Vec<Diagnostic>) -> Scanned {
    let lines = split(text);
    let mut scanner = Scanner {
        lines: &lines,
        out: String::with_capacity(text.len() + 64),
        inserted: Inserted::default(),
        found,
        anchors: HashSet::new(),
        flow: Vec::new(),
        quote: None,
        block: None,
        tabs: Vec::new(),
        spaces: false,
    };
    let mut readable = true;
    for (index, (line, end)) in lines.iter().enumerate() {
        scanner.line(index, line);
        scanner.out.push_str(end);
        if scanner.is_full() {
            let span = Span::new(number(index + 1), 1, 1);
            let message = format!("more than {FOUND_MAX} problems: reading stops here");
            let help = "mend the first ones; many of the others will be of the same kind";
            scanner.found.push(Diagnostic::error("too_many_problems", span, message, help));
            readable = false;
            break;
        }
    }
    readable &= scanner.report_tabs();
    Scanned { text: scanner.out, inserted: scanner.inserted, readable }
}

/// Lines and their line ends: `\n`, `\r\n` or a lone `\r`.
pub(crate) fn split(text: &str) -> Vec<(&str, &str)> {
    let mut lines = Vec::with_capacity(text.bytes().filter(|byte| *byte == b'\n').count() + 1);
    let mut rest = text;
    while let Some(at) = rest.find(['\n', '\r']) {
        let (line, after) = rest.split_at(at);
        let end = if after.starts_with("\r\n") { 2 } else { 1 };
        let (end, after) = after.split_at(end);
        lines.push((line, end));
        rest = after;
    }
    if !rest.is_empty() {
        lines.push((rest, ""));
    }
    lines
}

/// What the walk over a line does next.
enum Step {
    /// A node may begin at `at`.
    Node { at: usize, opened: bool },
    /// A value ended here.
    After(usize),
    /// The line is done.
    End,
}

struct Scanner<'a> {
    lines: &'a [(&'a str, &'a str)],
    out: String,
    inserted: Inserted,
    found: &'a mut Vec<Diagnostic>,
    /// Names behind `&` so far.
    anchors: HashSet<String>,
    /// Open `[` and `{`.
    flow: Vec<char>,
    /// The quote of a text that goes on in the next line.
    quote: Option<char>,
    /// The indentation above a block text (`|`, `>`): deeper lines belong to it.
    block: Option<usize>,
    /// Lines whose indentation has a tab.
    tabs: Vec<(u32, u32)>,
    /// Whether some line is indented by spaces.
    spaces: bool,
}

impl Scanner<'_> {
    fn line(&mut self, index: usize, text: &str) {
        let outside = self.flow.is_empty() && self.quote.is_none() && self.block.is_none();
        if outside && harmless(text) {
            self.spaces |= text.starts_with(' ');
            self.out.push_str(text);
            return;
        }
        let indent = indentation(text);
        if let Some(above) = self.block {
            if text.trim().is_empty() || indent > above {
                self.out.push_str(text);
                return;
            }
            self.block = None;
        }
        let mut line = Line::new(index, text);
        if self.quote.is_none() {
            self.indent(&mut line);
        }
        self.content(&mut line);
        let (chars, places) = line.finish();
        self.out.extend(chars);
        if !places.is_empty() {
            self.inserted.0.insert(number(index + 1), places);
        }
    }

    fn is_full(&self) -> bool {
        self.found.len() >= FOUND_MAX
    }

    /// Walks over the nodes of one line.
    fn content(&mut self, line: &mut Line) {
        let mut step = self.first(line);
        loop {
            step = match step {
                Step::Node { at, opened } => self.node(line, at, opened),
                Step::After(at) => self.after(line, at),
                Step::End => return,
            };
            if self.is_full() {
                return;
            }
        }
    }

    fn first(&mut self, line: &mut Line) -> Step {
        if let Some(quote) = self.quote {
            self.check_escapes(line, 0, quote);
            let Some(end) = line.closing(0, quote) else { return Step::End };
            self.quote = None;
            return Step::After(end + 1);
        }
        if line.is_document_mark() {
            self.flow.clear();
            return Step::Node { at: 3, opened: false };
        }
        if line.get(0) == Some('%') && self.flow.is_empty() {
            return Step::End;
        }
        Step::Node { at: line.leading(), opened: false }
    }

    /// Reads one indicator or value. `opened`: an indicator (`- `, `key: `, `[`, `,`) stands before it in this line.
    fn node(&mut self, line: &mut Line, at: usize, opened: bool) -> Step {
        let at = line.skip_blank(at);
        let Some(c) = line.get(at) else { return Step::End };
        let next_blank = line.get(at + 1).is_none_or(|c| matches!(c, ' ' | '\t'));
        let in_flow = !self.flow.is_empty();
        let next = match c {
            '-' | '?' | ':' if next_blank && !(c == '-' && in_flow) => at + 1,
            '[' | '{' => {
                self.flow.push(c);
                at + 1
            }
            ',' if in_flow => at + 1,
            ']' | '}' if in_flow => {
                self.flow.pop();
                return Step::After(at + 1);
            }
            '&' if line.token_end(at + 1) == at + 1 => return self.value(line, at, c),
            '&' => self.anchor(line, at),
            '#' => return self.comment(line, at, opened).map_or(Step::End, Step::After),
            _ => return self.value(line, at, c),
        };
        Step::Node { at: next, opened: true }
    }

    /// Reads one scalar, alias or tag at `at`.
    fn value(&mut self, line: &mut Line, at: usize, c: char) -> Step {
        let in_flow = !self.flow.is_empty();
        let end = match c {
            '*' if self.is_alias(line, at) => line.token_end(at),
            '!' => return self.tag(line, at),
            '*' | '@' | '`' | '%' | '&' | ',' | ']' | '}' => self.begins_with(line, at, c),
            '|' | '>' => {
                if !in_flow && line.is_block_header(at) {
                    self.block = Some(line.leading());
                    return Step::End;
                }
                self.begins_with(line, at, c)
            }
            '\'' | '"' => match self.quoted(line, at, c) {
                Some(end) => end,
                None => return Step::End,
            },
            _ => {
                let end = line.plain_end(at, in_flow);
                self.marker_behind(line, at, end);
                line.plain_end(at, in_flow)
            }
        };
        Step::After(end.max(at + 1))
    }

    /// Goes on behind a complete value: a colon, a comma, a closing bracket or a comment.
    fn after(&mut self, line: &Line, at: usize) -> Step {
        let at = line.skip_blank(at);
        match line.get(at) {
            None | Some('#') => Step::End,
            Some(':') => Step::Node { at: at + 1, opened: true },
            Some(',' | ']' | '}') if !self.flow.is_empty() => Step::Node { at, opened: true },
            Some(_) => self.balance(line, at),
        }
    }

    /// Keeps the brackets of a line in balance that the parser will refuse anyway.
    fn balance(&mut self, line: &Line, mut at: usize) -> Step {
        while let Some(c) = line.get(at) {
            match c {
                '[' | '{' => self.flow.push(c),
                ']' | '}' => drop(self.flow.pop()),
                _ => {}
            }
            at += 1;
        }
        Step::End
    }

    fn anchor(&mut self, line: &Line, at: usize) -> usize {
        let end = line.token_end(at + 1);
        self.anchors.insert(line.slice(at + 1, end));
        end.max(at + 1)
    }

    /// An alias stands alone and its anchor came before.
    fn is_alias(&self, line: &Line, at: usize) -> bool {
        let end = line.token_end(at + 1);
        self.anchors.contains(&line.slice(at + 1, end))
    }

    fn begins_with(&mut self, line: &mut Line, at: usize, c: char) -> usize {
        let end = line.plain_end(at, !self.flow.is_empty());
        let text = line.slice(at, end);
        let name = if c == '`' { "a backtick".to_owned() } else { format!("`{c}`") };
        let why = match c {
            '*' => "YAML reads an alias there",
            '@' | '`' | ',' | ']' | '}' => "YAML keeps that character for itself",
            '%' => "YAML reads a directive there",
            '&' => "YAML reads an anchor there",
            _ => "YAML reads a block of text there",
        };
        let message = format!("`{text}` begins with {name}: {why}");
        self.quote_needed(line, at, end, message)
    }

    /// Reports a text that must be quoted and quotes it.
    fn quote_needed(&mut self, line: &mut Line, at: usize, end: usize, message: String) -> usize {
        let text = line.slice(at, end);
        let help = format!("quote it: '{}'", text.replace('\'', "''"));
        let diagnostic = Diagnostic::error("quote_needed", line.span(at, end), message, help);
        self.found.push(diagnostic);
        line.quote(at, end)
    }

    /// `!x y` silently reads `y`: a tag is refused, and the text is read as text.
    fn tag(&mut self, line: &mut Line, at: usize) -> Step {
        let in_flow = !self.flow.is_empty();
        let (end, token) = (line.plain_end(at, in_flow), line.token_end(at));
        let next = line.skip_blank(token);
        // `!!str x` says what `x` is; `!x y` may be meant as a path.
        let known = line.get(at + 1) == Some('!') && next < end;
        let opens = matches!(line.get(next), Some('[' | '{' | '"' | '\'' | '|' | '>' | '&' | '*'));
        let nested = next >= line.len() && !in_flow && self.deeper_below(line);
        let blank = known || opens || nested;
        let help = if blank {
            "remove it: a registry has no tags".to_owned()
        } else {
            let text = line.slice(at, end).replace('\'', "''");
            format!("a registry has no tags; for a path that begins with `!` write '{text}'")
        };
        let message = format!("`{}` is a YAML tag", line.slice(at, token));
        self.found.push(Diagnostic::error("yaml_tag", line.span(at, token), message, help));
        if !blank {
            return Step::After(line.quote(at, end));
        }
        for place in at..token {
            line.replace(place, ' ');
        }
        Step::Node { at: token, opened: true }
    }

    fn deeper_below(&self, line: &Line) -> bool {
        let below = self.lines.iter().skip(line.index() + 1).map(|(text, _)| *text);
        let below =
            below.map(|text| (indentation(text), text.trim())).find(|(_, text)| !text.is_empty());
        below.is_some_and(|(indent, text)| indent > line.leading() && !text.starts_with('#'))
    }
}

/// Whether nothing in the line can be a trap: words, dots, dashes, colons and blanks.
fn harmless(text: &str) -> bool {
    text.bytes().all(|byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'_' | b'-' | b'.' | b':' | 0x80..)
    })
}

fn indentation(text: &str) -> usize {
    text.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
