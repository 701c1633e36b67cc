//! The conformance suite of idempotency keys: what every database behind the port must do.
//!
//! A promise that is not in here is not a promise. Each [`Case`] gets a store of its own. Time passes only when a case
//! says so: the [`Rig`] knows how.

mod begin;
mod build;
mod commits;
mod ends;
mod random;
mod sweep;

use std::{sync::Arc, time::Duration};

pub use crate::testing::store_suite::Verdict;
use crate::{
    clock::BoxFuture,
    history::HistoryStore,
    idempotency::IdempotencyStore,
    store::{RecordStore, RegistryStore},
    testing::store_suite::Stores,
};

/// Makes this much time pass for the keys of a store.
pub type Advance = Arc<dyn Fn(Duration) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A store and a way to let its time pass.
#[derive(Clone)]
pub struct Rig {
    /// Its other ports.
    pub stores: Stores,
    /// Its keys.
    pub keys: Arc<dyn IdempotencyStore>,
    advance: Advance,
}

impl Rig {
    /// The ports of one value. Time must still be given a way to pass: [`Rig::advancing`].
    pub fn of<S>(store: Arc<S>) -> Self
    where
        S: RecordStore + RegistryStore + HistoryStore + IdempotencyStore + 'static,
    {
        let still: Advance =
            Arc::new(|_| Box::pin(async { Err("this rig lets no time pass".to_owned()) }));
        Self { stores: Stores::of(store.clone()), keys: store, advance: still }
    }

    /// How time passes: by a clock moved by hand, or, where the database's own clock counts, by moving the times of
    /// the rows of `fl_key` (`until_at` and `created_at`) back.
    #[must_use]
    pub fn advancing(mut self, advance: Advance) -> Self {
        self.advance = advance;
        self
    }

    async fn pass(&self, time: Duration) -> Verdict {
        (self.advance)(time).await
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
    [begin::CASES, ends::CASES, sweep::CASES, commits::CASES, random::CASES].concat()
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
        pub(super) const CASES: &[crate::testing::key_suite::Case] = &[
            $(crate::testing::key_suite::Case {
                name: stringify!($name),
                run: |rig| Box::pin($name(rig)),
            },)+
        ];
    };
}
use promises;
