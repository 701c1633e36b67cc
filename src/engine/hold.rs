//! A lease together with its claim in the database: what a save or a job stands on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    commit::Refusal,
    engine::{core::Core, request::Asker},
    entity::{EntityRef, WriterKind},
    error::{Error, Result},
    event::LossReason,
    hold::{AcquireAsk, Acquired, Lease},
    lease::{Extent, Holder},
    registry::{EntityRules, Group, Locking, OnBusy},
    scope::{ScopeName, ScopeSet},
    snapshot::Snapshot,
    store::{ClaimAsk, Claimed},
    token::{Fence, HolderToken, ScopeVersion},
};

/// What to lease and claim.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub entity: EntityRef,
    pub scopes: BTreeSet<ScopeName>,
    pub whole: bool,
    pub on_busy: Option<OnBusy>,
    pub ttl: Option<Duration>,
    pub reentrant: bool,
}

/// The answer to asking for a lease and a claim.
pub(super) enum Admitted {
    Held(Arc<Hold>),
    Busy {
        by: Vec<Holder>,
        retry_after: Duration,
    },
    Skipped {
        by: Vec<Holder>,
    },
    Refused(Refusal),
    /// The lease ended before the claim was answered; what it answered is not used (RULES 12).
    Lost(LossReason),
}

/// The answer to claiming again under the same lease.
pub(super) enum Reclaimed {
    /// The scopes still have the versions the last values were computed from.
    Same,
    /// Somebody wrote in between.
    Moved,
    Refused(Refusal),
    Lost(LossReason),
}

/// A lease and its claim. The lease ends when this is dropped.
pub(super) struct Hold {
    /// Taken by whoever saves under the claim, so that saves of one claim follow each other; empty once released.
    pub lease: Arc<tokio::sync::Mutex<Option<Lease>>>,
    pub lost: CancellationToken,
    pub waited: Duration,
    pub whole: bool,
    pub holder: HolderToken,
    state: Mutex<State>,
}

/// What the database said.
#[derive(Clone)]
pub(super) struct State {
    /// The record values are computed from: as claimed, or as the last save under the claim left it.
    pub snapshot: Snapshot,
    pub fences: BTreeMap<ScopeName, Fence>,
}

impl Hold {
    pub(super) fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_state(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    pub(super) fn covers(&self, scope: &ScopeName) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).fences.contains_key(scope)
    }

    /// Claims again under the same lease, with more scopes if a whole-entity lease turns out to need them. The state
    /// becomes what the new claim answered.
    pub(super) async fn reclaim(
        &self,
        core: &Core,
        lease: &Lease,
        rules: &EntityRules,
        more: impl IntoIterator<Item = ScopeName>,
    ) -> Result<Reclaimed> {
        // A lease that was broken is gone from the lease store before its holder hears of it, and must not take the
        // scope back (RULES 20). No answer is no reason to give up: the lease's own deadline counts then.
        let most = core.after(core.settings.save_deadline);
        if core.before(most, lease.confirm()).await == Some(false) {
            return Ok(Reclaimed::Lost(lease.loss_reason().unwrap_or(LossReason::NotOurs)));
        }
        let was = self.state();
        let names = was.fences.keys().cloned().chain(more);
        let scopes = ScopeSet::new(was.snapshot.entity.clone(), names);
        let claimed = match claim(core, lease, rules, scopes, self.whole).await? {
            Ok(claimed) => claimed,
            Err(End::Lost(reason)) => return Ok(Reclaimed::Lost(reason)),
            Err(End::Refused(refusal)) => return Ok(Reclaimed::Refused(refusal)),
        };
        let version = |state: &State, scope: &ScopeName| state.snapshot.version(scope);
        let same = was.fences.keys().all(|scope| version(&was, scope) == version(&claimed, scope));
        self.set_state(claimed);
        Ok(if same { Reclaimed::Same } else { Reclaimed::Moved })
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("holder", &self.holder).finish_non_exhaustive()
    }
}

enum End {
    Lost(LossReason),
    Refused(Refusal),
}

/// One claim under a lease. Its answer counts only while the lease does (RULES 12).
async fn claim(
    core: &Core,
    lease: &Lease,
    rules: &EntityRules,
    scopes: ScopeSet,
    whole: bool,
) -> Result<std::result::Result<State, End>> {
    if let Some(reason) = ended(core, lease) {
        return Ok(Err(End::Lost(reason)));
    }
    let ask = ClaimAsk { scopes, whole, holder: lease.token(), generation: rules.generation };
    let deadline = core.after(core.settings.save_deadline);
    let answer = core.ask(deadline, core.store.claim(&ask)).await?;
    if let Some(reason) = ended(core, lease) {
        return Ok(Err(End::Lost(reason)));
    }
    Ok(match answer {
        Claimed::Claimed(claim) => Ok(State { snapshot: claim.snapshot, fences: claim.fences }),
        Claimed::Refused(refusal) => Err(End::Refused(refusal)),
    })
}

