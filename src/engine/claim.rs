//! Claims: a lease that the database knows of.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value as Json;
use tokio_util::sync::CancellationToken;

use crate::{
    commit::Refusal,
    engine::{
        Busy, InputStamps, IntoPath, Job, Refused, Save, Why,
        core::Core,
        hold::{Admitted, Hold, Reclaimed, Wanted, admit, unsplit_leased},
        keyed::{Kept, Keyed},
        request::Asker,
        session::fields,
    },
    entity::EntityRef,
    error::{Error, Result},
    event::LossReason,
    hold::Released,
    key::{JobKey, KeySource},
    path::Path,
    plan::input_stamps,
    registry::{EntityRules, Group, Locking, OnBusy},
    scope::ScopeName,
    snapshot::Snapshot,
    token::{Fence, HolderToken},
};

/// How often a claim follows other rules that were put in force meanwhile.
const RULES_TRIALS: u32 = 3;

/// A claim to be made.
#[derive(Clone)]
#[must_use = "a claim does nothing until it is sent"]
pub struct ClaimBuilder {
    core: Arc<Core>,
    asker: Asker,
    scopes: Vec<String>,
    wanted: Wanted,
}

/// The answer to a claim.
#[derive(Debug)]
#[must_use = "a claim that is dropped at once gives its lease back"]
pub enum Claiming {
    /// The scopes are this claim's, in the lease store and in the database.
    Claimed(Claim),
    /// Somebody else holds one of them.
    Busy(Box<Busy>),
    /// The same, under the policy `skip`.
    Skipped(Box<Busy>),
    /// Not this writer's groups, or the record is not there.
    Refused(Box<Refused>),
    /// The lease ended before the claim was answered: it is not used (RULES 12).
    Lost(LossReason),
}

/// Scopes of one record that are this writer's until the claim is released, lost or dropped. Dropping it gives the
/// lease back without waiting for that.
#[must_use = "a claim that is dropped at once gives its lease back"]
pub struct Claim {
    core: Arc<Core>,
    asker: Asker,
    entity: EntityRef,
    hold: Arc<Hold>,
}

impl ClaimBuilder {
    pub(super) fn new(
        core: Arc<Core>,
        asker: Asker,
        entity: EntityRef,
        scopes: Vec<String>,
    ) -> Self {
        let wanted = Wanted {
            entity,
            scopes: BTreeSet::new(),
            whole: false,
            on_busy: None,
            ttl: None,
            reentrant: false,
        };
        Self { core, asker, scopes, wanted }
    }

    /// What to do when a scope is held. Default: the group's own policy; an editor waits 2 s at most.
    pub fn on_busy(mut self, policy: OnBusy) -> Self {
        self.wanted.on_busy = Some(policy);
        self
    }

    /// Takes every leased scope of the record (RULES 21).
    pub fn whole(mut self) -> Self {
        self.wanted.whole = true;
        self
    }

