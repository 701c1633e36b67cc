//! Names in the key space, and what is written under them.
//!
//! Every key of an entity carries one hash tag, so a cluster keeps them in one slot. The codec is injective: an id is
//! percent-encoded, so none can forge a tag or another id's key.

use std::fmt::Write;

use crate::{
    entity::{EntityId, EntityRef, EntityType, GroupName},
    error::{Error, Result},
    scope::{Scope, ScopeName},
    token::HolderToken,
};

/// Bytes of a lease before its names and label.
const HEAD: usize = 87;
/// Ends of an entity's keys: the hash of split scopes, the whole entity and places; the queue; the last order given; and,
/// before its name, the lease of one unsplit scope.
pub(crate) const HASH: &str = "h";
pub(crate) const QUEUE: &str = "q";
pub(crate) const ORDER: &str = "o";
pub(crate) const LEASE: &str = "g:";

/// Keys of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    namespace: Box<str>,
}

/// The common start of an entity's keys, `fieldlease:{Product:42}:`.
pub(crate) struct EntityKeys(String);

impl Keys {
    /// # Errors
    /// `bad_namespace`: 1 to 32 of A-Z a-z 0-9 _ . -.
    pub(crate) fn new(namespace: &str) -> Result<Self> {
        let valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if namespace.is_empty() || namespace.len() > 32 || !namespace.bytes().all(valid) {
            return Err(Error::invalid(
                "bad_namespace",
                format!("`{}` is not a namespace", namespace.escape_debug()),
                "1 to 32 of A-Z a-z 0-9 _ . -; one for each deployment that shares the server",
            ));
        }
        Ok(Self { namespace: namespace.into() })
    }

    pub(crate) fn entity(&self, entity: &EntityRef) -> EntityKeys {
        let mut prefix = String::with_capacity(self.namespace.len() + 64);
        prefix.push_str(&self.namespace);
        prefix.push_str(":{");
        prefix.push_str(entity.kind.as_str());
        prefix.push(':');
        encode(entity.id.as_str(), &mut prefix);
        prefix.push_str("}:");
        EntityKeys(prefix)
    }

    /// The channel on which scripts speak to the process with this inbox.
    pub(crate) fn inbox(&self, inbox: &str) -> String {
        format!("{}:inbox:{inbox}", self.namespace)
    }

    /// A key that checks try commands on.
    pub(crate) fn probe(&self, id: &str) -> String {
        format!("{}:{{probe:{id}}}", self.namespace)
    }

    /// A version guard.
    pub(crate) fn guard(&self, id: &str) -> String {
        format!("{}:{{guard:{id}}}", self.namespace)
    }

    /// The list of leases, and when its members are dropped.
    pub(crate) fn roster(&self) -> [String; 2] {
        let list = |which: &str| format!("{}:{{roster}}:{which}", self.namespace);
        [list("list"), list("drop")]
    }
}

impl EntityKeys {
    /// What they all start with, the tag included.
    pub(crate) fn start(&self) -> &str {
        &self.0
    }

    /// The lease of one unsplit scope.
    pub(crate) fn lease(&self, name: &str) -> String {
        let mut key = String::with_capacity(self.0.len() + name.len() + 2);
        for part in [&self.0, LEASE, name] {
            key.push_str(part);
        }
        key
    }
}

fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-') {
            out.push(char::from(byte));
        } else {
            // Writing to a String never fails.
            let _written = write!(out, "%{byte:02X}");
        }
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// A scope as keys and scripts name it: `media`, `translation;locale=de_DE`.
pub(crate) fn write_scope(name: &ScopeName) -> String {
    let mut text = name.group_name().as_str().to_owned();
    for (axis, value) in name.axes() {
        text.push(';');
        encode(axis, &mut text);
        text.push('=');
        encode(value, &mut text);
    }
    text
}

pub(crate) fn read_scope(text: &str) -> Option<ScopeName> {
    let mut parts = text.split(';');
    let group = GroupName::new(parts.next()?).ok()?;
    let mut axes = Vec::new();
    for part in parts {
        let (axis, value) = part.split_once('=')?;
        axes.push((decode(axis)?.into(), decode(value)?.into()));
    }
    Some(if axes.is_empty() { ScopeName::group(group) } else { ScopeName::split(group, axes) })
}

/// The lease of one unsplit scope as a plain `SET` takes it; `common.lua` says what is where.
pub(crate) fn write_lease(token: HolderToken, inbox: &str, ttl_ms: u64, label: &str) -> String {
    let mut text = String::with_capacity(HEAD + 1 + label.len());
    text.push('1');
    text.push_str(&token.hex());
    text.push('-');
    text.push_str(inbox);
    // Writing to a String never fails.
    let _written = write!(text, "{ttl_ms:08}");
    text.push_str("00000000000000000000000000000\n");
    text.push_str(label);
    text
}

