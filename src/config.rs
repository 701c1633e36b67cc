//! Settings of the service: flags over environment over file over defaults.

mod address;
mod lease_url;
mod store_url;

use std::{
    fmt,
    net::SocketAddr,
    path::{Path as FilePath, PathBuf},
    time::Duration,
};

pub use self::{
    lease_url::{LeaseUrl, RowsAt},
    store_url::{StoreAt, StoreUrl},
};
use crate::{
    error::{Error, Result},
    upkeep::BASE_WINDOW,
};

/// Largest settings file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Where the service listens when nothing else is said: loopback only.
pub const LISTEN: &str = "127.0.0.1:4180";
/// What names of keys in a lease server begin with when nothing else is said.
pub const NAMESPACE: &str = "fieldlease";
/// Bounds of the times a request may take to arrive.
const REQUEST_TIME_MS: std::ops::RangeInclusive<u64> = 100..=600_000;
/// Longest time a stop may take.
const GRACE_S_MAX: u64 = 3_600;

/// Longest base window: a century.
const BASE_WINDOW_DAYS_MAX: u64 = 36_500;

/// A secret from a file or the environment. It prints as `[redacted]`.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The secret itself, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// One layer of settings; what it does not say is left to the layer below.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The registry file. Default: `schemas/example.yaml` here, else the example built in.
    pub registry: Option<PathBuf>,
    /// Directory of the first tokens, and of the store where none is named. Default `data`.
    pub data: Option<PathBuf>,
    /// Address and port. Default 127.0.0.1:4180. Another host than loopback needs `tokens`.
    pub listen: Option<SocketAddr>,
    /// The token file. Default: made in `data` at the first start.
    pub tokens: Option<PathBuf>,
    /// File of the audit trail. Default: none.
    pub audit: Option<PathBuf>,
    /// Seconds that requests in flight may go on after a stop. Default 10.
    pub grace_s: Option<u64>,
    /// Milliseconds for the whole head of a request. Default 10,000. Less cuts off slow lines, more lets slow clients pile up.
    pub head_time_ms: Option<u64>,
    /// Milliseconds for a whole body. Default 10,000.
    pub body_time_ms: Option<u64>,
    /// Key that signs edit tokens. Default: they are not signed.
    pub token_secret: Option<Secret>,
    /// Where records are kept: `FILE` or `sqlite:FILE`, `postgres://..`, `mysql://..`. Default `fieldlease.db` in `data`.
    pub store: Option<StoreUrl>,
    /// Where leases are kept: `memory`, the address of Redis or Valkey, or a database that keeps them in rows
    /// (`postgres://..`, `mysql://..`, `sqlite:FILE`). Default `memory`: this process only.
    pub leases: Option<LeaseUrl>,
    /// What names of keys in a lease server begin with. Default `fieldlease`. Services with the same records share one.
    pub namespace: Option<String>,
    /// Days: what a prune leaves alone when it does not say, so that forms loaded within them find their base. Default 7.
    pub base_window_days: Option<u64>,
}

/// Complete settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The registry file, when one was named.
    pub registry: Option<PathBuf>,
    /// Directory of the first tokens, and of the store where none is named.
    pub data: PathBuf,
    /// Address and port.
    pub listen: SocketAddr,
    /// The token file, when one was named.
    pub tokens: Option<PathBuf>,
    /// File of the audit trail.
    pub audit: Option<PathBuf>,
    /// How long requests in flight may go on after a stop.
    pub grace: Duration,
    /// Time for the whole head of a request.
    pub head_time: Duration,
    /// Time for a whole body.
    pub body_time: Duration,
    /// Key that signs edit tokens.
    pub token_secret: Option<Secret>,
    /// Where records are kept.
    pub store: StoreUrl,
    /// Where leases are kept; `None` is the memory of this process.
    pub leases: Option<LeaseUrl>,
    /// What names of keys in a lease server begin with.
    pub namespace: String,
    /// What a prune leaves alone when it does not say.
    pub base_window: Duration,
}

