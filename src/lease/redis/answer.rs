//! What scripts answer, as values of the port.

use std::{sync::Arc, time::Duration};

use redis::Value;

use crate::{
    entity::EntityRef,
    lease::{
        Holder,
        redis::{fault::Fault, keys},
    },
    scope::{Scope, ScopeName},
};

/// A remaining time that was impossible, and the scope it was found at.
pub(crate) type Anomaly = (ScopeName, i64);

/// The answer of `acquire.lua`.
pub(crate) enum Acquired {
    Granted { order: Option<u64>, anomalies: Vec<Anomaly> },
    Held { place: Option<u32>, anomalies: Vec<Anomaly>, by: Vec<Holder> },
    QueueFull,
}

/// One line of `inspect.lua`.
pub(crate) struct Found {
    /// `None` is the whole entity.
    pub(crate) name: Option<ScopeName>,
    pub(crate) lease: Vec<u8>,
    pub(crate) left: Duration,
    pub(crate) held: Duration,
    pub(crate) waiting: u32,
}

fn strange(what: &str) -> Fault {
    Fault::executed("ANSWER", format!("the lease server answered {what}"))
}

pub(crate) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        Value::SimpleString(text) => text.parse().ok(),
        _ => None,
    }
}

pub(crate) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

pub(crate) fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) | Value::Set(values) => Some(values),
        Value::Nil => Some(&[]),
        _ => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    std::str::from_utf8(bytes(value)?).ok()
}

fn millis(value: &Value) -> Option<Duration> {
    Some(Duration::from_millis(u64::try_from(number(value)?.max(0)).ok()?))
}

fn anomalies(value: &Value) -> Option<Vec<Anomaly>> {
    let pairs = list(value)?.as_chunks::<2>().0;
    pairs.iter().map(|[name, left]| Some((keys::read_scope(text(name)?)?, number(left)?))).collect()
}

fn holders(entity: &EntityRef, value: &Value) -> Option<Vec<Holder>> {
    let rows = list(value)?.as_chunks::<5>().0;
    let holder = |[name, label, left, held, waiting]: &[Value; 5]| {
        Some(Holder {
            scope: Scope { entity: entity.clone(), name: keys::read_scope(text(name)?)? },
            label: Arc::from(String::from_utf8_lossy(bytes(label)?)),
            remaining: millis(left)?,
            held: millis(held)?,
            waiting: u32::try_from(number(waiting)?).ok()?,
        })
    };
    let mut holders: Vec<Holder> = rows.iter().map(holder).collect::<Option<_>>()?;
    holders.sort_by(|a, b| a.scope.name.cmp(&b.scope.name));
    Some(holders)
}

pub(crate) fn acquired(entity: &EntityRef, value: &Value) -> Result<Acquired, Fault> {
    let read = || match list(value)? {
        [Value::Int(1), order, odd] => {
            let order = number(order).and_then(|order| u64::try_from(order).ok());
            Some(Acquired::Granted { order, anomalies: anomalies(odd)? })
        }
        [Value::Int(0), place, odd, by] => {
            let place = u32::try_from(number(place)?).ok()?;
            Some(Acquired::Held {
                place: (place > 0).then_some(place),
                anomalies: anomalies(odd)?,
                by: holders(entity, by)?,
            })
        }
        [Value::Int(2)] => Some(Acquired::QueueFull),
        _ => None,
    };
    read().ok_or_else(|| strange("an acquire with something else"))
}

pub(crate) fn found(value: &Value) -> Result<Vec<Found>, Fault> {
    let row = |[name, lease, left, held, waiting]: &[Value; 5]| {
        let name = match text(name)? {
            "*" => None,
            name => Some(keys::read_scope(name)?),
        };
        Some(Found {
            name,
            lease: bytes(lease)?.to_vec(),
            left: millis(left)?,
            held: millis(held)?,
            waiting: u32::try_from(number(waiting)?).ok()?,
        })
    };
    let rows = list(value).map(|rows| rows.as_chunks::<5>().0);
    let rows = rows.and_then(|rows| rows.iter().map(row).collect::<Option<Vec<_>>>());
    rows.ok_or_else(|| strange("a look at an entity with something else"))
}
