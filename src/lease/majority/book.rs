//! What this process knows of its own tokens: their names on the nodes, what is held, and who waits.
//!
//! Nodes cannot queue for a group of nodes, so a place in the queue lives here, and whoever has it asks again from time
//! to time. Among the waiters of one process the order is kept: only the first of those that want the same asks.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crate::{
    clock::Moment,
    entity::EntityRef,
    error::{Error, Result},
    lease::{
        Ask, Extent, Holder, Renewal,
        majority::entry::{
            Entry, NAME_KEPT, Name, PAUSE_SHORT, Place, find_or_add, first_rival, pause, rivals,
            tidy,
        },
    },
    scope::Scope,
    table::{PLACE_TTL, PLACES_MAX},
    token::{Entropy, HolderToken},
};

/// After a wake-up its token is left alone for this long, to ask.
const WOKEN_PAUSE: Duration = Duration::from_millis(500);
/// How often everything that has ended is forgotten.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// All tokens, by entity.
pub(super) struct Book {
    entities: HashMap<EntityRef, Vec<Entry>>,
    /// When whose turn to try comes; entries that moved stay behind and are passed over.
    tries: BTreeMap<(Moment, u64), (EntityRef, HolderToken)>,
    next: u64,
    sweep_at: Moment,
}

/// How an acquire begins.
pub(super) enum Begin {
    /// Ask the nodes under this name.
    Ask(Name),
    /// Others of this process come first.
    Wait { by: Vec<Holder>, place: Option<u32>, wanted: Vec<HolderToken> },
}

/// How a release or a renewal begins.
pub(super) enum Known {
    /// The nodes know, under this name.
    Nodes(HolderToken),
    /// It has a place in the queue.
    Placed { again: Option<Duration> },
    /// It has nothing.
    Nothing,
}

