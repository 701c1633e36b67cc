//! A connection that stays open, by the server's own client program: for transactions that are left open.

use std::{
    io::{BufRead, BufReader, PipeReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use crate::servers::{Dialect, PATIENCE};

/// What stands behind every answer.
const MARK: &str = "end-of-answer";

/// A client program that waits for statements. Its connection ends with it.
pub(crate) struct Session {
    dialect: Dialect,
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Session {
    pub(crate) fn of(dialect: Dialect, mut command: Command) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        match dialect {
            // A failed statement does not end it.
            Dialect::Postgres => command.args(["-v", "ON_ERROR_STOP=0"]),
            Dialect::MariaDb => command.arg("--force"),
        };
        command.stdin(Stdio::piped()).stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut child = command.spawn().unwrap();
        // It keeps the writing ends of the pipe otherwise.
        drop(command);
        let input = child.stdin.take().unwrap();
        Self { dialect, child, input, lines: read(reader) }
    }

    /// Carries statements out and answers what came, errors included.
    pub(crate) fn run(&mut self, text: &str) -> String {
        self.send(text);
        self.answer()
    }

    /// Sends statements without waiting for their end; [`Session::answer`] does.
    pub(crate) fn send(&mut self, text: &str) {
        let mark = match self.dialect {
            // Whatever the transaction is like.
            Dialect::Postgres => format!("\\warn {MARK}"),
            Dialect::MariaDb => format!("select '{MARK}';"),
        };
        writeln!(self.input, "{};\n{mark}", text.trim_end().trim_end_matches(';')).unwrap();
        self.input.flush().unwrap();
    }

    /// Waits for the end of what was sent.
    pub(crate) fn answer(&mut self) -> String {
        self.answer_within(PATIENCE).unwrap_or_else(|| panic!("no answer within {PATIENCE:?}"))
    }

    /// The answer, if it came by then.
    fn answer_within(&mut self, time: Duration) -> Option<String> {
        let mut answer = String::new();
        loop {
            match self.lines.recv_timeout(time) {
                Ok(line) if line == MARK => return Some(answer),
                Ok(line) => {
                    answer.push_str(&line);
                    answer.push('\n');
                }
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => return Some(answer),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(reader: PipeReader) -> Receiver<String> {
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(reader).lines() {
            let Ok(line) = line else { return };
            if to.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
