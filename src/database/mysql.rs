//! Connections to MariaDB and MySQL: how they are opened, what is set on each, and what an error means.
//!
//! A connection serves one piece of work at a time, on a task of its own: a caller that goes away never stops it half
//! way. A connection whose work failed in a way that leaves doubt about its state is closed, not used again.

pub(crate) mod cells;
pub(crate) mod checks;
pub(crate) mod fault;
pub(crate) mod migrate;
pub(crate) mod pool;
pub(crate) mod script;
pub(crate) mod session;
mod url;

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{
    clock::{Clock, SystemClock},
    error::Result,
};

pub(crate) use self::{cells::Cells, fault::Fault, pool::Pool, url::Target};

/// How a server is reached.
#[derive(Clone)]
#[must_use]
pub struct MysqlOptions {
    pub(crate) target: Target,
    pub(crate) connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) lock_timeout: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for MysqlOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MysqlOptions")
            .field("target", &self.target)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

impl MysqlOptions {
    /// Reads `mysql://USER:PASSWORD@HOST:PORT/DATABASE`; `mariadb://` says the same, and `mysqls://` or `mariadbs://`
    /// go through TLS. After `?`: `socket=FILE`, `password_file=FILE`, and with TLS `ca=FILE`, `cert=FILE` and
    /// `key=FILE`. The files are read anew for every connection.
    ///
    /// # Errors
    /// `bad_url`, naming the part that is wrong; never its text, which may hold a password.
    pub fn new(url: &str) -> Result<Self> {
        Ok(Self {
            target: Target::parse(url)?,
            connections: 8,
            connect_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(30),
            clock: Arc::new(SystemClock),
        })
    }

    /// Connections at most, default 8. They are opened when needed; work beyond them waits for a free one as long as
    /// [`MysqlOptions::connect_timeout`]. More help only when callers wait: the server pays for each.
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most.max(1);
        self
    }

    /// How long opening a connection may take, and waiting for a free one; default 5 s. Then the answer is
    /// `unavailable`.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a statement waits for rows another transaction has locked, in whole seconds, default 5 s; then it is
    /// undone and answers `unavailable`. A longer one lets saves queue behind a transaction of the CMS that stays open.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// How long an answer may take, default 30 s, more than [`MysqlOptions::lock_timeout`]. Then the connection is
    /// closed; a save answers `outcome_unknown`, everything else `unavailable`.
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// Certificates in PEM form to trust instead of the machine's; the same as `ca=FILE` in the URL.
    ///
    /// # Errors
    /// `bad_url` when the URL asks for no TLS.
    pub fn trust(mut self, ca: impl Into<PathBuf>) -> Result<Self> {
        self.target.trust(ca.into())?;
        Ok(self)
    }

    /// Where waiting is counted, default the machine's clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The server and database, without user or password.
    #[must_use]
    pub fn place(&self) -> String {
        self.target.to_string()
    }
}
