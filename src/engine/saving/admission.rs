//! Leases and claims of a save: whether it needs any, and taking them.

use std::collections::BTreeSet;

use crate::{
    clock::StoreTime,
    commit::Refusal,
    engine::{
        hold::{Admitted, Reclaimed, Wanted, admit, is_leased, unsplit_leased},
        outcome::{Busy, Outcome, Queued, Why},
        queue,
        request::Shown,
        saving::{Saving, Standing},
    },
    entity::WriterKind,
    error::{Error, Result},
    event::LossReason,
    plan::{Intent, Mode, Plan, input_stamps},
    queue::Item,
    registry::OnBusy,
    scope::ScopeName,
};

/// Whether a planned save may be committed.
pub(super) enum Admission {
    /// Every leased scope it writes is claimed.
    Stands,
    /// Claimed just now: the record under the claim is newer than the plan.
    Fresh,
    /// It may not.
    Answer(Outcome),
}

impl Saving {
    /// Takes the leases the plan needs, all in one request, and claims them (RULES 16).
    pub(super) async fn admission(&mut self, plan: &Plan) -> Result<Admission> {
        let needed = self.needed(plan);
        let missing: BTreeSet<ScopeName> = match &self.hold {
            Some(standing) => {
                needed.iter().filter(|scope| !standing.hold.covers(scope)).cloned().collect()
            }
            None => needed.clone(),
        };
        let whole = self.request.intent == Intent::Delete;
        let whole_missing =
            whole && self.hold.as_ref().is_some_and(|standing| !standing.hold.whole);
        if missing.is_empty() && !whole_missing {
            return Ok(Admission::Stands);
        }
        match &self.hold {
            Some(standing) if standing.hold.whole => return self.widen(missing, plan).await,
            Some(standing) if !standing.own => return Err(not_claimed(&missing, whole_missing)),
            _ => {}
        }
        self.give_back().await;
        self.take(plan, needed, whole).await
    }

    /// Leased scopes that must be claimed for this save. A record that does not exist yet has nobody to keep apart,
    /// and `apply` takes no lease.
    fn needed(&self, plan: &Plan) -> BTreeSet<ScopeName> {
        if self.request.mode != Mode::Save {
            return BTreeSet::new();
        }
        match self.request.intent {
            Intent::Create => BTreeSet::new(),
            Intent::Update => plan.leased().names().clone(),
            Intent::Delete => {
                let stored =
                    self.snapshot.versions.keys().filter(|scope| is_leased(&self.rules, scope));
                let mut needed: BTreeSet<ScopeName> = stored.cloned().collect();
                needed.extend(unsplit_leased(&self.rules));
                needed
            }
        }
    }

    async fn take(
        &mut self,
        plan: &Plan,
        scopes: BTreeSet<ScopeName>,
        whole: bool,
    ) -> Result<Admission> {
        let wanted = Wanted {
            entity: self.request.entity.clone(),
            scopes,
            whole,
            on_busy: self.request.on_busy,
            ttl: None,
            reentrant: false,
        };
        // A repeat needs no lease.
        if let Some(answer) = self.known().await? {
            return Ok(Admission::Answer(answer));
        }
        // Whoever has the lease may need the turn.
        self.turn = None;
        let began = self.core.clock.now();
        let admitted = admit(&self.core, &self.request.asker, &self.rules, &wanted).await?;
        self.deadline = self.deadline.plus(self.core.clock.now().since(began));
        match admitted {
            Admitted::Held(hold) => {
                self.deadline = self.core.after(self.core.settings.save_deadline);
                let standing = Standing::of_own(hold)?;
                self.snapshot = standing.computed_from.snapshot.clone();
                self.hold = Some(standing);
                Ok(Admission::Fresh)
            }
            Admitted::Busy { .. } if self.is_queued_when_busy(&wanted) => {
                Ok(Admission::Answer(self.enqueue(wanted.scopes).await?))
            }
            Admitted::Busy { by, retry_after } => {
                Ok(Admission::Answer(Outcome::Busy(self.busy(by, retry_after, plan))))
            }
            Admitted::Skipped { by } => {
                let retry_after =
                    by.iter().map(|holder| holder.remaining).max().unwrap_or_default();
                Ok(Admission::Answer(Outcome::Skipped(self.busy(by, retry_after, plan))))
            }
            Admitted::Refused(refusal) => Ok(match self.recover(refusal, plan).await? {
                Some(answer) => Admission::Answer(answer),
                None => Admission::Fresh,
            }),
            Admitted::Lost(_) => {
                self.retries += 1;
                self.load().await?;
                Ok(Admission::Fresh)
            }
        }
    }

