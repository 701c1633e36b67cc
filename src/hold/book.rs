//! Every tenure of a manager, and where to find it. Nothing in here waits or knows which backend is below.
//!
//! INVARIANT: waiters stand only in the tenure their extent is indexed under; a tenure with waiters is never lost or
//! leaving; every held or queued tenure has exactly one entry in `due`.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hash::{BuildHasher, BuildHasherDefault, RandomState},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    clock::Moment,
    event::LossReason,
    hold::{
        OwnerId,
        after::After,
        handle::{Handle, NewHandle},
        policy,
        reaper::Job,
        tenure::{Candidate, Ended, Farewell, Leaving, Phase, Tell, Tenure, TokenHasher, Waiter},
    },
    lease::{Ask, Extent},
    token::{Entropy, HolderToken},
};

/// Everything under the lock.
pub(crate) struct Book {
    entropy: Arc<dyn Entropy>,
    pub(crate) tenures: HashMap<HolderToken, Tenure, BuildHasherDefault<TokenHasher>>,
    /// By hash of the extent, kept in the tenure: hashing it is the dearest step. Two extents of one hash would not be
    /// told apart by the map, so every look compares.
    joinable: HashMap<u64, HolderToken, BuildHasherDefault<TokenHasher>>,
    hashing: RandomState,
    owned: HashMap<OwnerId, Vec<HolderToken>>,
    pub(crate) due: BTreeSet<(Moment, HolderToken)>,
    /// What the loop sleeps until.
    pub(crate) alarm: Moment,
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) waiting: usize,
    /// Releases not answered yet.
    leaving: Arc<AtomicUsize>,
    pub(crate) next_waiter: u64,
    /// No new requests.
    pub(crate) closed: bool,
    /// The last manager is gone: the loop ends when nothing is left.
    pub(crate) orphaned: bool,
}

