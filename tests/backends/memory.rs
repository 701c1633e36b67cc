//! Leases in memory pass the whole suite, and the suite notices stores that do not.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use fieldlease::{
    clock::BoxFuture,
    entity::EntityRef,
    error::Result,
    lease::{
        Acquire, Ask, Extent, Holder, LeaseStore, Release, Renew, Renewal, TTL_MAX, TTL_MIN,
        WakeSink, memory::MemoryLeases,
    },
    scope::{Scope, ScopeSet},
    testing::{
        ManualClock,
        lease_suite::{Passing, cases, failures},
    },
    token::{Generation, HolderToken},
};

#[tokio::test]
async fn leases_in_memory_pass_the_suite() {
    let fresh = || -> (Arc<dyn LeaseStore>, Arc<dyn Passing>) {
        let clock = Arc::new(ManualClock::new());
        (Arc::new(MemoryLeases::new(clock.clone())), clock)
    };

    let failures = failures("memory", cases(), fresh).await;

    assert!(failures.is_empty(), "{failures:#?}");
    assert!(cases().len() >= 40, "the suite has {} cases", cases().len());
}

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Release removes whoever is there.
    PlainRelease,
    /// A renewal takes what is free.
    RenewCreates,
    /// Several scopes are taken one by one, and the first is all that is looked at.
    HalfASet,
    /// Nobody gets a place in the queue.
    NoQueue,
    /// Wake-ups are never sent.
    Deaf,
    /// Times to live are bent into the bounds instead of refused.
    BendsTtl,
    /// A whole entity is a set of groups.
    WholeIsASet,
    /// A batch stops at the first lost lease.
    ShortBatch,
    /// A repeated acquire is somebody else's.
    ForgetsTokens,
    /// The renewal of a place is answered as if it were a grant.
    PlacesAreGrants,
    /// Nobody is told when what stands in the way ends.
    NoAgain,
    /// An order is told whenever a grant is, and no grant has one of its own.
    DrawsOrders,
    /// Every grant has the same order.
    OneOrder,
}

struct Faulty {
    inner: MemoryLeases,
    fault: Fault,
    orders: AtomicU64,
}

impl LeaseStore for Faulty {
    fn acquire<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Acquire>> {
        let mut ask = ask.clone();
        match (self.fault, &ask.extent) {
            (Fault::HalfASet, Extent::Groups(scopes)) => {
                let first = scopes.names().first().cloned();
                ask.extent = Extent::Groups(ScopeSet::new(scopes.entity().clone(), first));
            }
            (Fault::WholeIsASet, Extent::Whole(scopes)) => {
                ask.extent = Extent::Groups(scopes.clone());
            }
            (Fault::NoQueue, _) => ask.queue = false,
            (Fault::BendsTtl, _) => ask.ttl = ask.ttl.clamp(TTL_MIN, TTL_MAX),
            (Fault::ForgetsTokens, _) => {
                let HolderToken(mut bytes) = ask.token;
                bytes[0] = self.inner.waiting() as u8 + 1;
                ask.token = HolderToken(bytes);
            }
            _ => {}
        }
        Box::pin(async move {
            match (self.fault, self.inner.acquire(&ask).await?) {
                (Fault::DrawsOrders, Acquire::Granted { .. }) if ask.order => {
                    let order = self.orders.fetch_add(1, Ordering::Relaxed);
                    Ok(Acquire::Granted { order: Some(order + 1) })
                }
                (Fault::OneOrder, Acquire::Granted { .. }) if ask.order => {
                    Ok(Acquire::Granted { order: Some(1) })
                }
                (_, answer) => Ok(answer),
            }
        })
    }