/// What a script lists as a lease: whose, which names it covers besides the one asked about, and the holder's label.
pub(crate) fn read_lease(bytes: &[u8]) -> Option<(HolderToken, Vec<String>, String)> {
    let token = HolderToken::parse(std::str::from_utf8(bytes.get(1..33)?).ok()?)?;
    let rest = bytes.get(HEAD..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let names = std::str::from_utf8(rest.get(..end)?).ok()?;
    let names = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let label = String::from_utf8_lossy(rest.get(end + 1..)?).into_owned();
    Some((token, names, label))
}

/// A scope as bytes that sort as scopes do: each part ends with two zeros, a zero inside is followed by 255.
pub(crate) fn write_member(scope: &Scope) -> Vec<u8> {
    let mut bytes = entity_start(&scope.entity);
    push_part(scope.name.group_name().as_str(), &mut bytes);
    for (axis, value) in scope.name.axes() {
        push_part(axis, &mut bytes);
        push_part(value, &mut bytes);
    }
    bytes
}

/// What every member of this entity starts with.
pub(crate) fn entity_start(entity: &EntityRef) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96);
    push_part(entity.kind.as_str(), &mut bytes);
    push_part(entity.id.as_str(), &mut bytes);
    bytes
}

fn push_part(part: &str, out: &mut Vec<u8>) {
    for byte in part.bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(255);
        }
    }
    out.extend([0, 0]);
}

pub(crate) fn read_member(bytes: &[u8]) -> Option<Scope> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut rest = bytes.iter().copied();
    while let Some(byte) = rest.next() {
        match (byte, byte == 0) {
            (byte, false) => part.push(byte),
            (_, true) => match rest.next()? {
                255 => part.push(0),
                0 => parts.push(String::from_utf8(std::mem::take(&mut part)).ok()?),
                _ => return None,
            },
        }
    }
    let mut parts = parts.into_iter();
    let kind = EntityType::new(&parts.next()?).ok()?;
    let id = EntityId::new(&parts.next()?).ok()?;
    let group = GroupName::new(&parts.next()?).ok()?;
    let mut axes = Vec::new();
    while let Some(axis) = parts.next() {
        axes.push((axis.into(), parts.next()?.into()));
    }
    let name =
        if axes.is_empty() { ScopeName::group(group) } else { ScopeName::split(group, axes) };
    part.is_empty().then_some(Scope { entity: EntityRef { kind, id }, name })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn hostile() -> Vec<String> {
        let parts = ["", "a", "{", "}", ":", "%", "%7B", "\0", "\n", "*", ";", "=", ",", "\u{e9}"];
        let mut ids = Vec::new();
        for a in parts {
            for b in parts {
                for c in parts {
                    ids.push(format!("{a}{b}{c}"));
                }
            }
        }
        ids
    }

    #[test]
    fn different_ids_have_different_keys_with_one_tag_each() {
        let keys = Keys::new("n").unwrap();
        let ids: HashSet<String> = hostile().into_iter().collect();
        let mut seen = HashSet::new();

        for id in &ids {
            let key = keys.entity(&EntityRef::new("T", id).unwrap()).lease("media");
            assert_eq!(key.matches('{').count(), 1, "{key}");
            assert_eq!(key.matches('}').count(), 1, "{key}");
            assert!(key.bytes().all(|byte| byte.is_ascii_graphic()), "{key:?}");
            assert!(seen.insert(key), "{id:?}");
        }
    }

    #[test]
    fn a_namespace_is_short_and_plain() {
        for (name, good) in [
            ("fieldlease", true),
            ("a.b-c_1", true),
            ("", false),
            ("a:b", false),
            ("{a}", false),
            ("a b", false),
            (&"x".repeat(33), false),
        ] {
            assert_eq!(Keys::new(name).is_ok(), good, "{name:?}");
        }
    }

    #[test]
    fn a_lease_reads_back() {
        let token = HolderToken([7; 16]);
        let text = write_lease(token, "0123456789abcdef", 30_000, "a\nlabel\0");

        let (who, names, label) = read_lease(text.as_bytes()).unwrap();

        assert_eq!((who, names, label.as_str()), (token, Vec::new(), "a\nlabel\0"));
        assert_eq!(text.find('\n'), Some(HEAD));
    }

    proptest! {
        #[test]
        fn scopes_and_members_read_back_and_members_sort_as_scopes_do(
            scopes in prop::collection::vec(("[a-c\0{%]{0,4}", "[a-b]", prop::collection::vec(("[a-b;=]{1,2}", "[a\0,;=%]{0,3}"), 0..2)), 2..3)
        ) {
            let scopes: Vec<Scope> = scopes
                .into_iter()
                .map(|(id, group, axes)| Scope {
                    entity: EntityRef::new("T", &id).unwrap(),
                    name: ScopeName::split(
                        GroupName::new(&group).unwrap(),
                        axes.into_iter().map(|(a, v)| (a.into(), v.into())).collect(),
                    ),
                })
                .collect();
            for scope in &scopes {
                let text = write_scope(&scope.name);
                prop_assert_eq!(read_scope(&text), Some(scope.name.clone()));
                prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b','));
                prop_assert_eq!(read_member(&write_member(scope)), Some(scope.clone()));
            }
            let (a, b) = (&scopes[0], &scopes[1]);
            prop_assert_eq!(write_member(a).cmp(&write_member(b)), a.cmp(b));
        }
    }
}
