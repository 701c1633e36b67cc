//! The conformance suite of waiting saves and events: what every database behind the ports must do.
//!
//! A promise that is not in here is not a promise. Each [`Case`] gets a store of its own.

mod build;
mod events;
mod waiting;

use std::sync::Arc;

pub use crate::testing::store_suite::Verdict;
use crate::{
    clock::BoxFuture,
    history::HistoryStore,
    queue::{Outbox, QueueStore},
    store::{RecordStore, RegistryStore},
    testing::store_suite::Stores,
};

/// One store, seen through the ports of records, of waiting saves and of events.
#[derive(Clone)]
pub struct Rig {
    /// Its other ports.
    pub stores: Stores,
    /// Its waiting saves.
    pub queue: Arc<dyn QueueStore>,
    /// Its events.
    pub outbox: Arc<dyn Outbox>,
}

impl Rig {
    /// The ports of one value.
    pub fn of<S>(store: Arc<S>) -> Self
    where
        S: RecordStore + RegistryStore + HistoryStore + QueueStore + Outbox + 'static,
    {
        Self { stores: Stores::of(store.clone()), queue: store.clone(), outbox: store }
    }
}

/// One promise.
#[derive(Clone, Copy)]
pub struct Case {
    /// The promise, as a sentence.
    pub name: &'static str,
    /// Tries it on a fresh store.
    pub run: fn(Rig) -> BoxFuture<'static, Verdict>,
}

/// Every promise.
#[must_use]
pub fn cases() -> Vec<Case> {
    [waiting::CASES, events::CASES].concat()
}

/// Runs cases, each on a store of its own; answers the names of those that fail, with what differs.
pub async fn failures<F>(cases: Vec<Case>, mut fresh: F) -> Vec<(&'static str, String)>
where
    F: FnMut() -> Rig,
{
    let mut failures = Vec::new();
    for case in cases {
        if let Err(difference) = (case.run)(fresh()).await {
            failures.push((case.name, difference));
        }
    }
    failures
}

/// Declares a table of promises: the sentence is the name of the function.
macro_rules! promises {
    ($($name:ident),+ $(,)?) => {
        pub(super) const CASES: &[crate::testing::queue_suite::Case] = &[
            $(crate::testing::queue_suite::Case {
                name: stringify!($name),
                run: |rig| Box::pin($name(rig)),
            },)+
        ];
    };
}
use promises;