    fn renew<'a>(&'a self, batch: &'a [Renew]) -> BoxFuture<'a, Vec<Renewal>> {
        Box::pin(async move {
            let mut answers = self.inner.renew(batch).await;
            match self.fault {
                Fault::RenewCreates => {
                    for (renew, answer) in batch.iter().zip(&mut answers) {
                        let ask = Ask {
                            extent: renew.extent.clone(),
                            token: renew.token,
                            ttl: renew.ttl,
                            ttl_max: TTL_MAX,
                            label: "renewed".into(),
                            generation: Generation([0; 32]),
                            queue: false,
                            order: false,
                        };
                        if let Ok(Acquire::Granted { .. }) = self.inner.acquire(&ask).await {
                            *answer = Renewal::Renewed;
                        }
                    }
                }
                Fault::ShortBatch => {
                    if let Some(lost) = answers.iter().position(|answer| *answer == Renewal::Lost) {
                        answers.truncate(lost + 1);
                    }
                }
                Fault::PlacesAreGrants | Fault::NoAgain => {
                    for answer in &mut answers {
                        if let Renewal::Placed { again } = answer {
                            *again = None;
                            if self.fault == Fault::PlacesAreGrants {
                                *answer = Renewal::Renewed;
                            }
                        }
                    }
                }
                _ => {}
            }
            answers
        })
    }

    fn release<'a>(
        &'a self,
        extent: &'a Extent,
        token: HolderToken,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            if self.fault == Fault::PlainRelease {
                for scope in extent.scopes().iter() {
                    self.inner.break_lease(&scope, "released").await?;
                }
                return Ok(Release::Released);
            }
            self.inner.release(extent, token).await
        })
    }

    fn watch<'a>(&'a self, sink: Arc<dyn WakeSink>) -> BoxFuture<'a, Result<()>> {
        match self.fault {
            Fault::Deaf => Box::pin(std::future::pending()),
            _ => self.inner.watch(sink),
        }
    }

    fn inspect<'a>(
        &'a self,
        entity: Option<&'a EntityRef>,
        cursor: Option<&'a str>,
        most: u32,
    ) -> BoxFuture<'a, Result<(Vec<Holder>, Option<String>)>> {
        self.inner.inspect(entity, cursor, most)
    }

    fn break_lease<'a>(
        &'a self,
        scope: &'a Scope,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<Option<Holder>>> {
        self.inner.break_lease(scope, reason)
    }
}

#[tokio::test]
async fn the_suite_notices_every_kind_of_faulty_store() {
    let table = [
        (Fault::PlainRelease, "a late release leaves the successor alone"),
        (Fault::RenewCreates, "a renewal never creates a lease"),
        (Fault::HalfASet, "several scopes are taken together or not at all"),
        (Fault::NoQueue, "waiters are served in the order they came"),
        (Fault::Deaf, "a release grants to the next waiter and wakes it alone"),
        (Fault::BendsTtl, "times to live outside of the bounds are refused and write nothing"),
        (Fault::WholeIsASet, "a split scope is one of its own, and a whole entity covers it"),
        (Fault::ShortBatch, "a batch answers each request, in order"),
        (Fault::ForgetsTokens, "a repeated acquire keeps its place"),
        (Fault::PlacesAreGrants, "a renewal of a place tells that it has been granted meanwhile"),
        (Fault::NoAgain, "a renewed place is told when what stands in its way ends"),
        (Fault::DrawsOrders, "an order is told when it is asked for, and stays"),
        (Fault::OneOrder, "orders grow from grant to grant, however the one before ended"),
    ];
    for (fault, promise) in table {
        let fresh = || -> (Arc<dyn LeaseStore>, Arc<dyn Passing>) {
            let clock = Arc::new(ManualClock::new());
            let inner = MemoryLeases::new(clock.clone());
            (Arc::new(Faulty { inner, fault, orders: AtomicU64::new(0) }), clock)
        };

        let failures = failures("faulty", cases(), fresh).await;

        let want = format!("faulty: {promise}: ");
        let noticed = failures.iter().any(|failure| failure.starts_with(&want));
        assert!(noticed, "{fault:?} breaks `{promise}`; the suite saw {failures:#?}");
    }
}
