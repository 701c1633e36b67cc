//! Where the servers are: reads a URL into a target, once, with every password kept out of sight.

mod parse;
#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf, sync::Arc};

/// Servers to connect to, and how they hang together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// One server, given by its address.
    Single(Server),
    /// One primary, found by asking sentinels.
    Sentinel(Sentinels),
    /// A cluster, found through any of these.
    Cluster(Vec<Server>),
    /// Servers that know nothing of each other; a majority of them decides.
    Quorum(Vec<Target>),
}

/// The sentinels of one primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// The sentinels.
    pub(crate) servers: Vec<Server>,
    /// The name they know the primary by.
    pub(crate) primary: String,
    /// How to enter the primary.
    pub(crate) access: Arc<Access>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) address: Address,
    pub(crate) access: Arc<Access>,
}

/// The address of a server; the port or path tells servers of one machine apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// What a server wants to see before it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) user: Option<String>,
    pub(crate) password: Password,
    pub(crate) database: u32,
    pub(crate) tls: Option<TlsFiles>,
}

/// A password, or where it is kept.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) enum Password {
    #[default]
    None,
    Given(String),
    /// Read anew for every connection, so that a changed password is found.
    File(PathBuf),
}

/// Files in PEM form, read anew for every connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Whom to trust; without it, the certificates of the machine.
    pub(crate) ca: Option<PathBuf>,
    /// Our certificate chain and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl Address {
    /// Reads `HOST:PORT` as servers announce themselves.
    pub(crate) fn announced(text: &str) -> Option<Self> {
        // A cluster bus port may follow: `127.0.0.1:6379@16379`.
        let text = text.split('@').next()?;
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(Self::Tcp(host.to_owned(), port.parse().ok()?))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The addresses only: fit for logs.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(server) => server.address.fmt(f),
            Self::Sentinel(sentinels) => {
                write!(f, "{} by sentinels ", sentinels.primary)?;
                list(f, sentinels.servers.iter().map(|server| &server.address))
            }
            Self::Cluster(servers) => {
                f.write_str("cluster ")?;
                list(f, servers.iter().map(|server| &server.address))
            }
            Self::Quorum(targets) => {
                f.write_str("majority of ")?;
                list(f, targets.iter())
            }
        }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Given(_) => f.write_str("Given(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

fn list(
    f: &mut fmt::Formatter<'_>,
    mut items: impl Iterator<Item = impl fmt::Display>,
) -> fmt::Result {
    if let Some(first) = items.next() {
        first.fmt(f)?;
    }
    items.try_for_each(|item| write!(f, ",{item}"))
}