impl Settings {
    /// Reads a file of settings, YAML or JSON.
    ///
    /// # Errors
    /// When it cannot be read, or holds a key that is not a setting.
    pub fn from_file(path: &FilePath) -> Result<Self> {
        let fault = |cause: &str| {
            let message = format!("the settings file `{}` cannot be used: {cause}", path.display());
            Error::invalid("settings", message, "see the list of settings in docs/settings.md")
        };
        let meta = std::fs::metadata(path).map_err(|error| fault(&error.to_string()))?;
        if !meta.is_file() || meta.len() > FILE_BYTES_MAX {
            return Err(fault("it is not a regular file of at most 1 MiB"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| fault(&error.to_string()))?;
        // A parser's message may quote the line it stopped at, and that line may hold the secret.
        serde_yaml::from_str(&text).map_err(|error: serde_yaml::Error| {
            let place = error.location().map(|at| format!(" in line {}", at.line()));
            fault(&format!("a key or value is not understood{}", place.unwrap_or_default()))
        })
    }

    /// Reads `FIELDLEASE_REGISTRY` and its like.
    ///
    /// # Errors
    /// When a value is not of its setting's kind.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let path = |name: &str| get(name).map(PathBuf::from);
        let number = |name: &'static str| -> Result<Option<u64>> {
            get(name).map(|text| text.parse().map_err(|_| bad(name, "a whole number"))).transpose()
        };
        let listen = get("FIELDLEASE_LISTEN").map(|text| {
            text.parse().map_err(|_| bad("FIELDLEASE_LISTEN", "HOST:PORT, the host a number"))
        });
        Ok(Self {
            registry: path("FIELDLEASE_REGISTRY"),
            data: path("FIELDLEASE_DATA"),
            listen: listen.transpose()?,
            tokens: path("FIELDLEASE_TOKENS"),
            audit: path("FIELDLEASE_AUDIT"),
            grace_s: number("FIELDLEASE_GRACE_S")?,
            head_time_ms: number("FIELDLEASE_HEAD_TIME_MS")?,
            body_time_ms: number("FIELDLEASE_BODY_TIME_MS")?,
            token_secret: get("FIELDLEASE_TOKEN_SECRET").map(Secret),
            store: get("FIELDLEASE_STORE").map(StoreUrl::from),
            leases: get("FIELDLEASE_LEASES").map(LeaseUrl::from),
            namespace: get("FIELDLEASE_NAMESPACE"),
            base_window_days: number("FIELDLEASE_BASE_WINDOW_DAYS")?,
        })
    }

    /// These settings, and where they say nothing, those below.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            registry: self.registry.or(below.registry),
            data: self.data.or(below.data),
            listen: self.listen.or(below.listen),
            tokens: self.tokens.or(below.tokens),
            audit: self.audit.or(below.audit),
            grace_s: self.grace_s.or(below.grace_s),
            head_time_ms: self.head_time_ms.or(below.head_time_ms),
            body_time_ms: self.body_time_ms.or(below.body_time_ms),
            token_secret: self.token_secret.or(below.token_secret),
            store: self.store.or(below.store),
            leases: self.leases.or(below.leases),
            namespace: self.namespace.or(below.namespace),
            base_window_days: self.base_window_days.or(below.base_window_days),
        }
    }

    /// Fills in the defaults and checks what belongs together.
    ///
    /// # Errors
    /// When the service would listen to the network without a token file, or a value is out of range.
    pub fn finish(self) -> Result<Config> {
        let listen = match self.listen {
            Some(listen) => listen,
            None => LISTEN.parse().map_err(|_| Error::internal("the default address is none"))?,
        };
        if !listen.ip().is_loopback() && self.tokens.is_none() {
            return Err(Error::invalid(
                "tokens_missing",
                format!("`{listen}` can be reached from the network and no token file is named"),
                "name one with --tokens, or listen on 127.0.0.1",
            ));
        }
        let grace_s = self.grace_s.unwrap_or(10);
        if grace_s > GRACE_S_MAX {
            return Err(bad("grace_s", "at most 3600"));
        }
        let times = [("head_time_ms", self.head_time_ms), ("body_time_ms", self.body_time_ms)];
        for (name, time) in times {
            if time.is_some_and(|ms| !REQUEST_TIME_MS.contains(&ms)) {
                return Err(bad(name, "between 100 and 600000"));
            }
        }
        if self.base_window_days.is_some_and(|days| days > BASE_WINDOW_DAYS_MAX) {
            return Err(bad("base_window_days", "at most 36500"));
        }
        if self.token_secret.as_ref().is_some_and(|secret| secret.reveal().len() < 16) {
            return Err(bad("token_secret", "at least 16 bytes long"));
        }
        if self.leases.as_ref().is_some_and(|leases| !leases.is_sound()) {
            return Err(bad(
                "leases",
                "`memory`, or an address like redis://HOST:PORT, postgres://HOST/DATABASE or sqlite:FILE",
            ));
        }
        let data = self.data.unwrap_or_else(|| PathBuf::from("data"));
        let store = self.store.unwrap_or_else(|| {
            StoreUrl::from(format!("sqlite:{}", data.join("fieldlease.db").display()))
        });
        if !store.is_sound() {
            return Err(bad(
                "store",
                "a file, or an address like postgres://HOST/DATABASE or mysql://HOST/DATABASE",
            ));
        }
        Ok(Config {
            registry: self.registry,
            data,
            store,
            listen,
            tokens: self.tokens,
            audit: self.audit,
            grace: Duration::from_secs(grace_s),
            head_time: Duration::from_millis(self.head_time_ms.unwrap_or(10_000)),
            body_time: Duration::from_millis(self.body_time_ms.unwrap_or(10_000)),
            token_secret: self.token_secret,
            leases: self.leases.filter(|leases| !leases.is_memory()),
            namespace: self.namespace.unwrap_or_else(|| NAMESPACE.to_owned()),
            base_window: self
                .base_window_days
                .map_or(BASE_WINDOW, |days| Duration::from_secs(days.saturating_mul(24 * 60 * 60))),
        })
    }
}

