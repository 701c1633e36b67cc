//! A witness of its own: the protocol of Redis in its oldest form, without the product's client.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// No answer takes this long, except of a server that is stopped.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    List(Vec<Reply>),
}

impl Reply {
    /// As text; empty for nothing.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Simple(text) | Self::Error(text) => text.clone(),
            Self::Int(number) => number.to_string(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Nil => String::new(),
            Self::List(items) => format!("{items:?}"),
        }
    }

    pub(crate) fn int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            other => panic!("not a number: {other:?}"),
        }
    }

    pub(crate) fn list(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            Self::Nil => &[],
            other => panic!("not a list: {other:?}"),
        }
    }

    /// Every item as text.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.list().iter().map(Self::text).collect()
    }

    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// Itself, unless it is an error.
    pub(crate) fn good(self) -> Self {
        assert!(!self.is_error(), "the server refused: {self:?}");
        self
    }
}

/// One connection.
pub(crate) struct Client {
    input: BufReader<Stream>,
    output: Stream,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Client {
    pub(crate) fn tcp(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(Stream::Tcp(stream.try_clone()?), Stream::Tcp(stream)))
    }

    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        Ok(Self::over(Stream::Unix(stream.try_clone()?), Stream::Unix(stream)))
    }

    fn over(input: Stream, output: Stream) -> Self {
        let client = Self { input: BufReader::new(input), output };
        client.patience(ANSWER_MAX);
        client
    }

    /// How long it waits for an answer.
    pub(crate) fn patience(&self, time: Duration) {
        match &self.output {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(time)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(time)),
        }
        .unwrap();
    }

    /// Sends one command and reads its answer.
    pub(crate) fn command(&mut self, arguments: &[&str]) -> io::Result<Reply> {
        self.send(arguments)?;
        self.read()
    }

    pub(crate) fn send(&mut self, arguments: &[&str]) -> io::Result<()> {
        self.output.write_all(&encode(arguments))
    }

    /// The next answer, or the next message on a connection that listens.
    pub(crate) fn read(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        self.input.read_line(&mut line)?;
        if !line.ends_with("\r\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end_matches(['\r', '\n']);
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| bad(line))?;
        Ok(match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(rest.parse().map_err(|_| bad(line))?),
            "$" => match rest.parse::<i64>().map_err(|_| bad(line))? {
                ..0 => Reply::Nil,
                length => {
                    let mut bytes = vec![0; usize::try_from(length).unwrap() + 2];
                    self.input.read_exact(&mut bytes)?;
                    bytes.truncate(bytes.len() - 2);
                    Reply::Bulk(bytes)
                }
            },
            "*" => match rest.parse::<i64>().map_err(|_| bad(line))? {
                ..0 => Reply::Nil,
                length => Reply::List((0..length).map(|_| self.read()).collect::<io::Result<_>>()?),
            },
            _ => return Err(bad(line)),
        })
    }
}

/// A command as it goes over the wire.
pub(crate) fn encode(arguments: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend(format!("${}\r\n{argument}\r\n", argument.len()).bytes());
    }
    bytes
}

fn bad(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not an answer of Redis: `{line}`"))
}