    /// Time to live, instead of the group's. Longer keeps a crashed holder's scopes blocked for longer; shorter
    /// loses the lease over a shorter hiccup.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.wanted.ttl = Some(ttl);
        self
    }

    /// Shares a lease this session holds already, instead of refusing the call (RULES 22).
    pub fn reentrant(mut self) -> Self {
        self.wanted.reentrant = true;
        self
    }

    /// Acquires the lease, then claims and loads in one statement.
    ///
    /// # Errors
    /// When a scope is not a leased one of the registry, this session holds it already, or a store cannot be reached.
    pub async fn send(mut self) -> Result<Claiming> {
        if self.wanted.on_busy == Some(OnBusy::Enqueue) {
            let message = "queueing a claim is not possible: `enqueue` is for saves".to_owned();
            return Err(Error::NotYet { message });
        }
        let mut trials = 0;
        let mut in_effect_by = None;
        while trials < RULES_TRIALS {
            let rules = self.core.ready_rules(&self.wanted.entity.kind)?;
            self.wanted.scopes = self.checked_scopes(&rules)?;
            if let Some(group) = self.not_ours(&rules) {
                let message = format!("group `{group}` is not for {}", self.asker.writer);
                return Ok(self.refused(Why::Rules { code: "denied", message }));
            }
            return Ok(match admit(&self.core, &self.asker, &rules, &self.wanted).await? {
                Admitted::Held(hold) => {
                    let Self { core, asker, wanted, .. } = self;
                    Claiming::Claimed(Claim { core, asker, entity: wanted.entity, hold })
                }
                Admitted::Busy { by, retry_after } => {
                    Claiming::Busy(Box::new(Busy { by, retry_after, plan: None, token: None }))
                }
                Admitted::Skipped { by } => {
                    let remaining = by.iter().map(|holder| holder.remaining).max();
                    let retry_after = remaining.unwrap_or_default();
                    Claiming::Skipped(Box::new(Busy { by, retry_after, plan: None, token: None }))
                }
                Admitted::Refused(Refusal::StaleRegistry(_)) => {
                    if self.core.refresh_rules(&rules).await? {
                        trials += 1;
                    } else {
                        let bound = self.core.after(self.core.settings.save_deadline);
                        self.core.await_rules(*in_effect_by.get_or_insert(bound)).await?;
                    }
                    continue;
                }
                Admitted::Refused(refusal) => self.refused(Why::Store(refusal)),
                Admitted::Lost(reason) => Claiming::Lost(reason),
            });
        }
        let message = format!("the rules of `{}` keep changing", self.wanted.entity.kind);
        Err(Error::unavailable(message))
    }

    fn refused(&self, why: Why) -> Claiming {
        let (plan, token, news) = (None, None, BTreeMap::new());
        let operation = self.core.operation();
        Claiming::Refused(Box::new(Refused { operation, why, plan, token, news }))
    }

    /// The scopes by name: leased ones of this type, each with a value per axis its group is split by.
    fn checked_scopes(&self, rules: &EntityRules) -> Result<BTreeSet<ScopeName>> {
        let mut scopes = BTreeSet::new();
        if self.wanted.whole {
            scopes = unsplit_leased(rules);
        }
        for text in &self.scopes {
            let kind = &rules.kind;
            let fault = |code, message: String, help: &str| Error::invalid(code, message, help);
            let scope = ScopeName::parse(text).filter(|scope| {
                let group = rules.groups.get(scope.group_name());
                group.is_some_and(|group| axes_fit(scope, group))
            });
            let Some(scope) = scope else {
                let message = format!("`{}` is not a scope of `{kind}`", text.escape_debug());
                let help =
                    "name a group, with its axis values where it is split: translation[locale=de]";
                return Err(fault("unknown_scope", message, help));
            };
            if rules.groups.get(scope.group_name()).map(|group| group.locking)
                != Some(Locking::Lease)
            {
                let message =
                    format!("group `{}` takes no lease: it is optimistic", scope.group_name());
                return Err(fault("not_leased", message, "save without a claim"));
            }
            scopes.insert(scope);
        }
        if scopes.is_empty() && !self.wanted.whole {
            let help = "name the groups, or ask for the whole record";
            return Err(Error::invalid("no_scope", "a claim of no scope", help));
        }
        Ok(scopes)
    }

    /// A group this writer may not write. A whole-record lease keeps others out of all of them and gives no right.
    fn not_ours(&self, rules: &EntityRules) -> Option<Arc<str>> {
        if self.wanted.whole {
            return None;
        }
        let groups =
            self.wanted.scopes.iter().filter_map(|scope| rules.groups.get(scope.group_name()));
        let mut denied = groups.filter(|group| !may_claim(&self.asker, group));
        denied.next().map(|group| group.name.as_str().into())
    }
}

impl Claim {
    /// Runs the work of a job as part of a save, so that hooks can ask about it.
    pub(super) async fn in_frame<F: Future>(&self, work: F) -> F::Output {
        self.core.in_frame(&self.asker.writer, &self.entity, work).await
    }

    /// The record as it was read under the claim, or as the last save under it left it.
    #[must_use]
    pub fn record(&self) -> Snapshot {
        self.hold.state().snapshot
    }

    /// The record's values by unit, as a load shows them.
    ///
    /// # Errors
    /// When the type is no longer in the registry.
    pub fn fields(&self) -> Result<BTreeMap<Path, Json>> {
        let rules = self.core.rules(&self.entity.kind)?;
        Ok(fields(&rules, &self.hold.state().snapshot.record))
    }

    /// The value at a path.
    #[must_use]
    pub fn get(&self, path: impl IntoPath) -> Option<Json> {
        let path = path.into_path().ok()?;
        self.hold.state().snapshot.record.get(&path).json().cloned()
    }

