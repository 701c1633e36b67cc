//! The packets of MariaDB and MySQL, cut into commands and whole answers, those with several results included. What is
//! not understood: compression, TLS, files sent by the client.

use std::collections::{BTreeMap, VecDeque};

use crate::servers::wire::{Cut, Request, first_word};

const QUIT: u8 = 0x01;
const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const LONG_DATA: u8 = 0x18;
const CLOSE: u8 = 0x19;
const BULK: u8 = 0xfa;
/// The client wants no packet between columns and rows, nor a special one after the rows.
const WITHOUT_EOF: u32 = 1 << 24;
/// Whether the client is one of MySQL's, which has no further flags.
const OF_MYSQL: u32 = 1;
/// The client keeps what it knows of columns, and is told whether they follow.
const KEEPS_COLUMNS: u32 = 1 << 4;
/// Another result follows.
const MORE: u64 = 8;

/// Where the conversation of one connection stands.
#[derive(Default)]
pub(crate) struct Talk {
    flags: u32,
    further_flags: u32,
    answered_greeting: bool,
    open: bool,
    /// Commands whose answer has not come, with their statement.
    commands: VecDeque<(u8, String)>,
    statements: BTreeMap<u32, String>,
}

fn small(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// One packet: what is in it, and where the next one begins.
fn packet(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let head = bytes.get(at..at + 4)?;
    let end = at + 4 + usize::try_from(small(&head[..3])).unwrap();
    Some((bytes.get(at + 4..end)?, end))
}

/// A number whose length is in its first byte, and what follows.
fn number(bytes: &[u8]) -> (u64, &[u8]) {
    let length = match bytes[0] {
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        small => return (u64::from(small), &bytes[1..]),
    };
    (small(&bytes[1..=length]), &bytes[1 + length..])
}

/// Whether another result follows what ends with this packet.
fn more(body: &[u8], without_eof: bool) -> bool {
    let flags = if body[0] == 0xfe && !without_eof {
        small(&body[3..5])
    } else {
        let (_, rest) = number(&body[1..]);
        let (_, rest) = number(rest);
        small(&rest[..2])
    };
    flags & MORE != 0
}

impl Talk {
    pub(crate) fn request(&mut self, bytes: &[u8]) -> Option<Cut> {
        let (body, mut length) = packet(bytes, 0)?;
        if !self.open {
            if !self.answered_greeting {
                self.answered_greeting = true;
                self.flags = u32::try_from(small(&body[..4])).unwrap();
                if self.flags & OF_MYSQL == 0 {
                    self.further_flags = u32::try_from(small(&body[28..32])).unwrap();
                }
            }
            let request = Request { name: "AUTHENTICATION".to_owned(), arguments: Vec::new() };
            return Some(Cut { length, request: Some(request), answered: false });
        }
        let mut last = body.len();
        while last == 0xff_ffff {
            let (more, end) = packet(bytes, length)?;
            (last, length) = (more.len(), end);
        }
        let command = body.first().copied().unwrap_or_default();
        let rest = body.get(1..).unwrap_or_default();
        let sql = match command {
            QUERY | PREPARE => String::from_utf8_lossy(rest).into_owned(),
            EXECUTE | BULK => {
                let id = u32::try_from(small(&rest[..4])).unwrap();
                self.statements.get(&id).cloned().unwrap_or_default()
            }
            _ => String::new(),
        };
        let name = match command {
            QUERY | EXECUTE | BULK => first_word(&sql),
            PREPARE => "PREPARE".to_owned(),
            CLOSE => "CLOSE".to_owned(),
            LONG_DATA => "DATA".to_owned(),
            QUIT => "TERMINATE".to_owned(),
            0x0e => "PING".to_owned(),
            0x1f => "RESET".to_owned(),
            other => format!("COMMAND {other}"),
        };
        let answered = ![CLOSE, LONG_DATA, QUIT].contains(&command);
        if answered {
            self.commands.push_back((command, sql.clone()));
        }
        let arguments = vec![sql, String::from_utf8_lossy(body).into_owned()];
        Some(Cut { length, request: Some(Request { name, arguments }), answered })
    }

    pub(crate) fn reply(&mut self, bytes: &[u8]) -> Option<Cut> {
        let (body, end) = packet(bytes, 0)?;
        if !self.open {
            self.open = self.answered_greeting && body.first() == Some(&0);
            return Some(Cut { length: end, request: None, answered: false });
        }
        let Some((command, sql)) = self.commands.front().cloned() else {
            return Some(Cut { length: end, request: None, answered: false });
        };
        let length = match (command, body.first()) {
            (PREPARE, Some(0)) => {
                let id = u32::try_from(small(&body[1..5])).unwrap();
                let (columns, parameters) = (small(&body[5..7]), small(&body[7..9]));
                let at = self.definitions(bytes, end, parameters)?;
                let at = self.definitions(bytes, at, columns)?;
                self.statements.insert(id, sql);
                at
            }
            (QUERY | EXECUTE | BULK, _) => self.results(bytes)?,
            _ => end,
        };
        self.commands.pop_front();
        Some(Cut { length, request: None, answered: true })
    }

    fn without_eof(&self) -> bool {
        self.flags & WITHOUT_EOF != 0
    }

    /// Where so many descriptions of columns end.
    fn definitions(&self, bytes: &[u8], mut at: usize, count: u64) -> Option<usize> {
        let closing = u64::from(count > 0 && !self.without_eof());
        for _ in 0..count + closing {
            at = packet(bytes, at)?.1;
        }
        Some(at)
    }

    /// Where all results of a statement end.
    fn results(&self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let (body, end) = packet(bytes, at)?;
            let (again, end) = match body[0] {
                0xff | 0xfb => (false, end),
                0x00 => (more(body, true), end),
                _ => self.table(bytes, body, end)?,
            };
            at = end;
            if !again {
                return Some(at);
            }
        }
    }

    /// Whether something follows a table, and where that is.
    fn table(&self, bytes: &[u8], head: &[u8], mut at: usize) -> Option<(bool, usize)> {
        let (count, rest) = number(head);
        let kept = self.further_flags & KEEPS_COLUMNS != 0 && rest.first() == Some(&0);
        at = self.definitions(bytes, at, if kept { 0 } else { count })?;
        loop {
            let (body, end) = packet(bytes, at)?;
            at = end;
            let last = if self.without_eof() { 0xff_ffff } else { 9 };
            match body.first() {
                Some(0xff) => return Some((false, at)),
                Some(0xfe) if body.len() < last => {
                    return Some((more(body, self.without_eof()), at));
                }
                _ => {}
            }
        }
    }
}