    /// Whether the save is to wait in the queue (RULES 36): a worker's, by its own word or the policy of the
    /// first group. One with a key is answered that it is busy: its key's lease is not kept while it waits.
    fn is_queued_when_busy(&self, wanted: &Wanted) -> bool {
        let first = wanted
            .scopes
            .first()
            .and_then(|scope| self.rules.groups.get(scope.group_name()).map(|group| group.on_busy));
        self.request.asker.writer.kind == WriterKind::Worker
            && self.request.key.is_none()
            && self.request.intent == Intent::Update
            && self.request.on_busy.or(first) == Some(OnBusy::Enqueue)
    }

    /// Stores the save; it is run in its turn.
    async fn enqueue(&self, scopes: BTreeSet<ScopeName>) -> Result<Outcome> {
        let mut request = self.request.clone();
        if request.inputs.is_none()
            && let Shown::Record(seen) = &request.seen
        {
            let stamps = input_stamps(&self.rules, seen, request.changes.keys());
            request.inputs = (!stamps.is_empty()).then_some(stamps);
        }
        let item = Item {
            place: 0,
            operation: self.operation,
            writer: request.asker.writer.clone(),
            entity: request.entity.clone(),
            scopes,
            body: queue::stored(&self.core, &request, self.rules.generation)?,
            at: StoreTime::default(),
        };
        let deadline = self.core.after(self.core.settings.save_deadline);
        let pushed = self.core.before(deadline, self.core.store.push(&item)).await;
        let before = pushed.unwrap_or(Err(Error::OutcomeUnknown(self.operation)))?;
        self.core.queue_wake.notify_one();
        Ok(Outcome::Queued(Queued { operation: self.operation, place: before + 1 }))
    }

    /// A whole-entity lease covers split scopes it did not know of when it was claimed.
    async fn widen(&mut self, more: BTreeSet<ScopeName>, plan: &Plan) -> Result<Admission> {
        self.retries += 1;
        let reclaimed = self.reclaim(more).await?;
        let Some(standing) = &self.hold else { return Err(Error::internal("no claim to widen")) };
        match reclaimed {
            Reclaimed::Moved if !standing.own => {
                let moved = Refusal::Stale(standing.computed_from.fences.keys().cloned().collect());
                self.snapshot = standing.hold.state().snapshot;
                Ok(Admission::Answer(self.refused(Why::Store(moved), plan)))
            }
            Reclaimed::Same | Reclaimed::Moved => {
                self.snapshot = standing.hold.state().snapshot;
                Ok(Admission::Fresh)
            }
            Reclaimed::Refused(refusal) => {
                let message = format!("a wider claim was refused: {}", refusal.code());
                Err(Error::unavailable(message))
            }
            Reclaimed::Lost(reason) => Ok(Admission::Answer(Outcome::Lost(reason))),
        }
    }

    /// Claims again under the lease this save stands on.
    pub(super) async fn reclaim(
        &mut self,
        more: impl IntoIterator<Item = ScopeName>,
    ) -> Result<Reclaimed> {
        match &self.hold {
            Some(Standing { hold, lease, .. }) => match &**lease {
                Some(lease) => hold.reclaim(&self.core, lease, &self.rules, more).await,
                None => Ok(Reclaimed::Lost(LossReason::Expired)),
            },
            None => Err(Error::internal("no claim to repeat")),
        }
    }

    /// The lease ended before the commit was sent. A claim of the caller's is lost; a lease of the save's own is
    /// taken again.
    pub(super) async fn admission_ended(&mut self, reason: LossReason) -> Result<Option<Outcome>> {
        if self.hold.as_ref().is_some_and(|standing| !standing.own) {
            return Ok(Some(Outcome::Lost(reason)));
        }
        self.retries += 1;
        self.give_back().await;
        self.load().await?;
        Ok(None)
    }

    fn busy(
        &self,
        by: Vec<crate::lease::Holder>,
        retry_after: std::time::Duration,
        plan: &Plan,
    ) -> Box<Busy> {
        let (token, _) = self.next(plan, None);
        Box::new(Busy { by, retry_after, plan: Some(plan.clone()), token: Some(token) })
    }
}

fn not_claimed(missing: &BTreeSet<ScopeName>, whole: bool) -> Error {
    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let message = if whole {
        "deleting needs a claim of the whole record".to_owned()
    } else {
        format!("`{}` is not under this claim", names.join("`, `"))
    };
    Error::invalid("not_claimed", message, "claim everything the save writes in one request")
}