/// Names the setting, never its value: it may be a secret in the wrong place.
fn bad(name: &str, expected: &str) -> Error {
    Error::invalid("settings", format!("the setting `{name}` is not {expected}"), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(values: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn a_flag_goes_before_the_environment_and_that_before_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.yaml");
        std::fs::write(
            &path,
            "data: file\nregistry: file\nlisten: 127.0.0.1:1\ngrace_s: 3\nbase_window_days: 30\n",
        )
        .unwrap();
        let file = Settings::from_file(&path).unwrap();
        let env =
            Settings::from_env(env(&[("FIELDLEASE_DATA", "env"), ("FIELDLEASE_REGISTRY", "env")]));
        let flags = Settings { data: Some("flag".into()), ..Settings::default() };

        let config = flags.over(env.unwrap().over(file)).finish().unwrap();

        assert_eq!(config.data, PathBuf::from("flag"));
        assert_eq!(config.registry, Some(PathBuf::from("env")));
        assert_eq!(config.listen.port(), 1);
        assert_eq!(config.grace, Duration::from_secs(3));
        assert_eq!(config.base_window, Duration::from_secs(30 * 24 * 60 * 60));
        let empty = Settings::default().finish().unwrap();
        assert_eq!(empty.listen.to_string(), LISTEN);
    }

    #[test]
    fn a_listener_for_the_network_needs_tokens() {
        let cases = [
            ("127.0.0.1:0", false, true),
            ("[::1]:0", false, true),
            ("0.0.0.0:0", false, false),
            ("[::]:0", false, false),
            ("192.0.2.1:80", false, false),
            ("0.0.0.0:0", true, true),
        ];

        for (listen, tokens, expected) in cases {
            let tokens = tokens.then(|| PathBuf::from("tokens.yaml"));
            let listen_at = Some(listen.parse().unwrap());
            let settings = Settings { listen: listen_at, tokens, ..Settings::default() };
            let found = settings.finish();
            assert_eq!(found.is_ok(), expected, "{listen}");
            if let Err(error) = found {
                assert_eq!(error.code(), "tokens_missing");
            }
        }
    }

    #[test]
    fn a_secret_is_printed_by_nothing() {
        const CANARY: &str = "canary-secret-1234";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.yaml");
        let leases = format!("redis://:{CANARY}@cache:6379");
        let store = format!("postgres://me:{CANARY}@db/shop");
        let values = [
            ("FIELDLEASE_TOKEN_SECRET", CANARY),
            ("FIELDLEASE_LEASES", &*leases),
            ("FIELDLEASE_STORE", &*store),
        ];
        let settings = Settings::from_env(env(&values)).unwrap();
        let config = settings.clone().finish().unwrap();
        let mut printed = format!("{settings:?} {config:?}");
        let mistyped = format!("postgres:/me:{CANARY}@db");
        for unsound in [
            Settings { leases: Some(CANARY.into()), ..Settings::default() },
            Settings { store: Some(mistyped.into()), ..Settings::default() },
        ] {
            let error = unsound.clone().finish().unwrap_err();
            printed.push_str(&format!("{unsound:?} {error} {error:?}"));
        }

        for text in [
            format!("token_secret: [{CANARY}]\n"),
            format!("token_secret: {CANARY}\ntoken_secret: {CANARY}\n"),
            format!("token_secert: {CANARY}\n"),
            format!("{CANARY}\n"),
            format!("leases: [{leases}]\n"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Settings::from_file(&path).unwrap_err();
            printed.push_str(&format!("{error} {error:?}"));
        }
        let values = [("FIELDLEASE_GRACE_S", CANARY), ("FIELDLEASE_LISTEN", CANARY)];
        let error = Settings::from_env(env(&values)).unwrap_err();
        printed.push_str(&format!("{error} {error:?}"));

        assert!(!printed.contains("canary"), "{printed}");
        assert_eq!(config.token_secret.unwrap().reveal(), CANARY.as_bytes());
        assert_eq!(config.leases.unwrap().reveal(), leases);
        assert!(matches!(config.store.at(), StoreAt::Postgres(url) if url == store));
    }
}
