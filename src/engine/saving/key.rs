//! A save with a key: repeats are answered what the first call was, and what did not happen leaves the key free.

use crate::{
    commit::{KeyMode, Refusal},
    engine::{
        keyed::stored_no_op,
        outcome::{Outcome, Unchanged, Waiting, Why},
        saving::Saving,
    },
    error::Result,
    key::Finish,
    plan::Plan,
};

impl Saving {
    /// What a repeat would be answered; `None` for a save that is to be made. The key of a run was begun before.
    pub(super) async fn known(&self) -> Result<Option<Outcome>> {
        match &self.request.key {
            Some(keyed) if matches!(keyed.mode, KeyMode::Once(_)) => {
                // In a box, as below: a save without a key carries none of it.
                Box::pin(keyed.known(&self.core, &self.request.entity)).await
            }
            _ => Ok(None),
        }
    }

    /// The answer where the store refused a save for its key.
    pub(super) async fn key_refusal(
        &self,
        refusal: &Refusal,
        plan: &Plan,
    ) -> Result<Option<Outcome>> {
        let Some(keyed) = &self.request.key else { return Ok(None) };
        Ok(match refusal {
            Refusal::KeyReplay(finished) => {
                let entity = &self.request.entity;
                let finished = (**finished).clone();
                Some(Box::pin(keyed.replayed(&self.core, entity, finished)).await?)
            }
            Refusal::KeyMismatch => Some(Outcome::KeyMismatch),
            Refusal::KeyBusy(retry_after) => {
                Some(Outcome::InProgress(Waiting { retry_after: *retry_after }))
            }
            Refusal::KeyLost => Some(self.refused(Why::Store(Refusal::KeyLost), plan)),
            _ => None,
        })
    }

    /// An answer without an effect, seen with the key. A save that was done before finds nothing to do now, or is
    /// refused by its own result: then the first answer counts. What did not happen leaves no trace of the key, but a
    /// save that found nothing to do completes it (RULES 32).
    pub(super) async fn keyed(&self, answer: Result<Outcome>) -> Result<Outcome> {
        match answer {
            Ok(Outcome::Unchanged(same)) => Box::pin(self.no_op(same)).await,
            Ok(
                answer @ (Outcome::Refused(_)
                | Outcome::Busy(_)
                | Outcome::Skipped(_)
                | Outcome::Lost(_)),
            ) => Ok(self.known().await?.unwrap_or(answer)),
            answer => answer,
        }
    }

    async fn no_op(&self, same: Box<Unchanged>) -> Result<Outcome> {
        let Some(keyed) = self.request.key.as_ref() else { return Ok(Outcome::Unchanged(same)) };
        if matches!(keyed.mode, KeyMode::Claimed(_)) {
            return Ok(Outcome::Unchanged(same));
        }
        let attempt = match keyed.begin(&self.core, &self.request.entity).await? {
            Ok(attempt) => attempt,
            Err(answer) => return Ok(answer),
        };
        let done = Finish::Done {
            result: stored_no_op(&self.core, &same.to_json())?,
            retention: keyed.retention,
            inputs: keyed.inputs(&self.snapshot),
        };
        let finish = self.core.store.finish(&keyed.key, attempt, &done);
        self.core.ask(self.deadline, finish).await?;
        Ok(Outcome::Unchanged(same))
    }
}
