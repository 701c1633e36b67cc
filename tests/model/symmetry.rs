//! Savers who do the same are interchangeable: of all worlds that differ only in who is who, one is explored.

use crate::{
    design::Design,
    state::{Grant, Message, SaverState, State},
};

impl Design {
    /// The same world with interchangeable savers in a fixed order. Any order would be right; this one makes most
    /// worlds equal that can be.
    pub(crate) fn ordered(&self, state: State) -> State {
        let mut order: Vec<usize> = (0..self.savers.len()).collect();
        for first in 0..order.len() {
            let places: Vec<usize> =
                (first..order.len()).filter(|it| self.alike(*it) == first).collect();
            let mut twins = places.clone();
            twins.sort_by_key(|saver| key(&state.savers[*saver]));
            for (place, saver) in places.into_iter().zip(twins) {
                order[place] = saver;
            }
        }
        let mut place = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old] = new;
        }
        if place.iter().enumerate().all(|(old, new)| old == *new) {
            return state;
        }
        self.renamed(state, &order, &place)
    }

    /// The first saver this one is interchangeable with, or itself.
    fn alike(&self, saver: usize) -> usize {
        let own = self.savers[saver];
        let like = |other: &usize| {
            let twin = self.savers[*other];
            (twin.kind, twin.field) == (own.kind, own.field)
                && !self.is_redelivered(*other)
                && !self.is_redelivered(saver)
        };
        (0..saver).find(like).unwrap_or(saver)
    }

    fn renamed(&self, state: State, order: &[usize], place: &[usize]) -> State {
        let operation = |operation: u8| {
            let of = |old: &usize| self.savers[*old].operation == operation;
            let old = order.iter().copied().filter(of).min();
            old.map_or(operation, |old| self.savers[place[old]].operation)
        };
        let grant = |grant: Grant| Grant { saver: place[usize::from(grant.saver)] as u8, ..grant };
        let message = |message: Message| Message {
            grant: grant(message.grant),
            seen: message.seen.into_iter().map(operation).collect(),
            ..message
        };
        let by_operation = |counts: &[u8]| {
            let mut renamed = counts.to_vec();
            for (old, count) in counts.iter().enumerate() {
                renamed[usize::from(operation(old as u8))] = *count;
            }
            renamed
        };
        let mut rows = state.rows;
        for row in &mut rows {
            row.holder = row.holder.map(grant);
        }
        let saver = |old: &usize| {
            let saver = state.savers[*old].clone();
            let (next, flying) = (saver.next.map(message), saver.flying.map(message));
            SaverState { next, flying, ..saver }
        };
        State {
            leases: state.leases.into_iter().map(|lease| lease.map(grant)).collect(),
            rows,
            values: state.values.into_iter().map(operation).collect(),
            effects: by_operation(&state.effects),
            operations: by_operation(&state.operations),
            versions: by_operation(&state.versions),
            savers: order.iter().map(saver).collect(),
            last_claim: state.last_claim.into_iter().map(|claim| claim.map(grant)).collect(),
            ..state
        }
    }
}

/// What tells savers apart without naming anybody.
fn key(saver: &SaverState) -> impl Ord + use<> {
    let of =
        |message: &Message| (message.grant.number, message.epoch, message.version, message.fence);
    let next = saver.next.as_ref().map(of);
    let flying = saver.flying.as_ref().map(of);
    (saver.at, saver.attempts, saver.trusts, saver.guard, saver.renamed, next, flying)
}
