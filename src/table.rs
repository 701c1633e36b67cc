//! The lease automaton as a plain table: what every backend must do, and the memory backend's body.
//!
//! One [`Table`] holds the leases and the queue of one entity. Every step takes the time as an argument and first drops
//! what has ended by then; what a step sets in motion comes back as [`Effect`]s.
//!
//! INVARIANT: two grants never conflict; a place in the queue is never grantable after a step (its scopes are held, or
//! wanted by an earlier place); so nobody passes the queue.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{clock::Moment, scope::ScopeName, token::HolderToken};

mod stored;
mod words;

pub use words::{Answer, Bid, Cover, Effect, Held, Kept};

/// How long a place in the queue lives without being renewed, and a grant made from it without being confirmed
/// (RULES 18). So a dead waiter costs this much, once.
pub const PLACE_TTL: Duration = Duration::from_secs(2);

/// Most places in the queue of one entity.
pub const PLACES_MAX: usize = 10_000;

/// Leases and queue of one entity.
#[derive(Debug, Default)]
pub struct Table {
    grants: Vec<Grant>,
    places: VecDeque<Place>,
    /// No grant and no place ends before this; may be early after a renewal.
    quiet_until: Option<Moment>,
}

#[derive(Debug)]
struct Grant {
    token: HolderToken,
    cover: Cover,
    label: Arc<str>,
    since: Moment,
    until: Moment,
    /// Drawn when it is first asked for.
    order: Option<u64>,
}

#[derive(Debug)]
struct Place {
    token: HolderToken,
    cover: Cover,
    label: Arc<str>,
    ttl: Duration,
    until: Moment,
}

