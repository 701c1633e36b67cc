//! Requests and answers as they go over the wire, cut into whole ones.

use std::io;

use tokio::net::TcpStream;

/// One whole request or answer.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
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
        self.bytes.first() == Some(&b'>')
    }
}

/// Cuts what arrives into whole requests or answers.
#[derive(Default)]
pub(crate) struct FrameReader {
    pending: Vec<u8>,
}

impl FrameReader {
    /// The next one; nothing when the connection ended.
    pub(crate) async fn next(&mut self, stream: &TcpStream) -> Option<Frame> {
        loop {
            if let Some(length) = frame_length(&self.pending) {
                let rest = self.pending.split_off(length);
                return Some(Frame { bytes: std::mem::replace(&mut self.pending, rest) });
            }
            let mut chunk = [0; 16 * 1024];
            stream.readable().await.ok()?;
            match stream.try_read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.pending.extend(chunk.iter().take(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
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
