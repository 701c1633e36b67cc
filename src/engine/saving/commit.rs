//! From a plan to a commit, and the commit to its answer.

use std::collections::BTreeMap;

use crate::{
    commit::{Changed, Commit, Committed, Expect, Lifecycle, Notice, OperationDetail, Trace},
    engine::{
        hold::is_leased,
        keyed::{shown_news, stored_save},
        outcome::{Outcome, Why},
        saving::Saving,
        validator::Proposal,
    },
    entity::{GroupName, WriterKind},
    error::{Error, Result},
    event::LossReason,
    path::Path,
    plan::{Decision, Intent, Mode, Plan, editor_state, requeues, token_of},
    record::Record,
    registry::Locking,
    scope::ScopeName,
    token::OperationId,
};

/// What became of a commit.
pub(super) enum Sent {
    /// The store answered, at once or when asked for the operation.
    Answered(Committed),
    /// It never took effect and never will: its answer was lost, and so was it.
    NotApplied,
    /// It was not sent: the lease it stands on has ended (RULES 12).
    Ended(LossReason),
}

impl Saving {
    pub(super) fn commit_of(&self, plan: &Plan) -> Commit {
        let lifecycle = match self.request.intent {
            Intent::Update => Lifecycle::Update,
            Intent::Create => Lifecycle::Create,
            Intent::Delete => Lifecycle::Delete,
        };
        let under = self.hold.as_ref().map(|standing| standing.hold.state());
        let seen = under.as_ref().map_or(&self.snapshot, |state| &state.snapshot);
        Commit {
            operation: self.operation,
            writer: self.request.asker.writer.clone(),
            entity: self.request.entity.clone(),
            lifecycle,
            incarnation: self.snapshot.incarnation,
            generation: self.rules.generation,
            entity_fence: seen.entity_fence,
            scopes: self.expectations(plan),
            inputs: plan.inputs.clone(),
            input_patterns: plan.input_patterns.clone(),
            parents: plan.parents.clone(),
            patch: plan.patch.clone(),
            removed_items: plan.removed_items.clone(),
            changed: plan.changed.iter().map(changed).collect(),
            trace: self.trace(plan),
            key: self.key_used(plan),
            events: self.notices(plan),
            queued: self.queued,
        }
    }

    /// Who has to compute again: groups whose inputs this save changes, and those whose stale results it leaves out.
    fn notices(&self, plan: &Plan) -> Vec<Notice> {
        if self.request.intent == Intent::Delete {
            return Vec::new();
        }
        let moved = requeues(&self.rules, plan.changed.iter().map(|unit| &unit.path));
        let mut notices: Vec<Notice> = Vec::new();
        for (group, paths) in moved {
            let inputs = paths.into_iter().map(|path| (path, Some(self.operation))).collect();
            notices.push(requeue(&group, &inputs, "input_changed"));
        }
        notices.extend(self.stale(plan));
        notices
    }

    /// Results this save drops because their inputs have changed.
    pub(super) fn stale(&self, plan: &Plan) -> Vec<Notice> {
        let mut dropped: BTreeMap<GroupName, BTreeMap<Path, Option<OperationId>>> = BTreeMap::new();
        for decided in &plan.decisions {
            let group = decided.rules.as_ref().and_then(|rules| rules.group.as_ref());
            if let (Decision::StaleInput { inputs }, Some(group)) = (&decided.decision, group) {
                let stamp =
                    |path: &Path| self.snapshot.stamps.get(path).map(|stamp| stamp.operation);
                let now = inputs.iter().map(|path| (path.clone(), stamp(path)));
                dropped.entry(group.name.clone()).or_default().extend(now);
            }
        }
        dropped.iter().map(|(group, inputs)| requeue(group, inputs, "stale_result")).collect()
    }

    /// The key this save completes, with what repeats of it are answered.
    fn key_used(&self, plan: &Plan) -> Option<crate::commit::KeyUse> {
        let keyed = self.request.key.as_ref()?;
        let seen = token_of(&self.snapshot, self.rules.generation);
        let shown = shown_news(&self.input(), plan);
        let result = stored_save(plan, &seen, &shown, self.retries);
        Some(keyed.used(result, &self.snapshot))
    }

    /// What must still be true of every scope written; of every scope there is when the record is deleted.
    fn expectations(&self, plan: &Plan) -> BTreeMap<ScopeName, Expect> {
        let mut scopes: BTreeMap<ScopeName, Locking> = plan.written.clone();
        if self.request.intent == Intent::Delete {
            let held =
                self.hold.iter().flat_map(|standing| standing.hold.state().fences.into_keys());
            for scope in self.snapshot.versions.keys().cloned().chain(held) {
                let leased = is_leased(&self.rules, &scope);
                let locking = if leased { Locking::Lease } else { Locking::Optimistic };
                scopes.entry(scope).or_insert(locking);
            }
        }
        scopes.into_keys().map(|scope| (scope.clone(), self.expect(&scope))).collect()
    }