impl Book {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            entities: HashMap::new(),
            tries: BTreeMap::new(),
            next: 0,
            sweep_at: now.plus(SWEEP_EVERY),
        }
    }

    /// Whether nothing is held, queued or remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.entities.is_empty()
    }

    /// Forgets what has ended by now.
    pub(super) fn sweep(&mut self, now: Moment) {
        self.sweep_at = now.plus(SWEEP_EVERY);
        self.entities.retain(|_, entries| {
            tidy(entries, now);
            !entries.is_empty()
        });
    }

    fn entries(&mut self, entity: &EntityRef, now: Moment) -> &mut Vec<Entry> {
        if now >= self.sweep_at {
            self.sweep(now);
        }
        let entries = self.entities.entry(entity.clone()).or_default();
        tidy(entries, now);
        entries
    }

    fn drop_if_empty(&mut self, entity: &EntityRef) {
        if self.entities.get(entity).is_some_and(Vec::is_empty) {
            self.entities.remove(entity);
        }
    }

    /// Begins an acquire: behind those of this process that came earlier, or at the nodes.
    pub(super) fn begin(&mut self, ask: &Ask, now: Moment) -> Result<Begin> {
        let entity = ask.extent.entity();
        let entries = self.entries(entity, now);
        let own = entries.iter().find(|entry| entry.token == ask.token);
        let seq = own.and_then(|own| own.place.as_ref()).map(|place| place.seq);
        let holds = own.is_some_and(|own| own.holds(now));
        let first = if holds { None } else { first_rival(entries, ask, seq) };
        let Some(by) = first else {
            let at = find_or_add(entries, &ask.extent, ask.token, now);
            let name = entries.get(at).map(|entry| entry.name.clone());
            return Ok(Begin::Ask(name.unwrap_or_else(|| Name::new(ask.token))));
        };
        if seq.is_none() && !ask.queue {
            self.drop_if_empty(entity);
            return Ok(Begin::Wait { by, place: None, wanted: Vec::new() });
        }
        let (place, wanted) = self.queue(ask, by.clone(), PAUSE_SHORT, now)?;
        Ok(Begin::Wait { by, place: Some(place), wanted })
    }

    /// Takes or renews a place, and answers its number and the holders of this process that stand in the way.
    fn queue(
        &mut self,
        ask: &Ask,
        by: Vec<Holder>,
        pause: Duration,
        now: Moment,
    ) -> Result<(u32, Vec<HolderToken>)> {
        let entity = ask.extent.entity();
        let (next, try_at) = (self.next, now.plus(pause));
        let entries = self.entries(entity, now);
        if entries.iter().filter(|entry| entry.place.is_some()).count() >= PLACES_MAX {
            let full = format!("the queue of `{entity}` has {PLACES_MAX} places already");
            return Err(Error::unavailable(full));
        }
        let at = find_or_add(entries, &ask.extent, ask.token, now);
        let mut seq = next;
        if let Some(entry) = entries.get_mut(at) {
            seq = entry.place.as_ref().map_or(next, |place| place.seq);
            let until = now.plus(PLACE_TTL);
            entry.place = Some(Place { seq, until, try_at, by, by_at: now });
            entry.forget_at = entry.forget_at.max(until.plus(NAME_KEPT));
        }
        let number = rivals(entries, &ask.extent, Some(seq)).count() + 1;
        let in_the_way = entries.iter().filter(|entry| {
            entry.holds(now) && entry.token != ask.token && entry.extent.conflicts(&ask.extent)
        });
        let wanted = in_the_way.map(|entry| entry.token).collect();
        self.next = next + 1;
        self.tries.insert((try_at, seq), (entity.clone(), ask.token));
        Ok((u32::try_from(number).unwrap_or(u32::MAX), wanted))
    }

    /// A majority granted. Answers whether the name is still the token's; if not, the caller gives the grant back.
    pub(super) fn granted(&mut self, ask: &Ask, name: &Name, until: Moment, now: Moment) -> bool {
        let entries = self.entries(ask.extent.entity(), now);
        let at = find_or_add(entries, &ask.extent, ask.token, now);
        let Some(entry) = entries.get_mut(at) else { return false };
        if name.is_gone() || entry.name.token != name.token {
            return false;
        }
        if !entry.holds(now) {
            entry.order = None;
        }
        entry.held_until = Some(entry.held_until.map_or(until, |known| known.max(until)));
        entry.forget_at = until.plus(NAME_KEPT);
        entry.place = None;
        entry.broken = 0;
        true
    }

    /// The order of what a token holds: the one told first, as another majority may know another.
    pub(super) fn order(
        &mut self,
        extent: &Extent,
        token: HolderToken,
        order: Option<u64>,
    ) -> Option<u64> {
        let entries = self.entities.get_mut(extent.entity())?;
        let entry = entries.iter_mut().find(|entry| entry.token == token)?;
        entry.order = entry.order.or(order);
        entry.order
    }

    /// Others are in the way. Answers the place in the queue, if one was asked for.
    pub(super) fn refused(
        &mut self,
        ask: &Ask,
        by: &[Holder],
        random: [u8; 16],
        now: Moment,
    ) -> Result<(Option<u32>, Vec<HolderToken>)> {
        let entries = self.entries(ask.extent.entity(), now);
        let own = entries.iter().find(|entry| entry.token == ask.token);
        let queue = ask.queue || own.is_some_and(|own| own.place.is_some());
        if !queue {
            return Ok((None, Vec::new()));
        }
        let pause = pause(by, random);
        self.queue(ask, by.to_vec(), pause, now).map(|(place, wanted)| (Some(place), wanted))
    }

    /// What was tried under this name is given up: the token goes by another one from here on. Answers false when it
    /// holds a lease under this name, which stays.
    pub(super) fn rename(
        &mut self,
        extent: &Extent,
        (token, name): (HolderToken, &Name),
        entropy: &dyn Entropy,
        now: Moment,
    ) -> bool {
        let entries = self.entries(extent.entity(), now);
        let entry = entries.iter_mut().find(|entry| entry.token == token);
        if let Some(entry) = entry.filter(|entry| entry.name.token == name.token) {
            if entry.holds(now) {
                return false;
            }
            entry.name = Name::new(HolderToken::new(entropy));
            entry.forget_at = entry.forget_at.max(now.plus(NAME_KEPT));
        }
        name.give_up();
        self.drop_if_empty(extent.entity());
        true
    }

    /// Forgets a token that was asked for once and got nothing.
    pub(super) fn forget_unused(&mut self, extent: &Extent, token: HolderToken, now: Moment) {
        let entries = self.entries(extent.entity(), now);
        let unused = |entry: &Entry| {
            entry.token == token && entry.held_until.is_none() && entry.place.is_none()
        };
        entries.retain(|entry| !unused(entry));
        self.drop_if_empty(extent.entity());
    }

    /// Who knows about a token. Prolongs its place in the queue.
    pub(super) fn look_up(&mut self, extent: &Extent, token: HolderToken, now: Moment) -> Known {
        let entries = self.entries(extent.entity(), now);
        let known = match entries.iter_mut().find(|entry| entry.token == token) {
            None => Known::Nodes(token),
            Some(entry) => match (&mut entry.place, entry.held_until) {
                (Some(place), _) => {
                    place.until = now.plus(PLACE_TTL);
                    entry.forget_at = place.until.plus(NAME_KEPT);
                    let longest = place.by.iter().map(|holder| holder.remaining).max();
                    let passed = now.since(place.by_at);
                    Known::Placed { again: longest.map(|left| left.saturating_sub(passed)) }
                }
                (None, Some(_)) => Known::Nodes(entry.name.token),
                (None, None) => Known::Nothing,
            },
        };
        self.drop_if_empty(extent.entity());
        known
    }

    /// A majority answered a renewal. Answers whether the holder is to be told that somebody may wait: nobody can
    /// announce waiters of other processes here, so whoever holds for longer than a heartbeat is told.
    pub(super) fn renewed(
        &mut self,
        (extent, token): (&Extent, HolderToken),
        answer: Renewal,
        until: Moment,
        now: Moment,
    ) -> bool {
        let entries = self.entries(extent.entity(), now);
        let at = entries.iter().position(|entry| entry.token == token);
        let announce = match (at, answer) {
            (Some(at), Renewal::Renewed) => entries.get_mut(at).is_some_and(|entry| {
                entry.held_until = Some(until);
                entry.forget_at = until.plus(NAME_KEPT);
                !std::mem::replace(&mut entry.announced, true)
            }),
            (Some(at), Renewal::Lost) => {
                entries.swap_remove(at).name.give_up();
                false
            }
            _ => false,
        };
        self.drop_if_empty(extent.entity());
        announce
    }

    /// Forgets a token for good and answers its name, if it had one.
    pub(super) fn remove(&mut self, extent: &Extent, token: HolderToken) -> Option<Name> {
        let entries = self.entities.get_mut(extent.entity())?;
        let at = entries.iter().position(|entry| entry.token == token);
        let name = at.map(|at| entries.swap_remove(at).name);
        if let Some(name) = &name {
            name.give_up();
        }
        self.drop_if_empty(extent.entity());
        name
    }

    /// Requests under the last name of a forgotten token are still in the air: should it come back, it goes by another.
    pub(super) fn bury(
        &mut self,
        extent: &Extent,
        token: HolderToken,
        entropy: &dyn Entropy,
        now: Moment,
    ) {
        let entries = self.entries(extent.entity(), now);
        let known = entries.len();
        let at = find_or_add(entries, extent, token, now);
        if let Some(entry) = entries.get_mut(at).filter(|_| at == known) {
            entry.name = Name::new(HolderToken::new(entropy));
        }
    }

    /// Node `node` broke what is held under a name. Once no majority can be left, the token is forgotten and answered.
    pub(super) fn broken(
        &mut self,
        name: HolderToken,
        node: usize,
        spare: usize,
    ) -> Option<(Extent, HolderToken)> {
        let mut found = None;
        for entries in self.entities.values_mut() {
            for entry in entries.iter_mut().filter(|entry| entry.name.token == name) {
                entry.broken |= 1_u16.checked_shl(u32::try_from(node).ok()?).unwrap_or(0);
                if usize::try_from(entry.broken.count_ones()).unwrap_or(0) > spare {
                    found = Some((entry.extent.clone(), entry.token));
                }
            }
        }
        let (extent, token) = found?;
        self.remove(&extent, token);
        Some((extent, token))
    }

    /// The first in line for what became free: they are woken now.
    pub(super) fn freed(&mut self, freed: &Extent, now: Moment) -> Vec<HolderToken> {
        let entries = self.entries(freed.entity(), now);
        let firsts = entries.iter().filter(|entry| {
            let seq = entry.place.as_ref().map(|place| place.seq);
            seq.is_some()
                && entry.extent.conflicts(freed)
                && rivals(entries, &entry.extent, seq).next().is_none()
        });
        let mut firsts: Vec<(u64, HolderToken)> = firsts
            .filter_map(|entry| entry.place.as_ref().map(|place| (place.seq, entry.token)))
            .collect();
        firsts.sort_unstable();
        let tokens: Vec<HolderToken> = firsts.into_iter().map(|(_, token)| token).collect();
        for token in &tokens {
            self.postpone(freed.entity(), *token, now.plus(WOKEN_PAUSE));
        }
        self.drop_if_empty(freed.entity());
        tokens
    }

    fn postpone(&mut self, entity: &EntityRef, token: HolderToken, to: Moment) {
        let entries = self.entities.get_mut(entity).map(Vec::as_mut_slice).unwrap_or_default();
        let entry = entries.iter_mut().find(|entry| entry.token == token);
        if let Some(place) = entry.and_then(|entry| entry.place.as_mut()) {
            place.try_at = to;
            self.tries.insert((to, place.seq), (entity.clone(), token));
        }
    }

    /// When somebody's turn to try comes next.
    pub(super) fn next_try(&self) -> Option<Moment> {
        self.tries.first_key_value().map(|((at, _), _)| *at)
    }

    /// Whose turn it is now.
    pub(super) fn due(&mut self, now: Moment) -> Vec<HolderToken> {
        let mut due = Vec::new();
        while let Some(first) = self.tries.first_entry() {
            if first.key().0 > now {
                break;
            }
            let ((at, seq), (entity, token)) = first.remove_entry();
            let entries = self.entries(&entity, now);
            let own = entries.iter().find(|entry| entry.token == token);
            let place = own.and_then(|entry| entry.place.as_ref());
            let Some((own, _)) =
                own.zip(place.filter(|place| (place.try_at, place.seq) == (at, seq)))
            else {
                self.drop_if_empty(&entity);
                continue;
            };
            if rivals(entries, &own.extent, Some(seq)).next().is_some() {
                self.postpone(&entity, token, now.plus(PAUSE_SHORT));
            } else {
                due.push(token);
                self.postpone(&entity, token, now.plus(WOKEN_PAUSE));
            }
        }
        due
    }

    /// How many places of this process want a scope.
    pub(super) fn waiting(&self, scope: &Scope) -> u32 {
        let entries = self.entities.get(&scope.entity).map(Vec::as_slice).unwrap_or_default();
        let wants = |entry: &&Entry| {
            let whole = matches!(entry.extent, Extent::Whole(_));
            let named = whole || entry.extent.scopes().names().contains(&scope.name);
            entry.place.is_some() && named
        };
        u32::try_from(entries.iter().filter(wants).count()).unwrap_or(u32::MAX)
    }
}