impl Table {
    /// Nothing held, nobody waiting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.places.is_empty()
    }

    /// Places in the queue.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.places.len()
    }

    /// Takes the whole cover, or a place in the queue, or nothing. The same token finds its grant or its place again,
    /// and either is renewed.
    pub fn acquire(&mut self, bid: Bid, now: Moment, effects: &mut Vec<Effect>) -> Answer {
        self.advance(now, effects);
        if let Some(grant) = self.grants.iter_mut().find(|grant| grant.token == bid.token) {
            grant.until = now.plus(bid.ttl);
            self.note_end(now.plus(bid.ttl));
            return Answer::Granted;
        }
        self.clamp(&bid, now, effects);
        let known = self.places.iter().position(|place| place.token == bid.token);
        let ahead = known.unwrap_or(self.places.len());
        let rivals = self.rivals(&bid.cover, ahead);
        if known.is_none() && rivals == 0 && self.blockers(&bid.cover).next().is_none() {
            self.grant(bid.token, bid.cover, bid.label, now, now.plus(bid.ttl));
            return Answer::Granted;
        }
        let by = self.in_the_way(&bid.cover, ahead, now);
        if known.is_none() && !bid.queue {
            return Answer::Held { by, place: None };
        }
        if known.is_none() && self.places.len() >= PLACES_MAX {
            return Answer::QueueFull;
        }
        effects.extend(self.blockers(&bid.cover).map(|grant| Effect::Wanted(grant.token)));
        let until = now.plus(PLACE_TTL);
        if let Some(place) = known.and_then(|at| self.places.get_mut(at)) {
            place.until = until;
        } else {
            let Bid { token, cover, label, ttl, .. } = bid;
            self.places.push_back(Place { token, cover, label, ttl, until });
            self.note_end(until);
        }
        Answer::Held { by, place: u32::try_from(rivals + 1).ok() }
    }

    /// The order of what the token holds: `next` when it is asked for the first time. Whatever conflicts with it and is
    /// granted later gets a later one, as this grant has ended by then.
    pub fn order(&mut self, token: HolderToken, next: impl FnOnce() -> u64) -> Option<u64> {
        let grant = self.grants.iter_mut().find(|grant| grant.token == token)?;
        Some(*grant.order.get_or_insert_with(next))
    }

    /// Prolongs a grant by `ttl`, or a place by [`PLACE_TTL`], from now.
    pub fn renew(
        &mut self,
        token: HolderToken,
        ttl: Duration,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) -> Kept {
        self.advance(now, effects);
        let grant = self.grants.iter_mut().find(|grant| grant.token == token);
        if let Some(grant) = grant {
            grant.until = now.plus(ttl);
            // A shorter ttl than before may end earlier than anything noted.
            self.note_end(now.plus(ttl));
            return Kept::Grant;
        }
        let Some(at) = self.places.iter().position(|place| place.token == token) else {
            return Kept::Unknown;
        };
        let again = self.way_clears(at, now);
        if let Some(place) = self.places.get_mut(at) {
            place.until = now.plus(PLACE_TTL);
        }
        Kept::Place(again)
    }

    /// Forgets the token, held or queued, and grants to who comes next. Answers whether it was found.
    pub fn release(&mut self, token: HolderToken, now: Moment, effects: &mut Vec<Effect>) -> bool {
        self.advance(now, effects);
        let held = self.grants.iter().position(|grant| grant.token == token);
        let freed = if let Some(at) = held {
            Some(self.grants.swap_remove(at).cover)
        } else {
            let queued = self.places.iter().position(|place| place.token == token);
            queued.and_then(|at| self.places.remove(at)).map(|place| place.cover)
        };
        if let Some(freed) = &freed {
            self.promote(Some(freed), now, effects);
        }
        freed.is_some()
    }

    /// Removes whoever holds the scope, with everything else that grant covers.
    pub fn break_scope(
        &mut self,
        name: &ScopeName,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) -> Option<Held> {
        self.advance(now, effects);
        let at = self.grants.iter().position(|grant| grant.cover.wants(name))?;
        let waiting = self.wanting(name);
        let grant = self.grants.swap_remove(at);
        let held = grant.describe(name.clone(), waiting, now);
        effects.push(Effect::Broken(grant.token));
        self.promote(Some(&grant.cover), now, effects);
        Some(held)
    }

    /// Who holds what now, in scope order.
    pub fn holders(&mut self, now: Moment, effects: &mut Vec<Effect>) -> Vec<Held> {
        self.advance(now, effects);
        let mut held: Vec<Held> = Vec::new();
        for grant in &self.grants {
            held.extend(self.describe(grant, now));
        }
        held.sort_by(|a, b| a.name.cmp(&b.name));
        held
    }

    /// Drops what has ended by now and grants what became free.
    pub fn advance(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if self.quiet_until.is_none_or(|end| now < end) {
            return;
        }
        let before = self.grants.len() + self.places.len();
        self.grants.retain(|grant| now < grant.until);
        self.places.retain(|place| now < place.until);
        let ends = self.grants.iter().map(|grant| grant.until);
        self.quiet_until = ends.chain(self.places.iter().map(|place| place.until)).min();
        if self.grants.len() + self.places.len() < before {
            self.promote(None, now, effects);
        }
    }

    /// Grants to every place that nothing stands before any more, in order. Only places that want some of what was
    /// `freed` can have become grantable, so the search ends when all of it is wanted; `None` searches them all.
    fn promote(&mut self, freed: Option<&Cover>, now: Moment, effects: &mut Vec<Effect>) {
        let mut at = 0;
        let mut wanted = Wanted::default();
        while let Some(place) = self.places.get(at) {
            if wanted.whole || freed.is_some_and(|freed| wanted.has_all(freed)) {
                break;
            }
            let free = !wanted.conflicts(&place.cover)
                && !self.grants.iter().any(|grant| grant.cover.conflicts(&place.cover));
            if !free {
                wanted.add(&place.cover);
                at += 1;
                continue;
            }
            let Some(place) = self.places.remove(at) else { break };
            wanted.add(&place.cover);
            // Unconfirmed: a waiter that died in the queue must not hold for a whole ttl.
            let until = now.plus(place.ttl.min(PLACE_TTL));
            effects.push(Effect::Granted(place.token));
            if self.places.iter().any(|later| later.cover.conflicts(&place.cover)) {
                effects.push(Effect::Wanted(place.token));
            }
            self.grant(place.token, place.cover, place.label, now, until);
        }
    }

    fn grant(
        &mut self,
        token: HolderToken,
        cover: Cover,
        label: Arc<str>,
        now: Moment,
        until: Moment,
    ) {
        if self.grants.is_empty() {
            // Most records have one holder; a vector makes room for four.
            self.grants.reserve_exact(1);
        }
        self.grants.push(Grant { token, cover, label, since: now, until, order: None });
        self.note_end(until);
    }

    fn note_end(&mut self, end: Moment) {
        self.quiet_until = Some(self.quiet_until.map_or(end, |known| known.min(end)));
    }

    fn blockers(&self, cover: &Cover) -> impl Iterator<Item = &Grant> {
        self.grants.iter().filter(move |grant| grant.cover.conflicts(cover))
    }

    /// How many of the first `ahead` places want some of the same.
    fn rivals(&self, cover: &Cover, ahead: usize) -> usize {
        self.places.iter().take(ahead).filter(|place| place.cover.conflicts(cover)).count()
    }

    /// When the first grant in the way of this place ends unless it is renewed; without one, the first place in its way.
    fn way_clears(&self, at: usize, now: Moment) -> Option<Duration> {
        let cover = &self.places.get(at)?.cover;
        let ahead = self.places.iter().take(at).filter(|place| place.cover.conflicts(cover));
        let end = self.blockers(cover).map(|grant| grant.until).min();
        Some(end.or_else(|| ahead.map(|place| place.until).min())?.since(now))
    }

    fn wanting(&self, name: &ScopeName) -> u32 {
        let count = self.places.iter().filter(|place| place.cover.wants(name)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// A remaining time no grant of this group can have is cut, so that it ends some day.
    fn clamp(&mut self, bid: &Bid, now: Moment, effects: &mut Vec<Effect>) {
        let limit = now.plus(bid.ttl_max);
        let mut cut = false;
        for grant in &mut self.grants {
            if grant.until <= limit || !grant.cover.conflicts(&bid.cover) {
                continue;
            }
            let found = grant.until.since(now);
            grant.until = limit;
            cut = true;
            let names = grant.cover.names().iter().filter(|name| bid.cover.wants(name));
            effects.extend(names.map(|name| Effect::Clamped { name: name.clone(), found }));
        }
        if cut {
            self.note_end(limit);
        }
    }

    /// The holders in the way of a cover: those of its own scopes or, when an earlier place is what stands in the way,
    /// those that place waits for.
    fn in_the_way(&self, cover: &Cover, ahead: usize, now: Moment) -> Vec<Held> {
        let mut held: Vec<Held> = Vec::new();
        for grant in self.blockers(cover) {
            held.extend(
                self.describe(grant, now)
                    .filter(|held| cover.wants(&held.name) || grant.cover.whole),
            );
        }
        if held.is_empty() {
            let rivals =
                self.places.iter().take(ahead).filter(|place| place.cover.conflicts(cover));
            let first = rivals.flat_map(|rival| self.blockers(&rival.cover)).next();
            held.extend(
                first
                    .or(self.grants.first())
                    .into_iter()
                    .flat_map(|grant| self.describe(grant, now)),
            );
        }
        held.sort_by(|a, b| a.name.cmp(&b.name));
        held
    }

    fn describe<'a>(&'a self, grant: &'a Grant, now: Moment) -> impl Iterator<Item = Held> + 'a {
        let names = grant.cover.names().iter();
        names.map(move |name| grant.describe(name.clone(), self.wanting(name), now))
    }
}

impl Grant {
    fn describe(&self, name: ScopeName, waiting: u32, now: Moment) -> Held {
        let (remaining, held) = (self.until.since(now), now.since(self.since));
        Held { name, label: self.label.clone(), remaining, held, waiting }
    }
}

/// What the places looked at so far want.
#[derive(Default)]
struct Wanted {
    whole: bool,
    names: BTreeSet<ScopeName>,
}

impl Wanted {
    fn conflicts(&self, cover: &Cover) -> bool {
        let any = self.whole || !self.names.is_empty();
        any && (self.whole
            || cover.whole
            || cover.names().iter().any(|name| self.names.contains(name)))
    }

    fn has_all(&self, cover: &Cover) -> bool {
        !cover.whole && cover.names().iter().all(|name| self.names.contains(name))
    }

    fn add(&mut self, cover: &Cover) {
        self.whole |= cover.whole;
        self.names.extend(cover.names().iter().cloned());
    }
}

#[cfg(test)]
mod tests;