    fn expect(&self, scope: &ScopeName) -> Expect {
        if self.request.mode != Mode::Save {
            return Expect::Unread;
        }
        let claimed = self.hold.as_ref().and_then(|standing| {
            let state = standing.hold.state();
            let fence = *state.fences.get(scope)?;
            let version = state.snapshot.version(scope);
            Some(Expect::Claimed { version, fence, holder: standing.hold.holder })
        });
        claimed.unwrap_or_else(|| Expect::Version(self.snapshot.version(scope)))
    }

    /// A version or an operation record, by the writer's kind alone (RULES 34).
    fn trace(&self, plan: &Plan) -> Trace {
        let reason = self.request.reason.clone();
        match self.request.asker.writer.kind {
            WriterKind::Editor => {
                // A delete's version remembers what there was, so that it can be restored.
                let record = match self.request.intent {
                    Intent::Delete => self.snapshot.record.clone(),
                    Intent::Update | Intent::Create => self.merged(plan),
                };
                Trace::Version { state: editor_state(&self.rules, &record), reason }
            }
            WriterKind::Worker => {
                let lease = self.hold.as_ref().and_then(|standing| standing.lease.as_ref());
                let millis =
                    |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                Trace::Operation(OperationDetail {
                    job: self.request.job.clone(),
                    waited_ms: lease.map_or(0, |lease| millis(lease.waited())),
                    held_ms: lease.map_or(0, |lease| millis(lease.held())),
                    retries: self.retries,
                    left_out: plan.left_out(),
                    reason,
                })
            }
        }
    }

    /// The record as it would be afterwards.
    fn merged(&self, plan: &Plan) -> Record {
        if self.request.intent == Intent::Delete {
            return Record::new();
        }
        let mut record = self.snapshot.record.clone();
        for item in &plan.removed_items {
            record.remove_item(item);
        }
        record.apply(&plan.patch);
        record
    }

    /// Asks the validator (RULES 44).
    pub(super) async fn objections(&self, plan: &Plan, commit: &Commit) -> Result<Option<Outcome>> {
        let Some(validator) = &self.core.validator else { return Ok(None) };
        let record = self.merged(plan);
        let proposal = Proposal {
            entity: &commit.entity,
            writer: &commit.writer,
            lifecycle: commit.lifecycle,
            record: &record,
            changed: &commit.changed,
        };
        let answer = self.core.before(self.deadline, validator.validate(proposal)).await;
        let objections = answer.unwrap_or_else(|| {
            Err(Error::unavailable("the validator did not answer before the save deadline"))
        })?;
        Ok((!objections.is_empty()).then(|| self.refused(Why::Objections(objections), plan)))
    }

    /// Sends the commit. Where its answer is lost, the store is asked for the operation until the save deadline
    /// (RULES 40); it is never just sent again.
    pub(super) async fn send(&self, commit: &Commit) -> Result<Sent> {
        if let Some(reason) = self.hold.as_ref().and_then(|standing| standing.ended(&self.core)) {
            return Ok(Sent::Ended(reason));
        }
        if self.core.clock.now() >= self.deadline {
            return Err(Error::unavailable("the save deadline passed before anything was written"));
        }
        self.underway.set(Some(commit.operation));
        let sent = self.core.before(self.deadline, self.core.store.commit(commit)).await;
        let answer = self.answered(commit, sent).await;
        self.underway.set(None);
        answer
    }

    /// What became of it.
    async fn answered(&self, commit: &Commit, sent: Option<Result<Committed>>) -> Result<Sent> {
        match sent {
            Some(Err(Error::OutcomeUnknown(_))) | Some(Ok(Committed::AlreadyApplied)) => {
                self.resolve(commit.operation).await
            }
            Some(answer) => answer.map(Sent::Answered),
            None => Err(Error::OutcomeUnknown(commit.operation)),
        }
    }

    async fn resolve(&self, operation: OperationId) -> Result<Sent> {
        for trial in 0.. {
            match self.core.before(self.deadline, self.core.store.resolve(operation)).await {
                Some(Ok(Some(committed))) => return Ok(Sent::Answered(committed)),
                Some(Ok(None)) => return Ok(Sent::NotApplied),
                Some(Err(_)) if self.core.clock.now() < self.deadline => {
                    self.core.pause(trial).await;
                }
                Some(Err(_)) | None => break,
            }
        }
        Err(Error::OutcomeUnknown(operation))
    }
}

fn changed(unit: &crate::plan::ChangedUnit) -> Changed {
    Changed {
        path: unit.path.clone(),
        scope: unit.scope.clone(),
        old: unit.old.clone(),
        new: unit.new.clone(),
        strategy: unit.strategy.clone(),
    }
}

fn requeue(
    group: &GroupName,
    inputs: &BTreeMap<Path, Option<OperationId>>,
    reason: &str,
) -> Notice {
    let body = serde_json::json!({"group": group, "inputs": inputs, "reason": reason});
    Notice { kind: "requeue".to_owned(), body }
}
