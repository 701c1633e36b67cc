//! Mapped mode: records that live in the CMS's own tables (RULES 38, 39, 45).
//!
//! [`Mapping`] is what `storage:` of the registry says, [`Catalogue`] what the database has, and [`Layout`] the two put
//! together, once at start: which column, key or row every path lies in. A layout gives a store the statements it
//! needs and turns their rows into a record. Nothing here talks to a database.
//!
//! Only columns and keys that a save changes are ever written. Names in statements come from the catalogue and are
//! quoted by one function; values are parameters.
//!
//! A NULL column is an absent value, and `null` written to a column means the same; a key inside a JSON column tells
//! the two apart.

mod base64;
mod bind;
mod catalogue;
mod check;
mod dialect;
mod expand;
mod trigger;
mod kind;
mod layout;
mod moment;
mod place;
mod read;
mod template;
mod values;
mod write;

pub use self::{
    bind::Mapping,
    catalogue::{Catalogue, Column, Table, Trigger},
    dialect::{Dialect, Statement},
    kind::{Facts, Kind},
    layout::Layout,
    read::Stored,
    write::Save,
};

/// One value of a row, or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// NULL.
    Null,
    /// A whole number.
    Int(i64),
    /// A binary fraction.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// Rows of one statement.
pub type Rows = Vec<Vec<Cell>>;
