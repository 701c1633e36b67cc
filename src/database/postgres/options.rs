//! How a database is reached, and what a statement may take.

use std::{path::PathBuf, str::FromStr, time::Duration};

use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use crate::error::{Error, Result};

/// Whether something stands between this process and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooler {
    /// Every connection is a session of its own on the server: statements are prepared once and kept, and the settings
    /// of [`PostgresOptions`] are made when it is opened. Behind a pooler this fails.
    None,
    /// A pooler may give each transaction another session, or nobody knows: statements are sent whole every time, with
    /// the types of their parameters, in one flush, and no setting is made. Safe everywhere; the default.
    #[default]
    Transaction,
}

/// How a store on PostgreSQL is opened.
#[derive(Clone)]
#[must_use]
pub struct PostgresOptions {
    pub(crate) config: Config,
    pub(crate) tls: TlsFiles,
    pub(crate) pooler: Pooler,
    pub(crate) connections: usize,
    pub(crate) wait: Duration,
    pub(crate) deadline: Duration,
    pub(crate) lock_timeout: Duration,
    pub(crate) schema: Option<String>,
}

/// Where certificates are.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    pub(crate) roots: Option<PathBuf>,
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// Parameters of a URL that are files of ours and unknown to the driver.
const FILES: [&str; 3] = ["sslrootcert", "sslcert", "sslkey"];

impl PostgresOptions {
    /// From `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with libpq's parameters: `sslmode` (`disable`, `prefer`,
    /// `require`, `verify-full`), `sslrootcert`, `sslcert`, `sslkey`, `application_name`, `connect_timeout`,
    /// `target_session_attrs`, several hosts; and `pooler` (`none`, `transaction`), see [`Pooler`]. A certificate is checked whenever TLS is spoken.
    ///
    /// # Errors
    /// `bad_url`.
    pub fn new(url: &str) -> Result<Self> {
        let (mut tls, mut verify) = (TlsFiles::default(), false);
        let (mut cert, mut key, mut pooler) = (None, None, Pooler::default());
        let mut rest = String::new();
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", "verify-full" | "verify-ca")) => verify = true,
                Some(("pooler", "none")) => pooler = Pooler::None,
                Some(("pooler", "transaction")) => pooler = Pooler::Transaction,
                Some(("pooler", _)) => return Err(bad_url("`pooler` is `none` or `transaction`")),
                Some((name, file)) if FILES.contains(&name) => {
                    let file = Some(PathBuf::from(decoded(file)?));
                    match name {
                        "sslrootcert" => tls.roots = file,
                        "sslcert" => cert = file,
                        _ => key = file,
                    }
                }
                _ => {
                    rest.push(if rest.is_empty() { '?' } else { '&' });
                    rest.push_str(pair);
                }
            }
        }
        tls.identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(bad_url("`sslcert` and `sslkey` come together")),
        };
        let mut config = Config::from_str(&format!("{base}{rest}")).map_err(|error| {
            // The driver's message names the parameter and never the password.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            bad_url(cause.unwrap_or_else(|| error.to_string()))
        })?;
        if verify {
            config.ssl_mode(SslMode::Require);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        if config.get_application_name().is_none() {
            config.application_name("fieldlease");
        }
        config.keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(Duration::from_secs(30));
        Ok(Self {
            config,
            tls,
            pooler,
            connections: 8,
            wait: Duration::from_secs(5),
            deadline: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(5),
            schema: None,
        })
    }

    /// What stands between, default [`Pooler::Transaction`]. [`Pooler::None`] saves the server parsing every statement:
    /// about a third of a save.
    pub fn pooler(mut self, pooler: Pooler) -> Self {
        self.pooler = pooler;
        self
    }

    /// Most connections, default 8. More serve more saves at once until the server's processors are busy.
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most.max(1);
        self
    }

    /// How long a statement waits for a free connection, default 5 s; then it answers `unavailable`.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long an answer is waited for, default 10 s; then the statement is cancelled and its connection closed. A
    /// save of which that leaves nothing known answers `outcome_unknown`.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long the server waits for a row another transaction has locked, default 5 s. Only with [`Pooler::None`];
    /// behind a pooler set it for the role.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// The schema our tables are in, default what the role's search path says. Only with [`Pooler::None`]; behind a
    /// pooler set the search path for the role.
    pub fn schema(mut self, schema: &str) -> Self {
        self.schema = Some(schema.to_owned());
        self
    }

    /// `HOST:PORT/DATABASE`, for messages: without user and password.
    pub(crate) fn place(&self) -> String {
        let port = |index: usize| {
            let ports = self.config.get_ports();
            ports.get(index).or(ports.first()).copied().unwrap_or(5432)
        };
        let hosts = self.config.get_hosts().iter().enumerate().map(|(index, host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(index)),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{}", path.display(), port(index)),
        });
        let hosts: Vec<String> = hosts.collect();
        format!("{}/{}", hosts.join(","), self.config.get_dbname().unwrap_or("postgres"))
    }

    /// What the driver is given: with session settings when the session is ours.
    pub(crate) fn driver(&self) -> Result<Config> {
        let mut config = self.config.clone();
        if self.pooler == Pooler::Transaction {
            if self.schema.is_some() {
                return Err(Error::invalid(
                    "store_options",
                    "a schema cannot be chosen behind a pooler: the next statement may run in another session",
                    "set it for the role: ALTER ROLE .. SET search_path = ..",
                ));
            }
            return Ok(config);
        }
        let mut settings = config.get_options().unwrap_or_default().to_owned();
        settings.push_str(&format!(
            " -c lock_timeout={} -c statement_timeout={}",
            self.lock_timeout.as_millis(),
            self.deadline.as_millis()
        ));
        if let Some(schema) = &self.schema {
            // Blanks and backslashes are escaped as the server's own parser of options wants it.
            let quoted = format!("\"{}\"", schema.replace('"', "\"\""));
            let escaped: String = quoted
                .chars()
                .flat_map(|c| {
                    let escape = c.is_whitespace() || c == '\\';
                    escape.then_some('\\').into_iter().chain(std::iter::once(c))
                })
                .collect();
            settings.push_str(&format!(" -c search_path={escaped}"));
        }
        config.options(settings);
        Ok(config)
    }
}

