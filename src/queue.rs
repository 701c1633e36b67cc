//! The ports of saves that wait and of events that are told: both written in the transaction they belong to.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::{
    clock::{BoxFuture, StoreTime},
    commit::Notice,
    entity::{EntityRef, Writer},
    error::{Error, Result},
    scope::ScopeName,
    token::OperationId,
};

/// A save that waits for a lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its place in the order of all that came; 0 before it was pushed.
    pub place: u64,
    /// The name its effect will have in the history.
    pub operation: OperationId,
    /// Who asks.
    pub writer: Writer,
    /// The record.
    pub entity: EntityRef,
    /// The scopes it waits for.
    pub scopes: BTreeSet<ScopeName>,
    /// What is asked for: the engine's to read.
    pub body: String,
    /// When it came, on the store's clock.
    pub at: StoreTime,
}

/// Keeps saves that wait (RULES 36). A row goes by [`crate::commit::Commit::queued`] in the transaction of its effect, or
/// by [`QueueStore::remove`].
pub trait QueueStore: Send + Sync {
    /// Stores it durably; answers how many wait before it in one of its scopes.
    fn push<'a>(&'a self, _item: &'a Item) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async { Err(not_yet("queue of saves")) })
    }
    /// Up to `most` items that came after this place and are first in all their scopes, in order.
    fn ready(&self, _after: u64, _most: u32) -> BoxFuture<'_, Result<Vec<Item>>> {
        Box::pin(async { Err(not_yet("queue of saves")) })
    }
    /// Takes an item out and tells why, in one transaction. `false`: it is not there (any more), nothing was done.
    fn remove<'a>(
        &'a self,
        _operation: OperationId,
        _why: &'a Notice,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async { Err(not_yet("queue of saves")) })
    }
    /// Up to `most` items after this place, in order; of one record, or of all.
    fn waiting<'a>(
        &'a self,
        _entity: Option<&'a EntityRef>,
        _after: u64,
        _most: u32,
    ) -> BoxFuture<'a, Result<Vec<Item>>> {
        Box::pin(async { Err(not_yet("queue of saves")) })
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Its number: rises in the order of commits, with gaps.
    pub event: u64,
    /// The record.
    pub entity: EntityRef,
    /// `requeue`, `queue_refused`, `queue_unchanged` or `queue_cancelled`.
    pub kind: String,
    /// The save it comes from.
    pub operation: OperationId,
    /// What it says.
    pub body: Json,
    /// When, on the store's clock.
    pub at: StoreTime,
}

/// Events for other programs, at least once, per record in order (RULES 26).
pub trait Outbox: Send + Sync {
    /// Events that belong to no commit: of a save that was refused.
    fn tell<'a>(
        &'a self,
        _entity: &'a EntityRef,
        _operation: OperationId,
        _events: &'a [Notice],
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Err(not_yet("outbox")) })
    }
    /// Up to `most` events after this one, in order.
    fn pull(&self, _after: u64, _most: u32) -> BoxFuture<'_, Result<Vec<Told>>> {
        Box::pin(async { Err(not_yet("outbox")) })
    }
    /// How far a named reader has come: 0 at first. With `event` it comes that far, and never back.
    fn ack<'a>(&'a self, _reader: &'a str, _event: Option<u64>) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async { Err(not_yet("outbox")) })
    }
}

fn not_yet(what: &str) -> Error {
    Error::NotYet { message: format!("this store keeps no {what} yet") }
}
