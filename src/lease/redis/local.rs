//! What this process holds at the server, so that it can be listed there, and the scopes it has seen.
//!
//! Time is counted in ticks of the subscription's loop: taking and giving back a lease reads no clock for this.

use std::{
    collections::{BTreeSet, HashMap},
    hash::BuildHasherDefault,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;

use crate::{
    entity::{EntityType, GroupName},
    lease::{Extent, redis::keys},
    scope::ScopeName,
    token::{HolderToken, TokenHash},
};

/// One tick: how often leases that have become long ones are put on the list.
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// Most members put on the list in one call.
const MEMBERS_MAX: usize = 500;
/// Most scopes remembered for one entity type.
const NAMES_MAX: usize = 256;

/// Leases held and places taken by this process.
pub(crate) struct Local {
    ticks: AtomicU64,
    /// Places taken since the last tick that found none: with none, nobody needs to be looked up.
    places: AtomicU64,
    known: DashMap<HolderToken, Known, BuildHasherDefault<TokenHash>>,
    names: Mutex<HashMap<EntityType, BTreeSet<ScopeName>>>,
}

struct Known {
    extent: Extent,
    ttl: Duration,
    since: u64,
    /// When it was taken or renewed last.
    heard: u64,
    /// Its members stay on the list until then.
    listed: Option<u64>,
    queued: bool,
}

impl Local {
    pub(crate) fn new(groups: &[(EntityType, Vec<GroupName>)]) -> Self {
        let names = |groups: &[GroupName]| groups.iter().cloned().map(ScopeName::group).collect();
        let names = groups.iter().map(|(kind, groups)| (kind.clone(), names(groups))).collect();
        Self {
            ticks: AtomicU64::new(0),
            places: AtomicU64::new(0),
            known: DashMap::default(),
            names: Mutex::new(names),
        }
    }

    fn now(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    pub(crate) fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    /// The token holds; renewed or new.
    pub(crate) fn hold(&self, token: HolderToken, extent: &Extent, ttl: Duration) {
        self.put(token, extent, ttl, false);
    }

    /// Its time was prolonged. One that was forgotten meanwhile stays forgotten.
    pub(crate) fn renewed(&self, token: HolderToken) {
        if let Some(mut known) = self.known.get_mut(&token) {
            (known.heard, known.queued) = (self.now(), false);
        }
    }

    /// The token waits.
    pub(crate) fn queue(&self, token: HolderToken, extent: &Extent, ttl: Duration) {
        self.put(token, extent, ttl, true);
        // Counted when it can be found: the tick between the two would forget the count.
        self.places.fetch_add(1, Ordering::Relaxed);
    }

    /// The token still waits, however long that is compared to its time to live.
    pub(crate) fn waits(&self, token: HolderToken) {
        if let Some(mut known) = self.known.get_mut(&token) {
            known.heard = self.now();
        }
    }

    fn put(&self, token: HolderToken, extent: &Extent, ttl: Duration, queued: bool) {
        let now = self.now();
        let new =
            || Known { extent: extent.clone(), ttl, since: now, heard: now, listed: None, queued };
        let mut known = self.known.entry(token).or_insert_with(new);
        (known.heard, known.ttl, known.queued) = (now, ttl, queued);
    }

    /// A token that waited holds.
    pub(crate) fn granted(&self, token: HolderToken) {
        if let Some(mut known) = self.known.get_mut(&token) {
            (known.queued, known.since) = (false, self.now());
        }
    }

    pub(crate) fn is_queued(&self, token: HolderToken) -> bool {
        self.places.load(Ordering::Relaxed) > 0
            && self.known.get(&token).is_some_and(|known| known.queued)
    }

    /// Answers whether it is on the list.
    pub(crate) fn forget(&self, token: HolderToken) -> bool {
        self.known.remove(&token).is_some_and(|(_, known)| known.listed.is_some())
    }

    /// Members to be listed, and for how long; those of leases taken just now too, when `all`.
    pub(crate) fn to_list(&self, all: bool) -> Vec<(Duration, Vec<Vec<u8>>)> {
        let now = self.now();
        let mut lists: Vec<(Duration, Vec<Vec<u8>>)> = Vec::new();
        let before = self.places.load(Ordering::Relaxed);
        let mut waiting = false;
        self.known.retain(|_, known| {
            // Forgotten by whoever held it: it has ended at the server.
            if known.heard + known.ttl.as_secs() + 2 < now {
                return false;
            }
            let life = known.ttl.saturating_mul(4).max(Duration::from_secs(10));
            let due =
                known.listed.is_none_or(|until| until.saturating_sub(now) < life.as_secs() / 2);
            waiting |= known.queued;
            if known.queued || !due || !all && known.since == now {
                return true;
            }
            if known.listed.is_none() {
                self.learn(&known.extent);
            }
            known.listed = Some(now + life.as_secs());
            let members = known.extent.scopes().iter().map(|scope| keys::write_member(&scope));
            let open =
                lists.last_mut().filter(|(of, list)| *of == life && list.len() < MEMBERS_MAX);
            match open {
                Some((_, list)) => list.extend(members),
                None => lists.push((life, members.collect())),
            }
            true
        });
        if !waiting {
            // Unless one was taken meanwhile.
            let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
            let _kept = self.places.compare_exchange(before, 0, set, get);
        }
        lists
    }

    /// Unsplit scopes of this entity type that are declared, or that this process has held for long.
    pub(crate) fn names_of(&self, kind: &EntityType) -> Vec<ScopeName> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(kind).map(|names| names.iter().cloned().collect()).unwrap_or_default()
    }

    fn learn(&self, extent: &Extent) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = &extent.entity().kind;
        if !names.contains_key(kind) {
            names.insert(kind.clone(), BTreeSet::new());
        }
        let Some(known) = names.get_mut(kind) else { return };
        for name in extent.scopes().names().iter().filter(|name| name.axes().is_empty()) {
            if known.len() < NAMES_MAX && !known.contains(name) {
                known.insert(name.clone());
            }
        }
    }
}