fn decoded(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (pair, after) = rest.split_at_checked(2).ok_or_else(|| bad_url("a `%` too many"))?;
        let hex = std::str::from_utf8(pair).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(hex.ok_or_else(|| bad_url("`%` is followed by two hexadecimal digits"))?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| bad_url("not UTF-8"))
}

fn bad_url(message: impl std::fmt::Display) -> Error {
    Error::invalid(
        "bad_url",
        format!("not a URL of a PostgreSQL database: {message}"),
        "write postgres://USER:PASSWORD@HOST:PORT/DATABASE",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_how_and_its_password_is_never_told() {
        let options = PostgresOptions::new(
            "postgres://anna:s%40cret@db.example:6432/shop?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem&application_name=pim",
        )
        .unwrap();

        assert_eq!(options.place(), "db.example:6432/shop");
        assert_eq!(options.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(options.pooler, Pooler::Transaction);
        let direct = PostgresOptions::new("postgres://h/d?pooler=none&connect_timeout=3").unwrap();
        assert_eq!(direct.pooler, Pooler::None);
        assert_eq!(options.tls.roots, Some(PathBuf::from("/etc/ca.pem")));
        assert_eq!(options.config.get_application_name(), Some("pim"));
        for wrong in [
            "postgres://a:s3cret@h/d?sslmode=no",
            "postgres://a:s3cret@h/d?x=1",
            "postgres://a:s3cret@h/d?pooler=session",
            "postgres://a:s3cret@h/d?sslcert=a",
            "mysql://a:s3cret@h/d",
        ] {
            let error = PostgresOptions::new(wrong).err().unwrap();
            assert_eq!(error.code(), "bad_url", "{wrong}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn settings_of_a_session_are_made_only_where_the_session_is_ours() {
        let options = || PostgresOptions::new("postgres://h/d").unwrap().schema("pim \"x\"");

        let error = options().driver().err().unwrap();
        let own = options().pooler(Pooler::None).driver().unwrap();

        assert_eq!(error.code(), "store_options");
        let settings = own.get_options().unwrap_or_default();
        assert!(settings.contains(r#"-c search_path="pim\ ""x""""#), "{settings}");
        assert!(settings.contains("-c lock_timeout=5000"), "{settings}");
    }
}