impl Book {
    pub(crate) fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self {
            entropy,
            tenures: HashMap::default(),
            joinable: HashMap::default(),
            hashing: RandomState::new(),
            owned: HashMap::new(),
            due: BTreeSet::new(),
            alarm: Moment(Duration::MAX),
            jobs: VecDeque::new(),
            waiting: 0,
            leaving: Arc::default(),
            next_waiter: 0,
            closed: false,
            orphaned: false,
        }
    }

    pub(crate) fn fresh(&self) -> HolderToken {
        HolderToken::new(&*self.entropy)
    }

    /// Tokens at the store that are not known to be gone.
    pub(crate) fn count(&self) -> usize {
        self.tenures.len() + self.leaving.load(Ordering::Relaxed)
    }

    /// The tenure whose line a candidate for this extent may join.
    pub(crate) fn joinable(&mut self, extent: &Extent) -> Option<&mut Tenure> {
        self.joinable_at(self.hash(extent), extent)
    }

    /// The hash extents are indexed under; made once for every request.
    pub(crate) fn hash(&self, extent: &Extent) -> u64 {
        self.hashing.hash_one(extent)
    }

    /// As [`Book::joinable`], with the hash at hand.
    pub(crate) fn joinable_at(&mut self, hash: u64, extent: &Extent) -> Option<&mut Tenure> {
        let token = *self.joinable.get(&hash)?;
        self.tenures.get_mut(&token).filter(|tenure| tenure.ask.extent == *extent)
    }

    /// Opens a tenure that is about to ask. `line`: others may line up behind it.
    pub(crate) fn open(&mut self, ask: Arc<Ask>, hash: u64, now: Moment, line: bool) {
        let token = ask.token;
        let tenure = Tenure::new(ask, hash, now);
        if line {
            self.joinable.insert(tenure.hash, token);
        }
        self.tenures.insert(token, tenure);
    }

    /// Takes a tenure out of every index.
    pub(crate) fn close(&mut self, token: HolderToken) -> Option<Tenure> {
        let tenure = self.tenures.remove(&token)?;
        self.unindex(token, &tenure);
        Some(tenure)
    }

    fn unindex(&mut self, token: HolderToken, tenure: &Tenure) {
        if let Some(due) = tenure.due {
            self.due.remove(&(due, token));
        }
        if self.joinable.get(&tenure.hash) == Some(&token) {
            self.joinable.remove(&tenure.hash);
        }
        if let Phase::Held(handle) | Phase::Lost(handle) = &tenure.phase {
            self.disown(handle);
        }
    }

    /// Puts a candidate in line, by order of arrival.
    pub(crate) fn seat(&mut self, token: HolderToken, who: Candidate, tell: Tell) -> Option<()> {
        let tenure = self.tenures.get_mut(&token)?;
        let at = tenure.waiters.partition_point(|waiter| waiter.who.id < who.id);
        tenure.waiters.insert(at, Waiter { who, tell });
        self.waiting += 1;
        Some(())
    }

    /// A number for the next candidate.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.next_waiter = self.next_waiter.saturating_add(1);
        self.next_waiter
    }

    /// The first in line who is still there.
    pub(crate) fn next_waiter(&mut self, token: HolderToken) -> Option<Waiter> {
        let tenure = self.tenures.get_mut(&token)?;
        while let Some(waiter) = tenure.waiters.pop_front() {
            self.waiting = self.waiting.saturating_sub(1);
            if !waiter.tell.is_closed() {
                return Some(waiter);
            }
        }
        None
    }

    /// Takes a waiter out of the line, wherever its tenure went. An empty line gives up its place in the store's queue.
    pub(crate) fn leave(&mut self, extent: &Extent, id: u64, after: &mut After) {
        let Some(tenure) = self.joinable(extent) else { return };
        let token = tenure.ask.token;
        let at = tenure.waiters.partition_point(|waiter| waiter.who.id < id);
        if tenure.waiters.get(at).is_none_or(|waiter| waiter.who.id != id) {
            return;
        }
        tenure.waiters.remove(at);
        let deserted = tenure.waiters.is_empty() && matches!(tenure.phase, Phase::Queued { .. });
        self.waiting = self.waiting.saturating_sub(1);
        if deserted {
            self.give_up(token, after);
        }
    }

    /// Gives up a token nobody here wants any more: the store forgets it, held or queued.
    pub(crate) fn give_up(&mut self, token: HolderToken, after: &mut After) {
        if let Some(tenure) = self.close(token) {
            let farewell = self.farewell(tenure, None, None);
            self.jobs.push_back(Job::Release(farewell));
            after.ring = true;
        }
    }

    /// What is left to do for a closed tenure.
    pub(crate) fn farewell(
        &self,
        tenure: Tenure,
        handle: Option<Arc<Handle>>,
        next: Option<HolderToken>,
    ) -> Farewell {
        let _counted = Leaving::new(&self.leaving);
        Farewell { ask: tenure.ask, handle, flights: tenure.flights, next, _counted }
    }

    /// A token that may have been taken after its tenure was closed.
    pub(crate) fn stray(&self, ask: Arc<Ask>) -> Farewell {
        let _counted = Leaving::new(&self.leaving);
        Farewell { ask, handle: None, flights: Vec::new(), next: None, _counted }
    }

    /// The candidate holds the tenure from now on.
    pub(crate) fn hold(
        &mut self,
        token: HolderToken,
        handle_token: HolderToken,
        who: &Candidate,
        now: Moment,
        after: &mut After,
    ) -> Option<Arc<Handle>> {
        let tenure = self.tenures.get_mut(&token)?;
        let new = NewHandle {
            token: handle_token,
            tenure: token,
            ask: Arc::clone(&tenure.ask),
            label: Arc::clone(&who.label),
            owner: who.owner,
            asked: who.asked,
            max_hold: who.max_hold,
            turn: tenure.handovers,
        };
        let deadline = policy::deadline(tenure.anchor, tenure.span);
        let handle = Arc::new(Handle::new(new, now, deadline));
        tenure.phase = Phase::Held(Arc::clone(&handle));
        tenure.failures = 0;
        self.joinable.entry(tenure.hash).or_insert(token);
        if let Some(owner) = handle.owner {
            self.owned.entry(owner).or_default().push(token);
        }
        self.plan(token, after);
        Some(handle)
    }

    /// A held tenure was confirmed by an attempt that began then.
    pub(crate) fn confirm_held(
        &mut self,
        token: HolderToken,
        begin: Moment,
        now: Moment,
        after: &mut After,
    ) {
        let Some(tenure) = self.tenures.get_mut(&token) else { return };
        let Phase::Held(handle) = &tenure.phase else { return };
        let ttl = tenure.ask.ttl;
        if !handle.extend(policy::deadline(begin, ttl), now) {
            // Confirmed, but after trust had ended: loss is final.
            self.lose(token, LossReason::Expired, after);
            return;
        }
        if begin >= tenure.anchor {
            tenure.confirm(begin, ttl);
        }
        self.plan(token, after);
    }

    fn disown(&mut self, handle: &Handle) {
        let Some(owner) = handle.owner else { return };
        let Some(tokens) = self.owned.get_mut(&owner) else { return };
        if let Some(at) = tokens.iter().position(|token| *token == handle.tenure) {
            tokens.swap_remove(at);
        }
        if tokens.is_empty() {
            self.owned.remove(&owner);
        }
    }

    /// Leases this owner holds that overlap the extent.
    pub(crate) fn held_by(
        &self,
        owner: OwnerId,
        extent: &Extent,
        now: Moment,
    ) -> Option<Arc<Handle>> {
        let tokens = self.owned.get(&owner)?;
        let handles = tokens.iter().filter_map(|token| match &self.tenures.get(token)?.phase {
            Phase::Held(handle) => Some(handle),
            _ => None,
        });
        let mut overlapping =
            handles.filter(|handle| handle.ask.extent.conflicts(extent) && handle.is_valid(now));
        overlapping.next().cloned()
    }

    /// Enters when the loop has to look at this tenure next.
    pub(crate) fn plan(&mut self, token: HolderToken, after: &mut After) {
        let Some(tenure) = self.tenures.get_mut(&token) else { return };
        if let Some(due) = tenure.due.take() {
            self.due.remove(&(due, token));
        }
        if let Some(due) = tenure.next_due() {
            tenure.due = Some(due);
            self.due.insert((due, token));
            if due < self.alarm {
                self.alarm = due;
                after.ring = true;
            }
        }
    }

    /// The holder gives the handle back.
    pub(crate) fn end(
        &mut self,
        handle: &Arc<Handle>,
        handovers_max: u32,
        now: Moment,
        after: &mut After,
    ) -> Ended {
        if !handle.unshare() {
            return Ended::Shared;
        }
        let token = handle.tenure;
        let Some(tenure) = self.tenures.get_mut(&token) else { return Ended::Gone };
        let current = match &tenure.phase {
            Phase::Held(held) => {
                let current = Arc::ptr_eq(held, handle);
                if current && !handle.is_valid(now) {
                    // The loop is late; what it would do comes first, so that waiters get a token of their own.
                    self.lose(token, LossReason::Expired, after);
                }
                current
            }
            Phase::Lost(held) => Arc::ptr_eq(held, handle),
            Phase::Asking { .. } | Phase::Queued { .. } => false,
        };
        if !current {
            return Ended::Gone;
        }
        if handle.lost().is_none() && self.hand_over(handle, handovers_max, now, after) {
            return Ended::HandedOver;
        }
        self.leave_store(handle, now, after)
    }

    /// Passes a tenure on in memory, if that is fair and somebody is in line.
    fn hand_over(
        &mut self,
        handle: &Arc<Handle>,
        most: u32,
        now: Moment,
        after: &mut After,
    ) -> bool {
        let token = handle.tenure;
        let Some(tenure) = self.tenures.get_mut(&token) else { return false };
        let ttl = tenure.ask.ttl;
        if tenure.waiters.is_empty()
            || !policy::may_hand_over(tenure.wanted, tenure.handovers, most, ttl, now)
        {
            return false;
        }
        tenure.handovers = tenure.handovers.saturating_add(1);
        if let Some((_, count)) = &mut tenure.wanted {
            *count = count.saturating_add(1);
        }
        let Some(waiter) = self.next_waiter(token) else { return false };
        self.disown(handle);
        let fresh = self.fresh();
        let Some(next) = self.hold(token, fresh, &waiter.who, now, after) else { return false };
        after.released(handle, now);
        after.granted(&next);
        after.granted.push((waiter.tell, next));
        true
    }

    /// Takes a tenure out; its line moves to a new token that asks once the old one is released.
    fn leave_store(&mut self, handle: &Arc<Handle>, now: Moment, after: &mut After) -> Ended {
        let Some(mut tenure) = self.close(handle.tenure) else { return Ended::Gone };
        let next = self.move_line(&mut tenure, now);
        let gone = matches!(handle.lost(), Some(LossReason::NotOurs | LossReason::Broken));
        if gone {
            after.release_refused(handle);
            return Ended::Gone;
        }
        Ended::Leaves(self.farewell(tenure, Some(Arc::clone(handle)), next))
    }

    /// The waiters of a tenure that ends go on under a token of their own, which is answered. Nothing asks for it yet.
    fn move_line(&mut self, tenure: &mut Tenure, now: Moment) -> Option<HolderToken> {
        let before = tenure.waiters.len();
        tenure.waiters.retain(|waiter| !waiter.tell.is_closed());
        self.waiting = self.waiting.saturating_sub(before - tenure.waiters.len());
        if tenure.waiters.is_empty() {
            return None;
        }
        let token = self.fresh();
        let ask = Arc::new(Ask { token, queue: true, ..Ask::clone(&tenure.ask) });
        let mut next = Tenure::new(ask, tenure.hash, now);
        next.waiters = std::mem::take(&mut tenure.waiters);
        self.joinable.insert(tenure.hash, token);
        self.tenures.insert(token, next);
        Some(token)
    }

    /// Ends trust in a held tenure. Its holder keeps the handle; its line moves on.
    pub(crate) fn lose(&mut self, token: HolderToken, reason: LossReason, after: &mut After) {
        let Some(mut tenure) = self.tenures.remove(&token) else { return };
        let Phase::Held(handle) = &tenure.phase else {
            self.tenures.insert(token, tenure);
            return;
        };
        let handle = Arc::clone(handle);
        handle.lose(reason);
        let reason = handle.lost().unwrap_or(reason);
        after.lost(&handle, reason);
        self.unindex(token, &tenure);
        tenure.due = None;
        tenure.phase = Phase::Lost(handle);
        let now = tenure.anchor;
        if let Some(next) = self.move_line(&mut tenure, now) {
            self.ask_in_background(next, after);
        }
        self.tenures.insert(token, tenure);
    }

    /// Lets the loop ask for a tenure.
    pub(crate) fn ask_in_background(&mut self, token: HolderToken, after: &mut After) {
        if self.tenures.contains_key(&token) {
            self.jobs.push_back(Job::Ask(token));
            after.ring = true;
        }
    }
}
