//! The validation hook: two clean fields can make an invalid pair (RULES 44).

use crate::{
    clock::BoxFuture,
    commit::{Changed, Lifecycle},
    entity::{EntityRef, Writer},
    error::Result,
    path::Path,
    record::Record,
};

/// A record as it would be after the save.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    /// The record's name.
    pub entity: &'a EntityRef,
    /// Who saves.
    pub writer: &'a Writer,
    /// Create, update or delete.
    pub lifecycle: Lifecycle,
    /// Everything that would be stored, other writers' values included.
    pub record: &'a Record,
    /// What the save changes.
    pub changed: &'a [Changed],
}

/// Why a record would not be valid.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Objection {
    /// The path it is about; `None` for the record as a whole.
    pub path: Option<Path>,
    /// What is wrong, in the user's words.
    pub message: String,
}

/// Looks at the merged record before it is committed, and may refuse it. It is asked again whenever the save is
/// planned again, so it must not have effects of its own.
pub trait Validator: Send + Sync {
    /// Every objection; none lets the save go on.
    fn validate<'a>(&'a self, proposal: Proposal<'a>) -> BoxFuture<'a, Result<Vec<Objection>>>;
}
