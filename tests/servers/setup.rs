//! How a server is to be started.

use std::path::PathBuf;

use crate::servers::{Flavour, Server};

/// A server to be started; [`Setup::start`] does.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) flavour: Flavour,
    pub(crate) arguments: Vec<String>,
    pub(crate) surroundings: Vec<(String, PathBuf)>,
    pub(crate) configuration: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) tls: bool,
    pub(crate) sentinel: bool,
}

impl Setup {
    pub(crate) fn new(flavour: Flavour) -> Self {
        Self {
            flavour,
            arguments: Vec::new(),
            surroundings: Vec::new(),
            configuration: None,
            password: None,
            port: None,
            tls: false,
            sentinel: false,
        }
    }

    /// Options of the command line, after those of the harness: `["--maxclients", "10"]`.
    pub(crate) fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// A variable of its surroundings.
    pub(crate) fn variable(mut self, name: &str, value: impl Into<PathBuf>) -> Self {
        self.surroundings.push((name.to_owned(), value.into()));
        self
    }

    /// Lines of its configuration file. The server may write to the file.
    pub(crate) fn configuration(mut self, text: impl Into<String>) -> Self {
        self.configuration = Some(text.into());
        self
    }

    /// A password for everybody, the harness included.
    pub(crate) fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// This port instead of a free one.
    pub(crate) fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Whether its port speaks TLS only; certificates are among the arguments.
    pub(crate) fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// A watcher of servers instead of a server.
    pub(crate) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Starts it and waits until it answers.
    pub(crate) fn start(self) -> Server {
        Server::of(self)
    }
}
