//! Requests and answers as they go over the wire, cut into whole ones.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tokio::net::TcpStream;

use crate::servers::{mysql_wire, postgres_wire};

/// Which language is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Redis,
    Postgres,
    Mysql,
}

/// What one connection of that language has said so far.
pub(crate) enum Talk {
    Redis,
    Postgres(postgres_wire::Talk),
    Mysql(mysql_wire::Talk),
}

impl Talk {
    pub(crate) fn new(wire: Wire) -> Self {
        match wire {
            Wire::Redis => Self::Redis,
            Wire::Postgres => Self::Postgres(postgres_wire::Talk::default()),
            Wire::Mysql => Self::Mysql(mysql_wire::Talk::default()),
        }
    }
}

/// The first whole request or answer of what arrived.
pub(crate) struct Cut {
    pub(crate) length: usize,
    /// What was asked for, if it is a request.
    pub(crate) request: Option<Request>,
    /// Whether an answer follows; of an answer, whether it is one and not something sent unasked.
    pub(crate) answered: bool,
}

/// One whole request or answer.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    request: Option<Request>,
    answered: bool,
}

/// A command that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// In capitals.
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
}

impl Request {
    /// Whether one of its arguments has these words in it.
    pub(crate) fn mentions(&self, words: &str) -> bool {
        self.arguments.iter().any(|argument| argument.contains(words))
    }
}

impl Frame {
    /// The command in it. One that is not an array of strings is named by its first line.
    pub(crate) fn request(&self) -> Request {
        if let Some(request) = &self.request {
            return request.clone();
        }
        let mut parts = Vec::new();
        let mut rest = line(&self.bytes).map_or(self.bytes.as_slice(), |(_, rest)| rest);
        while let Some((head, after)) = line(rest) {
            let length = number(head.get(1..).unwrap_or_default()).unwrap_or(0);
            let (text, next) = after.split_at_checked(length).unwrap_or((after, &[]));
            parts.push(String::from_utf8_lossy(text).into_owned());
            rest = next.get(2..).unwrap_or_default();
        }
        let mut parts = parts.into_iter();
        let name = parts.next().unwrap_or_default().to_ascii_uppercase();
        Request { name, arguments: parts.collect() }
    }

    /// Whether the server sent it unasked.
    pub(crate) fn is_push(&self) -> bool {
        !self.answered
    }

    /// Whether an answer follows this request.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }
}

/// Which way what arrives goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Requests,
    Replies,
}

/// Cuts what arrives into whole requests or answers.
pub(crate) struct FrameReader {
    pending: Vec<u8>,
    way: Way,
    talk: Arc<Mutex<Talk>>,
}

impl FrameReader {
    pub(crate) fn new(way: Way, talk: Arc<Mutex<Talk>>) -> Self {
        Self { pending: Vec::new(), way, talk }
    }

    /// The first whole one of what arrived.
    fn cut(&self) -> Option<Cut> {
        if self.pending.is_empty() {
            return None;
        }
        match (&mut *self.talk.lock().unwrap(), self.way) {
            (Talk::Redis, _) => {
                let length = frame_length(&self.pending)?;
                let answered = self.pending.first() != Some(&b'>');
                Some(Cut { length, request: None, answered })
            }
            (Talk::Postgres(talk), Way::Requests) => talk.request(&self.pending),
            (Talk::Postgres(talk), Way::Replies) => talk.reply(&self.pending),
            (Talk::Mysql(talk), Way::Requests) => talk.request(&self.pending),
            (Talk::Mysql(talk), Way::Replies) => talk.reply(&self.pending),
        }
    }

    /// What came of an answer whose end never came: the reason why the server went, mostly.
    fn rest(&mut self) -> Option<Frame> {
        let replies = matches!(self.way, Way::Replies);
        let database = !matches!(*self.talk.lock().unwrap(), Talk::Redis);
        let bytes = std::mem::take(&mut self.pending);
        let told = replies && database && !bytes.is_empty();
        told.then_some(Frame { bytes, request: None, answered: false })
    }

    /// The next one; nothing when the connection ended.
    pub(crate) async fn next(&mut self, stream: &TcpStream) -> Option<Frame> {
        loop {
            if let Some(cut) = self.cut() {
                let rest = self.pending.split_off(cut.length);
                let bytes = std::mem::replace(&mut self.pending, rest);
                return Some(Frame { bytes, request: cut.request, answered: cut.answered });
            }
            let mut chunk = [0; 16 * 1024];
            stream.readable().await.ok()?;
            match stream.try_read(&mut chunk) {
                Ok(0) => return self.rest(),
                Ok(count) => self.pending.extend(chunk.iter().take(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return self.rest(),
            }
        }
    }
}

/// The first word of a statement, in capitals: what it is called in rules.
pub(crate) fn first_word(sql: &str) -> String {
    let is_part = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
    let code = sql.lines().map(str::trim_start).find(|it| !it.is_empty() && !it.starts_with("--"));
    let start = code.unwrap_or_default().trim_start_matches('(');
    start.chars().take_while(is_part).collect::<String>().to_ascii_uppercase()
}

/// How long the first whole value is, once all of it is there.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let (head, rest) = line(bytes)?;
    let mut used = bytes.len() - rest.len();
    let count = number(head.get(1..).unwrap_or_default());
    match head.first()? {
        b'$' | b'=' | b'!' => {
            used += count.map_or(0, |length| length + 2);
            (bytes.len() >= used).then_some(used)
        }
        kind @ (b'*' | b'~' | b'>' | b'%' | b'|') => {
            let pairs = matches!(kind, b'%' | b'|');
            let mut items = count.unwrap_or(0) * if pairs { 2 } else { 1 };
            // An attribute stands in front of the value it describes.
            items += usize::from(*kind == b'|');
            for _ in 0..items {
                used += frame_length(bytes.get(used..)?)?;
            }
            Some(used)
        }
        _ => Some(used),
    }
}

/// The first line without its end, and what follows.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((bytes.get(..end)?, bytes.get(end + 2..)?))
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub(crate) async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
