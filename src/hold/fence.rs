//! Weak fences: numbers that grow from holder to holder, made of what the lease store knows.

use std::{fmt, sync::Arc};

use tokio::sync::oneshot;

use crate::{
    error::{Error, Result},
    event::LossReason,
    hold::{
        book::Book,
        handle::Handle,
        keeper::Keeper,
        policy,
        reaper::Job,
        settle::{no_answer, shutting_down},
        tenure::{Phase, Tenure},
    },
    lease::{Acquire, Ask},
    token::HolderToken,
};

/// Local hand-overs one order has numbers for (RULES 17).
const TURNS: u64 = 1_024;
/// Orders are below this.
const ORDERS: u64 = 1 << 53;
const _: () =
    assert!((policy::UNANNOUNCED_MAX as u64) < TURNS, "a tenure ends before its numbers do");

/// A number that grows from holder to holder of a scope, for guarding something the record store does not keep: a file,
/// a search index, a bucket.
///
/// *Weak*: it grows only while the lease store keeps its memory or its clock. After a failover that lost both, a later
/// holder may get a lower number. What is written through this library is guarded by the claim's fence instead, which
/// the record store keeps.
///
/// Below 2^63. JSON readers that take numbers for floats lose bits of it, so it is written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WeakFence(pub u64);

impl WeakFence {
    fn new(order: u64, turn: u32) -> Option<Self> {
        let turn = u64::from(turn);
        (order < ORDERS && turn < TURNS).then(|| Self(order * TURNS + turn))
    }
}

impl fmt::Display for WeakFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl serde::Serialize for WeakFence {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Keeper {
    /// The weak fence of a handle; `None` when it can no longer be trusted.
    pub(crate) async fn weak_fence(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
    ) -> Result<Option<WeakFence>> {
        let known = || {
            let order = self.change(|book, _| book.tenures.get(&handle.tenure)?.order)?;
            Some(WeakFence::new(order, handle.turn).ok_or_else(|| {
                Error::internal(format!("the lease store counts grants beyond 2^53: {order}"))
            }))
        };
        let fence = match known() {
            Some(fence) => Some(fence?),
            None if !handle.is_valid(self.clock.now()) => None,
            None => {
                // In the loop, so that a caller that goes away leaves no request of unknown end behind.
                let (reply, answer) = oneshot::channel();
                self.change(|book, after| {
                    book.jobs.push_back(Job::Order(handle.tenure, reply));
                    after.ring = true;
                });
                answer.await.unwrap_or_else(|_| Err(shutting_down()))?;
                known().transpose()?
            }
        };
        Ok(fence.filter(|_| handle.is_valid(self.clock.now())))
    }
}

/// Asks the store for the order of a held tenure. An answer prolongs the lease as a renewal does.
pub(crate) async fn ask_for_order(keeper: &Arc<Keeper>, token: HolderToken) -> Result<()> {
    let held = |tenure: &Tenure| matches!(tenure.phase, Phase::Held(_));
    let ask = keeper.change(|book, _| {
        let tenure = book.tenures.get(&token).filter(|tenure| held(tenure))?;
        Some(Arc::new(Ask { order: true, queue: false, ..Ask::clone(&tenure.ask) }))
    });
    let Some(ask) = ask else { return Ok(()) };
    let begin = keeper.clock.now();
    let mut request = keeper.store.acquire(&ask);
    let end = begin.plus(keeper.patience(ask.ttl));
    let answer = keeper.within(&mut request, end).await.unwrap_or(Err(no_answer()));
    let now = keeper.clock.now();
    keeper.change(|book, after| {
        if !book.tenures.get(&token).is_some_and(held) {
            // Ended meanwhile. A request that came after the release has taken it again.
            if !matches!(answer, Ok(Acquire::Held { .. })) {
                book.jobs.push_back(Job::Release(book.stray(Arc::clone(&ask))));
                after.ring = true;
            }
            return Ok(());
        }
        match answer {
            Ok(Acquire::Granted { order: Some(order) }) => {
                note(book, token, order);
                book.confirm_held(token, begin, now, after);
                Ok(())
            }
            Ok(Acquire::Granted { order: None }) => {
                Err(Error::internal("the lease store tells no order of its grants"))
            }
            Ok(Acquire::Held { .. }) => {
                book.lose(token, LossReason::NotOurs, after);
                Ok(())
            }
            Err(error) => Err(error),
        }
    })
}

fn note(book: &mut Book, token: HolderToken, order: u64) {
    if let Some(tenure) = book.tenures.get_mut(&token) {
        tenure.order = Some(order);
    }
}
