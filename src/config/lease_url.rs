//! Where leases are kept, as an address that may hold a password and is never shown with it.

use std::fmt;

use crate::config::address::{scheme, shown};

/// Leases of one process only, in its own memory.
const MEMORY: &str = "memory";
/// Before the name of a file.
const SQLITE: &str = "sqlite:";

/// `memory`, the address of Redis or Valkey, or that of a database with rows for leases: `sqlite:FILE`, `postgres://..`,
/// `mysql://..`. What it prints leaves out whatever may be a secret.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub struct LeaseUrl(String);

/// A database that keeps leases in rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RowsAt<'a> {
    /// In this file.
    Sqlite(&'a std::path::Path),
    /// At this address, with its secrets.
    Postgres(&'a str),
    /// At this address, with its secrets.
    Mysql(&'a str),
}

impl LeaseUrl {
    /// The database, where leases are kept in rows of one.
    #[must_use]
    pub fn rows(&self) -> Option<RowsAt<'_>> {
        if let Some(file) = self.0.strip_prefix(SQLITE) {
            return Some(RowsAt::Sqlite(std::path::Path::new(file)));
        }
        match scheme(&self.0)?.0 {
            "postgres" | "postgresql" => Some(RowsAt::Postgres(&self.0)),
            "mysql" | "mysqls" | "mariadb" | "mariadbs" => Some(RowsAt::Mysql(&self.0)),
            _ => None,
        }
    }

    /// The address with its secrets, for the one place that connects.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether leases stay in the memory of this process.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        self.0 == MEMORY
    }

    /// Whether it can be one at all; what the parts mean is for the backend to say.
    pub(crate) fn is_sound(&self) -> bool {
        let file = self.0.strip_prefix(SQLITE);
        self.is_memory() || file.is_some_and(|file| !file.is_empty()) || scheme(&self.0).is_some()
    }
}

impl From<String> for LeaseUrl {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for LeaseUrl {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Scheme and hosts, if they are certain to be no more than that.
impl fmt::Display for LeaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_memory() {
            return f.write_str(MEMORY);
        }
        if self.0.starts_with(SQLITE) {
            return f.write_str(&self.0);
        }
        f.write_str(&shown(&self.0))
    }
}

impl fmt::Debug for LeaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_rows_names_its_database() {
        let rows = |text: &str| match LeaseUrl::from(text).rows() {
            Some(RowsAt::Sqlite(file)) => format!("file {}", file.display()),
            Some(RowsAt::Postgres(_)) => "postgres".to_owned(),
            Some(RowsAt::Mysql(_)) => "mysql".to_owned(),
            None => "none".to_owned(),
        };

        assert_eq!(rows("sqlite:a/b.sqlite"), "file a/b.sqlite");
        assert_eq!(rows("postgresql://db/shop"), "postgres");
        assert_eq!(rows("mariadb://db/shop"), "mysql");
        assert_eq!(rows("redis://db"), "none");
        assert_eq!(rows("memory"), "none");
        assert!(!LeaseUrl::from("sqlite:").is_sound());
    }

    #[test]
    fn what_is_shown_of_an_address_holds_no_secret() {
        let cases = [
            ("memory", "memory"),
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis://cache/3", "redis://cache/3"),
            ("rediss://[::1]:6380/0", "rediss://[::1]:6380/0"),
            ("redis://:s3cret@cache:6379/0", "redis://cache:6379/0"),
            ("redis://me:s3cret@cache", "redis://cache"),
            ("redis://me:s3/c?r#e@t@cache", "redis://cache"),
            ("redis://cache?password=s3cret", "redis://cache"),
            ("redis://cache?password=s3cr@et", "redis://et"),
            ("redis+quorum://:s3cret@a:1,:s3cret@b:2", "redis+quorum://b:2"),
            ("redis+sentinel://a:26379,b:26379/main/0", "redis+sentinel://a:26379,b:26379/main/0"),
            ("redis://:s3cret", "redis://[redacted]"),
            ("redis://me:s3cret", "redis://[redacted]"),
            ("redis://me:s3cret/0", "redis://[redacted]"),
            ("redis+unix:///run/redis.sock", "redis+unix:///run/redis.sock"),
            ("sqlite:/var/lib/leases.sqlite", "sqlite:/var/lib/leases.sqlite"),
            ("postgres://me:s3cret@db:5432/shop?sslmode=require", "postgres://db:5432/shop"),
            ("mysql://me:s3c@r/et@db/shop", "mysql://db/shop"),
            ("s3cret", "[redacted]"),
            ("S3CRET://x", "[redacted]"),
            ("", "[redacted]"),
        ];

        for (text, expected) in cases {
            let url = LeaseUrl::from(text);
            assert_eq!(url.to_string(), expected, "{text}");
            assert!(!format!("{url:?}").contains("s3c"), "{text}");
            assert_eq!(url.is_sound(), !matches!(text, "s3cret" | "S3CRET://x" | ""), "{text}");
        }
    }
}
