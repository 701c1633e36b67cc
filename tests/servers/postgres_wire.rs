//! PostgreSQL's messages, cut into what goes over the wire at once: everything up to a `Sync` or a simple query is one
//! request, everything up to `ReadyForQuery` its answer. What is not understood: `COPY`, `Flush`, TLS.

use std::collections::BTreeMap;

use crate::servers::wire::{Cut, Request, first_word};

/// Where the conversation of one connection stands.
#[derive(Default)]
pub(crate) struct Talk {
    started: bool,
    /// Whether the answer to the question about TLS is due, one byte long.
    tls_asked: bool,
    statements: BTreeMap<String, String>,
}

/// One message: its kind, what is in it, and how many bytes it takes.
fn message(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let kind = *bytes.first()?;
    let length = word(bytes.get(1..5)?) as usize;
    Some((kind, bytes.get(5..=length)?, length + 1))
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

/// A text that ends with a zero byte, and what follows.
fn text(bytes: &[u8]) -> (String, &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let rest = bytes.get(end + 1..).unwrap_or_default();
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), rest)
}

impl Talk {
    pub(crate) fn request(&mut self, bytes: &[u8]) -> Option<Cut> {
        if !self.started {
            return self.opening(bytes);
        }
        let (mut at, mut statements, mut name) = (0, Vec::new(), None);
        loop {
            let (kind, body, length) = message(&bytes[at..])?;
            at += length;
            match kind {
                b'Q' => statements.push(text(body).0),
                b'P' => {
                    let (name, rest) = text(body);
                    let (sql, _) = text(rest);
                    self.statements.insert(name, sql.clone());
                    statements.push(sql);
                }
                b'B' => {
                    let (statement, _) = text(text(body).1);
                    let sql = self.statements.get(&statement).cloned().unwrap_or_default();
                    if statements.last() != Some(&sql) {
                        statements.push(sql);
                    }
                }
                b'p' => name = Some("AUTHENTICATION"),
                b'X' => name = Some("TERMINATE"),
                _ => {}
            }
            if b"QSpX".contains(&kind) {
                break;
            }
        }
        let statement = statements.first().map(|sql| first_word(sql));
        let name = name.map(str::to_owned).or(statement).unwrap_or_else(|| "CLOSE".to_owned());
        let answered = name != "TERMINATE";
        statements.push(String::from_utf8_lossy(&bytes[..at]).into_owned());
        Some(Cut { length: at, request: Some(Request { name, arguments: statements }), answered })
    }

    /// The first message has no kind.
    fn opening(&mut self, bytes: &[u8]) -> Option<Cut> {
        let length = word(bytes.get(..4)?) as usize;
        let body = bytes.get(4..length)?;
        let (name, answered) = match word(body.get(..4)?) {
            80_877_103 | 80_877_104 => ("TLS", true),
            80_877_102 => ("CANCEL", false),
            _ => ("STARTUP", true),
        };
        self.tls_asked = name == "TLS";
        self.started = name == "STARTUP";
        let request = Request { name: name.to_owned(), arguments: Vec::new() };
        Some(Cut { length, request: Some(request), answered })
    }

    pub(crate) fn reply(&mut self, bytes: &[u8]) -> Option<Cut> {
        if std::mem::take(&mut self.tls_asked) {
            if bytes.is_empty() {
                self.tls_asked = true;
                return None;
            }
            return Some(Cut { length: 1, request: None, answered: true });
        }
        let mut at = 0;
        loop {
            let (kind, body, length) = message(&bytes[at..])?;
            // Notices, settings and notifications come when they come.
            if at == 0 && b"ANS".contains(&kind) {
                return Some(Cut { length, request: None, answered: false });
            }
            at += length;
            let asks = kind == b'R' && [3, 5, 10, 11].contains(&word(&body[..4]));
            if kind == b'Z' || asks {
                return Some(Cut { length: at, request: None, answered: true });
            }
        }
    }
}
