//! One acquire at all nodes.

use std::sync::Arc;

use crate::{
    clock::{BoxFuture, Moment},
    error::{Error, Result},
    lease::{
        Acquire, Ask, Holder,
        majority::{
            entry::Name,
            round::{Round, Verdict, decide, within},
            shared::Shared,
            views,
        },
    },
    token::HolderToken,
};

/// An acquire under way. Dropped before it is settled, everything it took or may still take is given back.
pub(super) struct Attempt {
    shared: Arc<Shared>,
    token: HolderToken,
    pub(super) name: Name,
    ask: Arc<Ask>,
    begin: Moment,
    round: Round<Result<Acquire>>,
    settled: bool,
}

impl Attempt {
    pub(super) fn start(shared: &Arc<Shared>, ask: &Ask, name: Name, begin: Moment) -> Self {
        let told = Arc::new(Ask { token: name.token, queue: false, ..ask.clone() });
        let requests = shared.nodes.iter().map(|node| -> BoxFuture<'static, _> {
            let (node, told) = (Arc::clone(node), Arc::clone(&told));
            Box::pin(async move { node.acquire(&told).await })
        });
        let round = Round::new(requests);
        let shared = Arc::clone(shared);
        Self { shared, token: ask.token, name, ask: told, begin, round, settled: false }
    }

    pub(super) async fn decide(&mut self) -> Verdict {
        let (clock, quorum) = (Arc::clone(&self.shared.clock), self.shared.quorum);
        let end = self.shared.patience(self.ask.ttl, self.begin);
        let decision = |answers: &[_]| decide(answers, quorum, false);
        let early = self.round.until(&*clock, end, decision).await;
        let verdict = early.or_else(|| decide(&self.round.answers, quorum, true));
        verdict.unwrap_or(Verdict::Unreachable)
    }

    pub(super) fn holders(&self) -> Vec<Holder> {
        let held = self.round.answers.iter().filter_map(|answer| match answer {
            Some(Ok(Acquire::Held { by, .. })) => Some(by.clone()),
            _ => None,
        });
        views::in_the_way(held)
    }

    pub(super) fn order(&self) -> Option<u64> {
        let orders = self.round.answers.iter().filter_map(|answer| match answer {
            Some(Ok(Acquire::Granted { order })) => *order,
            _ => None,
        });
        orders.max()
    }

    pub(super) fn error_of(&mut self, node: usize) -> Option<Error> {
        self.round.answers.get_mut(node)?.take()?.err()
    }

    /// Requests still in the air go on, as long as what they take could live; if the name is given up by then, so is
    /// what they took.
    pub(super) fn leave_behind(&mut self) {
        self.settled = true;
        let end = self.begin.plus(self.ask.ttl);
        for (flight, node) in self.round.flights.iter_mut().zip(&self.shared.nodes) {
            let Some(flight) = flight.take() else { continue };
            let (shared, node) = (Arc::clone(&self.shared), Arc::clone(node));
            let (name, extent) = (self.name.clone(), self.ask.extent.clone());
            self.shared.hand_over(Box::pin(async move {
                let answer = within(&*shared.clock, end, flight).await;
                if name.is_gone() && !matches!(answer, Some(Ok(Acquire::Held { .. }))) {
                    shared.give_back(node, extent, name.token).await;
                }
            }));
        }
    }

    /// Gives back whatever was or will be taken. A lease that the token holds already stays.
    pub(super) fn give_up(&mut self) {
        let asked = |answer: &Option<Result<_>>| !matches!(answer, Some(Ok(Acquire::Held { .. })));
        let taken: Vec<bool> = self.round.answers.iter().map(asked).collect();
        if !taken.contains(&true) {
            self.settled = true;
            return;
        }
        let (extent, now) = (&self.ask.extent, self.shared.clock.now());
        let entropy = &*self.shared.entropy;
        let renamed = self.shared.book().rename(extent, (self.token, &self.name), entropy, now);
        if renamed {
            // At once, for a node whose answer is lost; and again behind a request that is late.
            for (node, _) in self.shared.nodes.iter().zip(&taken).filter(|(_, taken)| **taken) {
                let (shared, node) = (Arc::clone(&self.shared), Arc::clone(node));
                let job = shared.give_back(node, extent.clone(), self.name.token);
                self.shared.hand_over(Box::pin(async move {
                    job.await;
                }));
            }
        }
        self.leave_behind();
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.settled {
            self.give_up();
        }
    }
}
