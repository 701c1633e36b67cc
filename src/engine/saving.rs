//! The one path every save takes, from request to answer.

mod admission;
mod answer;
mod commit;
mod key;
mod recovery;

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::OwnedMutexGuard;

use crate::{
    clock::Moment,
    commit::{Committed, Refusal},
    engine::{
        core::{Core, Underway},
        hold::{Hold, State, ended},
        outcome::{Outcome, Planned, Why},
        request::Request,
        saving::{admission::Admission, commit::Sent},
        turn::Turn,
    },
    entity::Value,
    error::{Error, Result},
    history::BaseQuery,
    hold::Lease,
    path::Path,
    plan::{Decided, Plan, Verdict, needed_bases, plan},
    registry::EntityRules,
    snapshot::Snapshot,
    token::OperationId,
};

/// How often one save is planned again before it gives up (RULES 3).
const PLANS_MAX: u32 = 8;

/// One save under way.
struct Saving {
    core: Arc<Core>,
    request: Request,
    rules: Arc<EntityRules>,
    operation: OperationId,
    /// Until when the save may take; starts anew when its leases are granted.
    deadline: Moment,
    /// What plans are made on.
    snapshot: Snapshot,
    /// Bases the history was asked for.
    fetched: BTreeMap<Path, Option<Value>>,
    /// How often it was planned again.
    retries: u32,
    hold: Option<Standing>,
    /// Held from the first time it was overtaken.
    turn: Option<Turn>,
    underway: Underway,
    /// The waiting save this is, which goes with its effect.
    queued: Option<OperationId>,
    /// What was decided under rules that are no longer in force; other decisions end the save (RULES 29).
    decided_before: Option<(Vec<Decided>, Refusal)>,
}

/// The claim a save stands on.
struct Standing {
    hold: Arc<Hold>,
    lease: OwnedMutexGuard<Option<Lease>>,
    /// Made by this save for itself, and given back at its end.
    own: bool,
    /// What the values were computed from: a claim's record as it was when the save began.
    computed_from: State,
}

/// Plans, leases, claims, commits: until there is an answer.
pub(super) async fn save(
    core: Arc<Core>,
    request: Request,
    under: Option<Arc<Hold>>,
    underway: Underway,
) -> Result<Outcome> {
    let mut saving = Saving::begin(core, request, under, underway).await?;
    let answer = saving.go().await;
    let answer = saving.keyed(answer).await;
    saving.give_back().await;
    saving.tell_dropped(&answer).await?;
    answer
}

/// The same for a save that waited in the queue, under the name it has there.
pub(super) async fn queued(
    core: Arc<Core>,
    request: Request,
    operation: OperationId,
    underway: Underway,
) -> Result<Outcome> {
    let mut saving = Saving::begin(core, request, None, underway).await?;
    saving.operation = operation;
    saving.queued = Some(operation);
    let answer = saving.go().await;
    saving.give_back().await;
    saving.tell_dropped(&answer).await?;
    answer
}

/// What a save would do now. Nothing is leased, claimed or written.
pub(super) async fn dry_run(
    core: Arc<Core>,
    request: Request,
    under: Option<Arc<Hold>>,
) -> Result<Planned> {
    let mut saving = Saving::begin(core, request, under, Underway::default()).await?;
    let plan = saving.plan().await?;
    saving.check_request(&plan)?;
    let (token, news) = saving.next(&plan, None);
    Ok(Planned { plan, token, news })
}

impl Saving {
    async fn begin(
        core: Arc<Core>,
        mut request: Request,
        under: Option<Arc<Hold>>,
        underway: Underway,
    ) -> Result<Self> {
        let rules = core.ready_rules(&request.entity.kind)?;
        core.in_form(&request.entity.kind, &mut request.changes)?;
        let hold = match under {
            Some(hold) => Some(Standing::under(hold).await?),
            None => None,
        };
        let snapshot = match &hold {
            Some(standing) => standing.computed_from.snapshot.clone(),
            None => Snapshot::missing(request.entity.clone()),
        };
        let operation = core.operation();
        // After the wait for the save before it.
        let deadline = core.after(core.settings.save_deadline);
        let fetched = BTreeMap::new();
        let mut saving = Self {
            core,
            request,
            rules,
            operation,
            deadline,
            snapshot,
            fetched,
            retries: 0,
            hold,
            turn: None,
            underway,
            queued: None,
            decided_before: None,
        };
        if saving.hold.is_none() {
            saving.load().await?;
        }
        Ok(saving)
    }

    async fn go(&mut self) -> Result<Outcome> {
        while self.retries < PLANS_MAX {
            let plan = self.plan().await?;
            if let Some(answer) = self.settled(&plan)? {
                return Ok(answer);
            }
            match self.admission(&plan).await? {
                Admission::Stands => {}
                Admission::Fresh => continue,
                Admission::Answer(answer) => return Ok(answer),
            }
            let commit = self.commit_of(&plan);
            if let Some(answer) = self.objections(&plan, &commit).await? {
                return Ok(answer);
            }
            match self.send(&commit).await? {
                Sent::Answered(Committed::Applied { versions, number, incarnation }) => {
                    return Ok(self.applied(plan, &commit, versions, number, incarnation));
                }
                Sent::Answered(Committed::Refused(refusal)) => {
                    if let Some(answer) = self.key_refusal(&refusal, &plan).await? {
                        return Ok(answer);
                    }
                    if let Some(answer) = self.recover(refusal, &plan).await? {
                        return Ok(answer);
                    }
                }
                Sent::Answered(Committed::AlreadyApplied) => {
                    return Err(Error::OutcomeUnknown(self.operation));
                }
                Sent::Ended(reason) => {
                    if let Some(answer) = self.admission_ended(reason).await? {
                        return Ok(answer);
                    }
                }
                Sent::NotApplied => self.start_over().await?,
            }
        }
        Err(Error::Contended { attempts: self.retries })
    }

