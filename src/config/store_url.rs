//! Where records are kept, as an address that may hold a password and is never shown with it.

use std::{fmt, path::Path as FilePath};

use crate::config::address::{scheme, shown};

/// Before the name of a file.
const SQLITE: &str = "sqlite:";
/// Names of databases: what begins with one and a colon and is no address of it was meant to be one.
const SERVERS: [&str; 4] = ["postgres", "postgresql", "mysql", "mariadb"];

/// `FILE`, `sqlite:FILE`, `postgres://..` or `mysql://..` (`mariadb://..`; `mysqls://..` through TLS). What it prints
/// leaves out whatever may be a secret.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub struct StoreUrl(String);

/// The database that is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreAt<'a> {
    /// SQLite, in this file.
    Sqlite(&'a FilePath),
    /// PostgreSQL at this address, with its secrets.
    Postgres(&'a str),
    /// MariaDB or MySQL at this address, with its secrets.
    Mysql(&'a str),
    /// None that is known.
    Unknown,
}

impl StoreUrl {
    /// The database, with the address for the one place that connects.
    #[must_use]
    pub fn at(&self) -> StoreAt<'_> {
        if let Some(file) = self.file() {
            return StoreAt::Sqlite(FilePath::new(file));
        }
        match scheme(&self.0) {
            Some(("postgres" | "postgresql", _)) => StoreAt::Postgres(&self.0),
            Some(("mysql" | "mariadb" | "mysqls" | "mariadbs", _)) => StoreAt::Mysql(&self.0),
            _ => StoreAt::Unknown,
        }
    }

    /// Whether it can be one at all; what the parts mean is for the backend to say.
    pub(crate) fn is_sound(&self) -> bool {
        self.at() != StoreAt::Unknown
    }

    /// The file, where it is one: what looks like a mistyped address is none, as it may hold a password.
    fn file(&self) -> Option<&str> {
        let text = self.0.as_str();
        if let Some(file) = text.strip_prefix(SQLITE) {
            return (!file.is_empty()).then_some(file);
        }
        let before = text.split_once(':').map_or("", |(before, _)| before);
        let address = text.contains("://") || SERVERS.iter().any(|name| before.starts_with(name));
        (!text.is_empty() && !address).then_some(text)
    }
}

impl From<String> for StoreUrl {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for StoreUrl {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// A file by its name; of an address scheme, hosts and path, if they are certain to be no more than that.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file() {
            Some(file) => f.write_str(file),
            None => f.write_str(&shown(&self.0)),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_database_and_shows_no_secret() {
        let cases = [
            ("data/fieldlease.db", "file", "data/fieldlease.db"),
            ("sqlite:/var/lib/a b.db", "file", "/var/lib/a b.db"),
            ("C:\\data\\x.db", "file", "C:\\data\\x.db"),
            (
                "postgres://me:s3cret@db:5432/shop?sslmode=require",
                "postgres",
                "postgres://db:5432/shop",
            ),
            ("postgresql://db/shop", "postgres", "postgresql://db/shop"),
            ("mysql://me:s3c@r/et@db/shop", "mysql", "mysql://db/shop"),
            ("mariadbs://db/shop?password_file=/run/s3cret", "mysql", "mariadbs://db/shop"),
            ("postgres:/me:s3cret@db/shop", "unknown", "[redacted]"),
            ("mariadb:me:s3cret@db", "unknown", "[redacted]"),
            ("redis://:s3cret@cache", "unknown", "redis://cache"),
            ("sqlite:", "unknown", "[redacted]"),
            ("", "unknown", "[redacted]"),
        ];

        for (text, database, expected) in cases {
            let url = StoreUrl::from(text);
            let found = match url.at() {
                StoreAt::Sqlite(_) => "file",
                StoreAt::Postgres(_) => "postgres",
                StoreAt::Mysql(_) => "mysql",
                StoreAt::Unknown => "unknown",
            };
            assert_eq!(found, database, "{text}");
            assert_eq!(url.to_string(), expected, "{text}");
            assert!(!format!("{url:?}").contains("s3c"), "{text}");
            assert_eq!(url.is_sound(), database != "unknown", "{text}");
        }
    }
}
