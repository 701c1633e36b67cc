//! What clients call their keys, and how names become columns.

use sha2::{Digest, Sha256};

use crate::{
    entity::Writer,
    error::{Error, Result},
    key::{Key, KeyKind},
};

/// Longest name of a key in characters.
pub const NAME_CHARS_MAX: usize = 255;

/// A client's name for one request, the value of `Idempotency-Key`: 1 to 255 visible ASCII characters. A random UUID
/// per request is a good one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApiKey(Box<str>);

impl ApiKey {
    /// Checks it.
    ///
    /// # Errors
    /// `bad_key` when it is empty, too long, or has other characters.
    pub fn new(text: &str) -> Result<Self> {
        check(text)?;
        Ok(Self(text.into()))
    }

    /// The row of this key for one operation of one writer: another writer's, or another operation's, is another.
    #[must_use]
    pub fn key(&self, writer: &Writer, operation: &str) -> Key {
        let scope = scope(&format!("{}:{}/{operation}", writer.kind, writer.name));
        Key { kind: KeyKind::Api, scope, name: self.0.clone() }
    }
}

pub(super) fn check(text: &str) -> Result<()> {
    if !text.is_empty()
        && text.len() <= NAME_CHARS_MAX
        && text.bytes().all(|b| b.is_ascii_graphic())
    {
        return Ok(());
    }
    let shown: String = text.chars().take(40).collect();
    Err(Error::invalid(
        "bad_key",
        format!("`{}` is not a key", shown.escape_debug()),
        format!("a key is 1 to {NAME_CHARS_MAX} visible ASCII characters, without spaces"),
    ))
}

/// Any text as visible ASCII, different for different texts: other bytes as `%xx`, and a long rest as its hash.
pub(super) fn scope(text: &str) -> Box<str> {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'%' | b'~' => escaped.push_str(&format!("%{byte:02x}")),
            byte if byte.is_ascii_graphic() => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    if escaped.len() > NAME_CHARS_MAX {
        let hash = Sha256::digest(text.as_bytes());
        escaped.truncate(NAME_CHARS_MAX - 65);
        escaped.push('~');
        hash.iter().for_each(|byte| escaped.push_str(&format!("{byte:02x}")));
    }
    escaped.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::JobKey;

    #[test]
    fn a_key_is_visible_ascii_of_bounded_length() {
        let long = "k".repeat(NAME_CHARS_MAX);
        for good in ["k", "!~", &long] {
            assert!(ApiKey::new(good).is_ok() && JobKey::text(good).is_ok(), "{good}");
        }
        for bad in ["", " ", "a b", "a\n", "\u{e9}", &format!("{long}k")] {
            assert_eq!(ApiKey::new(bad).unwrap_err().code(), "bad_key", "{bad}");
            assert_eq!(JobKey::text(bad).unwrap_err().code(), "bad_key", "{bad}");
        }
    }

    #[test]
    fn keys_of_other_writers_operations_and_kinds_are_other_keys() {
        let api = ApiKey::new("k").unwrap();
        let job = JobKey::text("k").unwrap();
        let long = |end: &str| Writer::worker(&format!("{}{end}", "n".repeat(400)));
        let keys = [
            api.key(&Writer::editor("anna"), "save"),
            api.key(&Writer::editor("anna"), "create"),
            api.key(&Writer::editor("an na"), "save"),
            api.key(&Writer::editor("an%20na"), "save"),
            api.key(&Writer::worker("anna"), "save"),
            job.key(&Writer::worker("anna")).unwrap(),
            job.key(&long("a")).unwrap(),
            job.key(&long("b")).unwrap(),
        ];

        for (index, key) in keys.iter().enumerate() {
            assert!(key.scope().len() <= NAME_CHARS_MAX);
            assert!(key.scope().bytes().all(|b| b.is_ascii_graphic()), "{key}");
            assert_eq!(keys.iter().position(|other| other == key), Some(index), "{key}");
        }
    }
}
