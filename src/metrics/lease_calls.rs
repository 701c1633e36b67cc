//! Counting what is asked of a lease store, and whether it answers.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::{BoxFuture, Clock},
    entity::EntityRef,
    error::Result,
    lease::{Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, WakeSink},
    scope::Scope,
    token::HolderToken,
};

/// Calls of the lease store by `call` and `outcome`.
pub const LEASE_CALLS: &str = "fieldlease_lease_calls_total";
/// Seconds until the lease store answered, by `call`.
pub const LEASE_CALL_SECONDS: &str = "fieldlease_lease_call_seconds";
/// 1 while the lease store answers, else 0.
pub const LEASE_STORE_UP: &str = "fieldlease_lease_store_up";

/// How often [`CountedLeases::probe`] asks.
const PROBE_EVERY: Duration = Duration::from_secs(5);

/// A lease store whose calls are counted.
pub struct CountedLeases {
    inner: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
}

impl CountedLeases {
    /// Counts what this store is asked, with whatever recorder of the `metrics` crate is installed.
    #[must_use]
    pub fn new(inner: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>) -> Self {
        ::metrics::describe_counter!(LEASE_CALLS, "calls of the lease store");
        let seconds = ::metrics::Unit::Seconds;
        ::metrics::describe_histogram!(
            LEASE_CALL_SECONDS,
            seconds,
            "time until the lease store answered"
        );
        ::metrics::describe_gauge!(LEASE_STORE_UP, "1 while the lease store answers");
        Self { inner, clock }
    }

    /// Asks from time to time whether the store answers, so that an idle process knows too. Never returns.
    pub async fn probe(&self) {
        loop {
            // The answer is in the gauge.
            let _ = self.inspect(None, None, 1).await;
            self.clock.sleep_until(self.clock.now().plus(PROBE_EVERY)).await;
        }
    }

    /// Waits for an answer and counts it; `outcome` is `None` for a call that was not answered.
    async fn counted<T>(
        &self,
        call: &'static str,
        asked: impl Future<Output = T> + Send,
        outcome: impl FnOnce(&T) -> Option<&'static str> + Send,
    ) -> T {
        let began = self.clock.now();
        let answer = asked.await;
        let outcome = outcome(&answer);
        let seconds = self.clock.now().since(began);
        ::metrics::histogram!(LEASE_CALL_SECONDS, "call" => call).record(seconds);
        ::metrics::gauge!(LEASE_STORE_UP).set(if outcome.is_some() { 1.0 } else { 0.0 });
        let outcome = outcome.unwrap_or("no_answer");
        ::metrics::counter!(LEASE_CALLS, "call" => call, "outcome" => outcome).increment(1);
        answer
    }
}

/// What a call that may fail came to; being refused as invalid is an answer of ours, and says nothing of the store.
fn answered<T>(answer: &Result<T>, name: impl FnOnce(&T) -> &'static str) -> Option<&'static str> {
    match answer {
        Ok(answer) => Some(name(answer)),
        Err(error) if error.code() == "unavailable" => None,
        Err(_) => Some("refused"),
    }
}

impl LeaseStore for CountedLeases {
    fn acquire<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Acquire>> {
        Box::pin(self.counted("acquire", self.inner.acquire(ask), |answer| {
            answered(answer, |acquire| match acquire {
                Acquire::Granted { .. } => "granted",
                Acquire::Held { place: Some(_), .. } => "placed",
                Acquire::Held { place: None, .. } => "held",
            })
        }))
    }

    fn renew<'a>(&'a self, batch: &'a [Renew]) -> BoxFuture<'a, Vec<Renewal>> {
        Box::pin(self.counted("renew", self.inner.renew(batch), |answers: &Vec<Renewal>| {
            let silent = answers.iter().filter(|answer| **answer == Renewal::Unknown).count();
            if silent == 0 {
                return Some("answered");
            }
            (silent < answers.len()).then_some("answered_in_part")
        }))
    }

    fn release<'a>(
        &'a self,
        extent: &'a Extent,
        token: HolderToken,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.counted("release", self.inner.release(extent, token), |answer| {
            answered(answer, |release| match release {
                Release::Released => "released",
                Release::Lost => "lost",
            })
        }))
    }

    fn watch<'a>(&'a self, sink: Arc<dyn WakeSink>) -> BoxFuture<'a, Result<()>> {
        self.inner.watch(sink)
    }

    fn inspect<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        cursor: Option<&'a str>,
        most: u32,
    ) -> BoxFuture<'a, Result<(Vec<Holder>, Option<String>)>> {
        let asked = self.inner.inspect(entity, cursor, most);
        Box::pin(self.counted("inspect", asked, |answer| answered(answer, |_| "answered")))
    }

    fn break_lease<'a>(
        &'a self,
        scope: &'a Scope,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<Option<Holder>>> {
        let asked = self.inner.break_lease(scope, reason);
        Box::pin(self.counted("break", asked, |answer| {
            answered(answer, |holder| if holder.is_some() { "broken" } else { "free" })
        }))
    }
}
