//! One token as this process knows it, and the line of those that wait.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    clock::Moment,
    lease::{Ask, Extent, Holder},
    token::HolderToken,
};

/// Pauses between two tries of the first in line: random between these, and a quarter of how long the lease in the way
/// has been held already, so that a wait is prolonged by a part of itself only.
const PAUSE_LEAST: Duration = Duration::from_millis(20);
pub(super) const PAUSE_SHORT: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(1);
/// How long the name of a token that holds nothing is remembered, for its retries.
pub(super) const NAME_KEPT: Duration = Duration::from_secs(10);

/// What a token is called on the nodes. An attempt that failed is cleaned up under its name, and the next attempt goes
/// by another one: so no late clean-up can take a later grant away.
#[derive(Clone)]
pub(super) struct Name {
    pub(super) token: HolderToken,
    /// Set when nothing under this name is wanted any more: whatever is granted later is given back.
    gone: Arc<AtomicBool>,
}

impl Name {
    pub(super) fn new(token: HolderToken) -> Self {
        Self { token, gone: Arc::default() }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(super) fn give_up(&self) {
        self.gone.store(true, Ordering::Release);
    }
}

pub(super) struct Entry {
    pub(super) token: HolderToken,
    pub(super) name: Name,
    pub(super) extent: Extent,
    /// Until when the lease may be trusted.
    pub(super) held_until: Option<Moment>,
    /// Whether the holder was told to end its local hand-overs.
    pub(super) announced: bool,
    /// Bit n: node n said that the lease was broken there.
    pub(super) broken: u16,
    /// The order told for the grant.
    pub(super) order: Option<u64>,
    pub(super) place: Option<Place>,
    pub(super) forget_at: Moment,
}

pub(super) struct Place {
    pub(super) seq: u64,
    pub(super) until: Moment,
    pub(super) try_at: Moment,
    pub(super) by: Vec<Holder>,
    pub(super) by_at: Moment,
}

impl Entry {
    pub(super) fn holds(&self, now: Moment) -> bool {
        self.held_until.is_some_and(|until| now < until)
    }
}

pub(super) fn tidy(entries: &mut Vec<Entry>, now: Moment) {
    for entry in entries.iter_mut() {
        entry.place = entry.place.take().filter(|place| now < place.until);
    }
    entries.retain(|entry| entry.place.is_some() || entry.holds(now) || now < entry.forget_at);
}

pub(super) fn find_or_add(
    entries: &mut Vec<Entry>,
    extent: &Extent,
    token: HolderToken,
    now: Moment,
) -> usize {
    if let Some(at) = entries.iter().position(|entry| entry.token == token) {
        return at;
    }
    entries.push(Entry {
        token,
        name: Name::new(token),
        extent: extent.clone(),
        held_until: None,
        announced: false,
        broken: 0,
        order: None,
        place: None,
        forget_at: now.plus(NAME_KEPT),
    });
    entries.len() - 1
}

/// Places before `seq`, or all, that want some of the same.
pub(super) fn rivals<'a>(
    entries: &'a [Entry],
    extent: &'a Extent,
    seq: Option<u64>,
) -> impl Iterator<Item = &'a Place> {
    entries.iter().filter_map(move |entry| {
        let place = entry.place.as_ref()?;
        let before = seq.is_none_or(|seq| place.seq < seq);
        (before && entry.extent.conflicts(extent)).then_some(place)
    })
}

/// Who is in the way of the first of those that come before.
pub(super) fn first_rival(entries: &[Entry], ask: &Ask, seq: Option<u64>) -> Option<Vec<Holder>> {
    let first = rivals(entries, &ask.extent, seq).min_by_key(|place| place.seq);
    first.map(|place| place.by.clone())
}

/// How long to leave the nodes alone after a refusal.
pub(super) fn pause(by: &[Holder], random: [u8; 16]) -> Duration {
    let held = by.iter().map(|holder| holder.held).max().unwrap_or_default();
    let most = (held / 4).clamp(PAUSE_SHORT, PAUSE_MOST);
    let [a, b, ..] = random;
    let part = u32::from(u16::from_be_bytes([a, b]));
    let random = PAUSE_LEAST + most.saturating_sub(PAUSE_LEAST).saturating_mul(part) / 65_536;
    let ends = by.iter().map(|holder| holder.remaining).max().unwrap_or(random);
    random.min(ends.max(PAUSE_LEAST))
}
