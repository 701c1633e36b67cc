//! The conformance suite of the record store: what every database behind the ports must do.
//!
//! A promise that is not in here is not a promise. Each [`Case`] gets a store of its own, writes what it needs and
//! says what differs.

pub(in crate::testing) mod build;
mod claims;
mod commits;
mod history;
mod lifecycle;
mod rules;
mod values;

use std::sync::Arc;

use crate::{
    clock::BoxFuture,
    history::HistoryStore,
    store::{RecordStore, RegistryStore},
};

/// One store, seen through its three ports.
#[derive(Clone)]
pub struct Stores {
    /// Records, claims and commits.
    pub records: Arc<dyn RecordStore>,
    /// The rules in force.
    pub rules: Arc<dyn RegistryStore>,
    /// What saves left behind.
    pub history: Arc<dyn HistoryStore>,
}

impl Stores {
    /// The ports of one value.
    pub fn of<S: RecordStore + RegistryStore + HistoryStore + 'static>(store: Arc<S>) -> Self {
        Self { records: store.clone(), rules: store.clone(), history: store }
    }
}

/// What a case answers: `Err` says what differs.
pub type Verdict = Result<(), String>;

/// One promise.
#[derive(Clone, Copy)]
pub struct Case {
    /// The promise, as a sentence.
    pub name: &'static str,
    /// Tries it on a fresh store.
    pub run: fn(Stores) -> BoxFuture<'static, Verdict>,
}

/// Every promise.
#[must_use]
pub fn cases() -> Vec<Case> {
    [claims::CASES, commits::CASES, values::CASES, lifecycle::CASES, history::CASES, rules::CASES]
        .concat()
}

/// Runs cases, each on a store of its own; answers the names of those that fail, with what differs.
pub async fn failures<F>(cases: Vec<Case>, mut fresh: F) -> Vec<(&'static str, String)>
where
    F: FnMut() -> Stores,
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
        pub(super) const CASES: &[crate::testing::store_suite::Case] = &[
            $(crate::testing::store_suite::Case {
                name: stringify!($name),
                run: |stores| Box::pin($name(stores)),
            },)+
        ];
    };
}
use promises;
