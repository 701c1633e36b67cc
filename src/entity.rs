//! Records, values and the people and programs that write them.

use std::{fmt, sync::Arc};

use serde_json::Value as Json;

/// Longest entity id in bytes.
pub const ID_BYTES_MAX: usize = 256;
/// Longest name of an entity type or group in characters.
pub const NAME_CHARS_MAX: usize = 64;

/// A name that is not one. The message says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(pub String);

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the name: `[A-Za-z_][A-Za-z0-9_.-]{0,63}`.
            ///
            /// # Errors
            /// When a character or the length is not allowed.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check_name($what, text)?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

name! {
    /// The type of a record, as the registry names it: `Product`.
    EntityType, "an entity type"
}
name! {
    /// A set of fields with one owner: `editor`, `system`, `shared`, or a name from the registry.
    GroupName, "a group"
}

fn check_name(what: &str, text: &str) -> Result<(), NameError> {
    let mut chars = text.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let rest = chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if first && rest && text.len() <= NAME_CHARS_MAX {
        return Ok(());
    }
    Err(NameError(format!(
        "`{}` is not a name for {what}: 1 to {NAME_CHARS_MAX} of A-Z a-z 0-9 _ . -, starting with a letter or _",
        text.escape_debug()
    )))
}

/// The id of a record inside its type: 1 to 256 bytes of any UTF-8, NUL and newline included.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct EntityId(Arc<str>);

impl EntityId {
    /// Checks the length.
    ///
    /// # Errors
    /// When the id is longer than 256 bytes. The empty id is allowed.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.len() > ID_BYTES_MAX {
            let message =
                format!("an id of {} bytes is too long: at most {ID_BYTES_MAX}", text.len());
            return Err(NameError(message));
        }
        Ok(Self(text.into()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<'de> serde::Deserialize<'de> for EntityId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// One record: its type and id.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct EntityRef {
    /// The registry's name of the type.
    #[serde(rename = "type")]
    pub kind: EntityType,
    /// The id inside the type.
    pub id: EntityId,
}

impl EntityRef {
    /// A record by type and id.
    ///
    /// # Errors
    /// When the type is not a name or the id is too long.
    pub fn new(kind: &str, id: &str) -> Result<Self, NameError> {
        Ok(Self { kind: EntityType::new(kind)?, id: EntityId::new(id)? })
    }

    /// Reads `Product/42`; everything after the first slash is the id.
    ///
    /// # Errors
    /// When there is no slash, or one of the parts is not valid.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let Some((kind, id)) = text.split_once('/') else {
            let text = text.escape_debug();
            return Err(NameError(format!(
                "`{text}` is not an entity: write TYPE/ID, as in Product/42"
            )));
        };
        Self::new(kind, id)
    }
}

/// `Product/42`, with control characters escaped: for logs and messages.
impl fmt::Display for EntityRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.id.as_str().escape_debug())
    }
}

/// The value at a path: absent, or there. JSON `null` is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Nothing is stored.
    #[default]
    Absent,
    /// A JSON value, `null` included.
    Present(Json),
}

impl Value {
    /// The JSON value, if there is one.
    #[must_use]
    pub fn json(&self) -> Option<&Json> {
        match self {
            Self::Absent => None,
            Self::Present(json) => Some(json),
        }
    }

    /// Whether nothing is stored.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Equal as data: numbers by value (`1` and `1.0` are the same), objects without regard to order.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent, Self::Absent) => true,
            (Self::Present(a), Self::Present(b)) => same_json(a, b),
            _ => false,
        }
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        Self::Present(json)
    }
}

impl From<Option<Json>> for Value {
    fn from(json: Option<Json>) -> Self {
        json.map_or(Self::Absent, Self::Present)
    }
}

/// Equality of [`Value::same`] on JSON.
#[must_use]
pub fn same_json(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(x), Json::Number(y)) => {
            x == y || x.is_f64() != y.is_f64() && whole(x).is_some_and(|x| whole(y) == Some(x))
        }
        (Json::Array(x), Json::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_json(x, y))
        }
        (Json::Object(x), Json::Object(y)) => {
            x.len() == y.len()
                && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| same_json(x, y)))
        }
        _ => a == b,
    }
}

/// The exact value of a number without a fraction that is no larger than 64 bits can be.
fn whole(number: &serde_json::Number) -> Option<i128> {
    const BOUND: f64 = 18_446_744_073_709_551_616.0;
    if let Some(small) = number.as_i64() {
        return Some(i128::from(small));
    }
    if let Some(large) = number.as_u64() {
        return Some(i128::from(large));
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= BOUND)?;
    // Such a float prints as the integer it is.
    format!("{float:.0}").parse().ok()
}

/// What a writer asks for at one path.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Put this value there.
    Set(Json),
    /// Remove what is there.
    Unset,
    /// Add to a number (strategy `counter`): a whole delta, needs no base.
    Add(i64),
    /// Add these members to a list used as a set.
    Include(Vec<Json>),
    /// Remove these members from a list used as a set.
    Exclude(Vec<Json>),
}

/// Person or program. It decides which record a save leaves: a version or an operation (RULES 34).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum WriterKind {
    /// A person, or software acting for one.
    Editor,
    /// A background worker.
    Worker,
}

impl fmt::Display for WriterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Editor => "editor",
            Self::Worker => "worker",
        })
    }
}

/// Who writes. In the service it comes from the credential, never from a body.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Writer {
    /// Person or program.
    pub kind: WriterKind,
    /// Display name: `anna`, `thumbnailer`.
    pub name: Arc<str>,
    /// The person a scheduled job acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<Arc<str>>,
}

impl Writer {
    /// A person.
    #[must_use]
    pub fn editor(name: &str) -> Self {
        Self { kind: WriterKind::Editor, name: name.into(), on_behalf_of: None }
    }

    /// A program.
    #[must_use]
    pub fn worker(name: &str) -> Self {
        Self { kind: WriterKind::Worker, name: name.into(), on_behalf_of: None }
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name.escape_debug())
    }
}