    /// The fences it holds: give them to side effects outside the store.
    #[must_use]
    pub fn fences(&self) -> BTreeMap<ScopeName, Fence> {
        self.hold.state().fences
    }

    /// The name it holds under, in the lease store and in the database.
    #[must_use]
    pub fn holder(&self) -> HolderToken {
        self.hold.holder
    }

    /// Stamps of what these fields are computed from, as of the claim: for a result that is saved later (RULES 24).
    ///
    /// # Errors
    /// When the type is no longer in the registry.
    pub fn inputs<'p>(&self, fields: impl IntoIterator<Item = &'p Path>) -> Result<InputStamps> {
        let rules = self.core.rules(&self.entity.kind)?;
        Ok(input_stamps(&rules, &self.hold.state().snapshot, fields))
    }

    /// Cancelled at the moment the lease can no longer be trusted.
    #[must_use]
    pub fn lost(&self) -> CancellationToken {
        self.hold.lost.clone()
    }

    /// How long the leases had been waited for.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.hold.waited
    }

    /// A save under this claim; it may touch optimistic scopes of the same record too (RULES 16). What the writer had
    /// been shown is the claim's record, unless a token says otherwise.
    pub fn save(&self) -> Save {
        let save = Save::new(Arc::clone(&self.core), self.asker.clone(), self.entity.clone());
        save.under(Arc::clone(&self.hold))
    }

    /// Deletes the record under a claim of the whole of it.
    pub fn delete(&self) -> Save {
        self.save().deleting()
    }

    /// Claims again under the same lease and reads the record anew. `Ok(Some(_))`: the lease had ended.
    ///
    /// # Errors
    /// When the store cannot be reached or refuses the claim.
    pub async fn refresh(&self) -> Result<Option<LossReason>> {
        match self.again().await? {
            Reclaimed::Same | Reclaimed::Moved => Ok(None),
            Reclaimed::Lost(reason) => Ok(Some(reason)),
            Reclaimed::Refused(refusal) => {
                let message = format!("the claim was refused: {}", refusal.code());
                Err(Error::unavailable(message))
            }
        }
    }

    /// Claims again under the same lease.
    pub(super) async fn again(&self) -> Result<Reclaimed> {
        let lease = self.hold.lease.lock().await;
        let Some(lease) = &*lease else { return Ok(Reclaimed::Lost(LossReason::Expired)) };
        let rules = self.core.ready_rules(&self.entity.kind)?;
        self.hold.reclaim(&self.core, lease, &rules, []).await
    }

    /// Gives the lease back, after the saves that are under way. A lease that had ended before answers
    /// [`Released::Lost`], and nobody else is touched.
    pub async fn release(self) -> Released {
        let lease = self.hold.lease.lock().await.take();
        match lease {
            Some(lease) => lease.release().await,
            None => Released::Lost,
        }
    }

    pub(super) fn job(&self, attempt: u32, lost: CancellationToken) -> Job {
        let state = self.hold.state();
        Job::new(state.snapshot, state.fences, lost, attempt)
    }
}

impl KeySource for Claim {
    fn key_entity(&self) -> EntityRef {
        self.entity.clone()
    }

    fn key_stamps(&self) -> InputStamps {
        self.hold.state().snapshot.key_stamps()
    }
}

impl ClaimBuilder {
    /// Begins the work of a key for this claim: the key kept, or the answer that there is nothing to do.
    pub(super) async fn begin(
        &self,
        key: &JobKey,
    ) -> Result<std::result::Result<Kept, crate::engine::Outcome>> {
        let (core, entity) = (&self.core, &self.wanted.entity);
        let keyed = Keyed::of_job(core, &self.asker.writer, entity, key)?;
        let begun = keyed.begin(core, entity).await?;
        Ok(begun.map(|attempt| Kept::new(Arc::clone(core), keyed, attempt)))
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claim").field("entity", &self.entity).finish_non_exhaustive()
    }
}

fn axes_fit(scope: &ScopeName, group: &Group) -> bool {
    let named: BTreeSet<&str> = scope.axes().iter().map(|(axis, _)| &**axis).collect();
    let split: BTreeSet<&str> = group.split_by.iter().map(|axis| &**axis).collect();
    named == split && named.len() == scope.axes().len()
}

fn may_claim(asker: &Asker, group: &Group) -> bool {
    let granted = asker.groups.as_ref().is_none_or(|groups| groups.contains(&group.name));
    granted && group.may_write(&asker.writer)
}
