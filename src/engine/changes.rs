//! What a writer asks for, collected before it is sent.

use serde_json::Value as Json;

use crate::{
    entity::Change,
    error::{Error, Result},
    path::Path,
};

/// Text or a path. A text that is not a path is reported when the save is sent.
pub trait IntoPath {
    /// Reads it.
    ///
    /// # Errors
    /// When the text is not a path.
    fn into_path(self) -> Result<Path>;
}

impl IntoPath for Path {
    fn into_path(self) -> Result<Path> {
        Ok(self)
    }
}

impl IntoPath for &Path {
    fn into_path(self) -> Result<Path> {
        Ok(self.clone())
    }
}

impl IntoPath for &str {
    fn into_path(self) -> Result<Path> {
        Ok(Path::parse(self)?)
    }
}

impl IntoPath for String {
    fn into_path(self) -> Result<Path> {
        Ok(Path::parse(&self)?)
    }
}

impl IntoPath for &String {
    fn into_path(self) -> Result<Path> {
        Ok(Path::parse(self)?)
    }
}

/// Changes at paths, in the order they were asked for. A path that is not named is never written.
///
/// ```
/// use fieldlease::engine::Changes;
///
/// let changes = Changes::new().set("thumbnail", "a.webp").unset("checksum");
/// assert_eq!(changes.len(), 2);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "changes do nothing until they are saved"]
pub struct Changes {
    changes: Vec<(Path, Change)>,
    fault: Option<String>,
}

impl Changes {
    /// No changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a value at a path. `null` is a value.
    pub fn set(self, path: impl IntoPath, value: impl Into<Json>) -> Self {
        self.with(path, Change::Set(value.into()))
    }

    /// Removes what is at a path.
    pub fn unset(self, path: impl IntoPath) -> Self {
        self.with(path, Change::Unset)
    }

    /// Adds to a number under strategy `counter`.
    pub fn add(self, path: impl IntoPath, delta: i64) -> Self {
        self.with(path, Change::Add(delta))
    }

    /// Adds members to a list used as a set.
    pub fn include<J: Into<Json>>(
        self,
        path: impl IntoPath,
        members: impl IntoIterator<Item = J>,
    ) -> Self {
        self.with(path, Change::Include(members.into_iter().map(Into::into).collect()))
    }

    /// Removes members from a list used as a set.
    pub fn exclude<J: Into<Json>>(
        self,
        path: impl IntoPath,
        members: impl IntoIterator<Item = J>,
    ) -> Self {
        self.with(path, Change::Exclude(members.into_iter().map(Into::into).collect()))
    }

    /// Any change at a path.
    pub fn with(mut self, path: impl IntoPath, change: Change) -> Self {
        match path.into_path() {
            Ok(path) => self.changes.push((path, change)),
            Err(error) => {
                self.fault.get_or_insert_with(|| error.to_string());
            }
        }
        self
    }

    /// These changes and more.
    pub fn and(mut self, more: Self) -> Self {
        self.changes.extend(more.changes);
        self.fault = self.fault.or(more.fault);
        self
    }

    /// How many changes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changes, or the first fault of what was passed in.
    pub(super) fn checked(self) -> Result<Vec<(Path, Change)>> {
        match self.fault {
            Some(message) => {
                Err(Error::invalid("bad_path", message, "write a path like price.amount"))
            }
            None => Ok(self.changes),
        }
    }
}
