//! Where leases are kept, as an address that may hold a password and is never shown with it.

use std::fmt;

/// Leases of one process only, in its own memory.
const MEMORY: &str = "memory";

/// `memory`, or the address of Redis or Valkey. What it prints leaves out whatever may be a secret.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub struct LeaseUrl(String);

impl LeaseUrl {
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
        self.is_memory() || scheme(&self.0).is_some()
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
        let Some((scheme, rest)) = scheme(&self.0) else { return f.write_str("[redacted]") };
        // A password may hold any character, unescaped: only what follows the last `@` is certain to be no part of it.
        let rest = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let rest = rest.get(..end).unwrap_or_default();
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let socket = hosts.is_empty() && scheme.ends_with("unix");
        let sound = (socket || hosts.split(',').all(is_host)) && path.chars().all(is_plain);
        match (sound, path) {
            (false, _) => write!(f, "{scheme}://[redacted]"),
            (true, "") => write!(f, "{scheme}://{hosts}"),
            (true, path) => write!(f, "{scheme}://{hosts}/{path}"),
        }
    }
}

impl fmt::Debug for LeaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseUrl({self})")
    }
}

/// The scheme and what follows it.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let letters =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '+');
    letters(scheme).then_some((scheme, rest))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/')
}

/// A name or number, and perhaps a port: `:secret` alone is none.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let named = match inner {
        Some(number) => number.chars().all(|c| c.is_ascii_hexdigit() || c == ':'),
        None => name.chars().all(|c| is_plain(c) && c != '/'),
    };
    !name.is_empty() && named && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

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