/// Why the lease can no longer be trusted, if it cannot: asked before a claim or save is sent, and after a claim was
/// answered (RULES 12). The clock is asked too, for the loop that raises `lost` may be late.
pub(super) fn ended(core: &Core, lease: &Lease) -> Option<LossReason> {
    if lease.is_valid() && core.clock.now() < lease.deadline() {
        return None;
    }
    Some(lease.loss_reason().unwrap_or(LossReason::Expired))
}

/// Acquires all scopes in one request, then claims and loads them in one statement.
pub(super) async fn admit(
    core: &Core,
    asker: &Asker,
    rules: &Arc<EntityRules>,
    wanted: &Wanted,
) -> Result<Admitted> {
    let lease = match core.holds.acquire(ask(core, asker, rules, wanted)).await? {
        Acquired::Held(lease) => lease,
        Acquired::Busy { by, retry_after } => return Ok(Admitted::Busy { by, retry_after }),
        Acquired::Skipped { by } => return Ok(Admitted::Skipped { by }),
        Acquired::AlreadyHeld => {
            let message = format!("this session holds a lease of `{}` already", wanted.entity);
            let help = "save through the claim, ask for it `reentrant`, or use another session for work beside it";
            return Err(Error::invalid("already_held", message, help));
        }
    };
    let scopes = ScopeSet::new(wanted.entity.clone(), wanted.scopes.iter().cloned());
    match claim(core, &lease, rules, scopes, wanted.whole).await {
        Ok(Ok(state)) => Ok(Admitted::Held(Arc::new(Hold {
            lost: lease.lost(),
            waited: lease.waited(),
            whole: wanted.whole,
            holder: lease.token(),
            lease: Arc::new(tokio::sync::Mutex::new(Some(lease))),
            state: Mutex::new(state),
        }))),
        Ok(Err(end)) => {
            lease.release().await;
            Ok(match end {
                End::Lost(reason) => Admitted::Lost(reason),
                End::Refused(refusal) => Admitted::Refused(refusal),
            })
        }
        Err(error) => {
            lease.release().await;
            Err(error)
        }
    }
}

/// One request for all scopes. Where groups differ, the longest time to live and the shortest hold count, and the
/// policy of the first group in canonical order.
fn ask(core: &Core, asker: &Asker, rules: &EntityRules, wanted: &Wanted) -> AcquireAsk {
    let groups: Vec<&Group> = wanted
        .scopes
        .iter()
        .filter_map(|scope| rules.groups.get(scope.group_name()))
        .map(|group| &**group)
        .collect();
    let longest = groups.iter().map(|group| group.ttl).max();
    let ttl = wanted.ttl.or(longest).unwrap_or(Duration::from_secs(30));
    let max_hold = groups.iter().map(|group| group.max_hold).min();
    let policy = match asker.writer.kind {
        WriterKind::Editor => OnBusy::Wait(core.settings.editor_wait),
        WriterKind::Worker => groups.first().map_or(OnBusy::Fail, |group| group.on_busy),
    };
    let set = |names| ScopeSet::new(wanted.entity.clone(), names);
    AcquireAsk {
        extent: if wanted.whole {
            Extent::Whole(set(unsplit_leased(rules)))
        } else {
            Extent::Groups(set(wanted.scopes.clone()))
        },
        ttl,
        ttl_max: longest.map_or(ttl, |longest| longest.max(ttl)),
        max_hold: max_hold.unwrap_or(Duration::from_secs(600)),
        on_busy: wanted.on_busy.unwrap_or(policy),
        label: asker.writer.name.clone(),
        generation: rules.generation,
        reentrant: wanted.reentrant,
        owner: Some(asker.owner),
    }
}

/// Every unsplit leased scope of a type: what a whole-entity lease names (RULES 21).
pub(super) fn unsplit_leased(rules: &EntityRules) -> BTreeSet<ScopeName> {
    let leased = rules.groups.values().filter(|group| group.locking == Locking::Lease);
    let unsplit = leased.filter(|group| group.split_by.is_empty());
    unsplit.map(|group| ScopeName::group(group.name.clone())).collect()
}

/// Whether writers of the scope's group are kept apart by leases.
pub(super) fn is_leased(rules: &EntityRules, scope: &ScopeName) -> bool {
    rules.groups.get(scope.group_name()).is_some_and(|group| group.locking == Locking::Lease)
}

/// What a snapshot becomes by a commit that was planned on it.
pub(super) fn advance(
    snapshot: &mut Snapshot,
    commit: &crate::commit::Commit,
    versions: &BTreeMap<ScopeName, ScopeVersion>,
) {
    for item in &commit.removed_items {
        snapshot.record.remove_item(item);
        snapshot.stamps.retain(|path, _| !path.is_part_of(item));
    }
    snapshot.record.apply(&commit.patch);
    snapshot.versions.extend(versions.iter().map(|(scope, version)| (scope.clone(), *version)));
    for changed in &commit.changed {
        let stamp = crate::snapshot::Stamp {
            scope: changed.scope.clone(),
            version: snapshot.version(&changed.scope),
            operation: commit.operation,
            writer: commit.writer.clone(),
            at: snapshot.read_at,
        };
        snapshot.stamps.insert(changed.path.clone(), stamp);
    }
}
