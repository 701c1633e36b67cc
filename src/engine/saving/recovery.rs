//! What a save does when the store refuses it: look again, and plan again on what is there now.

use crate::{
    commit::Refusal,
    engine::{
        hold::Reclaimed,
        outcome::{Outcome, Why},
        saving::{PLANS_MAX, Saving},
    },
    error::{Error, Result},
    event::Event,
    plan::Plan,
};

impl Saving {
    /// Makes ready for another plan on fresh data, or answers. A refusal is never a conflict by itself: the next
    /// plan decides that, path by path (RULES 3).
    pub(super) async fn recover(
        &mut self,
        refusal: Refusal,
        plan: &Plan,
    ) -> Result<Option<Outcome>> {
        self.core.emit(&Event::Replanned {
            entity: self.request.entity.clone(),
            operation: self.operation,
            code: refusal.code(),
        });
        if let Refusal::StaleRegistry(_) = refusal {
            return self.other_rules(refusal, plan).await;
        }
        if !self.once_more().await {
            return Ok(None);
        }
        match &refusal {
            Refusal::Stale(scopes) | Refusal::Fenced(scopes)
                if self.concerns_claim(scopes, &refusal) =>
            {
                self.claim_again(refusal, plan).await
            }
            _ => {
                self.load().await?;
                Ok(None)
            }
        }
    }

    /// The commit never took effect. It goes under a new name, for the old one is spent.
    pub(super) async fn start_over(&mut self) -> Result<()> {
        if !self.once_more().await {
            return Ok(());
        }
        self.operation = self.core.operation();
        self.load().await
    }

    /// Counts a plan, after a pause; `false` when there have been enough.
    async fn once_more(&mut self) -> bool {
        let trial = self.retries;
        self.retries += 1;
        let again = self.retries < PLANS_MAX;
        if again {
            if self.turn.is_none() {
                self.turn = self.core.turns.take(&self.core, &self.request.entity).await;
            }
            self.core.pause(trial).await;
        }
        again
    }

    /// Whether looking again is not enough, because a claimed scope moved or the claim was taken.
    fn concerns_claim(&self, scopes: &[crate::scope::ScopeName], refusal: &Refusal) -> bool {
        let Some(standing) = &self.hold else { return false };
        let fenced = matches!(refusal, Refusal::Fenced(_));
        scopes.iter().any(|scope| standing.hold.covers(scope)) || fenced && scopes.is_empty()
    }

    /// A live holder that was displaced claims again (RULES 12). Values of a claim are sent again only if the claimed
    /// scopes still have the versions they were computed from; inputs are compared by the plan.
    async fn claim_again(&mut self, refusal: Refusal, plan: &Plan) -> Result<Option<Outcome>> {
        let own = self.hold.as_ref().is_some_and(|standing| standing.own);
        let reclaimed = self.reclaim([]).await?;
        let state = self.hold.as_ref().map(|standing| standing.hold.state());
        match (reclaimed, state) {
            (Reclaimed::Same, Some(state)) => {
                self.snapshot = state.snapshot;
                Ok(None)
            }
            (Reclaimed::Moved, Some(state)) => {
                self.snapshot = state.snapshot;
                if own { Ok(None) } else { Ok(Some(self.refused(Why::Store(refusal), plan))) }
            }
            (Reclaimed::Lost(reason), _) => self.admission_ended(reason).await,
            (Reclaimed::Refused(refusal @ Refusal::StaleRegistry(_)), _) => {
                self.other_rules(refusal, plan).await
            }
            (Reclaimed::Refused(_), _) => {
                self.load().await?;
                Ok(None)
            }
            (_, None) => Err(Error::internal("a claim vanished while a save stood on it")),
        }
    }

    /// Other rules are in force: takes them from the store and plans again; the save goes on only if they decide the
    /// same (RULES 29). Rules of ours that are activated but not yet in effect are waited for.
    async fn other_rules(&mut self, refusal: Refusal, plan: &Plan) -> Result<Option<Outcome>> {
        if self.core.refresh_rules(&self.rules).await? {
            self.rules = self.core.ready_rules(&self.request.entity.kind)?;
            self.core.in_form(&self.request.entity.kind, &mut self.request.changes)?;
            self.retries += 1;
            // On the same record, so that only the rules can make a difference.
            self.decided_before = Some((plan.decisions.clone(), refusal));
            return Ok(None);
        }
        self.core.await_rules(self.deadline).await?;
        self.load().await?;
        Ok(None)
    }
}