    /// The record as it is now.
    async fn load(&mut self) -> Result<()> {
        let entity = &self.request.entity;
        let loaded = self.core.ask(self.deadline, self.core.store.load(entity)).await?;
        self.snapshot = loaded.unwrap_or_else(|| Snapshot::missing(entity.clone()));
        Ok(())
    }

    /// Plans on the present snapshot; asks the history at most once for bases it does not know yet.
    async fn plan(&mut self) -> Result<Plan> {
        let missing = needed_bases(&self.input());
        let unknown = missing.into_iter().filter(|base| !self.fetched.contains_key(&base.path));
        let queries: Vec<BaseQuery> = unknown
            .map(|base| BaseQuery { path: base.path, scope: base.scope, version: base.version })
            .collect();
        if !queries.is_empty() {
            let bases = self.core.store.bases(&self.request.entity, &queries);
            let mut found = self.core.ask(self.deadline, bases).await?;
            let answers = queries.into_iter().map(|query| {
                let value = found.remove(&query.path);
                (query.path, value)
            });
            self.fetched.extend(answers);
        }
        Ok(plan(&self.input()))
    }

    /// The answer where a plan is the end: nothing changes, or it is refused.
    fn settled(&mut self, plan: &Plan) -> Result<Option<Outcome>> {
        self.check_request(plan)?;
        if let Some((decided, refusal)) = self.decided_before.take()
            && decided != plan.decisions
        {
            return Ok(Some(self.refused(Why::Store(refusal), plan)));
        }
        Ok(match &plan.verdict {
            Verdict::Apply => None,
            Verdict::Nothing => Some(self.unchanged(plan)),
            Verdict::Refuse { code, message } => {
                let why = Why::Rules { code, message: message.clone() };
                Some(self.refused(why, plan))
            }
        })
    }

    /// Refusals that are faults of the call, whatever is stored.
    fn check_request(&self, plan: &Plan) -> Result<()> {
        match &plan.verdict {
            Verdict::Refuse { code: code @ ("token_ahead" | "other_entity"), message } => {
                Err(Error::invalid(code, message.clone(), "load the record again"))
            }
            Verdict::Refuse { code: "not_yet", message } => {
                Err(Error::NotYet { message: message.clone() })
            }
            _ => Ok(()),
        }
    }

    /// A result that was refused because its inputs moved has no commit to tell of it.
    async fn tell_dropped(&self, answer: &Result<Outcome>) -> Result<()> {
        let Ok(Outcome::Refused(refused)) = answer else { return Ok(()) };
        let events = refused.plan.as_ref().map(|plan| self.stale(plan)).unwrap_or_default();
        if events.is_empty() {
            return Ok(());
        }
        let entity = &self.request.entity;
        let told = self.core.store.tell(entity, refused.operation, &events);
        match self.core.ask(self.core.after(self.core.settings.save_deadline), told).await {
            Err(Error::NotYet { .. }) => Ok(()),
            told => told,
        }
    }

    fn claimed(&self) -> Option<&Snapshot> {
        let under = self.hold.as_ref().filter(|standing| !standing.own);
        under.map(|standing| &standing.computed_from.snapshot)
    }

    fn input(&self) -> crate::plan::PlanInput<'_> {
        self.request.input(&self.rules, &self.snapshot, self.claimed(), &self.fetched)
    }

    async fn give_back(&mut self) {
        let own = self.hold.take().filter(|standing| standing.own);
        if let Some(lease) = own.and_then(|mut standing| standing.lease.take()) {
            lease.release().await;
        }
    }
}

impl Standing {
    /// A save under a claim waits for the one before it.
    async fn under(hold: Arc<Hold>) -> Result<Self> {
        let lease = Arc::clone(&hold.lease).lock_owned().await;
        if lease.is_none() {
            let help = "save before `release`, or claim again";
            return Err(Error::invalid("claim_released", "the claim was released", help));
        }
        let computed_from = hold.state();
        Ok(Self { hold, lease, own: false, computed_from })
    }

    fn of_own(hold: Arc<Hold>) -> Result<Self> {
        let lease = Arc::clone(&hold.lease).try_lock_owned();
        let lease = lease.map_err(|_| Error::internal("a fresh claim is in use"))?;
        let computed_from = hold.state();
        Ok(Self { hold, lease, own: true, computed_from })
    }

    /// Why the claim can no longer be used, if it cannot.
    fn ended(&self, core: &Core) -> Option<crate::event::LossReason> {
        match &*self.lease {
            Some(lease) => ended(core, lease),
            None => Some(crate::event::LossReason::Expired),
        }
    }
}
