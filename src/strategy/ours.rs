//! What a change asks for, as a value.

use serde_json::Value as Json;

use super::{counter::whole_number, set};
use crate::entity::{Change, Value};

/// The value a change asks for.
pub(super) enum Wanted {
    /// Set or unset: stated without regard to what is stored.
    Whole(Value),
    /// Add, include or exclude, applied to what is stored.
    Relative(Value),
    /// It cannot be applied to what is stored, by this rule.
    Wrong(&'static str),
}

impl Wanted {
    pub(super) fn of(change: &Change, theirs: &Value) -> Self {
        match change {
            Change::Set(json) => Self::Whole(Value::Present(json.clone())),
            Change::Unset => Self::Whole(Value::Absent),
            Change::Add(delta) => match added(theirs, *delta) {
                Ok(value) => Self::Relative(value),
                Err(rule) => Self::Wrong(rule),
            },
            Change::Include(_) | Change::Exclude(_) => match set::moved(change, theirs) {
                Ok(value) => Self::Relative(value),
                Err(rule) => Self::Wrong(rule),
            },
        }
    }
}

/// The stored number and a delta; absent counts as 0.
pub(super) fn added(theirs: &Value, delta: i64) -> Result<Value, &'static str> {
    let stored = match theirs {
        Value::Absent => 0,
        Value::Present(json) => whole_number(json).ok_or("not_an_integer")?,
    };
    number(stored + i128::from(delta)).map(Value::Present).ok_or("out_of_range")
}

/// The number as JSON, if it fits 64 bits with or without a sign.
pub(super) fn number(number: i128) -> Option<Json> {
    i64::try_from(number).map(Json::from).or_else(|_| u64::try_from(number).map(Json::from)).ok()
}
